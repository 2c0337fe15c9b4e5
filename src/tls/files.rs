//! Certificate and key files: read with an error that names them, written so that a crash leaves the whole
//! file or none.
//!
//! A file is written beside its place, synced, then put there in one step: linked, which fails if something
//! is there already, or renamed over what is there when overwriting is meant.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::TlsError;

/// Mode of a file that everyone may read.
pub(super) const PUBLIC: u32 = 0o644;
/// Mode of a file that only its owner may read.
pub(super) const PRIVATE: u32 = 0o600;

/// Keeps the drafts of this process apart.
static DRAFTS: AtomicU64 = AtomicU64::new(0);

/// Reads a whole file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => TlsError::Missing { path: path.to_owned() },
        _ => TlsError::Unreadable { path: path.to_owned(), reason: error.to_string() },
    })
}

/// Makes the folder, open to its owner only, unless it is there; an existing one keeps its mode.
pub(super) fn make_folder(path: &Path) -> Result<(), TlsError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| unwritable(path, &error))
}

/// Writes a new file; fails with [`TlsError::FileExists`] if there is one.
pub(super) fn create(path: &Path, content: &[u8], mode: u32) -> Result<(), TlsError> {
    let draft = write_draft(path, content, mode)?;
    let placed = fs::hard_link(&draft, path);
    let removed = fs::remove_file(&draft);
    placed.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => TlsError::FileExists { path: path.to_owned() },
        _ => unwritable(path, &error),
    })?;
    removed.map_err(|error| unwritable(&draft, &error))?;
    sync_folder(path)
}

/// Writes a file, over what is there.
pub(super) fn replace(path: &Path, content: &[u8], mode: u32) -> Result<(), TlsError> {
    let draft = write_draft(path, content, mode)?;
    if let Err(error) = fs::rename(&draft, path) {
        drop(fs::remove_file(&draft));
        return Err(unwritable(path, &error));
    }
    sync_folder(path)
}

fn write_draft(path: &Path, content: &[u8], mode: u32) -> Result<PathBuf, TlsError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    let count = DRAFTS.fetch_add(1, Ordering::Relaxed);
    name.push(format!(".{}-{count}.draft", std::process::id()));
    let draft = path.with_file_name(name);
    // A draft of a process of the same id that was killed.
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(unwritable(&draft, &error)),
        _ => {}
    }
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&draft)
        .and_then(|mut file| file.write_all(content).and_then(|()| file.sync_all()));
    match written {
        Ok(()) => Ok(draft),
        Err(error) => {
            drop(fs::remove_file(&draft));
            Err(unwritable(&draft, &error))
        }
    }
}

fn sync_folder(path: &Path) -> Result<(), TlsError> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| unwritable(folder, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> TlsError {
    TlsError::Unwritable { path: path.to_owned(), reason: error.to_string() }
}
