//! A tree goes. Never across a mount.

use std::ffi::CStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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

/// The first file or directory in a tree that was changed at that time or later, whatever of it. Its own directory was renamed
/// since, so of that only what is in it counts.
pub(super) fn changed_since(spot: &Spot, time: SystemTime) -> Result<Option<String>, MoveError> {
    let Some(stat) = spot.look()? else { return Ok(None) };
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    if is_since((stat.st_mtime, stat.st_mtime_nsec), since) {
        return Ok(Some(spot.path.clone()));
    }
    let directory = spot.open()?;
    for name in names(&directory).map_err(io("listed", &spot.path))? {
        let path = format!("{}/{}", spot.path, name.to_string_lossy());
        if let Some(changed) = changed_at(&directory, &name, path, since)? {
            return Ok(Some(changed));
        }
    }
    Ok(None)
}

/// The same of a file or directory that was not renamed since.
pub(super) fn entry_changed_since(spot: &Spot, time: SystemTime) -> Result<Option<String>, MoveError> {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    changed_at(spot.parent(), spot.name(), spot.path.clone(), since)
}

fn changed_at(
    parent: &OwnedFd,
    name: &CStr,
    path: String,
    since: Duration,
) -> Result<Option<String>, MoveError> {
    let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(io("looked at", &path))?;
    if is_since((stat.st_ctime, stat.st_ctime_nsec), since) {
        return Ok(Some(path));
    }
    if kind_of(&stat) != FileType::Directory {
        return Ok(None);
    }
    let directory = open_directory(parent, name).map_err(io("opened", &path))?;
    for inner in names(&directory).map_err(io("listed", &path))? {
        let path = format!("{path}/{}", inner.to_string_lossy());
        if let Some(changed) = changed_at(&directory, &inner, path, since)? {
            return Ok(Some(changed));
        }
    }
    Ok(None)
}

fn is_since((seconds, nanoseconds): (i64, u64), time: Duration) -> bool {
    u64::try_from(seconds)
        .is_ok_and(|seconds| (seconds, nanoseconds) >= (time.as_secs(), time.subsec_nanos().into()))
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
