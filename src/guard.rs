//! The data guard: what stands behind every mount, before a container is put on it.
//!
//! Pure. The agent looks, and says what it found as a [`Mounting`]; [`judge`] makes one verdict of it, and [`accept`] marks
//! those that the request accepts. A container is put on the same data, the same data under a new path, or data that no
//! container had before; on anything else only if somebody said by name that it is meant.

mod moves;

pub use moves::{bytes_in_words, not_to_be_moved, overlaps_another, to_be_moved, used_by_others};

use crate::proto::v1::{DataAcceptance, DataGuardVerdict as Verdict, MountVerdict};

/// A file or directory, whatever its path: `st_dev` and `st_ino`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct FileIdentity {
    /// The file system.
    pub device: u64,
    /// The inode there.
    pub inode: u64,
}

/// What a file or directory holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// A file, or a directory that has entries.
    Data,
    /// A directory without entries; `lost+found` is none.
    Nothing,
    /// A socket or pipe: whoever serves it makes it anew, and it keeps nothing.
    Endpoint,
    /// A directory that the agent may not list.
    Unreadable,
}

/// What was found at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Nothing.
    Missing,
    /// Nothing yet: the engine will make it, empty but for the image's files.
    New,
    /// A file or directory.
    Found {
        /// Which one.
        file: FileIdentity,
        /// What it holds.
        holds: Holds,
    },
    /// The agent cannot look there.
    Unseen {
        /// Why not.
        why: String,
        /// It exists all the same: the engine says so.
        exists: bool,
    },
}

/// What the container has at the target now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Before {
    /// There is no container yet.
    NoContainer,
    /// Nothing is mounted there, and the container itself wrote nothing there.
    Bare,
    /// Nothing is mounted there; the container keeps data of its own there, which the mount would cover.
    OwnData,
    /// A mount.
    Mounted {
        /// The host path or volume, as the engine shows it.
        source: String,
        /// What the container sees there.
        place: Place,
        /// The host path leads nowhere now.
        path_gone: bool,
        /// The container still holds what has no name on the host any more, as a file that was replaced by a rename.
        stale: bool,
    },
}

/// What it shall have there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum After {
    /// The very volume that is mounted there now, by its name.
    SameVolume,
    /// A mount.
    Mounted {
        /// The host path or volume, as declared; empty: a new anonymous volume.
        source: String,
        /// What is there.
        place: Place,
    },
    /// No mount.
    NotMounted {
        /// The same file or directory is mounted at this target instead.
        elsewhere: Option<String>,
    },
}

/// One mount of a container, as it is and as it shall be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounting {
    /// Path inside.
    pub target: String,
    /// As it is.
    pub before: Before,
    /// As it shall be.
    pub after: After,
}

/// The verdict on a mount of the container with this key. None: a mount that goes and had nothing in it.
pub fn judge(container: &str, mounting: &Mounting) -> Option<MountVerdict> {
    let (verdict, found) = verdict(mounting)?;
    let source_before = match &mounting.before {
        Before::Mounted { source, .. } => source.clone(),
        Before::NoContainer | Before::Bare | Before::OwnData => String::new(),
    };
    let source_after = match &mounting.after {
        After::SameVolume => source_before.clone(),
        After::Mounted { source, .. } => source.clone(),
        After::NotMounted { .. } => String::new(),
    };
    let mut judged = MountVerdict {
        container: container.to_owned(),
        target: mounting.target.clone(),
        verdict: verdict.into(),
        source_before,
        source_after,
        accepted: false,
        refused: needs_acceptance(verdict),
        detail: found,
        data_move: None,
    };
    if judged.refused {
        let remedy = remedy(&judged);
        judged.detail = format!("{}: {remedy}", judged.detail);
    }
    Some(judged)
}

/// The verdict, and in words what was found.
fn verdict(mounting: &Mounting) -> Option<(Verdict, String)> {
    let said = |verdict, words: &str| Some((verdict, words.to_owned()));
    let (source, place) = match &mounting.after {
        After::SameVolume => return said(Verdict::Same, "the same volume"),
        After::NotMounted { elsewhere } => return gone(&mounting.before, elsewhere.as_deref()),
        After::Mounted { source, place } => (source.as_str(), place),
    };
    let before = match (&mounting.before, place) {
        (_, Place::Missing) => return Some((Verdict::Missing, format!("{source} does not exist"))),
        (Before::NoContainer | Before::Bare, Place::Unseen { exists: false, why }) => {
            return said(Verdict::Unknown, why);
        }
        (Before::NoContainer | Before::Bare, _) => {
            return said(Verdict::FirstUse, "no container had data here before");
        }
        (Before::OwnData, _) => None,
        (Before::Mounted { place, .. }, _) => Some(place),
    };
    let (file, holds) = match place {
        Place::Unseen { why, .. } => return said(Verdict::Unknown, why),
        Place::Missing | Place::New => (None, Holds::Nothing),
        Place::Found { file, holds } => (Some(*file), *holds),
    };
    match before {
        Some(Place::Unseen { why, .. }) if file.is_some() => return said(Verdict::Unknown, why),
        Some(Place::Found { file: old, .. }) if file == Some(*old) => return Some(same(mounting)),
        Some(Place::Found { holds: Holds::Endpoint, .. }) if holds == Holds::Endpoint => {
            return said(Verdict::Same, "a socket or pipe keeps no data");
        }
        Some(Place::Missing) if holds == Holds::Data => {
            let words = "the container does not run and its former path is gone, so nothing tells whether this is its data";
            return said(Verdict::Unknown, words);
        }
        _ => {}
    }
    let named = if source.is_empty() { "a new anonymous volume" } else { source };
    match holds {
        Holds::Nothing => {
            Some((Verdict::Empty, format!("{named} holds nothing; the container has {}", had(mounting))))
        }
        Holds::Unreadable => Some((Verdict::Unknown, format!("the agent may not list {named}"))),
        Holds::Data | Holds::Endpoint if had(mounting) == named => {
            let words = format!("{named} leads to something else than what the container has from there");
            Some((Verdict::Different, words))
        }
        Holds::Data | Holds::Endpoint => {
            Some((Verdict::Different, format!("{named} is not what the container has: {}", had(mounting))))
        }
    }
}

