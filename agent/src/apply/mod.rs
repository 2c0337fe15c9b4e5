//! One apply, from spec to result.
//!
//! ```text
//! gather (engine, state) --> facts --decide--> decisions --execute--> result
//! ```
//!
//! [`gather`] only looks, and gets an engine handle that can do no more. The decision is `plumbline::plan`. [`execute`]
//! does what was decided, reads back after every mutation, and puts back what was before when a step fails.
//!
//! `guarded` has the data guard look behind the mounts before the decision, and again before every start of a new container.
//!
//! `execute` goes through the objects; `make` makes and removes one container, `update` changes one in place, `recreate`
//! replaces one, and `open` keeps the replaced ones until nobody needs them any more. A call whose answer is lost may have
//! been done: every step can be undone from the moment before it.

mod adopt;
mod error;
mod execute;
mod gather;
mod guarded;
mod make;
mod networks;
mod open;
mod paths;
mod read_back;
mod recreate;
mod result;
mod run;
mod update;

pub use adopt::{adopt, owner};
pub use error::ApplyError;
pub use gather::{ContainerObject, Detail, Gathered, Host, gather, observe_container};
pub use paths::NetworkKeys;
pub use result::module_result;
pub use run::{Applied, Report, apply, plan};
