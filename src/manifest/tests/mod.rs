//! The promises of the manifest, as tables.

mod cases;
mod forms;
mod malformed;
mod reading;
mod refusals;
mod round_trip;
mod validity;

use super::{ManifestError, Source, read};
use crate::proto::v1::{ContainerSpec, ModuleSpec};

fn read_all(text: &str) -> Result<Vec<ModuleSpec>, ManifestError> {
    read(&Source { name: "module.yaml", text: text.as_bytes() })
}

/// A module of one container `web` with these lines in it.
fn manifest(lines: &str) -> String {
    let lines = lines.lines().flat_map(|line| ["    ", line, "\n"]);
    ["name: shop\ncontainers:\n  web:\n    image: nginx\n"].into_iter().chain(lines).collect()
}

fn module(text: &str) -> ModuleSpec {
    let mut specs = read_all(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    assert_eq!(specs.len(), 1);
    specs.remove(0)
}

fn web(lines: &str) -> ContainerSpec {
    module(&manifest(lines)).containers.remove("web").expect("it has this container")
}

fn error(text: &str) -> String {
    match read_all(text) {
        Ok(specs) => panic!("{text}\nwas read as {specs:?}"),
        Err(error) => error.to_string(),
    }
}

/// Every expected part is in the error that these lines of a container give.
#[track_caller]
fn refused(lines: &str, parts: &[&str]) {
    let error = error(&manifest(lines));
    for part in parts {
        assert!(error.contains(part), "{lines}\ngave: {error}\nwithout: {part}");
    }
}
