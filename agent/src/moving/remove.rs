//! A tree goes. Never across a mount.

use std::ffi::CStr;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, statat, unlinkat};
use rustix::io::Errno;

use super::place::{Spot, kind_of, names, open_directory};
use super::{MoveError, io};

/// Removes what is at a place; nothing there is fine.
pub(super) fn remove(spot: &Spot) -> Result<(), MoveError> {
    let Some(stat) = spot.look()? else { return Ok(()) };
    if spot.is_mount_point()? {
        return Err(MoveError::MountInside { path: spot.path.clone() });
    }
    remove_entry(spot.parent(), spot.name(), &spot.path, stat.st_dev)
}

fn remove_entry(parent: &OwnedFd, name: &CStr, path: &str, device: u64) -> Result<(), MoveError> {
    let stat = match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        stat => stat.map_err(io("looked at", path))?,
    };
    if stat.st_dev != device {
        return Err(MoveError::MountInside { path: path.to_owned() });
    }
    let flags = if kind_of(&stat) == FileType::Directory {
        let directory = open_directory(parent, name).map_err(io("opened", path))?;
        for inner in names(&directory).map_err(io("listed", path))? {
            let path = format!("{path}/{}", inner.to_string_lossy());
            remove_entry(&directory, &inner, &path, device)?;
        }
        AtFlags::REMOVEDIR
    } else {
        AtFlags::empty()
    };
    unlinkat(parent, name, flags).map_err(io("removed", path))
}
