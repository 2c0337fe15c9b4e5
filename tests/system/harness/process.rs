//! One server: a process of our own, its log, and its end.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::said::command;

/// How long a server may take to listen or to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// A `plumb controller` or `plumb agent`.
#[derive(Debug)]
pub(crate) struct Server {
    arguments: Vec<String>,
    log: PathBuf,
    address: SocketAddr,
    child: Option<Child>,
}

impl Server {
    /// Starts it on a port that the system chooses.
    pub(super) fn start(arguments: &[&str], log: &Path) -> Self {
        let mut server = Self {
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            log: log.to_owned(),
            address: "127.0.0.1:0".parse().expect("it is an address"),
            child: None,
        };
        server.start_again();
        server
    }

    /// Starts it again where it listened before.
    pub(crate) fn start_again(&mut self) {
        assert!(self.child.is_none(), "it runs");
        let give_up = Instant::now() + PATIENCE;
        while Instant::now() < give_up {
            let log = File::create(&self.log).expect("the folder can be written");
            let mut plumb = command();
            plumb.args(&self.arguments).args(["--listen", &self.address.to_string()]).env("RUST_LOG", "info");
            plumb.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
            self.child = Some(plumb.spawn().expect("plumb was built"));
            if let Some(address) = self.listening(give_up) {
                self.address = address;
                return;
            }
            // It ended: somebody may have its port for a moment.
            self.kill();
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("it does not start: {}", self.log());
    }

    /// The address in its log, once it listens.
    fn listening(&mut self, give_up: Instant) -> Option<SocketAddr> {
        while Instant::now() < give_up {
            let log = self.log();
            let line = log.lines().find(|line| line.contains(" listens "));
            if let Some((_, rest)) = line.and_then(|line| line.split_once("address=")) {
                return rest.split(' ').next().and_then(|address| address.parse().ok());
            }
            let child = self.child.as_mut()?;
            if child.try_wait().expect("it is our child").is_some() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// What it wrote since it was started last.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Ends it without a word.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Makes it hang.
    pub(crate) fn suspend(&self) {
        signal(self.child.as_ref().expect("it runs"), "-STOP");
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        signal(self.child.as_ref().expect("it runs"), "-CONT");
    }

    /// Asks it to end, as a service manager does, and waits.
    pub(crate) fn stop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        signal(&child, "-TERM");
        let give_up = Instant::now() + PATIENCE;
        while child.try_wait().expect("it is our child").is_none() {
            assert!(Instant::now() < give_up || child.kill().is_err(), "it does not end: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn signal(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill is there");
    assert!(sent.success(), "it had ended");
}

/// Waits until something is so, and panics with `what` if that takes too long.
#[track_caller]
pub(crate) fn within(patience: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + patience;
    while !is_so() {
        assert!(Instant::now() < give_up, "not within {patience:?}: {what}");
        std::thread::sleep(Duration::from_millis(25));
    }
}
