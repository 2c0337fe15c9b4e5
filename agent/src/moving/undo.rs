//! Everything as it was before a move, whatever was done of it.

use std::path::Path;

use super::place::{self, Spot};
use super::remove::remove;
use super::{Before, Event, Heard, Move, MoveError, Way};

/// Puts the data back where it was, and takes away what was copied. Nothing is removed of which the original is not at its
/// place, and nothing that this move did not make. Done as often as it takes, the end is the same.
pub fn undo(root: &Path, this: &Move, heard: Heard<'_>) -> Result<(), MoveError> {
    let (from, to) = (Spot::find(root, &this.from)?, Spot::find(root, &this.to)?);
    match this.way {
        Way::Rename => undo_rename(this, &from, &to, heard),
        Way::Copy => {
            if from.identity()? != Some(this.file) {
                return Err(MoveError::Lost { from: from.path, to: to.path });
            }
            undo_copy(root, this, &to, heard)
        }
    }
}

fn undo_rename(this: &Move, from: &Spot, to: &Spot, heard: Heard<'_>) -> Result<(), MoveError> {
    if from.identity()? != Some(this.file) {
        if to.identity()? != Some(this.file) {
            return Err(MoveError::Lost { from: from.path.clone(), to: to.path.clone() });
        }
        heard(Event::Step("rename back"))?;
        // An empty directory may be there: a volume keeps its place, and an engine makes what it misses.
        to.rename_over_empty(from)?;
    }
    put_destination_back(this, to, heard)?;
    heard(Event::Step("flush"))?;
    from.flush_parent()?;
    to.flush_parent()
}

fn undo_copy(root: &Path, this: &Move, to: &Spot, heard: Heard<'_>) -> Result<(), MoveError> {
    let staging = place::staging(root, this)?;
    if let Before::Empty { is_mount_point: true, file, attributes } = &this.before {
        if to.identity()? != Some(*file) {
            // Another file system is mounted there now, or none: nothing in it is of this move.
            return Ok(());
        }
        if this.staging.is_some() && staging.identity()? == this.staging {
            for entry in to.entries()?.iter().filter(|entry| entry.name() != staging.name()) {
                heard(Event::Step("remove a copy"))?;
                remove(entry)?;
            }
            // As long as the staging directory is there, all this is done again after a crash.
            attributes.apply(&to.open()?, &to.path)?;
            heard(Event::Step("remove a copy"))?;
            remove(&staging)?;
            attributes.apply(&to.open()?, &to.path)?;
            return to.flush_file_system();
        }
        if this.staging.is_none() && staging.identity()?.is_some() {
            // It was made, and nobody wrote down that it was: it is empty then.
            staging.remove_if_empty()?;
            attributes.apply(&to.open()?, &to.path)?;
        }
        return Ok(());
    }
    if this.staging.is_some() && to.identity()? == this.staging {
        heard(Event::Step("take a copy back"))?;
        to.rename_to_free(&staging)?;
    }
    if this.staging.is_some() && staging.identity()? == this.staging {
        heard(Event::Step("remove a copy"))?;
        remove(&staging)?;
    } else if this.staging.is_none() {
        staging.remove_if_empty()?;
    }
    put_destination_back(this, to, heard)?;
    to.flush_parent()
}

/// The empty directory that was at the destination.
fn put_destination_back(this: &Move, to: &Spot, heard: Heard<'_>) -> Result<(), MoveError> {
    if let Before::Empty { attributes, .. } = &this.before
        && to.identity()?.is_none()
    {
        heard(Event::Step("make the empty directory again"))?;
        to.make_like(attributes)?;
    }
    Ok(())
}
