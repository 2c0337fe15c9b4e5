//! A plan from what `docker inspect` printed somewhere: no engine, no agent.
//!
//! ```text
//! text --objects--> Pasted --pair--> which container is which
//!                     |                 |
//!                     +----- apply::gather (as on an agent) --> decide --> PlanResponse, with notes
//! ```
//!
//! [`Pasted`] answers for inspect in an engine's place (`answers`), so everything from there on is what an agent does. What only this
//! folder knows: which pasted container stands for which declared one (`pair`), what stands in for an image that was not
//! pasted (`unknown_image`), and what could not be compared, which is said in notes and never passed over.

mod answers;
mod error;
mod objects;
mod pair;
mod plan;
#[cfg(test)]
mod tests;
mod unknown_image;

pub use error::PastedError;
pub use objects::Pasted;
pub use plan::{Question, plan};
