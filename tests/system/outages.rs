//! What is stopped is named, with what to check; and when it is back, the same command works.

use std::time::Duration;

use crate::harness::{Fleet, docker, identity};
use crate::manifests::waiting;
use crate::tools::containers_of;

/// How long a command may take to say that something cannot be reached.
const PATIENCE: Duration = Duration::from_secs(15);

/// A fleet where every command has something to do.
struct Usual {
    fleet: Fleet,
    module: String,
    address: String,
    commands: Vec<(&'static str, Vec<String>)>,
}

impl Usual {
    fn new(name: &str) -> Self {
        let fleet = Fleet::start();
        let (module, other) = (fleet.module(name), fleet.module("other"));
        fleet.plumb(["policy", &module, "roll_out", "--node", "host-1"]).ended(0);
        fleet.register(&module, &waiting(&module, &[]));
        docker(&["run", "--detach", "--name", &other, "plumbline/sample:1", "hold"]);
        let address = fleet.agents[0].server.address();
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let commands = vec![
            ("build", words(&format!("build -f {module}.yaml"))),
            ("plan", words(&format!("plan {module}"))),
            ("push", words(&format!("push {module}"))),
            ("take", words(&format!("take host-1 {other}"))),
            ("fields", words("fields --node host-1")),
            ("node list", words("node list")),
            ("node add", words(&format!("node add host-1 {address}"))),
            ("status", words("status")),
        ];
        Self { fleet, module, address, commands }
    }

    /// Every command ends with 1 and says all of this; those that only tell what is known end with 0.
    fn assert_each_says(&self, answer_all_the_same: &[&str], parts: &[&str]) {
        for (name, command) in &self.commands {
            let said = self.fleet.plumb(command);
            assert!(said.took < PATIENCE, "{name} took {:?}", said.took);
            let code = i32::from(!answer_all_the_same.contains(name));
            assert_eq!(said.code, code, "{name}: {}", said.all());
            if *name != "status" || code == 1 {
                let all = said.all();
                assert!(parts.iter().all(|part| all.contains(part)), "{name} without {parts:?}: {all}");
            }
        }
    }

