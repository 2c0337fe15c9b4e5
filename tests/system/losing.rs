//! P10: whoever is lost — the caller, the connection, the controller — an apply on the host goes on to its end.

use std::time::Duration;

use serde_json::json;

use crate::harness::{Agent, Fleet, Running, identity, within};
use crate::manifests::waiting;
use crate::tools::{containers_of, inspect};

const END: Duration = Duration::from_secs(20);

/// A module that runs with one dns server while its recreation with another is held back, half-way.
struct HalfWay {
    fleet: Fleet,
    module: String,
    push: Running,
    before: serde_json::Value,
}

impl HalfWay {
    /// Holds back this call of the recreation.
    fn at(name: &str, call: &str) -> Self {
        let fleet = Fleet::start();
        let module = fleet.module(name);
        fleet.register(&module, &waiting(&module, &["dns: [192.0.2.1]"]));
        fleet.plumb(["push", &module, "--node", "host-1"]).ended(0);
        let before = identity(&format!("{module}-app"));
        fleet.register(&module, &waiting(&module, &["dns: [192.0.2.2]"]));
        fleet.engine().hold(call);
        let push = fleet.spawn(["push", &module, "--recreate"]);
        fleet.engine().wait_until_held();
        Self { fleet, module, push, before }
    }

    fn assert_it_ends_well(&self) {
        self.fleet.engine().release();
        let container = format!("{}-app", self.module);
        within(END, "the recreation ends", || {
            self.fleet.agents[0].server.log().contains("phase=Verified")
                && containers_of(&self.module) == [container.clone()]
                && inspect(&container)["HostConfig"]["Dns"] == json!(["192.0.2.2"])
        });
        assert_ne!(identity(&container)[0], self.before[0]);
        assert_eq!(inspect(&container)["State"]["Running"], true);
        let plan = ["plan", &self.module, "--exit-code"];
        within(END, "the plan is empty", || self.fleet.plumb(plan).code == 0);
    }
}

#[test]
fn a_push_whose_caller_is_killed_is_carried_to_its_end_and_remembered() {
    let mut half_way = HalfWay::at("caller", "POST /containers/create");
    half_way.push.kill();
    half_way.assert_it_ends_well();
    half_way.fleet.plumb(["status", &half_way.module]).ended(0).says(&["recreated"]);
}

#[test]
fn a_caller_that_is_killed_at_once_leaves_all_or_nothing() {
    let fleet = Fleet::start();
    for (number, milliseconds) in [0, 5, 10, 20, 40].into_iter().enumerate() {
        let module = fleet.module(&format!("at-once-{number}"));
        fleet.register(&module, &waiting(&module, &[]));
        let mut push = fleet.spawn(["push", &module, "--node", "host-1"]);
        std::thread::sleep(Duration::from_millis(milliseconds));
        push.kill();
        let plan = ["plan", &module, "--node", "host-1", "--exit-code"];
        within(END, "it is done, or was never begun", || {
            let (plan, containers) = (fleet.plumb(plan).code, containers_of(&module).len());
            (plan, containers) == (0, 1) || (plan, containers) == (2, 0)
        });
    }
}

#[test]
fn a_controller_that_is_killed_in_the_middle_changes_nothing_on_the_host() {
    let mut half_way = HalfWay::at("controller", "/start");
    half_way.fleet.controller.kill();
    half_way.push.wait().ended(1).says(&[
        "the connection to the controller broke",
        "goes on there",
        "plumb status",
    ]);
    half_way.fleet.controller.start_again();
    half_way.assert_it_ends_well();
    // Sending it again finds everything done.
    let container = format!("{}-app", half_way.module);
    let done = identity(&container);
    half_way.fleet.plumb(["push", &half_way.module]).ended(0).says(&["unchanged"]);
    assert_eq!(identity(&container), done);
}

#[test]
fn a_controller_that_is_asked_to_end_in_the_middle_does_not_wait_for_ever() {
    let mut half_way = HalfWay::at("ending", "/stop");
    half_way.fleet.controller.stop();
    half_way.fleet.controller.start_again();
    half_way.assert_it_ends_well();
}

#[test]
fn an_agent_that_is_asked_to_end_finishes_what_it_applies() {
    let mut half_way = HalfWay::at("agent", "/rename");
    let Agent { server, engine, .. } = &mut half_way.fleet.agents[0];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(500));
            engine.release();
        });
        server.stop();
    });
    half_way.fleet.agents[0].server.start_again();
    let container = format!("{}-app", half_way.module);
    assert_eq!(containers_of(&half_way.module), std::slice::from_ref(&container));
    assert_eq!(inspect(&container)["HostConfig"]["Dns"], json!(["192.0.2.2"]));
    half_way.fleet.plumb(["plan", &half_way.module, "--exit-code"]).ended(0).says(&["unchanged"]);
}

#[test]
fn an_agent_that_is_killed_while_it_creates_is_asked_again_when_it_is_back() {
    // The engine has carried out the call of which the agent never heard; and that call was lost.
    for (name, call) in [("created", "/start"), ("not-created", "POST /containers/create")] {
        let mut fleet = Fleet::start();
        let module = fleet.module(name);
        fleet.register(&module, &waiting(&module, &[]));
        fleet.engine().hold(call);
        let mut push = fleet.spawn(["push", &module, "--node", "host-1"]);
        fleet.engine().wait_until_held();
        let agent = &mut fleet.agents[0];
        agent.server.kill();
        agent.engine.stop();
        agent.engine.start_again();
        agent.server.start_again();
        push.wait().ended(0).says(&["applied"]);
        assert_eq!(inspect(&format!("{module}-app"))["State"]["Running"], true);
        assert_eq!(containers_of(&module).len(), 1);
        fleet.plumb(["plan", &module, "--exit-code"]).ended(0).says(&["unchanged"]);
    }
}
