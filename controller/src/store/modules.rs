//! Modules, their revisions, the policy that acts on a new revision, and the nodes they are placed on.

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row};

use super::columns::{Instant, Number};
use super::nodes::require_node;
use super::{Store, StoreError};

/// What a build does with a new revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UpgradePolicy {
    /// It is registered and nothing else happens.
    #[default]
    Record,
    /// It is sent to the module's nodes at once.
    RollOut,
}

/// A module as the controller knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Its name.
    pub name: String,
    /// What a build does with its new revisions.
    pub upgrade_policy: UpgradePolicy,
    /// The names of the nodes it is placed on, sorted.
    pub nodes: Vec<String>,
    /// The number of its latest revision; 0 when only its policy was set so far.
    pub latest_revision: u64,
}

/// One registered version of a module's spec.
#[derive(Clone, PartialEq, Eq)]
pub struct Revision {
    /// The module's name.
    pub module: String,
    /// Counted from 1 for each module, without gaps.
    pub number: u64,
    /// The spec's bytes, as they were registered.
    pub spec: Vec<u8>,
    /// When it was registered, by this machine's clock.
    pub registered_at: Timestamp,
    /// Who registered it.
    pub registered_by: String,
}

impl fmt::Debug for Revision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { module, number, spec, registered_at, registered_by } = self;
        formatter
            .debug_struct("Revision")
            .field("module", module)
            .field("number", number)
            .field("spec", &format_args!("{} bytes", spec.len()))
            .field("registered_at", registered_at)
            .field("registered_by", registered_by)
            .finish()
    }
}

/// What registering a spec came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registered {
    /// The revision that holds the spec.
    pub revision: u64,
    /// Whether this call made it: the bytes of the latest revision again make no new one.
    pub is_new: bool,
}

impl Store {
    /// Registers `spec` as the module's next revision, unless it equals the latest one.
    pub fn register(&self, module: &str, spec: &[u8], by: &str) -> Result<Registered, StoreError> {
        let now = Timestamp::now();
        self.write(|transaction| register_one(transaction, module, spec, now, by))
    }

    /// Registers several modules, or none of them. The answers come in the order of `modules`.
    pub fn register_all<N: AsRef<str>, S: AsRef<[u8]>>(
        &self,
        modules: &[(N, S)],
        by: &str,
    ) -> Result<Vec<Registered>, StoreError> {
        let mut seen = BTreeSet::new();
        if let Some((twice, _)) = modules.iter().find(|(name, _)| !seen.insert(name.as_ref())) {
            return Err(StoreError::DuplicateModule { module: twice.as_ref().to_owned() });
        }
        let now = Timestamp::now();
        self.write(|transaction| {
            modules
                .iter()
                .map(|(name, spec)| register_one(transaction, name.as_ref(), spec.as_ref(), now, by))
                .collect()
        })
    }

    /// The module of this name, if anything was registered or set for it.
    pub fn module(&self, name: &str) -> Result<Option<Module>, StoreError> {
        self.read(|connection| find_module(connection, name))
    }

    /// All modules, by name.
    pub fn modules(&self) -> Result<Vec<Module>, StoreError> {
        self.read(|connection| {
            let names = connection
                .prepare_cached("SELECT name FROM module ORDER BY name")?
                .query_map([], |row| row.get(0))?
                .collect::<rusqlite::Result<Vec<String>>>()?;
            names.iter().filter_map(|name| find_module(connection, name).transpose()).collect()
        })
    }

    /// One revision of a module: the one with this number, or the latest.
    pub fn revision(&self, module: &str, number: Option<u64>) -> Result<Option<Revision>, StoreError> {
        self.read(|connection| {
            Ok(connection
                .prepare_cached(
                    "SELECT module, number, spec, registered_at, registered_by FROM revision
                     WHERE module = ?1 AND (?2 IS NULL OR number = ?2) ORDER BY number DESC LIMIT 1",
                )?
                .query_row((module, number.map(Number)), revision_of)
                .optional()?)
        })
    }

