//! What a spec must satisfy, whether it was read from a manifest or arrived over gRPC.
//!
//! * `rules`: what the catalogue says of every field: required, allowed, form, unit; and ranges.
//! * `module`: names, and what the parts of a module say about each other.
//! * `container`: what the fields of one container say about each other.
//! * `mounts`: what is mounted where.
//! * `moves`: data that is to be moved.
//! * `ports`, `addresses`: what only one container of a module can have.
//! * `kernel`: what is refused only when a container starts.
//!
//! An engine would refuse most of this, too, but only in the middle of an apply. Some of it an engine would take and
//! do something else: those are the important ones.

mod addresses;
mod container;
mod forms;
mod kernel;
mod module;
mod mounts;
mod moves;
mod ports;
mod rules;

pub use module::is_module_name;

use std::fmt;

use super::walk::dynamic;
use crate::catalogue::Path;
use crate::proto::v1::ModuleSpec;

/// Something that a valid spec does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Where in the spec, as `containers.web.ports[0]` with the index for elements of lists; empty for the module.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(formatter, "{}: ", self.path)?;
        }
        write!(formatter, "{}: {}", self.message, self.remedy)
    }
}

/// Checks a spec on its own: neither the engine nor other modules are asked. At most 1000 violations are listed.
pub fn validate(spec: &ModuleSpec) -> Result<(), Vec<Violation>> {
    let mut findings = Findings::default();
    rules::check(&dynamic(spec), &Path::default(), &mut findings);
    module::check(spec, &mut findings);
    let containers = Path::default().field("containers");
    for (key, container) in &spec.containers {
        let path = containers.key(key);
        container::check(container, &path, &mut findings);
        kernel::check(container, &path, &mut findings);
        mounts::check(container, spec, &path, &mut findings);
    }
    moves::check(spec, &mut findings);
    ports::check(spec, &mut findings);
    addresses::check(spec, &mut findings);
    if findings.0.is_empty() { Ok(()) } else { Err(findings.0) }
}

/// Most violations that are listed.
const MAX_VIOLATIONS: usize = 1_000;

/// The violations found so far.
#[derive(Default)]
struct Findings(Vec<Violation>);

impl Findings {
    fn add(&mut self, path: &Path, message: impl Into<String>, remedy: impl Into<String>) {
        if self.0.len() >= MAX_VIOLATIONS {
            return;
        }
        let (message, remedy) = (message.into(), remedy.into());
        debug_assert!(!remedy.is_empty(), "{path}: {message}: and what shall be done about it?");
        self.0.push(Violation { path: path.to_string(), message, remedy });
    }
}
