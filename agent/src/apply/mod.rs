//! One apply, from spec to result.
//!
//! ```text
//! gather (engine, state) --> facts --decide--> decisions --execute--> result
//! ```
//!
//! [`gather`] only looks, and gets an engine handle that can do no more. The decision is `plumbline::plan`. [`execute`]
//! does what was decided, reads back after every mutation, and puts back what was before when a step fails.
//!
//! `data_moves` moves data before new containers are put on it.
//!
//! `guarded` has the data guard look behind the mounts before the decision, and again before every start of a new container.
//!
//! `neighbours` looks who else on the host would suffer, `left_behind` for networks and volumes that left the declaration.
//!
//! `execute` goes through the objects; `make` makes one container, `update` changes one in place, `recreate` replaces one,
//! `network_change` a network with all that is on it.
//! `transaction` journals each of these and keeps what they replaced until all stands; `undo` puts it back, for an apply
//! that failed as for one that was cut off, which `recovery` ends. A call whose answer is lost may have been done: every step
//! can be undone from the moment before it.

mod adopt;
mod data_moves;
mod error;
mod execute;
mod find;
mod gather;
mod guarded;
mod left_behind;
mod make;
mod neighbours;
mod network_change;
mod network_undo;
mod networks;
mod paths;
mod read_back;
mod recovery;
mod recreate;
mod result;
mod run;
mod transaction;
mod undo;
mod update;
mod update_lock;

pub use adopt::{adopt, owner};
pub(crate) use data_moves::discard_kept;
pub use error::ApplyError;
pub use find::{observe_container, owned};
pub(crate) use gather::read_desired;
pub use gather::{ContainerObject, Detail, Gathered, Host, gather};
pub(crate) use neighbours::{dependants, every_container};
pub use paths::NetworkKeys;
pub use recovery::{Recovered, cut_off, recover, recover_by_labels};
pub use result::module_result;
pub use run::{Applied, Report, apply, plan};
pub(crate) use update_lock::{held, paths as lock_paths};
