//! A tree, copied with all that belongs to it.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};

use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, SeekFrom, Stat, linkat, mkdirat, mknodat, openat, readlinkat, seek,
    statat, symlinkat,
};
use rustix::io::Errno;

use super::attributes::{Attributes, is_link};
use super::place::{kind_of, names, names_of_data, open_directory};
use super::{Event, Heard, MoveError, io};

const PIECE: usize = 1 << 20;

struct Copying<'a> {
    /// Where the copy begins.
    top: &'a OwnedFd,
    /// Of every file with several names: the first path in the copy, from its top.
    linked: HashMap<(u64, u64), CString>,
    device: u64,
    done: u64,
    total: u64,
    heard: Heard<'a>,
    piece: Vec<u8>,
}

/// Copies all that is in a directory into another, which is empty. The other's own attributes stay.
pub(super) fn copy(
    source: &OwnedFd,
    destination: &OwnedFd,
    (path, total): (&str, u64),
    heard: Heard<'_>,
) -> Result<(), MoveError> {
    let top = statat(source, c".", AtFlags::SYMLINK_NOFOLLOW).map_err(io("looked at", path))?;
    let (linked, piece) = (HashMap::new(), vec![0; PIECE]);
    let mut copying = Copying { top: destination, linked, device: top.st_dev, done: 0, total, heard, piece };
    copying.directory(source, destination, path, b"")
}

impl Copying<'_> {
    fn directory(
        &mut self,
        source: &OwnedFd,
        destination: &OwnedFd,
        path: &str,
        from_top: &[u8],
    ) -> Result<(), MoveError> {
        let names = if from_top.is_empty() { names_of_data(source) } else { names(source) };
        for name in names.map_err(io("listed", path))? {
            let path = format!("{path}/{}", name.to_string_lossy());
            let mut inner = from_top.to_vec();
            inner.extend(if from_top.is_empty() { b"".as_slice() } else { b"/" });
            inner.extend(name.as_bytes());
            (self.heard)(Event::Step("copy"))?;
            self.entry(source, destination, &name, &path, &inner)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        source: &OwnedFd,
        destination: &OwnedFd,
        name: &CStr,
        path: &str,
        from_top: &[u8],
    ) -> Result<(), MoveError> {
        let stat = statat(source, name, AtFlags::SYMLINK_NOFOLLOW).map_err(io("looked at", path))?;
        if stat.st_dev != self.device {
            return Err(MoveError::MountInside { path: path.to_owned() });
        }
        let kind = kind_of(&stat);
        if kind != FileType::Directory && stat.st_nlink > 1 {
            let key = (stat.st_dev, stat.st_ino);
            if let Some(first) = self.linked.get(&key) {
                return linkat(self.top, first.as_c_str(), destination, name, AtFlags::empty())
                    .map_err(io("linked", path));
            }
            self.linked.insert(key, CString::new(from_top).unwrap_or_default());
        }
        let attributes = Attributes::with(&stat, source, name, path)?;
        let made = |done: Result<(), Errno>| done.map_err(io("made in the copy", path));
        match kind {
            FileType::Directory => {
                made(mkdirat(destination, name, Mode::RWXU))?;
                let inner = open_directory(source, name).map_err(io("opened", path))?;
                let copied = open_directory(destination, name).map_err(io("opened in the copy", path))?;
                self.directory(&inner, &copied, path, from_top)?;
            }
            FileType::RegularFile => self.file(source, destination, name, path, &stat)?,
            FileType::Symlink => {
                let target = readlinkat(source, name, Vec::new()).map_err(io("read", path))?;
                made(symlinkat(target, destination, name))?;
            }
            other => made(mknodat(destination, name, other, Mode::RUSR | Mode::WUSR, stat.st_rdev))?,
        }
        attributes.apply_at(destination, name, is_link(&stat), path)
    }

    /// Only what is no hole is read and written.
    fn file(
        &mut self,
        source: &OwnedFd,
        destination: &OwnedFd,
        name: &CStr,
        path: &str,
        stat: &Stat,
    ) -> Result<(), MoveError> {
        let mut source = open_file(source, name).map_err(io("opened", path))?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR;
        let copy = openat(destination, name, flags, mode).map_err(io("made in the copy", path))?;
        let mut copy = File::from(copy);
        let system = |error: std::io::Error| {
            io("copied", path)(Errno::from_raw_os_error(error.raw_os_error().unwrap_or(0)))
        };
        let length = stat.st_size.unsigned_abs();
        copy.set_len(length).map_err(system)?;
        let mut position = 0;
        while position < length {
            let start = match seek(&source, SeekFrom::Data(position)) {
                Ok(start) => start,
                // Nothing but a hole is left.
                Err(Errno::NXIO) => break,
                // A file system without holes.
                Err(Errno::INVAL | Errno::NOTSUP) => position,
                Err(error) => return Err(io("read", path)(error)),
            };
            let end = seek(&source, SeekFrom::Hole(start)).unwrap_or(length);
            source.seek(std::io::SeekFrom::Start(start)).map_err(system)?;
            copy.seek(std::io::SeekFrom::Start(start)).map_err(system)?;
            let mut left = end - start;
            while left > 0 {
                let most = usize::try_from(left).map_or(PIECE, |left| left.min(PIECE));
                let read = source.read(&mut self.piece[..most]).map_err(system)?;
                if read == 0 {
                    // It became shorter; the comparison will say so.
                    return Ok(());
                }
                copy.write_all(&self.piece[..read]).map_err(system)?;
                left -= read as u64;
                self.done += read as u64;
                (self.heard)(Event::Bytes(self.done.min(self.total / 2), self.total))?;
            }
            position = end;
        }
        Ok(())
    }
}

/// The access time stays as it is where that can be.
pub(super) fn open_file(parent: &OwnedFd, name: &CStr) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = match openat(parent, name, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => openat(parent, name, flags, Mode::empty()),
        opened => opened,
    };
    opened.map(File::from)
}
