//! What is under way, on disk before it is done.
//!
//! One file for each module whose apply touches containers, `journal/MODULE` in the agent's data directory: a record a
//! line, each with its checksum, flushed before the call that it announces. It is gone when the apply has ended. What an
//! agent finds there when it starts was interrupted; [`crate::apply::recover`] ends it.
//!
//! A record that is torn or damaged ends the reading: what was announced after it may have been done all the same, so
//! recovery asks the engine and never takes a missing record for a step that was not made.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::moving::Move;
use crate::state::{ContainerState, StateError};

/// A container that is made, replaced or taken away.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Its key in the module.
    pub key: String,
    /// Its name once all is done.
    pub name: String,
    /// The name under which the new one is made; none: nothing is made.
    pub spare: Option<String>,
    /// The one that is there.
    pub old: Option<Old>,
    /// Ids of containers that live with the old one (its network, say) and stop working when it is stopped.
    pub guests: Vec<String>,
}

/// A container as it is before it is touched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Old {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// It runs.
    pub running: bool,
    /// The engine removes it when it stops: it cannot be stopped and brought back.
    pub removes_itself: bool,
    /// The body that gives it its restart policy back.
    pub restart: Json,
}

/// A network that is made anew, with the containers on it.
///
/// It holds nothing but settings, so what is written here is all that it takes to have it back. It stands as soon as one of
/// its `changes` is committed, for they are committed together; with none of them it stands as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetworkChange {
    /// Its name.
    pub name: String,
    /// The id of the one that is there.
    pub id: String,
    /// The body that makes it as it was.
    pub before: Json,
    /// The label ([`LABEL_MARK`](crate::container::LABEL_MARK)) by which the new one is known.
    pub mark: String,
    /// The containers that are attached, by their ids, and the settings of their endpoints.
    pub attached: Vec<(String, Json)>,
    /// The changes of these containers, by their numbers.
    pub changes: Vec<usize>,
}

/// Data that is moved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataMove {
    /// The changes of the containers that take part, by their numbers: the move is committed with them.
    pub changes: Vec<usize>,
    /// From where to where, and how.
    pub data: Move,
}

/// A call that is about to be made for a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The new container is made, under its spare name.
    Make,
    /// The old one's restart policy becomes "no", so that an engine restart cannot start both.
    HoldDown,
    /// The old one is stopped.
    Stop,
    /// The old one gets another name.
    SetAside,
    /// The new one gets its name.
    PutIn,
    /// The new one is started.
    Start,
    /// It is committed: the old one is removed, its volumes stay.
    Remove,
}

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A change begins. Nothing was done for it yet.
    Begin(Box<Change>),
    /// A network is made anew. Nothing was done for it yet; the changes of the containers on it have begun.
    Network(Box<NetworkChange>),
    /// Data is about to be moved; the changes of the containers that have it have begun, and are stopped. Written again when
    /// there is more to be known of it: the last with its tag counts.
    Move(Box<DataMove>),
    /// A step is about to be made.
    Step {
        /// Of which change: they are numbered from 0, in the order in which they begin.
        change: usize,
        /// Which.
        step: Step,
    },
    /// The new container exists.
    Made {
        /// Of which change.
        change: usize,
        /// The new container's id.
        id: String,
    },
    /// These changes stand, by their numbers: what is new was seen running and read back, and this is what the agent remembers
    /// of it. None: the container left the declaration.
    Committed(Vec<(usize, Option<ContainerState>)>),
}

/// The journals of all modules.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
}

impl Journal {
    /// In an agent's data directory, which nobody else may use.
    pub fn open(data_dir: &Path) -> Result<Self, StateError> {
        let folder = data_dir.join("journal");
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&folder).map_err(io("made", &folder))?;
        Ok(Self { folder })
    }

    /// The modules of which an apply did not end.
    pub fn unfinished(&self) -> Result<Vec<String>, StateError> {
        let entries = std::fs::read_dir(&self.folder).map_err(io("read", &self.folder))?;
        let mut modules = Vec::new();
        for entry in entries {
            let name = entry.map_err(io("read", &self.folder))?.file_name();
            modules.extend(name.into_string().ok().filter(|name| plumbline::manifest::is_module_name(name)));
        }
        modules.sort();
        Ok(modules)
    }

    /// What was written of a module's unfinished apply, up to the first record that is damaged.
    pub fn read(&self, module: &str) -> Result<Option<Vec<Record>>, StateError> {
        let path = self.folder.join(module);
        match std::fs::read(&path) {
            Ok(bytes) => Ok(Some(records(&bytes))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io("read", &path)(error)),
        }
    }

    /// For a module's next apply. Nothing is written before the first record.
    pub fn entry(&self, module: &str) -> Entry {
        Entry { path: self.folder.join(module), file: Mutex::default() }
    }
}

/// The journal of one module.
#[derive(Debug)]
pub struct Entry {
    path: PathBuf,
    file: Mutex<Option<File>>,
}