    /// All revisions of a module, oldest first; none for a module that is not known.
    pub fn revisions(&self, module: &str) -> Result<Vec<Revision>, StoreError> {
        self.read(|connection| {
            Ok(connection
                .prepare_cached(
                    "SELECT module, number, spec, registered_at, registered_by FROM revision
                     WHERE module = ?1 ORDER BY number",
                )?
                .query_map([module], revision_of)?
                .collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Sets what a build does with the module's new revisions and, with `nodes`, replaces its whole placement. The
    /// module need not have a revision yet: the policy can be there before the first build.
    pub fn set_policy(
        &self,
        module: &str,
        policy: UpgradePolicy,
        nodes: Option<&[String]>,
    ) -> Result<(), StoreError> {
        self.write(|transaction| {
            ensure_module(transaction, module)?;
            transaction
                .prepare_cached("UPDATE module SET upgrade_policy = ?2 WHERE name = ?1")?
                .execute((module, policy))?;
            if let Some(nodes) = nodes {
                transaction.prepare_cached("DELETE FROM placement WHERE module = ?1")?.execute([module])?;
                for node in nodes {
                    add_placement(transaction, module, node)?;
                }
            }
            Ok(())
        })
    }

    /// Adds a node to the module's placement; nothing changes if it is there.
    pub fn place(&self, module: &str, node: &str) -> Result<(), StoreError> {
        self.write(|transaction| {
            require_module(transaction, module)?;
            add_placement(transaction, module, node)
        })
    }

    /// Takes a node out of the module's placement; nothing changes if it is not in it.
    pub fn unplace(&self, module: &str, node: &str) -> Result<(), StoreError> {
        self.write(|transaction| {
            transaction
                .prepare_cached("DELETE FROM placement WHERE module = ?1 AND node = ?2")?
                .execute([module, node])?;
            Ok(())
        })
    }

    /// Forgets a module: its policy, its placement, its revisions, and what came of them.
    pub fn forget(&self, module: &str) -> Result<(), StoreError> {
        self.write(|transaction| {
            for table in ["apply", "placement", "revision"] {
                let forget = format!("DELETE FROM {table} WHERE module = ?1");
                transaction.prepare_cached(&forget)?.execute([module])?;
            }
            transaction.prepare_cached("DELETE FROM module WHERE name = ?1")?.execute([module])?;
            Ok(())
        })
    }
}

/// The module, or the error that says how to register it.
pub(super) fn require_module(connection: &Connection, name: &str) -> Result<Module, StoreError> {
    find_module(connection, name)?.ok_or_else(|| StoreError::UnknownModule { module: name.to_owned() })
}

fn register_one(
    connection: &Connection,
    module: &str,
    spec: &[u8],
    at: Timestamp,
    by: &str,
) -> Result<Registered, StoreError> {
    ensure_module(connection, module)?;
    let latest = connection
        .prepare_cached("SELECT number, spec FROM revision WHERE module = ?1 ORDER BY number DESC LIMIT 1")?
        .query_row([module], |row| Ok((row.get::<_, Number>(0)?.0, row.get::<_, Vec<u8>>(1)?)))
        .optional()?;
    let revision = match latest {
        Some((number, held)) if held == spec => return Ok(Registered { revision: number, is_new: false }),
        Some((number, _)) => number + 1,
        None => 1,
    };
    connection
        .prepare_cached(
            "INSERT INTO revision (module, number, spec, registered_at, registered_by)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute((module, Number(revision), spec, Instant(at), by))?;
    Ok(Registered { revision, is_new: true })
}

fn ensure_module(connection: &Connection, name: &str) -> Result<(), StoreError> {
    connection
        .prepare_cached("INSERT INTO module (name, upgrade_policy) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
        .execute((name, UpgradePolicy::default()))?;
    Ok(())
}

fn add_placement(connection: &Connection, module: &str, node: &str) -> Result<(), StoreError> {
    require_node(connection, node)?;
    connection
        .prepare_cached("INSERT INTO placement (module, node) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
        .execute((module, node))?;
    Ok(())
}

fn find_module(connection: &Connection, name: &str) -> Result<Option<Module>, StoreError> {
    let nodes = connection
        .prepare_cached("SELECT node FROM placement WHERE module = ?1 ORDER BY node")?
        .query_map([name], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(connection
        .prepare_cached(
            "SELECT name, upgrade_policy,
                    (SELECT coalesce(max(number), 0) FROM revision WHERE revision.module = module.name)
             FROM module WHERE name = ?1",
        )?
        .query_row([name], |row| {
            Ok(Module {
                name: row.get(0)?,
                upgrade_policy: row.get(1)?,
                nodes,
                latest_revision: row.get::<_, Number>(2)?.0,
            })
        })
        .optional()?)
}

fn revision_of(row: &Row<'_>) -> rusqlite::Result<Revision> {
    Ok(Revision {
        module: row.get(0)?,
        number: row.get::<_, Number>(1)?.0,
        spec: row.get(2)?,
        registered_at: row.get::<_, Instant>(3)?.0,
        registered_by: row.get(4)?,
    })
}
