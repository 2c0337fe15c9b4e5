//! Everything as it was before a move, whatever was done of it.

use std::ffi::CString;
use std::path::Path;
use std::time::SystemTime;

use super::attributes::Attributes;
use super::compare::compare;
use super::place::{self, Spot};
use super::remove::{changed_since, entry_changed_since, remove};
use super::{Before, Event, Heard, Move, MoveError, Way, io};

/// Puts the data back where it was, and takes away what was copied. Nothing is removed of which the original is not at its
/// place, nothing that this move did not make, and nothing that was changed since it was copied: returns where that is, if
/// there is such a thing. Done as often as it takes, the end is the same.
pub fn undo(root: &Path, this: &Move, heard: Heard<'_>) -> Result<Option<String>, MoveError> {
    let (from, to) = (Spot::find(root, &this.from)?, Spot::find(root, &this.to)?);
    match this.way {
        Way::Rename => undo_rename(this, &from, &to, heard).map(|()| None),
        Way::Copy => {
            if from.identity()? != Some(this.file) {
                return Err(MoveError::Lost { from: from.path, to: to.path });
            }
            match &this.before {
                Before::Empty { is_mount_point: true, file, attributes } => {
                    if to.identity()? != Some(*file) {
                        // Another file system is mounted there now, or none: nothing in it is of this move.
                        return Ok(None);
                    }
                    undo_filling(root, this, (&from, &to), attributes, heard)
                }
                _ => undo_copy(root, this, (&from, &to), heard),
            }
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

fn undo_copy(
    root: &Path,
    this: &Move,
    (from, to): (&Spot, &Spot),
    heard: Heard<'_>,
) -> Result<Option<String>, MoveError> {
    let staging = place::staging(root, this)?;
    let is_copy = |spot: &Spot| Ok(this.staging.is_some() && spot.identity()? == this.staging);
    // Out of everybody's way before it is looked at, and under a name that says what it is if it stays.
    let aside = to.beside(&place::name_beside(to, "undone", &this.tag))?;
    if is_copy(to)? {
        heard(Event::Step("take a copy away"))?;
        to.rename_to_free(&aside)?;
    }
    let mut stays = None;
    if is_copy(&aside)? {
        if was_changed(this, from, &aside)? {
            stays = Some(aside.path.clone());
        } else {
            // What has this name goes, however much of it is left after a crash.
            heard(Event::Step("give a copy up"))?;
            aside.rename_to_free(&staging)?;
        }
    }
    if is_copy(&staging)? {
        heard(Event::Step("remove a copy"))?;
        remove(&staging)?;
    } else if this.staging.is_none() {
        staging.remove_if_empty()?;
    }
    put_destination_back(this, to, heard)?;
    to.flush_parent()?;
    Ok(stays)
}

/// The file system that was empty is so again, unless somebody wrote to it: then it stays as it is.
fn undo_filling(
    root: &Path,
    this: &Move,
    (from, to): (&Spot, &Spot),
    attributes: &Attributes,
    heard: Heard<'_>,
) -> Result<Option<String>, MoveError> {
    let staging = place::staging(root, this)?;
    if this.staging.is_none() {
        // It was made, and nobody wrote down that it was: it is empty then.
        if staging.identity()?.is_some() {
            staging.remove_if_empty()?;
            attributes.apply(&to.open()?, &to.path)?;
        }
        return Ok(None);
    }
    // As long as one of them is there, all this is done again after a crash.
    let giving_up = to.inside(&format!(".plumbline-undoing-{}", this.tag))?;
    let originals = names_in(from)?;
    if staging.identity()? == this.staging {
        if let Some(placed) = this.placed
            && was_written_to(to, &staging, &originals, placed)?
        {
            staging.remove_if_empty()?;
            return Ok(Some(to.path.clone()));
        }
        heard(Event::Step("give a copy up"))?;
        staging.rename_to_free(&giving_up)?;
    }
    if giving_up.identity()? != this.staging {
        return Ok(None);
    }
    // What has the name of an original is its copy, unless that still waits to be put there.
    let waiting = names_in(&giving_up)?;
    let mut stays = None;
    for entry in to.entries()?.iter().filter(|entry| entry.name() != giving_up.name()) {
        if is_in(&originals, entry) && !is_in(&waiting, entry) {
            heard(Event::Step("remove a copy"))?;
            remove(entry)?;
        } else {
            stays = Some(to.path.clone());
        }
    }
    attributes.apply(&to.open()?, &to.path)?;
    heard(Event::Step("remove a copy"))?;
    remove(&giving_up)?;
    attributes.apply(&to.open()?, &to.path)?;
    to.flush_file_system()?;
    Ok(stays)
}

fn is_in(names: &[CString], entry: &Spot) -> bool {
    names.iter().any(|name| name.as_c_str() == entry.name())
}

/// Something is there that is no copy, or a copy was changed.
fn was_written_to(
    to: &Spot,
    staging: &Spot,
    originals: &[CString],
    placed: SystemTime,
) -> Result<bool, MoveError> {
    for entry in to.entries()?.iter().filter(|entry| entry.name() != staging.name()) {
        if !is_in(originals, entry) || entry_changed_since(entry, placed)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Somebody wrote to a copy after it was put in its place.
fn was_changed(this: &Move, from: &Spot, copy: &Spot) -> Result<bool, MoveError> {
    if let Some(placed) = this.placed {
        // Its own directory was renamed since: of that its attributes tell.
        return Ok(changed_since(copy, placed)?.is_some() || !from.attributes()?.is_like(&copy.attributes()?));
    }
    // Put there, and nobody wrote down when: nothing was started on it, and that is rare enough to look at every byte.
    match compare(&from.open()?, &copy.open()?, (&copy.path, 0), &|_| Ok(())) {
        Ok(()) => Ok(false),
        Err(MoveError::Differs { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

fn names_in(spot: &Spot) -> Result<Vec<CString>, MoveError> {
    place::names_of_data(&spot.open()?).map_err(io("listed", &spot.path))
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
