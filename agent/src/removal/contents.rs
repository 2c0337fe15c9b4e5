//! What volumes hold, as far as it can be seen without a container.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plumbline::contents::words;
use plumbline::proto::v1::VolumeContents;
use serde_json::Value as Json;

use super::decide::{FoundVolume, Whose};
use crate::apply::Host;
use crate::engine::EngineReader;

/// How long is counted, for all volumes together.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sizes of volumes by name, if the engine was asked.
type Sizes = Option<BTreeMap<String, u64>>;

/// What every volume holds that exists.
pub(super) async fn of_all(
    reader: &EngineReader,
    host: &Host,
    volumes: &[FoundVolume],
) -> Vec<VolumeContents> {
    let until = Instant::now() + PATIENCE;
    let (mut all, mut sizes) = (Vec::new(), None);
    for volume in volumes.iter().filter(|volume| volume.whose != Whose::Nobodys) {
        let inspect = reader.volume(&volume.name).await.ok().flatten().unwrap_or_default();
        let mut contents = of_one(reader, host, &inspect, &volume.name, until, &mut sizes).await;
        contents.anonymous = volume.whose == Whose::Anonymous;
        all.push(contents);
    }
    all
}

/// What one volume holds, in words, with the driver that keeps it.
pub(crate) async fn of_volume(reader: &EngineReader, host: &Host, inspect: &Json) -> String {
    let text = |member: &str| inspect[member].as_str().unwrap_or_default().to_owned();
    let until = Instant::now() + PATIENCE;
    let contents = of_one(reader, host, inspect, &text("Name"), until, &mut None).await;
    format!("driver {}, {}", text("Driver"), words(&contents))
}

async fn of_one(
    reader: &EngineReader,
    host: &Host,
    inspect: &Json,
    name: &str,
    until: Instant,
    sizes: &mut Sizes,
) -> VolumeContents {
    let unknown =
        |detail: String| VolumeContents { name: name.to_owned(), detail, ..VolumeContents::default() };
    let text = |json: &Json| json.as_str().unwrap_or_default().to_owned();
    let driver = text(&inspect["Driver"]);
    if driver != "local" {
        return unknown(format!("its files are kept by the driver {driver}: not counted"));
    }
    let device = text(&inspect["Options"]["device"]);
    if inspect["Options"]["type"] == "tmpfs" {
        return unknown("its files are in memory, and gone when no container uses it".to_owned());
    }
    if !device.is_empty() {
        // Mounted only while a container uses it: the folder that the engine names is empty otherwise.
        return unknown(format!(
            "it stands for {device}: what is there is not counted, and stays in any case"
        ));
    }
    let folder = PathBuf::from(text(&inspect["Mountpoint"]));
    let counted = tokio::task::spawn_blocking(move || count(&folder, until)).await.ok().flatten();
    if let Some(counted) = counted {
        let detail =
            if counted.is_all { "" } else { "not all of it could be counted: it holds at least this" };
        let (bytes, files) = (Some(counted.bytes), Some(counted.files));
        return VolumeContents { bytes, files, ..unknown(detail.to_owned()) };
    }
    if sizes.is_none() {
        *sizes = Some(reader.volume_sizes(host.version.api).await.unwrap_or_default());
    }
    match sizes.as_ref().and_then(|sizes| sizes.get(name)) {
        Some(bytes) => VolumeContents {
            bytes: Some(*bytes),
            ..unknown("the engine's count; this agent does not see its files".to_owned())
        },
        None => unknown("neither this agent nor the engine can count what it holds".to_owned()),
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    bytes: u64,
    /// Everything but folders.
    files: u64,
    is_all: bool,
}

/// Counts what is below a folder; `None` if it cannot be seen at all. No symbolic link is followed.
fn count(folder: &Path, until: Instant) -> Option<Counted> {
    if !folder.is_absolute() || std::fs::read_dir(folder).is_err() {
        return None;
    }
    let mut counted = Counted { is_all: true, ..Counted::default() };
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        let Ok(entries) = std::fs::read_dir(folder) else {
            counted.is_all = false;
            continue;
        };
        for entry in entries {
            if Instant::now() > until {
                return Some(Counted { is_all: false, ..counted });
            }
            match entry.and_then(|entry| Ok((entry.path(), entry.metadata()?))) {
                Ok((path, metadata)) if metadata.is_dir() => waiting.push(path),
                Ok((_, metadata)) => {
                    counted.files += 1;
                    counted.bytes += metadata.len();
                }
                Err(_) => counted.is_all = false,
            }
        }
    }
    Some(counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_and_links_are_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let outside = tempfile::tempdir().expect("a folder");
        std::fs::write(outside.path().join("big"), vec![0; 1000]).expect("written");
        std::fs::create_dir_all(folder.path().join("a/b")).expect("made");
        std::fs::write(folder.path().join("a/b/c"), "12345").expect("written");
        std::fs::write(folder.path().join("d"), "67").expect("written");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(outside.path(), &link).expect("made");
        let length = std::fs::symlink_metadata(&link).expect("there").len();
        let until = Instant::now() + PATIENCE;
        let counted = count(folder.path(), until).expect("it is seen");
        assert_eq!(counted, Counted { bytes: 7 + length, files: 3, is_all: true });
        assert_eq!(count(&folder.path().join("none"), until), None);
        let late =
            count(folder.path(), Instant::now().checked_sub(PATIENCE).expect("a time")).expect("it is seen");
        assert!(!late.is_all);
    }
}
