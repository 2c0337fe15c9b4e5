//! What the store can answer instead of a result. Each message says what to do about it and is complete on its
//! own: a cause is part of the text.

use std::io;
use std::path::PathBuf;

/// Why the store refused or failed. Nothing of the call that returned it was recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The module was never registered, and no policy was set for it.
    #[error("no module is named `{module}`: register it with `plumb build`")]
    UnknownModule {
        /// The name that was asked for.
        module: String,
    },
    /// The module is known, but not with this revision.
    #[error(
        "module `{module}` has no revision {revision}, its latest is {latest}: register one with `plumb build`"
    )]
    UnknownRevision {
        /// The module.
        module: String,
        /// The number that was asked for.
        revision: u64,
        /// The highest number that there is; 0 when nothing was registered yet.
        latest: u64,
    },
    /// The node was never added.
    #[error("no node is named `{node}`: add it with `plumb node add`")]
    UnknownNode {
        /// The name that was asked for.
        node: String,
    },
    /// One build declares the same module more than once.
    #[error(
        "module `{module}` is declared more than once in one build: keep one declaration, nothing was registered"
    )]
    DuplicateModule {
        /// The name that occurs again.
        module: String,
    },
    /// Another controller has the store open.
    #[error(
        "the store {} is in use by {}: stop that controller, let that `plumb up` end, or name another directory with --data-dir",
        path.display(),
        holder.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
    )]
    Locked {
        /// The database file.
        path: PathBuf,
        /// The process that has it, where the lock file says so.
        holder: Option<u32>,
    },
    /// The file holds something else than an `SQLite` database, or its first page is damaged.
    #[error("{} is not a database: name another file, or restore this one from a backup", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// The file is an `SQLite` database that another program made.
    #[error("{} is a database of another program, it was left as it is: name another file", path.display())]
    ForeignDatabase {
        /// The file.
        path: PathBuf,
    },
    /// A newer Plumbline has written this store.
    #[error(
        "the store {} has schema {found}, this version knows schemas up to {known}: update plumb, or restore a \
         backup that was made before the newer version ran",
        path.display()
    )]
    NewerSchema {
        /// The database file.
        path: PathBuf,
        /// The schema version in the file.
        found: usize,
        /// The newest version that this build knows.
        known: usize,
    },
    /// A migration failed; the file still has the schema it had.
    #[error(
        "the store {} cannot be brought from schema {from} to {to}, it was left at {from}: {source}: go on with the \
         version of plumb that last used it, and report this",
        path.display()
    )]
    Migration {
        /// The database file.
        path: PathBuf,
        /// The schema version in the file.
        from: usize,
        /// The version that was wanted.
        to: usize,
        /// What `SQLite` said.
        source: rusqlite::Error,
    },
    /// The file's place cannot hold a write-ahead log.
    #[error(
        "the store {} cannot keep a write-ahead log (journal mode stays `{mode}`): put it on a local file system",
        path.display()
    )]
    NoWriteAheadLog {
        /// The database file.
        path: PathBuf,
        /// The journal mode that `SQLite` keeps instead.
        mode: String,
    },
    /// The linked `SQLite` is too old to be trusted with a write-ahead log.
    #[error("SQLite {found} is too old, {needed} or newer is needed: build plumb with its bundled SQLite")]
    OldSqlite {
        /// The version that is linked in.
        found: &'static str,
        /// The oldest version that is accepted.
        needed: &'static str,
    },
    /// The file system refused one of the store's files.
    #[error(
        "cannot {action} {}: {source}: check that its folder exists and that this user may write there",
        path.display()
    )]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// `SQLite` failed in a way that has no variant of its own: disk full, read error, damaged file.
    #[error(
        "the store failed, nothing of this call was recorded: {0}: check the disk's free space and health"
    )]
    Sqlite(#[from] rusqlite::Error),
}
