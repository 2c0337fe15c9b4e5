//! Opening the store: the lock, the file's mode, the connection's settings; and the two doors through which every
//! method goes, [`Store::read`] and [`Store::write`].

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::{StoreError, schema};

/// The first release without the write-ahead log's reset fault, which can damage a file that is written while a
/// checkpoint runs (<https://sqlite.org/wal.html>).
const OLDEST_SQLITE: (i32, &str) = (3_051_003, "3.51.3");

/// Ours alone: the file can hold secrets.
const OWNER_ONLY: u32 = 0o600;

/// Only a backup or a person with the `sqlite3` shell can hold the file: this waits for them.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The open store. Clones share one connection; the file is closed and unlocked when the last one goes.
#[derive(Clone)]
pub struct Store {
    pub(super) inner: Arc<Mutex<Inner>>,
}

/// What the clones share. The order matters: the connection is closed before the lock goes.
pub(super) struct Inner {
    pub(super) connection: Connection,
    _lock: Lock,
}

impl Store {
    /// Opens the store in the file at `path`, which is made if there is none, and brings its schema up to date.
    /// The folder must exist.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if rusqlite::version_number() < OLDEST_SQLITE.0 {
            return Err(StoreError::OldSqlite { found: rusqlite::version(), needed: OLDEST_SQLITE.1 });
        }
        let path = &resolve(path)?;
        // The lock comes first: closing any descriptor of the file drops this process's SQLite locks on it
        // (fcntl(2)), so the file itself must not be touched while another `Store` of ours may have it.
        let lock = lock(path)?;
        keep_private(path)?;
        let mut connection = Connection::open_with_flags(
            path,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "trusted_schema", false)?;
        let version = schema::check(&connection, path, schema::MIGRATIONS)?;
        let mode: String =
            connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
        if mode != "wal" {
            return Err(StoreError::NoWriteAheadLog { path: path.clone(), mode });
        }
        connection.pragma_update(None, "synchronous", "full")?;
        schema::migrate(&mut connection, path, version, schema::MIGRATIONS)?;
        tracing::debug!(path = %path.display(), "store open");
        Ok(Self { inner: Arc::new(Mutex::new(Inner { connection, _lock: lock })) })
    }

    /// Lets `work` read. No write comes between its queries.
    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        work(&self.inner().connection)
    }

    /// Lets `work` write: all of it is on disk when this returns `Ok`, none of it otherwise.
    pub(super) fn write<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut inner = self.inner();
        let transaction = inner.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let done = work(&transaction)?;
        transaction.commit()?;
        Ok(done)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A panic inside `write` has rolled its transaction back on the way out, so the connection is sound.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Store").finish_non_exhaustive()
    }
}

/// The file's one real path, so that two controllers that come by different links meet at the same lock.
fn resolve(path: &Path) -> Result<PathBuf, StoreError> {
    let resolved = match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let name = path.file_name().ok_or(error);
            name.and_then(|name| Ok(folder.unwrap_or(Path::new(".")).canonicalize()?.join(name)))
        }
        found => found,
    };
    resolved.map_err(|source| StoreError::Io { action: "find", path: path.to_owned(), source })
}

/// The locked `<file>.lock`.
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: a child between fork and exec has the descriptor, too, and would keep the lock.
        // If this fails, closing still comes.
        let _ = self.0.unlock();
    }
}

/// Locks `<path>.lock` and writes our process id into it, for the message that the next one gets.
fn lock(path: &Path) -> Result<Lock, StoreError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    let failed = |source| StoreError::Io { action: "lock", path: name.clone(), source };
    let mut file = open_or_make(&name).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let holder = file.read_to_string(&mut holder).ok().and_then(|_| holder.trim().parse().ok());
            return Err(StoreError::Locked { path: path.to_owned(), holder });
        }
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(failed)?;
    Ok(Lock(file))
}

/// Makes the file if there is none, and takes it away from group and others if they had it. `SQLite` gives its
/// log and shared-memory files the mode of this one. Somebody else's file keeps its mode: it is refused later.
fn keep_private(path: &Path) -> Result<(), StoreError> {
    let failed = |source| StoreError::Io { action: "open", path: path.to_owned(), source };
    let file = open_or_make(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & !OWNER_ONLY != 0 && (metadata.len() == 0 || schema::is_ours(&file)) {
        tracing::warn!(path = %path.display(), mode = %format_args!("{mode:04o}"), "store was open to others, now 0600");
        file.set_permissions(fs::Permissions::from_mode(OWNER_ONLY)).map_err(failed)?;
    }
    Ok(())
}

fn open_or_make(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(OWNER_ONLY).open(path)
}
