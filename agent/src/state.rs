//! What the agent remembers: which containers are its own, and what was desired when they were last applied.
//!
//! One JSON file, replaced whole (written beside it, flushed, renamed), mode 0600 because a desired environment may hold
//! secrets. Losing it loses adoptions and the knowledge of what was declared before, never a container: those that
//! Plumbline made carry their identity in labels.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use plumbline::diff::{LeafChange, SecretHasher};
use plumbline::proto::v1::Consequence;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::journal::{Change, Journal};
use crate::moving::Move;

/// The state could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The system refused.
    #[error("the agent's state {path} cannot be {action}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file is not ours, or damaged.
    #[error(
        "the agent's state {path} cannot be understood ({reason}): restore it, or move it away (adopted containers must then be taken again)"
    )]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Another agent uses it.
    #[error(
        "another agent uses the data directory {path}: stop it first, or give this one its own with --data-dir"
    )]
    Locked {
        /// The directory.
        path: PathBuf,
    },
}

/// What is remembered of one module.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ModuleState {
    /// The last revision that was applied; 0: none.
    pub revision: u64,
    /// Its containers by key.
    pub containers: BTreeMap<String, ContainerState>,
    /// What was desired of its networks and volumes, by kind and key (`networks.front`), as the JSON mapping of their
    /// specs in normal form.
    #[serde(default)]
    pub others: BTreeMap<String, Json>,
    /// What the engine reads back differently of its networks and volumes, by kind and key.
    #[serde(default)]
    pub others_residue: BTreeMap<String, Vec<KnownResidue>>,
    /// Originals of data that was copied elsewhere.
    #[serde(default)]
    pub kept: Vec<KeptData>,
    /// What was done without being asked for, and whoever asks next is to hear.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The original of data that was copied to another file system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptData {
    /// The move.
    pub data: Move,
    /// Where the original is.
    pub at: String,
    /// It goes after this; never: it stays where it was.
    pub until: Option<SystemTime>,
}

/// An anonymous volume of a container that was removed with its module: nothing at the engine says whose it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftVolume {
    /// Its name, which the engine makes up and never twice.
    pub name: String,
    /// The key of the container that had it.
    pub container: String,
}

impl ModuleState {
    /// Moves of data that are over and of which the original stays where it was.
    pub fn settled(&self) -> Vec<Move> {
        let stays = |kept: &&KeptData| kept.at == kept.data.from;
        self.kept.iter().filter(stays).map(|kept| kept.data.clone()).collect()
    }

    /// A change of a container stands: this is known of the new one; none: the old one left the declaration.
    pub fn committed(&mut self, change: &Change, new: Option<ContainerState>) {
        let is_old = |known: &ContainerState| change.old.as_ref().is_some_and(|old| old.id == known.id);
        match new {
            Some(new) => {
                self.containers.insert(change.key.clone(), new);
            }
            // Another container may have its key by now.
            None if self.containers.get(&change.key).is_some_and(is_old) => {
                self.containers.remove(&change.key);
            }
            None => {}
        }
    }
}

/// What is remembered of one container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ContainerState {
    /// Its id at the engine.
    pub id: String,
    /// What was desired when it was last applied, in normal form, as the JSON mapping of `ContainerSpec`.
    pub desired: Json,
    /// What the engine reads back differently, and so is not a change.
    #[serde(default)]
    pub residue: Vec<KnownResidue>,
    /// Paths that an engine said to have changed in place and did not, each with that engine's version.
    #[serde(default)]
    pub not_in_place: BTreeMap<String, String>,
}

impl ContainerState {
    /// What this engine has been seen not to change in place needs a recreation, whatever the catalogue says.
    pub fn correct(&self, changes: &mut [LeafChange], engine: &str) {
        for change in changes {
            let failed = self.not_in_place.get(&change.path.to_string()).is_some_and(|seen| seen == engine);
            if failed && change.consequence == Consequence::InPlace {
                change.consequence = Consequence::Recreate;
            }
        }
    }
}

