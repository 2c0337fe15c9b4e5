//! Who has a place of the host mounted: paths say it where they are the same, and directories where a link, another mount of
//! them, or a volume made of a path leads there.

use std::collections::BTreeMap;

use plumbline::guard::FileIdentity;
use plumbline::guard::{overlaps_another, used_by_others};
use plumbline::proto::v1::MountVerdict;
use serde_json::Value as Json;

use super::HostFiles;
use super::moves::PlannedMove;
use crate::apply::ApplyError;
use crate::engine::EngineReader;
use crate::moving::Before;

/// A container of the host that has host paths mounted.
#[derive(Debug, Clone)]
pub(crate) struct User {
    pub(crate) id: String,
    pub(crate) name: String,
    sources: Vec<String>,
}

/// All containers of the host, running or not, with what is mounted in them.
pub(crate) async fn users(reader: &EngineReader) -> Result<Vec<User>, ApplyError> {
    let (mut users, mut devices) = (Vec::new(), BTreeMap::new());
    for id in reader.containers_with(&[]).await? {
        // One may go while we look.
        let Some(shown) = reader.container(&id).await? else { continue };
        let mut sources = Vec::new();
        for mount in shown["Mounts"].as_array().into_iter().flatten() {
            sources.extend(mount["Source"].as_str().map(str::to_owned));
            let Some(volume) = mount["Name"].as_str() else { continue };
            if !devices.contains_key(volume) {
                let found = reader.volume(volume).await?.unwrap_or_default();
                devices.insert(volume.to_owned(), bound_path(&found["Options"]).map(str::to_owned));
            }
            sources.extend(devices[volume].clone());
        }
        let name = shown["Name"].as_str().unwrap_or_default().trim_start_matches('/').to_owned();
        users.push(User { id, name, sources });
    }
    Ok(users)
}

/// The host path that a local volume with these options is another mount of.
pub(super) fn bound_path(options: &Json) -> Option<&str> {
    let is_bind = options["o"].as_str().is_some_and(|words| words.split(',').any(|word| word == "bind"));
    options["device"].as_str().filter(|device| is_bind && device.starts_with('/'))
}

impl User {
    /// It has a mount of this place, of a part of it, or of a directory around it.
    pub(crate) async fn has(&self, files: &HostFiles, path: &str) -> bool {
        files.any_meets(&self.sources, path).await
    }

    /// It has a mount of this place or of a part of it.
    pub(crate) async fn has_within(&self, files: &HostFiles, path: &str) -> bool {
        let of_the_path = files.chain(path).await;
        let Some(file) = of_the_path.first() else { return false };
        for source in &self.sources {
            if files.chain(source).await.contains(file) {
                return true;
            }
        }
        false
    }

    /// Moving this would take data away from under it, or put data there.
    pub(crate) async fn is_in_the_way(&self, files: &HostFiles, planned: &PlannedMove) -> bool {
        self.has(files, &planned.data.from).await || self.has_destination(files, planned).await
    }

    async fn has_destination(&self, files: &HostFiles, planned: &PlannedMove) -> bool {
        planned.data.before != Before::Missing && self.has_within(files, &planned.data.to).await
    }
}

impl HostFiles {
    /// One of these places is the other one, lies in it, or is around it.
    pub(crate) async fn any_meets(&self, paths: &[String], other: &str) -> bool {
        let of_the_other = self.chain(other).await;
        for path in paths {
            if overlaps(path, other) || meet(&self.chain(path).await, &of_the_other) {
                return true;
            }
        }
        false
    }
}

/// One of two directories is the other, or lies in it: each is given with those that it lies in, without the root of the
/// host. That is around everything: whoever has it mounted looks at the host, and has no data of its own there.
fn meet(one: &[FileIdentity], other: &[FileIdentity]) -> bool {
    let is_in = |inner: &[FileIdentity], outer: &[FileIdentity]| {
        outer.first().is_some_and(|outer| inner.contains(outer))
    };
    is_in(one, other) || is_in(other, one)
}

/// The same of two paths, by their names alone.
pub(crate) fn overlaps(one: &str, other: &str) -> bool {
    let is_in = |inner: &str, outer: &str| {
        inner == outer || inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
    };
    // A mount without a source on the host, as one of memory, is nowhere.
    !one.is_empty() && one != "/" && (is_in(one, other) || is_in(other, one))
}

/// Says of a move that these containers, which stay, would lose sight of the data, or get it under their feet.
pub(crate) async fn forbid(
    files: &HostFiles,
    judged: &mut [MountVerdict],
    planned: &PlannedMove,
    users: &[User],
) {
    let (mut of_the_data, mut of_the_destination) = (Vec::new(), Vec::new());
    for user in users {
        let names = if user.has(files, &planned.data.from).await {
            &mut of_the_data
        } else {
            &mut of_the_destination
        };
        names.push(user.name.clone());
    }
    let (place, names) = if of_the_data.is_empty() {
        (planned.names.1.as_str(), of_the_destination)
    } else {
        (planned.names.0.as_str(), of_the_data)
    };
    for one in of_the_move(judged, planned) {
        used_by_others(one, place, &names);
    }
}

/// Says of a move that another one of the same apply meets it.
pub(crate) fn forbid_meeting(judged: &mut [MountVerdict], planned: &PlannedMove, other: &PlannedMove) {
    for one in of_the_move(judged, planned) {
        overlaps_another(one, &other.names.0);
    }
}

/// Two moves of one apply of which one changes what the other found.
pub(crate) fn moves_meet(one: &PlannedMove, other: &PlannedMove) -> bool {
    let (one, other) = (&one.data, &other.data);
    let is_same = one.from == other.from && one.to == other.to;
    let places =
        [(&one.from, &other.from), (&one.from, &other.to), (&one.to, &other.from), (&one.to, &other.to)];
    !is_same && places.iter().any(|(one, other)| overlaps(one, other))
}

fn of_the_move<'a>(
    judged: &'a mut [MountVerdict],
    planned: &PlannedMove,
) -> impl Iterator<Item = &'a mut MountVerdict> {
    let target = planned.target.clone();
    judged.iter_mut().filter(move |one| one.target == target && one.data_move.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_overlap_where_one_holds_the_other() {
        for (one, overlaps_it) in [
            ("/srv/app", true),
            ("/srv", true),
            ("/srv/app/part", true),
            ("/srv/application", false),
            ("/mnt", false),
            ("/", false),
            ("", false),
        ] {
            assert_eq!(overlaps(one, "/srv/app"), overlaps_it, "{one}");
        }
    }

    #[test]
    fn directories_meet_where_one_holds_the_other() {
        let file = |inode| FileIdentity { device: 1, inode };
        let (outer, inner, beside) = ([file(2), file(1)], [file(3), file(2), file(1)], [file(4), file(1)]);
        assert!(meet(&outer, &inner) && meet(&inner, &outer) && meet(&outer, &outer));
        assert!(!meet(&inner, &beside) && !meet(&outer, &beside));
        assert!(!meet(&[], &inner) && !meet(&inner, &[]), "the root of the host, or what is not there");
    }
}
