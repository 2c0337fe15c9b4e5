//! The YAML manifest: text in, [`ModuleSpec`]s out, and back.
//!
//! A manifest is the spec's JSON mapping with friendlier units: its keys are the field names of `spec.proto`, and there
//! is no second vocabulary. The way in is a line of small steps, each of which could be tested without the others:
//!
//! ```text
//! bytes --parse--> nodes with line and column --walk (short forms, scalars)--> ModuleSpec --validate--> ModuleSpec
//! ModuleSpec --validate--> --spell (short forms, scalars)--> nodes --emit--> text, which is read again to be sure
//! ```
//!
//! * `parse`: YAML to nodes. A scalar stays the text that was written: `no`, `0644` and `2122:22` mean nothing yet.
//! * `walk`: nodes to a message, led by the descriptors; what a scalar means is decided by its field's type and unit.
//! * `short`: the one table of short forms (`80:8080`), each a rewriting of nodes into the long form and back.
//! * `validate`: what a spec must satisfy however it arrived, from a manifest or over gRPC.
//!
//! What always holds: a key that is not a field is an error; nothing is taken from the reader's environment; what
//! [`write`] wrote, [`read`] reads as exactly the same spec.

mod emit;
mod error;
mod node;
mod parse;
mod scalar;
mod short;
mod spell;
mod suggest;
mod units;
mod validate;
mod walk;
mod words;

pub use error::{ManifestError, Position, Problem};
pub use validate::{Violation, is_module_name, validate};

use crate::proto::v1::ModuleSpec;
use error::Problems;

/// The largest manifest that is read, in bytes.
pub const MAX_SIZE: usize = 1 << 20;

/// A manifest to be read.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The file's name, for messages.
    pub name: &'a str,
    /// What the file holds.
    pub text: &'a [u8],
}

/// Reads a manifest: every YAML document in it is one module.
pub fn read(source: &Source<'_>) -> Result<Vec<ModuleSpec>, ManifestError> {
    let mut problems = Problems::default();
    let mut specs = Vec::new();
    for document in parse::documents(source.text, &mut problems) {
        let Some(walked) = walk::module(document, &mut problems) else { continue };
        for violation in validate(&walked.spec).err().unwrap_or_default() {
            problems.push(walked.places.locate(violation));
        }
        specs.push(walked.spec);
    }
    problems.into_result(source.name, specs)
}

/// Reads a time as a manifest writes it: `10s`, `1m30s`, `500ms`. The error says what was expected.
pub fn duration(text: &str) -> Result<std::time::Duration, String> {
    let nanos = units::duration(text).map_err(|problem| problem.remedy)?;
    u64::try_from(nanos).map(std::time::Duration::from_nanos).map_err(|_| "it is out of range".to_owned())
}

/// Writes a spec as a manifest that [`read`] reads as exactly the same spec.
///
/// A spec that is not valid is not written: nobody could read it.
pub fn write(spec: &ModuleSpec) -> Result<String, ManifestError> {
    let name = spec.name.as_deref().unwrap_or("module");
    let text = emit::emit(&spell::module(spec));
    let source = Source { name, text: text.as_bytes() };
    match read(&source) {
        Ok(specs) if specs.as_slice() == std::slice::from_ref(spec) => Ok(text),
        Ok(_) => Err(ManifestError::not_expressible(name)),
        Err(error) => Err(error.without_positions()),
    }
}

#[cfg(test)]
mod tests;