/// A declared leaf that the engine reads back differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownResidue {
    /// The engine's version: another one may do better with a new container.
    pub engine: String,
    /// The path, as text.
    pub path: String,
    /// Keyed hash of what was declared and what was read back.
    pub fingerprint: String,
}

impl KnownResidue {
    /// Both are about the same values of the same leaf, on whatever engine.
    pub fn is_as(&self, other: &Self) -> bool {
        (&self.path, &self.fingerprint) == (&other.path, &other.fingerprint)
    }
}

/// What a comparison needs of it.
#[derive(Debug, Clone)]
pub struct Memory {
    /// What is remembered of the module.
    pub module: ModuleState,
    /// Shows values that may be secrets.
    pub hasher: SecretHasher,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Contents {
    /// Of this file's form.
    version: u32,
    /// Key of the hashes in which secrets are shown, in hex.
    key: String,
    modules: BTreeMap<String, ModuleState>,
    /// By module; it may be removed, and so be none of `modules`.
    #[serde(default)]
    left_volumes: BTreeMap<String, Vec<LeftVolume>>,
}

impl Contents {
    /// Says whether anything changed.
    fn leave(&mut self, module: &str, volumes: Vec<LeftVolume>) -> bool {
        let before = if volumes.is_empty() {
            self.left_volumes.remove(module)
        } else {
            self.left_volumes.insert(module.to_owned(), volumes)
        };
        before.as_ref() != self.left_volumes.get(module)
    }
}

/// The agent's memory. It holds a lock on its directory as long as it lives.
#[derive(Debug)]
pub struct State {
    path: PathBuf,
    contents: Mutex<Contents>,
    hasher: SecretHasher,
    journal: Journal,
    _lock: File,
}

const VERSION: u32 = 1;

impl State {
    /// Opens the state in a directory, which is made if it does not exist.
    pub fn open(directory: &Path) -> Result<Self, StateError> {
        let io = |action, path: &Path| {
            let path = path.to_owned();
            move |source| StateError::Io { action, path, source }
        };
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(directory).map_err(io("made", directory))?;
        let lock_path = directory.join("agent.lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&lock_path)
            .map_err(io("opened", &lock_path))?;
        lock.try_lock().map_err(|_| StateError::Locked { path: directory.to_owned() })?;
        let path = directory.join("agent.json");
        let malformed = |reason: String| StateError::Malformed { path: path.clone(), reason };
        let mut contents: Contents = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| malformed(error.to_string()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Contents::default(),
            Err(error) => return Err(io("read", &path)(error)),
        };
        if contents.version > VERSION {
            return Err(malformed(format!(
                "it has form {}, this agent knows up to {VERSION}",
                contents.version
            )));
        }
        contents.version = VERSION;
        if contents.key.is_empty() {
            let mut key = [0_u8; 32];
            ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut key)
                .map_err(|_| malformed("the system gives no random numbers".to_owned()))?;
            contents.key = data_encoding::HEXLOWER.encode(&key);
        }
        let hasher = SecretHasher::new(contents.key.as_bytes());
        let journal = Journal::open(directory)?;
        let state = Self { path, contents: Mutex::new(contents), hasher, journal, _lock: lock };
        state.save(&state.contents.lock().unwrap_or_else(PoisonError::into_inner))?;
        Ok(state)
    }

    /// Shows values that may be secrets.
    pub fn hasher(&self) -> &SecretHasher {
        &self.hasher
    }

    /// What is under way.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// What is remembered of a module.
    pub fn module(&self, name: &str) -> ModuleState {
        self.contents
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .modules
            .get(name)
            .cloned()
            .unwrap_or_default()
    }

    /// The same, with what shows its secrets.
    pub fn memory(&self, name: &str) -> Memory {
        Memory { module: self.module(name), hasher: self.hasher.clone() }
    }

