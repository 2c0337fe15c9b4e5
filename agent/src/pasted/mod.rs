//! A plan from what `docker inspect` printed somewhere: no engine, no agent.
//!
//! ```text
//! text --objects--> Pasted --pair--> which container is which
//!                     |                 |
//!                     +----- apply::gather (as on an agent) --> decide --> PlanResponse, with notes
//! ```
//!
//! [`Pasted`] answers for inspect in an engine's place (`answers`), so everything from there on is what an agent does. What only this
//! folder knows: which pasted container stands for which declared one (`pair`, and `wish` for what the caller says of it), what
//! stands in for an image that was not pasted (`unknown_image`), which references cannot be followed (`references`), and what
//! could not be compared, which is said in notes and never passed over. Only what was pasted is judged: a declared container
//! that was not is named, and no part of the decision.

mod answers;
mod error;
mod notes;
mod objects;
mod pair;
#[cfg(test)]
mod pair_tests;
mod plan;
mod references;
#[cfg(test)]
mod tests;
mod unknown_image;
mod wish;

pub use error::PastedError;
pub use objects::Pasted;
pub use plan::{Planned, Question, plan};