/// A file is the one that the container has.
fn same(mounting: &Mounting) -> (Verdict, String) {
    match (&mounting.before, &mounting.after) {
        (Before::Mounted { source: old, path_gone: true, .. }, After::Mounted { source, .. })
            if old != source =>
        {
            (Verdict::Moved, format!("what the container has from {old} is at {source} now"))
        }
        _ => (Verdict::Same, "what the container has".to_owned()),
    }
}

/// What the container has now, in words.
fn had(mounting: &Mounting) -> String {
    match &mounting.before {
        Before::Mounted { source, stale: true, .. } => {
            format!("what was at {source} when it started, and was replaced or removed since")
        }
        Before::Mounted { source, .. } => source.clone(),
        Before::NoContainer | Before::Bare | Before::OwnData => "files of its own there".to_owned(),
    }
}

/// A mount that is no longer declared.
fn gone(before: &Before, elsewhere: Option<&str>) -> Option<(Verdict, String)> {
    let Before::Mounted { source, place, .. } = before else { return None };
    if let Some(target) = elsewhere {
        return Some((Verdict::Moved, format!("what the container has from {source} is at {target} then")));
    }
    match place {
        Place::Missing | Place::New | Place::Found { holds: Holds::Nothing | Holds::Endpoint, .. } => None,
        Place::Found { .. } | Place::Unseen { .. } => Some((
            Verdict::Removed,
            format!("the container would no longer see {source}, which stays on the host"),
        )),
    }
}

/// What to do where a verdict is refused.
fn remedy(judged: &MountVerdict) -> String {
    let accept = format!("accept it with --accept-data {}", acceptance(judged));
    let (before, after) = (&judged.source_before, &judged.source_after);
    match judged.verdict() {
        Verdict::Missing if before.is_empty() => {
            format!("it is never made: make it (mkdir -p {after}), or mend the path")
        }
        Verdict::Missing => {
            format!(
                "it is never made; mend the path, let the agent move the data there (moved_from: {before}), or {accept}"
            )
        }
        Verdict::Empty if !before.is_empty() => {
            format!("let the agent move the data there (moved_from: {before}), mend the path, or {accept}")
        }
        Verdict::Empty | Verdict::Different => format!("bring the data there, mend the path, or {accept}"),
        Verdict::Removed => format!("declare the mount again, or {accept}"),
        _ => format!("let the agent see it, or {accept}"),
    }
}

/// `web:/data=empty`, as the command line takes it.
pub fn acceptance(judged: &MountVerdict) -> String {
    format!("{}:{}={}", judged.container, judged.target, word(judged.verdict()))
}

/// A container is put on such a mount only if somebody accepts it by name.
pub fn needs_acceptance(verdict: Verdict) -> bool {
    match verdict {
        Verdict::Unspecified | Verdict::Same | Verdict::Moved | Verdict::FirstUse | Verdict::ToBeMoved => {
            false
        }
        Verdict::Different | Verdict::Empty | Verdict::Missing | Verdict::Unknown | Verdict::Removed => true,
    }
}

/// Marks what the request accepts. What it accepts and is found otherwise is refused, whatever was found.
pub fn accept(mounts: &mut [MountVerdict], accepted: &[DataAcceptance]) {
    for mount in mounts {
        let is_meant = |one: &&DataAcceptance| {
            (one.container.is_empty() || one.container == mount.container) && one.target == mount.target
        };
        let named: Vec<Verdict> = accepted.iter().filter(is_meant).map(DataAcceptance::verdict).collect();
        let other = named.iter().find(|verdict| **verdict != mount.verdict());
        mount.accepted = !named.is_empty() && other.is_none();
        mount.refused = other.is_some() || (named.is_empty() && needs_acceptance(mount.verdict()));
        // What to do is done.
        if mount.accepted
            && let Some(found) = mount.detail.strip_suffix(&format!(": {}", remedy(mount)))
        {
            mount.detail = found.to_owned();
        }
        if let Some(other) = other {
            mount.detail =
                format!("accepted as {}, and that is not what was found; {}", word(*other), mount.detail);
        }
    }
}

/// Is what stands behind a mount now something else than what the decision was made on? Whoever uses the data changes it,
/// so what it holds counts only where it was no container's (`is_in_use`).
pub fn has_changed(planned: &Place, now: &Place, is_in_use: bool) -> bool {
    match (planned, now) {
        (Place::Found { file, holds }, Place::Found { file: file_now, holds: holds_now }) => {
            file != file_now || (!is_in_use && holds != holds_now)
        }
        (planned, now) => planned != now,
    }
}

/// A verdict in a word, as `first_use`.
pub fn word(verdict: Verdict) -> String {
    verdict.as_str_name().trim_start_matches("DATA_GUARD_VERDICT_").to_lowercase()
}

/// The verdict that a word names.
pub fn verdict_named(word: &str) -> Option<Verdict> {
    let verdict = Verdict::from_str_name(&format!("DATA_GUARD_VERDICT_{}", word.to_uppercase()))?;
    (verdict != Verdict::Unspecified).then_some(verdict)
}

#[cfg(test)]
mod tests;