    /// Every module that is remembered.
    pub fn modules(&self) -> Vec<String> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner).modules.keys().cloned().collect()
    }

    /// The module and key that own the container with this id.
    pub fn owner(&self, id: &str) -> Option<(String, String)> {
        let contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        contents.modules.iter().find_map(|(module, state)| {
            let (key, _) = state.containers.iter().find(|(_, container)| container.id == id)?;
            Some((module.clone(), key.clone()))
        })
    }

    /// Changes what is remembered of a module, durably.
    pub fn change(&self, module: &str, change: impl FnOnce(&mut ModuleState)) -> Result<(), StateError> {
        let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        change(contents.modules.entry(module.to_owned()).or_default());
        self.save(&contents)
    }

    /// The anonymous volumes that removals of a module left.
    pub fn left_volumes(&self, module: &str) -> Vec<LeftVolume> {
        let contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        contents.left_volumes.get(module).cloned().unwrap_or_default()
    }

    /// Remembers which anonymous volumes a removal leaves, and no others, durably.
    pub fn leave(&self, module: &str, volumes: Vec<LeftVolume>) -> Result<(), StateError> {
        let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        if contents.leave(module, volumes) { self.save(&contents) } else { Ok(()) }
    }

    /// Forgets a module but for the anonymous volumes that it leaves, durably.
    pub fn forget(&self, module: &str, left: Vec<LeftVolume>) -> Result<(), StateError> {
        let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = contents.modules.remove(module).is_some();
        if contents.leave(module, left) || is_known { self.save(&contents) } else { Ok(()) }
    }

    fn save(&self, contents: &Contents) -> Result<(), StateError> {
        let io = |action, path: &Path| {
            let path = path.to_owned();
            move |source| StateError::Io { action, path, source }
        };
        let beside = self.path.with_extension("json.new");
        let bytes = serde_json::to_vec_pretty(contents)
            .map_err(|error| StateError::Malformed { path: self.path.clone(), reason: error.to_string() })?;
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&beside)
            .map_err(io("written", &beside))?;
        file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(io("written", &beside))?;
        std::fs::rename(&beside, &self.path).map_err(io("replaced", &self.path))?;
        let directory = self.path.parent().unwrap_or(Path::new("."));
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(io("flushed", directory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_is_there_after_reopening() {
        let directory = tempfile::tempdir().expect("a directory");
        let state = State::open(directory.path()).expect("opened");
        let hash = state.hasher().hash("x");
        state.change("m", |module| module.revision = 7).expect("saved");
        drop(state);
        let state = State::open(directory.path()).expect("opened again");
        assert_eq!(state.module("m").revision, 7);
        assert_eq!(state.hasher().hash("x"), hash);
    }

    #[test]
    fn a_forgotten_modules_left_volumes_are_known_until_they_are_gone() {
        let directory = tempfile::tempdir().expect("a directory");
        let left = [LeftVolume { name: "v".to_owned(), container: "c".to_owned() }];
        let state = State::open(directory.path()).expect("opened");
        state.change("m", |module| module.revision = 7).expect("saved");
        state.forget("m", left.to_vec()).expect("saved");
        drop(state);
        let state = State::open(directory.path()).expect("opened again");
        assert_eq!((state.modules(), state.left_volumes("m")), (Vec::new(), left.to_vec()));
        state.forget("m", Vec::new()).expect("saved");
        drop(state);
        assert_eq!(State::open(directory.path()).expect("opened again").left_volumes("m"), []);
    }

    #[test]
    fn two_agents_never_share_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let _first = State::open(directory.path()).expect("opened");
        assert!(matches!(State::open(directory.path()), Err(StateError::Locked { .. })));
    }

    #[test]
    fn a_damaged_file_is_an_error_and_is_left_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("agent.json");
        std::fs::write(&path, "{\"version\": 1, \"modu").expect("written");
        assert!(matches!(State::open(directory.path()), Err(StateError::Malformed { .. })));
        assert_eq!(std::fs::read_to_string(&path).expect("still there"), "{\"version\": 1, \"modu");
    }
}
