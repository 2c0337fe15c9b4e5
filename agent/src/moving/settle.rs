//! What becomes of the original when the copy stands.

use std::path::Path;

use super::place::{self, Spot};
use super::{Before, Move, MoveError, Way, remove};

/// The data is at its new place: what was put there still is.
fn has_arrived(this: &Move, to: &Spot) -> Result<bool, MoveError> {
    let there = to.identity()?;
    Ok(match (&this.way, &this.before) {
        (Way::Rename, _) => there == Some(this.file),
        (Way::Copy, Before::Empty { is_mount_point: true, file, .. }) => {
            this.placed.is_some() && there == Some(*file)
        }
        (Way::Copy, _) => this.staging.is_some() && there == this.staging,
    })
}

/// The same, for whoever has the journal only.
pub fn is_done(root: &Path, this: &Move) -> Result<bool, MoveError> {
    has_arrived(this, &Spot::find(root, &this.to)?)
}

/// After the move is committed: the original of a copy gets another name beside it, so that nothing takes it for live
/// data. Where that cannot be (a mount point, a volume's directory, a file system that is read-only), it stays. Returns
/// where it is; none: there is none.
pub fn settle(root: &Path, this: &Move) -> Result<Option<String>, MoveError> {
    if this.way == Way::Rename {
        return Ok(None);
    }
    let staging = place::staging(root, this)?;
    if this.staging.is_some() && staging.identity()? == this.staging {
        staging.remove_if_empty()?;
    }
    let from = Spot::find(root, &this.from)?;
    let aside = from.beside(&place::name_beside(&from, "moved", &this.tag))?;
    if aside.identity()? == Some(this.file) {
        return Ok(Some(aside.path));
    }
    if from.identity()? != Some(this.file) {
        return Ok(None);
    }
    if this.keep_place || from.is_mount_point()? {
        return Ok(Some(this.from.clone()));
    }
    // The data is at its new place, whatever becomes of the original.
    match from.rename_to_free(&aside) {
        Ok(()) => {
            from.flush_parent()?;
            Ok(Some(aside.path))
        }
        Err(error) => {
            tracing::warn!(path = from.path, %error, "the original of moved data stays where it is");
            Ok(Some(from.path))
        }
    }
}

/// What became of an original.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Discarded {
    /// It is not there any more.
    Gone,
    /// It is not to be deleted.
    Stays {
        /// What was changed since the data was moved: the first path of it that was found, its place, or that of the copy.
        changed: String,
    },
}

/// Deletes an original that was set aside, if it still is that, nothing in it was changed since, and what was made of it is at
/// its new place: not another file system, nor none.
pub fn discard(root: &Path, this: &Move, kept: &str) -> Result<Discarded, MoveError> {
    let (kept, to) = (Spot::find(root, kept)?, Spot::find(root, &this.to)?);
    match kept.identity()? {
        None => return Ok(Discarded::Gone),
        Some(file) if file != this.file || kept.path == this.from => {
            return Ok(Discarded::Stays { changed: kept.path });
        }
        Some(_) if !has_arrived(this, &to)? => return Ok(Discarded::Stays { changed: to.path }),
        Some(_) => {}
    }
    if let Some(changed) = remove::changed_since(&kept, this.surveyed)? {
        return Ok(Discarded::Stays { changed });
    }
    remove::remove(&kept)?;
    kept.flush_parent()?;
    Ok(Discarded::Gone)
}
