//! A place on the host: a name in a directory that is held open, so that nothing can be put under it meanwhile.

use std::ffi::{CStr, CString};
use std::os::fd::AsRawFd as _;
use std::path::Path;

use plumbline::guard::FileIdentity;
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat, StatVfsMountFlags,
    StatxFlags, fstatvfs, fsync, mkdirat, openat, openat2, renameat, renameat_with, statat, statx, syncfs,
    unlinkat,
};
use rustix::io::Errno;

use super::attributes::Attributes;
use super::{Before, Move, MoveError, io};

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// A name in a directory; there may be nothing.
#[derive(Debug)]
pub(super) struct Spot {
    parent: OwnedFd,
    name: CString,
    /// For people.
    pub(super) path: String,
}

/// Where a check of a file system puts what it finds.
pub(crate) const LOST_AND_FOUND: &[u8] = b"lost+found";

/// As much of a name as leaves room for what is added.
const LONGEST_NAME: usize = 200;

/// Where a copy is put together.
pub(super) fn staging(root: &Path, this: &Move) -> Result<Spot, MoveError> {
    let to = Spot::find(root, &this.to)?;
    Ok(match &this.before {
        Before::Empty { is_mount_point: true, .. } => {
            let path = format!("{}/.plumbline-moving-{}", this.to, this.tag);
            Spot::find(root, &path)?
        }
        _ => to.beside(&format!(".{}", name_beside(&to, "moving", &this.tag)))?,
    })
}

/// A name for what was at a place, or shall be there, that says so. A name has 255 bytes at most.
pub(super) fn name_beside(spot: &Spot, what: &str, tag: &str) -> String {
    let mut name = spot.name.to_string_lossy().into_owned();
    name.truncate(name.floor_char_boundary(LONGEST_NAME));
    format!("{name}.plumbline-{what}-{tag}")
}

impl Spot {
    /// The parent's path is resolved as the host would resolve it.
    pub(super) fn find(root: &Path, path: &str) -> Result<Self, MoveError> {
        let trimmed = path.trim_end_matches('/');
        let (parent, name) = trimmed.rsplit_once('/').unwrap_or(("", trimmed));
        if name.is_empty() {
            return Err(MoveError::NoParent { path: path.to_owned() });
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root =
            openat(CWD, root, flags, Mode::empty()).map_err(io("opened", &root.display().to_string()))?;
        let inside = format!("/{parent}");
        let mut tries = 0;
        let parent = loop {
            tries += 1;
            // The resolution is repeated when a rename somewhere on the way disturbed it (openat2(2)).
            match openat2(
                &root,
                &inside,
                OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
                ResolveFlags::IN_ROOT,
            ) {
                Err(Errno::AGAIN) if tries < 8 => {}
                Err(Errno::NOENT | Errno::NOTDIR) => {
                    return Err(MoveError::NoParent { path: path.to_owned() });
                }
                parent => break parent.map_err(io("opened", &inside))?,
            }
        };
        let name = CString::new(name).map_err(|_| MoveError::NoParent { path: path.to_owned() })?;
        Ok(Self { parent, name, path: trimmed.to_owned() })
    }

    /// Another name in the same directory.
    pub(super) fn beside(&self, name: &str) -> Result<Self, MoveError> {
        let parent = self.path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let path = format!("{parent}/{name}");
        let second = self.parent.try_clone().map_err(|_| io("opened", &path)(Errno::MFILE))?;
        // The name is that of a file, with a prefix and a tag: neither has a zero byte.
        let name = CString::new(name).map_err(|_| MoveError::NoParent { path: path.clone() })?;
        Ok(Self { parent: second, name, path })
    }

    /// A name in the directory that is there.
    pub(super) fn inside(&self, name: &str) -> Result<Self, MoveError> {
        let path = format!("{}/{name}", self.path);
        let name = CString::new(name).map_err(|_| MoveError::NoParent { path: path.clone() })?;
        Ok(Self { parent: self.open()?, name, path })
    }

    pub(super) fn parent(&self) -> &OwnedFd {
        &self.parent
    }

    pub(super) fn name(&self) -> &CStr {
        &self.name
    }

    /// What is there, links not followed.
    pub(super) fn look(&self) -> Result<Option<Stat>, MoveError> {
        match statat(&self.parent, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(io("looked at", &self.path)(error)),
        }
    }

    pub(super) fn identity(&self) -> Result<Option<FileIdentity>, MoveError> {
        Ok(self.look()?.map(|stat| FileIdentity { device: stat.st_dev, inode: stat.st_ino }))
    }

    pub(super) fn open(&self) -> Result<OwnedFd, MoveError> {
        open_directory(&self.parent, &self.name).map_err(io("opened", &self.path))
    }

    pub(super) fn attributes(&self) -> Result<Attributes, MoveError> {
        Attributes::of(&self.parent, &self.name, &self.path)
    }

    /// Another file system begins there.
    pub(super) fn is_mount_point(&self) -> Result<bool, MoveError> {
        Ok(self.look()?.is_some() && self.mount()? != self.parent_mount()?)
    }

    /// Nothing can be put on a file system that is read-only. `itself`: on the one that is mounted there.
    pub(super) fn check_writable(&self, itself: bool) -> Result<(), MoveError> {
        let system = if itself { fstatvfs(self.open()?) } else { fstatvfs(&self.parent) };
        let system = system.map_err(io("measured", &self.path))?;
        if system.f_flag.contains(StatVfsMountFlags::RDONLY) {
            return Err(io("written to", &self.path)(Errno::ROFS));
        }
        Ok(())
    }

    pub(super) fn mount(&self) -> Result<u64, MoveError> {
        mount_of(&self.parent, &self.name).map_err(io("looked at", &self.path))
    }

    pub(super) fn parent_mount(&self) -> Result<u64, MoveError> {
        mount_of(&self.parent, c".").map_err(io("looked at", &self.path))
    }

    /// A directory that nobody else may enter; one that is there already is fine.
    pub(super) fn make_directory(&self) -> Result<FileIdentity, MoveError> {
        match mkdirat(&self.parent, &self.name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(io("made", &self.path)(error)),
        }
        self.flush_parent()?;
        self.identity()?.ok_or_else(|| MoveError::InTheWay { path: self.path.clone() })
    }

    /// An empty directory like another; one that is there already is made like it.
    pub(super) fn make_like(&self, attributes: &Attributes) -> Result<(), MoveError> {
        self.make_directory()?;
        attributes.apply(&self.open()?, &self.path)
    }

    pub(super) fn rename_to_free(&self, to: &Self) -> Result<(), MoveError> {
        let done = renameat_with(&self.parent, &self.name, &to.parent, &to.name, RenameFlags::NOREPLACE);
        match done {
            Err(Errno::EXIST) => Err(MoveError::InTheWay { path: to.path.clone() }),
            done => done.map_err(io("renamed", &self.path)),
        }
    }

    /// The system replaces a directory only if it is empty.
    pub(super) fn rename_over_empty(&self, to: &Self) -> Result<(), MoveError> {
        match renameat(&self.parent, &self.name, &to.parent, &to.name) {
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {
                Err(MoveError::InTheWay { path: to.path.clone() })
            }
            done => done.map_err(io("renamed", &self.path)),
        }
    }

    /// Into an open directory, under the same name.
    pub(super) fn rename_into(&self, directory: &OwnedFd) -> Result<(), MoveError> {
        let done = renameat_with(&self.parent, &self.name, directory, &self.name, RenameFlags::NOREPLACE);
        done.map_err(io("renamed", &self.path))
    }

    /// All that is in it, but for what belongs to the file system.
    pub(super) fn entries(&self) -> Result<Vec<Self>, MoveError> {
        let directory = self.open()?;
        let names = names_of_data(&directory).map_err(io("listed", &self.path))?;
        let mut entries = Vec::new();
        for name in names {
            let parent = directory.try_clone().map_err(|_| io("opened", &self.path)(Errno::MFILE))?;
            let path = format!("{}/{}", self.path, name.to_string_lossy());
            entries.push(Self { parent, name, path });
        }
        Ok(entries)
    }

    pub(super) fn remove_if_empty(&self) -> Result<(), MoveError> {
        match unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(io("removed", &self.path)(error)),
        }
    }

