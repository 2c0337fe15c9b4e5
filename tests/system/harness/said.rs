//! Running `plumb`, and what it said.

use std::ffi::OsStr;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The variables that `plumb` reads; the caller's are not meant.
const VARIABLES: [&str; 11] = [
    "PLUMBLINE_CONTROLLER",
    "PLUMBLINE_CA",
    "PLUMBLINE_CERT",
    "PLUMBLINE_KEY",
    "PLUMBLINE_DATA",
    "PLUMBLINE_ENGINE",
    "PLUMBLINE_CONTROLLER_LISTEN",
    "PLUMBLINE_CONTROLLER_DATA",
    "PLUMBLINE_AGENT_LISTEN",
    "PLUMBLINE_AGENT_DATA",
    "RUST_LOG",
];

/// What a run of `plumb` said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

/// The program, without what the caller's environment would tell it.
pub(super) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    for variable in VARIABLES {
        command.env_remove(variable);
    }
    command
}

/// Runs `plumb` outside any fleet.
pub(crate) fn plumb(arguments: &[impl AsRef<OsStr>]) -> Said {
    Said::of(command().args(arguments), "")
}

impl Said {
    pub(super) fn of(command: &mut Command, input: &str) -> Self {
        let started = Instant::now();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("plumb was built");
        let mut stdin = child.stdin.take().expect("it is piped");
        // A program that does not read its input may be gone already.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let output = child.wait_with_output().expect("it can be waited for");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
            took: started.elapsed(),
        }
    }

    /// It ended with this code.
    #[track_caller]
    pub(crate) fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}{}", self.stdout, self.stderr);
        self
    }

    /// All of this stands somewhere in what it said.
    #[track_caller]
    pub(crate) fn says(self, parts: &[&str]) -> Self {
        let all = self.all();
        for part in parts {
            assert!(all.contains(part), "without {part:?}:\n{all}");
        }
        self
    }

    pub(crate) fn all(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// Every line of its output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Vec<Value> {
        let line = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("not JSON ({error}): {line}"))
        };
        self.stdout.lines().map(line).collect()
    }
}
