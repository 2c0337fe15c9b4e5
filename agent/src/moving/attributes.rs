//! What belongs to a file beside its contents.

use std::ffi::{CStr, CString};

use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, Gid, Mode, RawMode, Stat, Timespec, Timestamps, Uid, XattrFlags, chmodat, chownat, lgetxattr,
    llistxattr, lremovexattr, lsetxattr, statat, utimensat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::place::{kind_of, path_to};
use super::{MoveError, io};

/// Owner, mode, times, and extended attributes: of these also access control lists and capabilities.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    mode: u32,
    user: u32,
    group: u32,
    /// Seconds and nanoseconds.
    accessed: (i64, i64),
    modified: (i64, i64),
    extended: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Attributes {
    pub(super) fn of(parent: &OwnedFd, name: &CStr, path: &str) -> Result<Self, MoveError> {
        let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(io("looked at", path))?;
        Self::with(&stat, parent, name, path)
    }

    pub(super) fn with(stat: &Stat, parent: &OwnedFd, name: &CStr, path: &str) -> Result<Self, MoveError> {
        Ok(Self {
            mode: stat.st_mode & 0o7777,
            user: stat.st_uid,
            group: stat.st_gid,
            accessed: (stat.st_atime, stat.st_atime_nsec.cast_signed()),
            modified: (stat.st_mtime, stat.st_mtime_nsec.cast_signed()),
            extended: extended(&path_to(parent, name)).map_err(io("read (extended attributes)", path))?,
        })
    }

    /// The same in all that a copy keeps. When somebody last read it is not asked: to read it changes that.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        *self == Self { accessed: self.accessed, ..other.clone() }
    }

    /// Gives them to an open directory.
    pub(super) fn apply(&self, directory: &OwnedFd, path: &str) -> Result<(), MoveError> {
        self.apply_at(directory, c".", false, path)
    }

    /// Gives them to a name in a directory. The order matters: another owner takes set-user-ID bits and capabilities away.
    pub(super) fn apply_at(
        &self,
        parent: &OwnedFd,
        name: &CStr,
        is_link: bool,
        path: &str,
    ) -> Result<(), MoveError> {
        let owner = (Some(Uid::from_raw(self.user)), Some(Gid::from_raw(self.group)));
        chownat(parent, name, owner.0, owner.1, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(io("given its owner", path))?;
        if !is_link {
            let mode = Mode::from_raw_mode(RawMode::from(self.mode));
            chmodat(parent, name, mode, AtFlags::empty()).map_err(io("given its mode", path))?;
        }
        let full = path_to(parent, name);
        let set = || {
            let there = extended(&full)?;
            for (key, _) in there.iter().filter(|(key, _)| !self.extended.iter().any(|(own, _)| own == key)) {
                lremovexattr(full.as_slice(), key.as_slice())?;
            }
            for (key, value) in self.extended.iter().filter(|one| !there.contains(one)) {
                lsetxattr(full.as_slice(), key.as_slice(), value, XattrFlags::empty())?;
            }
            Ok(())
        };
        set().map_err(io("given its extended attributes", path))?;
        let time = |(tv_sec, tv_nsec): (i64, i64)| Timespec { tv_sec, tv_nsec };
        let times = Timestamps { last_access: time(self.accessed), last_modification: time(self.modified) };
        utimensat(parent, name, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(io("given its times", path))
    }
}

/// All extended attributes by name, sorted. None where the file system knows none.
fn extended(path: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Errno> {
    let mut list = vec![0_u8; 64 * 1024];
    let length = match llistxattr(path, list.as_mut_slice()) {
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        length => length?,
    };
    let mut found = Vec::new();
    let mut value = vec![0_u8; 64 * 1024];
    for name in list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let key = CString::new(name).unwrap_or_default();
        let length = match lgetxattr(path, &key, value.as_mut_slice()) {
            // It went meanwhile.
            Err(Errno::NODATA) => continue,
            length => length?,
        };
        found.push((name.to_vec(), value[..length].to_vec()));
    }
    found.sort();
    Ok(found)
}

/// It is a symbolic link.
pub(super) fn is_link(stat: &Stat) -> bool {
    kind_of(stat) == rustix::fs::FileType::Symlink
}
