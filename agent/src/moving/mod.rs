//! Moving a directory of the host to another place, so that whatever happens the data is whole in one of the two.
//!
//! ```text
//! survey --> Move --(journal)--> prepare --(journal)--> carry_out --> settle --> discard
//!                                    \________________________\--> undo
//! ```
//!
//! Within one file system the directory is renamed. To another one it is copied into a staging directory beside its
//! destination, flushed, compared with the original byte by byte, and only then put in place by a rename; the original is
//! not touched before the move is committed. [`undo`] and [`settle`] ask the file system what was done, so both can follow
//! a crash at any point, also one of their own.
//!
//! * `place`: the two places, by descriptors of the directories that they are in, below the host's root.
//! * `copy`, `compare`: a tree with all that belongs to it: owner, mode, times, extended attributes (with them access
//!   control lists and capabilities), hard links, holes, links, devices. Not `chattr` flags.
//! * `remove`: a tree goes.
//! * `undo`: everything as it was before.
//! * `settle`: what becomes of an original when its copy stands.
//!
//! All of it waits for the disk: never call it on a thread that serves others.

mod attributes;
mod compare;
mod copy;
pub(crate) mod place;
mod remove;
mod settle;
mod survey;
mod undo;

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use plumbline::guard::{FileIdentity, bytes_in_words};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use attributes::Attributes;
use place::Spot;

pub use settle::{Discarded, discard, is_done, settle};
pub use survey::survey;
pub use undo::undo;

/// More than a tick of the kernel's clock: 10 ms at most.
const TICK: Duration = Duration::from_millis(20);

/// How data gets to its new place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// By a rename.
    Rename,
    /// By a copy to another file system (or another mount of the same), which is compared with the original.
    Copy,
}

/// One move, with all that undoing or finishing it needs, whatever was done of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Move {
    /// The directory's path on the host.
    pub from: String,
    /// The path where it goes.
    pub to: String,
    /// In the names of everything temporary.
    pub tag: String,
    /// How.
    pub way: Way,
    /// The directory that moves.
    pub file: FileIdentity,
    /// What was at its destination.
    pub before: Before,
    /// An empty directory like it stays at `from`: it is a volume's, and the engine needs it there.
    pub keep_place: bool,
    /// What is copied, in bytes; 0 for a rename.
    pub bytes: u64,
    /// How many files and directories are copied; 0 for a rename.
    pub entries: u64,
    /// When that was counted: nobody was to change the data after.
    pub surveyed: SystemTime,
    /// Where a copy is put together, once that exists.
    pub staging: Option<FileIdentity>,
    /// When the copy was in its place, whole: what was changed there since is not of this move.
    pub placed: Option<SystemTime>,
}

/// What was at the destination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Before {
    /// Nothing.
    Missing,
    /// An empty directory.
    Empty {
        /// Which.
        file: FileIdentity,
        /// Its owner, mode and so on.
        attributes: Attributes,
        /// A file system is mounted there: it cannot be replaced, only filled.
        is_mount_point: bool,
    },
}

/// Why data is not moved.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// Nothing is to be moved.
    #[error("{path} does not exist")]
    NothingThere {
        /// The path.
        path: String,
    },
    /// A symbolic link is not followed.
    #[error("{path} is a symbolic link: name the directory that it leads to")]
    Link {
        /// The path.
        path: String,
    },
    /// Only directories are moved.
    #[error("{path} is no directory: only directories are moved; move it by hand")]
    NoDirectory {
        /// The path.
        path: String,
    },
    /// Both places hold data.
    #[error(
        "both {from} and {to} hold data: remove what is not needed from one of them, or take moved_from out"
    )]
    BothHoldData {
        /// The path.
        from: String,
        /// The other.
        to: String,
    },
    /// One place lies in the other.
    #[error("{to} lies inside {from}: choose a place beside it")]
    Inside {
        /// The path.
        from: String,
        /// The other.
        to: String,
    },
    /// The destination has no directory to be in.
    #[error("the directory that {path} shall be in does not exist: make it")]
    NoParent {
        /// The path.
        path: String,
    },
    /// The destination is too small.
    #[error(
        "moving needs {} and {entries} files and directories where {path} is, and {} and {free_entries} are free: make room there",
        bytes_in_words(*.bytes), bytes_in_words(*.free)
    )]
    NoSpace {
        /// The destination.
        path: String,
        /// Needed.
        bytes: u64,
        /// Needed.
        entries: u64,
        /// Free, in bytes.
        free: u64,
        /// Free, in files and directories.
        free_entries: u64,
    },
    /// Another file system is mounted in what shall be moved.
    #[error(
        "another file system is mounted on {path}, inside of what is to be moved: unmount it, or move it by itself"
    )]
    MountInside {
        /// The path.
        path: String,
    },
    /// The copy is not what the original is.
    #[error(
        "{path} is not the same in the copy as in the original: something still writes there; stop it, and try again"
    )]
    Differs {
        /// The path.
        path: String,
    },
    /// Neither place has the data: nothing is touched.
    #[error(
        "what was to be moved is neither at {from} nor at {to}: somebody moved it meanwhile; nothing was touched"
    )]
    Lost {
        /// The path.
        from: String,
        /// The other.
        to: String,
    },
    /// Something that is not ours is in the way.
    #[error("{path} is something else by now: somebody changed it meanwhile; nothing of it was touched")]
    InTheWay {
        /// The path.
        path: String,
    },
    /// No thread could be started.
    #[error("the agent's system gives it no thread to look after files: see its limits of tasks and memory")]
    NoThread,
    /// The system refused.
    #[error("{path} cannot be {action}: {source}{}", hint(*.source))]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: String,
        /// What the system says.
        source: Errno,
    },
}

