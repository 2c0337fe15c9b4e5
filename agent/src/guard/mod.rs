//! The data guard's eyes: what stands behind the mounts of a container, before it and after it.
//!
//! ```text
//! desired, observed --mounts--> Mounting --plumbline::guard::judge--> verdict
//!            HostFiles --^
//! ```
//!
//! * [`HostFiles`] is the only door to the host's files: paths are resolved as the host (or a container) would resolve them,
//!   below its root, whatever symbolic links say.
//! * `mounts` pairs the mounts of what is desired with those of what runs, and looks at both.
//! * `watched` looks again, right before a start.
//! * `moves` judges the mounts that say where their data was.
//! * `users` finds the containers that have a place mounted, under whatever name.
//!
//! Always true: nothing here changes anything, and what cannot be seen is said to be unseen.

mod files;
mod mounts;
mod moves;
mod users;
mod watched;

pub use files::HostFiles;
pub(crate) use mounts::{Guarded, Looker};
pub use moves::{Former, PlannedMove};
pub(crate) use moves::{blocking, formers, survey_again};
pub(crate) use users::{User, forbid, forbid_meeting, moves_meet, overlaps, users};
pub use watched::Watched;
pub(crate) use watched::{first_change, mark_shared};
