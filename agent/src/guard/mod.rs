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
//! * `moves` judges the mounts that say where their data was.
//!
//! Always true: nothing here changes anything, and what cannot be seen is said to be unseen.

mod files;
mod mounts;
mod moves;

pub use files::HostFiles;
pub use mounts::Watched;
pub(crate) use mounts::{Guarded, Looker, first_change, mark_shared};
pub use moves::{Former, PlannedMove};
pub(crate) use moves::{User, blocking, forbid, formers, overlaps, survey_again, users};