    fn assert_each_works(&self) {
        for (name, command) in &self.commands {
            let said = self.fleet.plumb(command);
            assert_eq!(said.code, 0, "{name}: {}", said.all());
            assert!(!said.all().contains("unreachable") && !said.all().contains("down"), "{}", said.all());
        }
    }
}

#[test]
fn a_controller_that_is_stopped_is_named_by_every_command() {
    let mut usual = Usual::new("no-controller");
    usual.fleet.controller.stop();
    let named = format!("the controller at {} cannot be reached", usual.fleet.controller_address());
    usual.assert_each_says(&[], &[&named, "check that `plumb controller` runs there", "--controller"]);
    usual.fleet.controller.start_again();
    usual.assert_each_works();
}

#[test]
fn an_agent_that_is_stopped_is_named_by_every_command() {
    let mut usual = Usual::new("no-agent");
    let before = identity(&format!("{}-app", usual.module));
    usual.fleet.agents[0].server.stop();
    let named = format!("the agent of node host-1 at {}", usual.address);
    let told = ["node list", "node add", "status"];
    usual.assert_each_says(&told, &[&named, "Check that the program is running on that host"]);
    assert_eq!(identity(&format!("{}-app", usual.module)), before, "no workload stops with its agent");
    usual.fleet.agents[0].server.start_again();
    usual.assert_each_works();
}

#[test]
fn an_engine_that_is_stopped_is_named_by_every_command() {
    let usual = Usual::new("no-engine");
    usual.fleet.engine().stop();
    let socket = usual.fleet.path("host-1.sock");
    let named = format!("the Docker engine cannot be reached on {}", socket.display());
    let told = ["node list", "node add", "status"];
    usual.assert_each_says(&told, &["host-1", &named, "check that dockerd runs"]);
    usual.fleet.plumb(["node", "list"]).ended(0).says(&["engine down"]);
    usual.fleet.engine().start_again();
    usual.assert_each_works();
}

#[test]
fn plumb_up_names_the_engine_that_is_stopped_and_works_when_it_is_back() {
    let fleet = Fleet::start();
    let module = fleet.module("up-no-engine");
    fleet.write("module.yaml", waiting(&module, &[]));
    let socket = fleet.path("host-1.sock").display().to_string();
    let up = ["up", "-f", "module.yaml", "--data-dir", "up", "--engine", &socket];
    fleet.engine().stop();
    let said = fleet.plumb(up).ended(1);
    assert!(said.took < PATIENCE, "{:?}", said.took);
    said.says(&[&format!("the Docker engine cannot be reached on {socket}"), "check that dockerd runs"]);
    fleet.engine().start_again();
    fleet.plumb(up).ended(0).says(&["applied"]);
    assert_eq!(containers_of(&module).len(), 1);
}

#[test]
fn an_agent_that_was_killed_is_dialled_anew() {
    let mut usual = Usual::new("killed");
    for _ in 0..3 {
        usual.fleet.agents[0].server.kill();
        usual.fleet.agents[0].server.start_again();
        // The first call after it, with no other in between.
        usual.fleet.plumb(["plan", &usual.module]).ended(0).says(&["unchanged"]);
    }
    usual.fleet.agents[0].server.kill();
    usual.fleet.plumb(["push", &usual.module]).ended(1).says(&["the agent of node host-1"]);
    usual.fleet.agents[0].server.start_again();
    usual.fleet.plumb(["push", &usual.module]).ended(0).says(&["unchanged"]);
}

#[test]
fn an_agent_that_hangs_is_named_in_time() {
    let usual = Usual::new("hung-agent");
    let plan = ["plan", &usual.module];
    usual.fleet.agents[0].server.suspend();
    // Over the connection that is there, and over a new one.
    for _ in 0..2 {
        let said = usual.fleet.plumb(plan).ended(1);
        assert!(said.took < PATIENCE, "{:?}", said.took);
        said.says(&["agent of node host-1 at", &usual.address, "overloaded"]);
    }
    usual.fleet.agents[0].server.resume();
    usual.fleet.plumb(plan).ended(0).says(&["unchanged"]);
}

#[test]
fn an_engine_that_hangs_is_named_in_time() {
    let usual = Usual::new("hung-engine");
    usual.fleet.engine().hold("GET /version");
    let said = usual.fleet.plumb(["node", "list"]).ended(0);
    assert!(said.took < PATIENCE, "{:?}", said.took);
    said.says(&["host-1", "engine down", "the Docker engine did not answer", "check whether dockerd hangs"]);
    usual.fleet.engine().release();
    usual.fleet.plumb(["node", "list"]).ended(0).says(&["ready"]);
}

#[test]
fn one_host_that_does_not_answer_keeps_no_other_waiting() {
    let fleet = Fleet::of(2);
    let module = fleet.module("beside");
    fleet.register(&module, &waiting(&module, &[]));
    // It takes connections, and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let address = silent.local_addr().expect("it has one").to_string();
    let mut add = fleet.spawn(["node", "add", "host-3", &address, "-o", "json"]);
    let said = fleet.plumb(["plan", &module, "--node", "host-2"]).ended(0);
    assert!(said.took < Duration::from_secs(2), "{:?}", said.took);
    let added = add.wait().ended(0).json().remove(0);
    assert_eq!(added["node"]["reachability"], "REACHABILITY_AGENT_UNREACHABLE", "{added}");
    assert!(added["node"]["detail"].as_str().is_some_and(|detail| detail.contains(&address)), "{added}");

    let both = fleet.plumb(["plan", &module, "--node", "host-1", "--node", "host-3"]).ended(4);
    assert!(both.took < PATIENCE, "{:?}", both.took);
    both.says(&["on host-1: would be applied", "did not finish the handshake"]);
}
