//! What a decision was made on, looked at again right before a container is started.

use std::collections::BTreeMap;

use plumbline::guard::{FileIdentity, Holds, Place, has_changed};

use super::HostFiles;
use super::mounts::Guarded;

/// What the decision about a mount was made on. It is looked at again before the container is started.
#[derive(Debug, Clone)]
pub struct Watched {
    pub(super) target: String,
    pub(super) path: String,
    pub(super) planned: Place,
    /// What it holds changes without anybody's doing: the container has it already, others get it in the same apply, or a
    /// creation fills it with the image's files.
    pub(super) is_in_use: bool,
    /// The data is moved there in the same apply: what stands there then, counts.
    pub(super) is_moved: bool,
}

impl Watched {
    /// Data is moved there in the same apply.
    pub(crate) fn is_moved(&self) -> bool {
        self.is_moved
    }
}

/// Containers that share what stands behind their mounts are started one after the other, and the first may write there.
pub(crate) fn mark_shared(all: &mut [&mut Guarded]) {
    let mut seen: BTreeMap<FileIdentity, usize> = BTreeMap::new();
    let file = |one: &Watched| match one.planned {
        Place::Found { file, .. } => Some(file),
        _ => None,
    };
    for one in all.iter().flat_map(|guarded| &guarded.watched) {
        if let Some(file) = file(one) {
            *seen.entry(file).or_default() += 1;
        }
    }
    for one in all.iter_mut().flat_map(|guarded| &mut guarded.watched) {
        one.is_in_use |= file(one).is_some_and(|file| seen.get(&file).is_some_and(|count| *count > 1));
    }
}

/// The target of the first mount behind which something else stands than what was planned on, and what it is now.
/// `arrived`: by their paths, the places to which data was moved since, as they were then.
pub(crate) async fn first_change(
    files: &HostFiles,
    watched: &[Watched],
    arrived: &BTreeMap<String, Place>,
) -> Option<(String, String)> {
    for one in watched {
        let arrived = arrived.get(&one.path).filter(|_| one.is_moved);
        let one = match arrived {
            Some(place) => &Watched { planned: place.clone(), is_in_use: true, ..one.clone() },
            None => one,
        };
        let now = files.place(&one.path).await;
        if has_changed(&one.planned, &now, one.is_in_use) {
            let words = match now {
                Place::Missing | Place::New => "is gone".to_owned(),
                Place::Unseen { why, .. } => format!("is not to be seen any more ({why})"),
                Place::Found { .. } if one.planned == Place::Missing => "is there now".to_owned(),
                Place::Found { file, holds } => match (&one.planned, holds) {
                    (Place::Found { file: planned, .. }, Holds::Nothing) if *planned == file => {
                        "holds nothing any more".to_owned()
                    }
                    (Place::Found { file: planned, .. }, _) if *planned == file => {
                        "holds data now".to_owned()
                    }
                    _ => "is another file or directory now".to_owned(),
                },
            };
            return Some((one.target.clone(), format!("{} {words}", one.path)));
        }
    }
    None
}