fn hint(error: Errno) -> &'static str {
    match error {
        Errno::PERM | Errno::ACCESS if rustix::process::geteuid().is_root() => {
            " (lsattr shows whether it is immutable; an agent in a container may lack the capability)"
        }
        Errno::PERM | Errno::ACCESS => " (the agent needs to be root of the host to move data)",
        Errno::ROFS => {
            " (its file system is read-only; an agent in a container needs the host's root mounted writable to move data)"
        }
        _ => "",
    }
}

/// What is about to be done, or has been.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A change is about to be made.
    Step(&'static str),
    /// So many bytes of so many were copied or compared.
    Bytes(u64, u64),
}

/// Hears of every event. An error ends the move there, as a crash would.
pub type Heard<'a> = &'a dyn Fn(Event) -> Result<(), MoveError>;

/// Makes the staging directory of a copy. The journal has the move before, and its result after.
pub fn prepare(root: &Path, this: &Move) -> Result<Move, MoveError> {
    if this.way == Way::Rename {
        return Ok(this.clone());
    }
    let staging = place::staging(root, this)?;
    let made = staging.make_directory()?;
    Ok(Move { staging: Some(made), ..this.clone() })
}

/// Moves the data. When this returns it is at `to`, flushed, and compared if it was copied; the original of a copy is
/// untouched. After an error: [`undo`].
pub fn carry_out(root: &Path, this: &Move, heard: Heard<'_>) -> Result<(), MoveError> {
    let (from, to) = (Spot::find(root, &this.from)?, Spot::find(root, &this.to)?);
    if from.identity()? != Some(this.file) {
        return Err(MoveError::InTheWay { path: this.from.clone() });
    }
    match this.way {
        Way::Rename => {
            let attributes = from.attributes()?;
            heard(Event::Step("rename"))?;
            match &this.before {
                Before::Missing => from.rename_to_free(&to)?,
                Before::Empty { .. } => from.rename_over_empty(&to)?,
            }
            if this.keep_place {
                heard(Event::Step("an empty directory in its place"))?;
                from.make_like(&attributes)?;
            }
            heard(Event::Step("flush"))?;
            from.flush_parent()?;
            to.flush_parent()
        }
        Way::Copy => {
            let staging = place::staging(root, this)?;
            if staging.identity()? != this.staging {
                return Err(MoveError::InTheWay { path: staging.path.clone() });
            }
            // Copied bytes are half of the work, and compared ones the other.
            let total = this.bytes * 2;
            let source = from.open()?;
            let destination = staging.open()?;
            copy::copy(&source, &destination, (&this.from, total), heard)?;
            from.attributes()?.apply(&destination, &staging.path)?;
            heard(Event::Step("flush"))?;
            staging.flush_file_system()?;
            compare::compare(&source, &destination, (&this.from, total), heard)?;
            put_in_place(this, &staging, &to, &from, heard)
        }
    }
}

/// A copy that is in its place, with the time of that, for the journal: what is changed from now on is not of the move.
pub fn placed(this: Move) -> Move {
    // So that no change of the move itself has the same time.
    std::thread::sleep(TICK);
    Move { placed: Some(file_time()), ..this }
}

/// The time that a file system gives to a change which is made now. It is that of the kernel's last tick: a little earlier
/// than what other clocks say (time(7), `CLOCK_REALTIME_COARSE`).
fn file_time() -> SystemTime {
    let time = clock_gettime(ClockId::RealtimeCoarse);
    let seconds = Duration::from_secs(time.tv_sec.unsigned_abs());
    UNIX_EPOCH + seconds + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}

fn put_in_place(
    this: &Move,
    staging: &Spot,
    to: &Spot,
    from: &Spot,
    heard: Heard<'_>,
) -> Result<(), MoveError> {
    match &this.before {
        Before::Missing => {
            heard(Event::Step("put in place"))?;
            staging.rename_to_free(to)?;
        }
        Before::Empty { is_mount_point: false, .. } => {
            heard(Event::Step("put in place"))?;
            staging.rename_over_empty(to)?;
        }
        // The staging directory stays, empty, until the move is committed: it tells that all of this is a copy.
        Before::Empty { is_mount_point: true, file, .. } => {
            if to.identity()? != Some(*file) {
                return Err(MoveError::InTheWay { path: this.to.clone() });
            }
            let directory = to.open()?;
            for entry in staging.entries()? {
                heard(Event::Step("put in place"))?;
                entry.rename_into(&directory)?;
            }
            from.attributes()?.apply(&directory, &this.to)?;
        }
    }
    heard(Event::Step("flush"))?;
    to.flush_file_system()
}

#[cfg(test)]
mod tests;
#[cfg(test)]
#[path = "../../../tests/engine/tree.rs"]
mod tree;

fn io(action: &'static str, path: &str) -> impl FnOnce(Errno) -> MoveError {
    let path = path.to_owned();
    move |source| MoveError::Io { action, path, source }
}
