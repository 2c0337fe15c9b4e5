//! Nodes: the hosts that run an agent, where it is reached, and their labels.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use super::columns::Instant;
use super::{Store, StoreError};

/// A host with an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Where its agent is reached.
    pub address: String,
    /// What operators have said about it.
    pub labels: BTreeMap<String, String>,
    /// When it was first added, by this machine's clock; a new address does not change it.
    pub added_at: Timestamp,
}

/// What adding a node came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Added {
    /// The node was not known.
    New,
    /// The node was known at another address.
    Changed {
        /// The address until now.
        before: String,
    },
    /// The node was known at this address.
    Same,
}

impl Store {
    /// Adds a node, or changes the address of the one that has this name.
    pub fn add_node(&self, name: &str, address: &str) -> Result<Added, StoreError> {
        self.write(|transaction| {
            let added = match find_node(transaction, name)? {
                None => Added::New,
                Some(node) if node.address == address => Added::Same,
                Some(node) => Added::Changed { before: node.address },
            };
            transaction
                .prepare_cached(
                    "INSERT INTO node (name, address, added_at) VALUES (?1, ?2, ?3)
                     ON CONFLICT (name) DO UPDATE SET address = excluded.address",
                )?
                .execute((name, address, Instant(Timestamp::now())))?;
            Ok(added)
        })
    }

    /// Replaces all labels of a node.
    pub fn set_labels(&self, node: &str, labels: &BTreeMap<String, String>) -> Result<(), StoreError> {
        self.write(|transaction| {
            require_node(transaction, node)?;
            transaction.prepare_cached("DELETE FROM node_label WHERE node = ?1")?.execute([node])?;
            let mut insert = transaction
                .prepare_cached("INSERT INTO node_label (node, key, value) VALUES (?1, ?2, ?3)")?;
            for (key, value) in labels {
                insert.execute((node, key, value))?;
            }
            Ok(())
        })
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> Result<Option<Node>, StoreError> {
        self.read(|connection| find_node(connection, name))
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> Result<Vec<Node>, StoreError> {
        self.read(|connection| {
            let names = connection
                .prepare_cached("SELECT name FROM node ORDER BY name")?
                .query_map([], |row| row.get(0))?
                .collect::<rusqlite::Result<Vec<String>>>()?;
            names.iter().filter_map(|name| find_node(connection, name).transpose()).collect()
        })
    }
}

/// Nothing, or the error that says how to add the node.
pub(super) fn require_node(connection: &Connection, name: &str) -> Result<(), StoreError> {
    let known = connection.prepare_cached("SELECT 1 FROM node WHERE name = ?1")?.exists([name])?;
    if known { Ok(()) } else { Err(StoreError::UnknownNode { node: name.to_owned() }) }
}

fn find_node(connection: &Connection, name: &str) -> Result<Option<Node>, StoreError> {
    let labels = connection
        .prepare_cached("SELECT key, value FROM node_label WHERE node = ?1")?
        .query_map([name], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(connection
        .prepare_cached("SELECT name, address, added_at FROM node WHERE name = ?1")?
        .query_row([name], |row| {
            Ok(Node {
                name: row.get(0)?,
                address: row.get(1)?,
                labels,
                added_at: row.get::<_, Instant>(2)?.0,
            })
        })
        .optional()?)
}
