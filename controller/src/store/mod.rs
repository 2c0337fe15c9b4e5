//! The controller's memory: one embedded `SQLite` file with the modules, their revisions and upgrade policies,
//! the nodes, and what every apply came to.
//!
//! In come facts that the controller has already checked (names are parsed elsewhere; a spec is opaque bytes
//! here). Out come the same facts, after any crash or power cut. Every method is synchronous and takes
//! milliseconds: an async caller uses `spawn_blocking`. What must always be true:
//!
//! - A call that returned `Ok` is on disk (write-ahead log, `synchronous = FULL`); a call that returned an error
//!   left nothing behind: each one is a single transaction.
//! - One process has the store at a time. `<file>.lock` is locked for as long as any [`Store`] clone lives.
//! - The file is readable by its owner only, from before `SQLite` first sees it: specs can hold secrets. They
//!   are never logged, and `Debug` shows only their length.
//! - A file that is not ours, or is of a newer schema, is refused; its content and its mode stay as they are.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `open` | [`Store`] itself: the lock, the file's mode, the connection's settings, read and write |
//! | `schema` | the numbered migrations and the checks before them |
//! | `columns` | how our types are held in columns |
//! | `modules`, `nodes`, `applies` | the methods, by subject |
//! | `error` | [`StoreError`] |

mod applies;
mod columns;
mod error;
mod modules;
mod nodes;
mod open;
mod schema;
#[cfg(test)]
mod tests;

pub use applies::Apply;
pub use error::StoreError;
pub use modules::{Module, Registered, Revision, UpgradePolicy};
pub use nodes::{Added, Node};
pub use open::Store;
