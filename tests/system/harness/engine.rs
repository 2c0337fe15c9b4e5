//! The engine, asked behind everybody's back.

use std::process::Command;

use serde_json::{Value, json};

use crate::tools::{inspect, run};

/// Runs `docker`, which must succeed, and returns what it prints.
#[track_caller]
pub(crate) fn docker(arguments: &[&str]) -> String {
    let said = run(Command::new("docker").args(arguments), "");
    assert!(said.ok, "docker {}: {}", arguments.join(" "), said.stderr);
    said.stdout.trim().to_owned()
}

/// What is another after every recreation, restart, or stop: id, process, and times.
#[track_caller]
pub(crate) fn identity(container: &str) -> Value {
    let shown = inspect(container);
    json!([
        shown["Id"],
        shown["Name"],
        shown["State"]["StartedAt"],
        shown["State"]["Pid"],
        shown["RestartCount"]
    ])
}

/// Removes everything whose name has this in it, whoever made it.
pub(super) fn remove_all(part: &str) {
    let filter = format!("name={part}");
    let list = |arguments: &[&str]| -> Vec<String> {
        let said = run(Command::new("docker").args(arguments).args(["--filter", &filter]), "");
        said.stdout.lines().map(str::to_owned).collect()
    };
    let remove = |arguments: &[&str], names: Vec<String>| {
        if !names.is_empty() {
            run(Command::new("docker").args(arguments).args(names), "");
        }
    };
    remove(&["rm", "--force", "--volumes"], list(&["ps", "--all", "--quiet"]));
    remove(&["network", "rm"], list(&["network", "ls", "--quiet"]));
    remove(&["volume", "rm"], list(&["volume", "ls", "--quiet"]));
}
