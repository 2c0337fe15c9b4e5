//! The schema, as a numbered list of migrations, and the checks that come before any of them runs.
//!
//! `PRAGMA user_version` says how many migrations a file has seen, `PRAGMA application_id` that it is ours. Both
//! are part of the transaction that migrates, so a file is always at exactly one version.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use super::StoreError;

/// Marks the file as ours, for us and for `file(1)`.
const APPLICATION_ID: u32 = u32::from_be_bytes(*b"Plmb");

/// Migration N brings a file from version N to N + 1. A text that was ever released is never edited: a change of
/// the schema is a new text at the end.
pub(super) const MIGRATIONS: &[&str] = &["
    CREATE TABLE node (
        name     TEXT NOT NULL PRIMARY KEY,
        address  TEXT NOT NULL,
        added_at TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE node_label (
        node  TEXT NOT NULL REFERENCES node (name) ON DELETE CASCADE,
        key   TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (node, key)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE module (
        name           TEXT NOT NULL PRIMARY KEY,
        upgrade_policy TEXT NOT NULL CHECK (upgrade_policy IN ('record', 'roll_out'))
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE revision (
        module        TEXT NOT NULL REFERENCES module (name),
        number        INTEGER NOT NULL CHECK (number > 0),
        spec          BLOB NOT NULL,
        registered_at TEXT NOT NULL,
        registered_by TEXT NOT NULL,
        PRIMARY KEY (module, number)
    ) STRICT;

    CREATE TABLE placement (
        module TEXT NOT NULL REFERENCES module (name),
        node   TEXT NOT NULL REFERENCES node (name),
        PRIMARY KEY (module, node)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX placement_by_node ON placement (node);

    -- sequence is the order of recording: clocks can go back, it cannot.
    CREATE TABLE apply (
        sequence     INTEGER PRIMARY KEY,
        operation_id TEXT NOT NULL,
        module       TEXT NOT NULL,
        revision     INTEGER NOT NULL,
        node         TEXT NOT NULL REFERENCES node (name),
        outcome      TEXT NOT NULL,
        result       BLOB NOT NULL,
        finished_at  TEXT NOT NULL,
        UNIQUE (operation_id, module, node),
        FOREIGN KEY (module, revision) REFERENCES revision (module, number)
    ) STRICT;
    CREATE INDEX apply_by_place ON apply (module, node, sequence);
    CREATE INDEX apply_by_node ON apply (node);
"];

/// Whether the file's header has our mark. For the time before `SQLite` opens it; [`check`] is the judge.
pub(super) fn is_ours(file: &File) -> bool {
    // <https://sqlite.org/fileformat2.html>, 1.3: big-endian, at offset 68.
    let mut mark = [0; 4];
    file.read_exact_at(&mut mark, 68).is_ok() && u32::from_be_bytes(mark) == APPLICATION_ID
}

/// The version of the file. Refuses one that is not a database, not ours, or newer than `migrations`. Only reads.
pub(super) fn check(connection: &Connection, path: &Path, migrations: &[&str]) -> Result<usize, StoreError> {
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => StoreError::NotADatabase { path: path.to_owned() },
            _ => StoreError::Sqlite(error),
        })?;
    let application: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let fresh = tables == 0 && application == 0 && version == 0;
    let Ok(found) = usize::try_from(version) else {
        return Err(StoreError::ForeignDatabase { path: path.to_owned() });
    };
    if !fresh && application != i64::from(APPLICATION_ID) {
        Err(StoreError::ForeignDatabase { path: path.to_owned() })
    } else if found > migrations.len() {
        Err(StoreError::NewerSchema { path: path.to_owned(), found, known: migrations.len() })
    } else {
        Ok(found)
    }
}

/// Runs what is missing of `migrations`, all in one transaction, on a file that [`check`] found at version `from`.
///
/// Foreign keys are off meanwhile (they cannot be switched inside a transaction), so that a migration may rebuild a
/// table that others refer to.
pub(super) fn migrate(
    connection: &mut Connection,
    path: &Path,
    from: usize,
    migrations: &[&str],
) -> Result<(), StoreError> {
    connection.pragma_update(None, "foreign_keys", false)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let to = migrations.len();
    if from < to {
        let run = || {
            for migration in &migrations[from..] {
                transaction.execute_batch(migration)?;
            }
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.execute_batch(&format!("PRAGMA user_version = {to}"))
        };
        run().map_err(|source| StoreError::Migration { path: path.to_owned(), from, to, source })?;
        tracing::info!(path = %path.display(), from, to, "store migrated");
    }
    transaction.commit()?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(())
}
