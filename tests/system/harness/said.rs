//! Running `plumb`, and what it said.

use std::ffi::OsStr;
use std::io::Write as _;
use std::process::{Child, ChildStdout, Command, Stdio};
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
    // Tests that do not say how long a started container is watched are not about that.
    command.env("PLUMBLINE_MONITOR", "1s");
    command
}

/// Runs `plumb` outside any fleet.
pub(crate) fn plumb(arguments: &[impl AsRef<OsStr>]) -> Said {
    Said::of(command().args(arguments), "")
}

/// A run of `plumb` that goes on beside the test. It ends with the test, also when that fails.
#[derive(Debug)]
pub(crate) struct Running {
    child: Option<Child>,
    started: Instant,
}

impl Running {
    pub(super) fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { started: Instant::now(), child: Some(command.spawn().expect("plumb was built")) }
    }

    /// What it prints from now on, for a test that reads along.
    pub(crate) fn stdout(&mut self) -> ChildStdout {
        self.child.as_mut().and_then(|child| child.stdout.take()).expect("it is taken once")
    }

    /// As from Ctrl-C.
    pub(crate) fn interrupt(&self) {
        let id = self.child.as_ref().map(Child::id).expect("it runs").to_string();
        let sent = Command::new("kill").args(["-INT", &id]).status().expect("kill is there");
        assert!(sent.success(), "it had ended");
    }

    /// Ends it without a word.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> Said {
        let child = self.child.take().expect("it runs");
        Said::after(child, self.started)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Said {
    /// Runs a command to its end, with this on its standard input.
    pub(crate) fn of(command: &mut Command, input: &str) -> Self {
        let started = Instant::now();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("plumb was built");
        let mut stdin = child.stdin.take().expect("it is piped");
        // A program that does not read its input may be gone already.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        Self::after(child, started)
    }

    fn after(child: Child, started: Instant) -> Self {
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
