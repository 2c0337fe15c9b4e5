//! Trees of files with everything that a move has to bring along, and what is in one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, lgetxattr, llistxattr, lsetxattr,
    mknodat, utimensat,
};

/// One line about everything in a directory, by its path in it; the directory itself is the empty path.
pub(crate) type Manifest = BTreeMap<Vec<u8>, String>;

/// Makes a tree of about so many files in a directory that is there.
pub(crate) fn make(folder: &Path, count: usize) {
    let write = |path: &Path, text: &str| std::fs::write(path, text).expect("written");
    let mut made = 0;
    for group in 0.. {
        if made >= count {
            break;
        }
        let inner = folder.join(format!("group {group}/with/depth"));
        std::fs::create_dir_all(&inner).expect("a folder");
        for number in 0..50.min(count - made) {
            let path = inner.join(format!("file-{number}"));
            write(&path, &format!("{group} {number}\n").repeat(number));
            match number {
                1 => std::fs::hard_link(&path, folder.join(format!("link of {group}"))).expect("linked"),
                2 => std::fs::set_permissions(&path, PermissionsExt::from_mode(0o4751)).expect("a mode"),
                3 => std::os::unix::fs::chown(&path, Some(1234), Some(4321)).expect("an owner"),
                4 => {
                    lsetxattr(
                        &path,
                        "trusted.kind",
                        format!("value {group}").as_bytes(),
                        XattrFlags::empty(),
                    )
                    .expect("an attribute");
                }
                5 => symlink(format!("file-{group}"), inner.join("a link")).expect("a link"),
                _ => {}
            }
        }
        made += 50;
    }
    for name in [b"new\nline".to_vec(), b"not \xff\xfe UTF-8".to_vec(), b" -rf *".to_vec(), vec![b'n'; 255]] {
        write(&folder.join(OsString::from_vec(name)), "odd");
    }
    std::fs::create_dir(folder.join("empty")).expect("a folder");
    write(&folder.join("nothing"), "");
    write(&folder.join("closed"), "nobody may read this");
    std::fs::set_permissions(folder.join("closed"), PermissionsExt::from_mode(0o0)).expect("a mode");
    std::fs::set_permissions(folder.join("empty"), PermissionsExt::from_mode(0o1777)).expect("a mode");
    symlink("/nowhere", folder.join("dangling")).expect("a link");
    lsetxattr(folder.join("dangling"), "trusted.link", b"of a link", XattrFlags::empty())
        .expect("an attribute");
    mknodat(CWD, folder.join("pipe"), FileType::Fifo, Mode::RUSR, 0).expect("a pipe");
    mknodat(CWD, folder.join("device"), FileType::CharacterDevice, Mode::RUSR, rustix::fs::makedev(1, 3))
        .expect("a device");
    let mut sparse = std::fs::File::create(folder.join("sparse")).expect("a file");
    sparse.seek(SeekFrom::Start(2 << 20)).expect("a place");
    sparse.write_all(b"after a hole").expect("written");
    sparse.set_len(4 << 20).expect("a hole at the end");
    // u::rw-, u:1234:rwx, g::r--, m::rwx, o::---, as setfacl stores them (acl(5)).
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permission, id) in
        [(1_u16, 6_u16, u32::MAX), (2, 7, 1234), (4, 4, u32::MAX), (0x10, 7, u32::MAX), (0x20, 0, u32::MAX)]
    {
        list.extend(tag.to_le_bytes());
        list.extend(permission.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    write(&folder.join("listed"), "has an access control list");
    lsetxattr(folder.join("listed"), "system.posix_acl_access", &list, XattrFlags::empty()).expect("a list");
    for (path, seconds) in [("nothing", 1), ("empty", 1_000_000_000), ("dangling", 7)] {
        let time = Timespec { tv_sec: seconds, tv_nsec: 123_456_789 };
        let times = Timestamps { last_access: time, last_modification: time };
        utimensat(CWD, folder.join(path), &times, AtFlags::SYMLINK_NOFOLLOW).expect("a time");
    }
}

/// Everything in a directory: kind, mode, owner, size, time, links, attributes and contents.
pub(crate) fn manifest(folder: &Path) -> Manifest {
    let mut manifest = Manifest::new();
    let mut first: BTreeMap<u64, PathBuf> = BTreeMap::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(path) = waiting.pop() {
        let about = std::fs::symlink_metadata(&path).expect("it is there");
        let kind = about.file_type();
        let inner = path.strip_prefix(folder).expect("it is in it").to_owned();
        let mut line = format!(
            "{:o} {}:{} {}.{:09} {}",
            about.mode(),
            about.uid(),
            about.gid(),
            about.mtime(),
            about.mtime_nsec(),
            attributes(&path)
        );
        if kind.is_dir() {
            let mut inside: Vec<PathBuf> = std::fs::read_dir(&path)
                .expect("listed")
                .map(|entry| entry.expect("listed").path())
                .collect();
            inside.retain(|inner| {
                path != *folder || inner.file_name().is_some_and(|name| name != "lost+found")
            });
            // In one order, so that the same name is the first of a file with several.
            inside.sort();
            waiting.extend(inside);
        } else if kind.is_symlink() {
            let _ = write!(line, " -> {}", std::fs::read_link(&path).expect("a link").display());
        } else if kind.is_file() {
            let contents = std::fs::read(&path).expect("read");
            let digest = ring::digest::digest(&ring::digest::SHA256, &contents);
            let _ = write!(line, " {} {digest:?}", about.len());
            assert!(
                contents.len() < 1 << 20 || about.blocks() * 512 < 1 << 20,
                "{} has its holes",
                path.display()
            );
        } else {
            let _ = write!(line, " device {} {}", about.rdev(), kind.is_fifo());
        }
        if !kind.is_dir() && about.nlink() > 1 {
            let first = first.entry(about.ino()).or_insert_with(|| inner.clone());
            let _ = write!(line, " with {} as {}", first.display(), about.nlink());
        }
        manifest.insert(inner.into_os_string().into_vec(), line);
    }
    manifest
}

fn attributes(path: &Path) -> String {
    let mut list = vec![0_u8; 4096];
    let length = llistxattr(path, list.as_mut_slice()).expect("listed");
    let mut found = Vec::new();
    for name in list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0_u8; 4096];
        let length = lgetxattr(path, name, value.as_mut_slice()).expect("read");
        found.push(format!("{}={:?}", String::from_utf8_lossy(name), &value[..length]));
    }
    found.sort();
    found.join(" ")
}
