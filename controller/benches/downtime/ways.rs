//! The ways to bring a new container to the place of an old one, as a user calls them.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

const IMAGE: &str = "plumbline/sample:1";

/// One way, with a container of its own on a port of its own. The container goes with it.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    /// What exactly is measured, with its version.
    pub(crate) what: String,
    pub(crate) port: u16,
    container: String,
    kind: Kind,
}

enum Kind {
    /// `docker stop` and `docker start`: the container stays the same.
    Bare,
    /// `plumb up` with this manifest and this data directory.
    Plumb { manifest: PathBuf, data: PathBuf },
    /// These words and `up`, with this file.
    Compose { program: Vec<String>, file: PathBuf },
}

impl Way {
    pub(crate) fn bare() -> Self {
        let engine = run(docker(&[
            "version",
            "--format",
            "Docker {{.Server.Version}}, command line {{.Client.Version}}",
        ]));
        Self::new("docker stop + start", engine, Kind::Bare)
    }

    pub(crate) fn plumb(folder: &Path) -> Self {
        let version = run(Command::new(env!("CARGO_BIN_EXE_plumb")).arg("--version"));
        let build = if cfg!(debug_assertions) { "not optimised" } else { "optimised" };
        let kind = Kind::Plumb { manifest: folder.join("module.yaml"), data: folder.join("data") };
        Self::new("plumb up --recreate", format!("{version}, {build}"), kind)
    }

    /// `None`: there is no Docker Compose.
    pub(crate) fn compose(folder: &Path) -> Option<Self> {
        let named = std::env::var("PLUMBLINE_COMPOSE").ok().filter(|named| !named.is_empty());
        let candidates = match &named {
            Some(named) => vec![vec![named.clone()]],
            None => vec![vec!["docker".to_owned(), "compose".to_owned()], vec!["docker-compose".to_owned()]],
        };
        let found = candidates.into_iter().find_map(|program| {
            let output = Command::new(&program[0]).args(&program[1..]).args(["version", "--short"]).output();
            let output = output.ok().filter(|output| output.status.success())?;
            Some((program, String::from_utf8_lossy(&output.stdout).trim().to_owned()))
        });
        assert!(
            found.is_some() || named.is_none(),
            "PLUMBLINE_COMPOSE names no Docker Compose that runs: {named:?}"
        );
        let (program, version) = found?;
        let kind = Kind::Compose { program, file: folder.join("compose.yaml") };
        Some(Self::new("docker compose up", format!("Docker Compose {version}"), kind))
    }

    fn new(name: &'static str, what: String, kind: Kind) -> Self {
        let short = match kind {
            Kind::Bare => "bare",
            Kind::Plumb { .. } => "plumb",
            Kind::Compose { .. } => "compose",
        };
        let container = format!("plumbline-downtime-{}-{short}", std::process::id());
        Self { name, what, port: free_port(), container, kind }
    }

    /// What its container answers in this round.
    pub(crate) fn answer(&self, round: u32) -> String {
        let round = if matches!(self.kind, Kind::Bare) { 0 } else { round };
        format!("round {round}")
    }

    /// Round 0 makes the container; each later one puts a new one in its place, or starts it anew.
    pub(crate) fn change(&self, round: u32) {
        match &self.kind {
            Kind::Bare if round == 0 => {
                let port = format!("127.0.0.1:{}:8080", self.port);
                let command = self.command(0);
                run(docker(&[
                    "run",
                    "--detach",
                    "--name",
                    &self.container,
                    "--stop-signal",
                    "SIGKILL",
                    "--publish",
                    &port,
                    IMAGE,
                ])
                .args(command));
            }
            Kind::Bare => {
                run(docker(&["stop", &self.container]));
                run(docker(&["start", &self.container]));
            }
            Kind::Plumb { manifest, data } => {
                let text = format!(
                    "name: {}\ncontainers:\n  web:\n{}    update_config:\n      monitor: 1s\n",
                    self.container,
                    self.service(round)
                );
                std::fs::write(manifest, text).expect("the manifest can be written");
                let mut plumb = Command::new(env!("CARGO_BIN_EXE_plumb"));
                plumb.args(["up", "--recreate", "--file"]).arg(manifest).arg("--data-dir").arg(data);
                run(&mut plumb);
            }
            Kind::Compose { program, file } => {
                let text = format!("services:\n  web:\n{}", self.service(round));
                std::fs::write(file, text).expect("the file can be written");
                let mut compose = Command::new(&program[0]);
                compose.args(&program[1..]).args(["--project-name", &self.container, "--file"]).arg(file);
                run(compose.args(["up", "--detach"]));
            }
        }
    }

    /// Plumbline and Compose take the same words.
    fn service(&self, round: u32) -> String {
        let name = &self.container;
        let (command, port) = (serde_json::json!(self.command(round)), self.port);
        format!(
            "    image: {IMAGE}\n    container_name: {name}\n    network_mode: bridge\n    stop_signal: SIGKILL\n    \
             command: {command}\n    ports:\n      - \"127.0.0.1:{port}:8080\"\n"
        )
    }

    /// The kernel gives process 1 only the signals that it handles, and busybox's httpd handles none: hence SIGKILL above.
    fn command(&self, round: u32) -> [String; 3] {
        let answer = self.answer(round);
        let line = format!("echo {answer} >/data/index.html && exec httpd -f -p 8080 -h /data");
        ["sh".to_owned(), "-c".to_owned(), line]
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        // By what makes no use of any of the ways: also after a failure in the middle.
        let listed =
            docker(&["ps", "--all", "--quiet", "--filter", &format!("name={}", self.container)]).output();
        let listed =
            listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        for id in listed.lines() {
            let _ = docker(&["rm", "--force", "--volumes", id]).output();
        }
    }
}

fn docker(arguments: &[&str]) -> Command {
    let mut docker = Command::new("docker");
    docker.args(arguments);
    docker
}

/// Runs it to its end, and returns what it said.
fn run(mut command: impl std::borrow::BorrowMut<Command>) -> String {
    let command = command.borrow_mut();
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert!(output.status.success(), "{command:?}: {said}\n{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// Nobody else has it now, and hardly anybody takes it before the container does.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("it has an address").port()
}
