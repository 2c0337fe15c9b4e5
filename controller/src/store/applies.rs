//! Applies: what came of sending one revision to one node.

use std::fmt;

use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row};

use super::columns::{Instant, Number};
use super::modules::require_module;
use super::nodes::require_node;
use super::{Store, StoreError};

/// One finished apply.
#[derive(Clone, PartialEq, Eq)]
pub struct Apply {
    /// The id that the controller chose for it.
    pub operation_id: String,
    /// The module's name.
    pub module: String,
    /// The revision that was sent.
    pub revision: u64,
    /// The node's name.
    pub node: String,
    /// The outcome's name, in the caller's words.
    pub outcome: String,
    /// The agent's whole answer, as bytes of the caller's choice.
    pub result: Vec<u8>,
    /// When it finished.
    pub finished_at: Timestamp,
}

impl fmt::Debug for Apply {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation_id, module, revision, node, outcome, result, finished_at } = self;
        formatter
            .debug_struct("Apply")
            .field("operation_id", operation_id)
            .field("module", module)
            .field("revision", revision)
            .field("node", node)
            .field("outcome", outcome)
            .field("result", &format_args!("{} bytes", result.len()))
            .field("finished_at", finished_at)
            .finish()
    }
}

impl Store {
    /// Records a finished apply of a known revision on a known node.
    ///
    /// The same operation id for the same module and node again replaces what was recorded, at its old place in the
    /// order: an answer that was lost and asked for once more is not a second apply.
    pub fn record_apply(&self, apply: &Apply) -> Result<(), StoreError> {
        let Apply { operation_id, module, revision, node, outcome, result, finished_at } = apply;
        self.write(|transaction| {
            let latest = require_module(transaction, module)?.latest_revision;
            // Revisions are counted without gaps.
            if *revision == 0 || *revision > latest {
                return Err(StoreError::UnknownRevision {
                    module: module.clone(),
                    revision: *revision,
                    latest,
                });
            }
            require_node(transaction, node)?;
            transaction
                .prepare_cached(
                    "INSERT INTO apply (operation_id, module, revision, node, outcome, result, finished_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                     ON CONFLICT (operation_id, module, node) DO UPDATE SET revision = excluded.revision,
                         outcome = excluded.outcome, result = excluded.result, finished_at = excluded.finished_at",
                )?
                .execute((
                    operation_id,
                    module,
                    Number(*revision),
                    node,
                    outcome,
                    result,
                    Instant(*finished_at),
                ))?;
            Ok(())
        })
    }

    /// The apply of this module on this node that was recorded last.
    pub fn last_apply(&self, module: &str, node: &str) -> Result<Option<Apply>, StoreError> {
        self.read(|connection| {
            Ok(connection
                .prepare_cached(
                    "SELECT operation_id, module, revision, node, outcome, result, finished_at FROM apply
                     WHERE module = ?1 AND node = ?2 ORDER BY sequence DESC LIMIT 1",
                )?
                .query_row([module, node], apply_of)
                .optional()?)
        })
    }

    /// All applies of this module, in the order of their recording; none for a module that is not known.
    pub fn applies(&self, module: &str) -> Result<Vec<Apply>, StoreError> {
        self.read(|connection| {
            Ok(connection
                .prepare_cached(
                    "SELECT operation_id, module, revision, node, outcome, result, finished_at FROM apply
                     WHERE module = ?1 ORDER BY sequence",
                )?
                .query_map([module], apply_of)?
                .collect::<rusqlite::Result<_>>()?)
        })
    }
}

fn apply_of(row: &Row<'_>) -> rusqlite::Result<Apply> {
    Ok(Apply {
        operation_id: row.get(0)?,
        module: row.get(1)?,
        revision: row.get::<_, Number>(2)?.0,
        node: row.get(3)?,
        outcome: row.get(4)?,
        result: row.get(5)?,
        finished_at: row.get::<_, Instant>(6)?.0,
    })
}
