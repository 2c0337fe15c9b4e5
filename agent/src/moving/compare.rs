//! Two trees, compared byte by byte.

use std::collections::HashMap;
use std::ffi::CStr;
use std::io::Read as _;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, readlinkat, statat};
use rustix::io::Errno;

use super::attributes::Attributes;
use super::copy::open_file;
use super::place::{kind_of, names, names_of_data, open_directory};
use super::{Event, Heard, MoveError, io};

const PIECE: usize = 1 << 20;

struct Comparing<'a> {
    /// Of every file with several names: which one it is in the copy, and the other way round. How many names it has is not
    /// compared: an original may have some outside of what is moved.
    linked: HashMap<(u64, u64), (u64, u64)>,
    linked_back: HashMap<(u64, u64), (u64, u64)>,
    done: u64,
    total: u64,
    heard: Heard<'a>,
    pieces: (Vec<u8>, Vec<u8>),
}

/// The copy holds what the original does: names, contents, attributes, and which names are one file.
pub(super) fn compare(
    original: &OwnedFd,
    copy: &OwnedFd,
    (path, total): (&str, u64),
    heard: Heard<'_>,
) -> Result<(), MoveError> {
    let pieces = (vec![0; PIECE], vec![0; PIECE]);
    let mut comparing = Comparing {
        linked: HashMap::new(),
        linked_back: HashMap::new(),
        done: total / 2,
        total,
        heard,
        pieces,
    };
    comparing.directory(original, copy, path, true)
}

impl Comparing<'_> {
    fn directory(
        &mut self,
        original: &OwnedFd,
        copy: &OwnedFd,
        path: &str,
        is_top: bool,
    ) -> Result<(), MoveError> {
        let list = |directory: &OwnedFd| {
            let names = if is_top { names_of_data(directory) } else { names(directory) };
            names.map_err(io("listed", path))
        };
        let all = list(original)?;
        if all != list(copy)? {
            return Err(MoveError::Differs { path: path.to_owned() });
        }
        self.same(original, copy, c".", path)?;
        for name in all {
            let path = format!("{path}/{}", name.to_string_lossy());
            self.entry(original, copy, &name, &path)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        original: &OwnedFd,
        copy: &OwnedFd,
        name: &CStr,
        path: &str,
    ) -> Result<(), MoveError> {
        let differs = || MoveError::Differs { path: path.to_owned() };
        match self.same(original, copy, name, path)? {
            FileType::Directory => {
                let open = |parent| open_directory(parent, name).map_err(io("opened", path));
                self.directory(&open(original)?, &open(copy)?, path, false)
            }
            FileType::Symlink => {
                let target = |parent| readlinkat(parent, name, Vec::new()).map_err(io("read", path));
                if target(original)? == target(copy)? { Ok(()) } else { Err(differs()) }
            }
            FileType::RegularFile => self.contents(original, copy, name, path),
            _ => Ok(()),
        }
    }

    /// Everything but the contents.
    fn same(
        &mut self,
        original: &OwnedFd,
        copy: &OwnedFd,
        name: &CStr,
        path: &str,
    ) -> Result<FileType, MoveError> {
        let stat = |parent| statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(io("looked at", path));
        let (one, other) = (stat(original)?, stat(copy)?);
        let kind = kind_of(&one);
        let is_directory = kind == FileType::Directory;
        let mut same = kind == kind_of(&other)
            && one.st_rdev == other.st_rdev
            && (is_directory || one.st_size == other.st_size);
        if !is_directory && (one.st_nlink > 1 || other.st_nlink > 1) {
            let (key, value) = ((one.st_dev, one.st_ino), (other.st_dev, other.st_ino));
            same &= *self.linked.entry(key).or_insert(value) == value;
            same &= *self.linked_back.entry(value).or_insert(key) == key;
        }
        let attributes = |stat, parent| Attributes::with(stat, parent, name, path);
        same = same && attributes(&one, original)?.is_like(&attributes(&other, copy)?);
        if same { Ok(kind) } else { Err(MoveError::Differs { path: path.to_owned() }) }
    }

    fn contents(
        &mut self,
        original: &OwnedFd,
        copy: &OwnedFd,
        name: &CStr,
        path: &str,
    ) -> Result<(), MoveError> {
        let open = |parent| open_file(parent, name).map_err(io("opened", path));
        let (mut original, mut copy) = (open(original)?, open(copy)?);
        let system = |error: std::io::Error| {
            io("read", path)(Errno::from_raw_os_error(error.raw_os_error().unwrap_or(0)))
        };
        loop {
            let read = original.read(&mut self.pieces.0).map_err(system)?;
            if read == 0 {
                let rest = copy.read(&mut self.pieces.1).map_err(system)?;
                return if rest == 0 { Ok(()) } else { Err(MoveError::Differs { path: path.to_owned() }) };
            }
            let other = &mut self.pieces.1[..read];
            if copy.read_exact(other).is_err() || *other != self.pieces.0[..read] {
                return Err(MoveError::Differs { path: path.to_owned() });
            }
            self.done += read as u64;
            (self.heard)(Event::Bytes(self.done.min(self.total), self.total))?;
        }
    }
}