    pub(super) fn flush_parent(&self) -> Result<(), MoveError> {
        fsync(&self.parent).map_err(io("flushed", &self.path))
    }

    /// Everything of the file system that the place is on.
    pub(super) fn flush_file_system(&self) -> Result<(), MoveError> {
        self.flush_parent()?;
        syncfs(self.open()?).map_err(io("flushed", &self.path))
    }
}

/// The access time stays as it is where that can be.
pub(super) fn open_directory(parent: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    match openat(parent, name, DIRECTORY | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => openat(parent, name, DIRECTORY, Mode::empty()),
        opened => opened,
    }
}

/// Every name in a directory, sorted.
pub(super) fn names(directory: &OwnedFd) -> Result<Vec<CString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_owned();
        if !matches!(name.as_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// The same without an empty `lost+found`, which belongs to the file system. What is in one is somebody's.
pub(super) fn names_of_data(directory: &OwnedFd) -> Result<Vec<CString>, Errno> {
    let mut all = names(directory)?;
    if let Some(at) = all.iter().position(|name| name.as_bytes() == LOST_AND_FOUND)
        && is_empty_directory(directory, &all[at])?
    {
        all.remove(at);
    }
    Ok(all)
}

/// One that may not be listed counts as empty.
pub(crate) fn is_empty_directory(parent: &OwnedFd, name: &CStr) -> Result<bool, Errno> {
    match openat(parent, name, DIRECTORY, Mode::empty()) {
        Ok(directory) => Ok(names(&directory)?.is_empty()),
        Err(Errno::ACCESS | Errno::PERM) => Ok(true),
        Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) fn kind_of(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// A path to a name in an open directory, for calls that take only paths. The last part is not followed by those that
/// do not follow links.
pub(super) fn path_to(directory: &OwnedFd, name: &CStr) -> Vec<u8> {
    let mut path = format!("/proc/self/fd/{}/", directory.as_raw_fd()).into_bytes();
    path.extend(name.to_bytes());
    path
}

/// The mount that something is on; where the kernel does not tell (before Linux 5.8), its device.
fn mount_of(parent: &OwnedFd, name: &CStr) -> Result<u64, Errno> {
    const MOUNT_ID: StatxFlags = StatxFlags::from_bits_retain(0x1000);
    let found = statx(parent, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS | MOUNT_ID)?;
    if found.stx_mask & MOUNT_ID.bits() != 0 {
        return Ok(found.stx_mnt_id);
    }
    Ok(u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor))
}