impl Entry {
    /// Writes a record; it is on the disk when this returns.
    pub fn write(&self, record: &Record) -> Result<(), StateError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let open = match file.as_mut() {
            Some(open) => open,
            None => {
                let open = OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path);
                let open = open.map_err(io("opened", &self.path))?;
                // What follows a torn record would never be read.
                let before = std::fs::read(&self.path).map_err(io("read", &self.path))?;
                open.set_len(whole_length(&before)).map_err(io("cut", &self.path))?;
                sync_folder(&self.path)?;
                file.insert(open)
            }
        };
        let json = serde_json::to_string(record)
            .map_err(|error| StateError::Malformed { path: self.path.clone(), reason: error.to_string() })?;
        let line = format!("{} {json}\n", checksum(json.as_bytes()));
        open.write_all(line.as_bytes()).and_then(|()| open.sync_data()).map_err(io("written", &self.path))
    }

    /// The apply has ended: nothing of it is left to be done.
    pub fn end(&self) -> Result<(), StateError> {
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = None;
        match std::fs::remove_file(&self.path) {
            Ok(()) => sync_folder(&self.path),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(io("removed", &self.path)(error)),
        }
    }
}

/// The records in a file with their lengths, up to the first line that is torn or damaged.
fn lines(bytes: &[u8]) -> impl Iterator<Item = (Record, usize)> {
    let read = |line: &[u8]| {
        let text = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
        let (sum, json) = text.split_once(' ')?;
        let record = (sum == checksum(json.as_bytes())).then(|| serde_json::from_str(json).ok())?;
        record.map(|record| (record, line.len()))
    };
    bytes.split_inclusive(|byte| *byte == b'\n').map_while(read)
}

fn records(bytes: &[u8]) -> Vec<Record> {
    lines(bytes).map(|(record, _)| record).collect()
}

fn whole_length(bytes: &[u8]) -> u64 {
    lines(bytes).map(|(_, length)| length as u64).sum()
}

fn checksum(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    data_encoding::HEXLOWER.encode(&digest.as_ref()[..8])
}

fn sync_folder(path: &Path) -> Result<(), StateError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io("flushed", folder))
}

fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> StateError {
    let path = path.to_owned();
    move |source| StateError::Io { action, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_records() -> Vec<Record> {
        let old = Old {
            id: "1".to_owned(),
            name: "m-c".to_owned(),
            running: true,
            removes_itself: false,
            restart: serde_json::json!({ "RestartPolicy": { "Name": "always" } }),
        };
        let change = Change {
            key: "c".to_owned(),
            name: "m-c".to_owned(),
            spare: Some("m-c.spare".to_owned()),
            old: Some(old),
            guests: vec!["2".to_owned()],
        };
        let network = NetworkChange {
            name: "m_n".to_owned(),
            id: "4".to_owned(),
            before: serde_json::json!({ "Name": "m_n" }),
            mark: "5".to_owned(),
            attached: vec![("1".to_owned(), serde_json::json!({ "Aliases": ["a"] }))],
            changes: vec![0],
        };
        vec![
            Record::Begin(Box::new(change)),
            Record::Network(Box::new(network)),
            Record::Step { change: 0, step: Step::Make },
            Record::Made { change: 0, id: "3\n\"é".to_owned() },
            Record::Committed(vec![(0, Some(ContainerState::default())), (1, None)]),
            Record::Step { change: 0, step: Step::Remove },
        ]
    }

    #[test]
    fn what_was_written_is_read_until_it_has_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let journal = Journal::open(folder.path()).expect("opened");
        let entry = journal.entry("m");
        assert_eq!(journal.unfinished().expect("read"), [""; 0]);
        for record in some_records() {
            entry.write(&record).expect("written");
        }
        assert_eq!(journal.unfinished().expect("read"), ["m"]);
        assert_eq!(journal.read("m").expect("read"), Some(some_records()));
        // An agent that starts again goes on in the same file.
        let again = Journal::open(folder.path()).expect("opened");
        again.entry("m").write(&some_records()[0]).expect("written");
        assert_eq!(again.read("m").expect("read").map(|records| records.len()), Some(7));
        entry.end().expect("removed");
        assert_eq!(journal.read("m").expect("read"), None);
        entry.end().expect("once more is no error");
    }

    #[test]
    fn cut_off_anywhere_it_is_read_up_to_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let journal = Journal::open(folder.path()).expect("opened");
        let (entry, all) = (journal.entry("m"), some_records());
        let mut ends = vec![0];
        for record in &all {
            entry.write(record).expect("written");
            ends.push(std::fs::metadata(&entry.path).expect("it is there").len());
        }
        let bytes = std::fs::read(&entry.path).expect("read");
        for length in 0..=bytes.len() {
            let whole = ends.iter().filter(|end| **end <= length as u64).count() - 1;
            assert_eq!(records(&bytes[..length]), all[..whole], "cut off at {length}");
        }
        // An agent that goes on after a torn record writes where the whole ones end.
        std::fs::write(&entry.path, &bytes[..bytes.len() - 3]).expect("written");
        journal.entry("m").write(&all[0]).expect("written");
        let expected: Vec<Record> = all[..all.len() - 1].iter().chain([&all[0]]).cloned().collect();
        assert_eq!(journal.read("m").expect("read"), Some(expected));
        // One damaged byte ends the reading there.
        for position in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[position] ^= 1;
            let whole = ends.iter().filter(|end| **end <= position as u64).count() - 1;
            assert_eq!(records(&damaged), all[..whole], "damaged at {position}");
        }
    }
}
