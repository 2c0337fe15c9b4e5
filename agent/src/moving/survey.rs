//! What a move would take. Nothing is changed.

use std::collections::HashSet;
use std::path::Path;

use plumbline::guard::FileIdentity;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstatvfs, openat, statat};

use super::attributes::is_link;
use super::place::{Spot, kind_of, names, names_of_data, open_directory};
use super::{Before, Move, MoveError, Way, file_time, io};

/// Looks at both places. `keep_place`: `from` is a volume's directory.
pub fn survey(root: &Path, from: &str, to: &str, keep_place: bool) -> Result<Move, MoveError> {
    let from = match Spot::find(root, from) {
        Err(MoveError::NoParent { path }) => return Err(MoveError::NothingThere { path }),
        from => from?,
    };
    let Some(found) = from.look()? else { return Err(MoveError::NothingThere { path: from.path }) };
    let surveyed = file_time();
    let to = Spot::find(root, to)?;
    check_directory(&found, &from.path)?;
    let file = FileIdentity { device: found.st_dev, inode: found.st_ino };
    let before = match look_at_destination(&from, &to) {
        // What is at the destination is all that there is.
        Err(MoveError::BothHoldData { from: path, .. }) if from.entries()?.is_empty() => {
            return Err(MoveError::NothingThere { path });
        }
        before => before?,
    };
    if is_inside(&to, file)? {
        return Err(MoveError::Inside { from: from.path, to: to.path });
    }
    let is_mount_point = matches!(before, Before::Empty { is_mount_point: true, .. });
    to.check_writable(is_mount_point)?;
    let can_rename =
        !is_mount_point && !from.is_mount_point()? && from.parent_mount()? == to.parent_mount()?;
    let (way, bytes, entries) = if can_rename {
        (Way::Rename, 0, 0)
    } else {
        let mut measured = Measured { device: file.device, ..Measured::default() };
        measured.directory(&from.open()?, &from.path, true)?;
        check_space(&measured, &to, is_mount_point)?;
        (Way::Copy, measured.bytes, measured.entries)
    };
    let mut tag = [0_u8; 8];
    // Without random numbers the name may be taken, and then nothing is done.
    let _ = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut tag);
    let tag = data_encoding::HEXLOWER.encode(&tag);
    Ok(Move {
        from: from.path,
        to: to.path,
        tag,
        way,
        file,
        before,
        keep_place,
        bytes,
        entries,
        surveyed,
        staging: None,
        placed: None,
    })
}

fn check_directory(stat: &Stat, path: &str) -> Result<(), MoveError> {
    if is_link(stat) {
        return Err(MoveError::Link { path: path.to_owned() });
    }
    if kind_of(stat) != FileType::Directory {
        return Err(MoveError::NoDirectory { path: path.to_owned() });
    }
    Ok(())
}

fn look_at_destination(from: &Spot, to: &Spot) -> Result<Before, MoveError> {
    let Some(found) = to.look()? else { return Ok(Before::Missing) };
    check_directory(&found, &to.path)?;
    if !to.entries()?.is_empty() {
        return Err(MoveError::BothHoldData { from: from.path.clone(), to: to.path.clone() });
    }
    Ok(Before::Empty {
        file: FileIdentity { device: found.st_dev, inode: found.st_ino },
        attributes: to.attributes()?,
        is_mount_point: to.is_mount_point()?,
    })
}

/// The destination lies in this directory, whatever the paths look like.
fn is_inside(to: &Spot, directory: FileIdentity) -> Result<bool, MoveError> {
    let looked = |directory: &OwnedFd| {
        let stat = statat(directory, c".", AtFlags::SYMLINK_NOFOLLOW).map_err(io("looked at", &to.path))?;
        Ok(FileIdentity { device: stat.st_dev, inode: stat.st_ino })
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut here = openat(to.parent(), c".", flags, Mode::empty()).map_err(io("opened", &to.path))?;
    let mut identity = looked(&here)?;
    loop {
        if identity == directory {
            return Ok(true);
        }
        let above = openat(&here, c"..", flags, Mode::empty()).map_err(io("opened", &to.path))?;
        let higher = looked(&above)?;
        if higher == identity {
            return Ok(false);
        }
        (here, identity) = (above, higher);
    }
}

#[derive(Default)]
struct Measured {
    device: u64,
    bytes: u64,
    /// On the disk, in bytes.
    space: u64,
    entries: u64,
    linked: HashSet<u64>,
}

impl Measured {
    fn directory(&mut self, directory: &OwnedFd, path: &str, is_top: bool) -> Result<(), MoveError> {
        let names = if is_top { names_of_data(directory) } else { names(directory) };
        for name in names.map_err(io("listed", path))? {
            let path = format!("{path}/{}", name.to_string_lossy());
            let stat = statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(io("looked at", &path))?;
            if stat.st_dev != self.device {
                return Err(MoveError::MountInside { path });
            }
            self.entries += 1;
            let kind = kind_of(&stat);
            if kind == FileType::Directory {
                self.space += stat.st_blocks.unsigned_abs() * 512;
                let inner = open_directory(directory, &name).map_err(io("opened", &path))?;
                self.directory(&inner, &path, false)?;
            } else if stat.st_nlink == 1 || self.linked.insert(stat.st_ino) {
                let space = stat.st_blocks.unsigned_abs() * 512;
                self.space += space;
                if kind == FileType::RegularFile {
                    // Holes are neither read nor written.
                    self.bytes += stat.st_size.unsigned_abs().min(space.max(4096));
                }
            }
        }
        Ok(())
    }
}

fn check_space(measured: &Measured, to: &Spot, is_mount_point: bool) -> Result<(), MoveError> {
    let system = if is_mount_point { fstatvfs(to.open()?) } else { fstatvfs(to.parent()) };
    let system = system.map_err(io("measured", &to.path))?;
    // Another file system needs a little more or less for the same files.
    let bytes = measured.space + measured.space / 50 + 64 * 1024;
    let free = system.f_bavail * system.f_frsize;
    // Some file systems do not count files.
    let free_entries = if system.f_files == 0 { u64::MAX } else { system.f_favail };
    if bytes > free || measured.entries > free_entries {
        let (path, entries) = (to.path.clone(), measured.entries);
        return Err(MoveError::NoSpace { path, bytes, entries, free, free_entries });
    }
    Ok(())
}
