//! Plan and push: what is said before, what is done, and what is left alone.

use plumbline::proto::v1::{
    ModuleServiceListRevisionsRequest, ModuleServicePlanRequest, ModuleServicePlanResponse,
    ModuleServiceRollbackRequest,
};
use prost_reflect::{DynamicMessage, ReflectMessage as _};
use serde_json::json;

use crate::harness::{Fleet, docker, identity};
use crate::manifests::waiting;
use crate::tools::{containers_of, inspect};

const DNS_1: &str = "dns: [192.0.2.1]";
const DNS_2: &str = "dns: [192.0.2.2]";

/// A fleet with a module that runs with `DNS_1`, and its container's name.
fn running(name: &str) -> (Fleet, String, String) {
    let fleet = Fleet::start();
    let module = fleet.module(name);
    fleet.register(&module, &waiting(&module, &[DNS_1]));
    fleet.plumb(["push", &module, "--node", "host-1"]).ended(0).says(&["applied", "created"]);
    let container = format!("{module}-app");
    assert_eq!(inspect(&container)["HostConfig"]["Dns"], json!(["192.0.2.1"]));
    (fleet, module, container)
}

#[test]
fn a_push_that_needs_a_new_container_is_refused_and_touches_nothing() {
    let (fleet, module, container) = running("refused");
    let before = identity(&container);
    fleet.register(&module, &waiting(&module, &[DNS_2]));
    fleet.engine().forget();
    fleet.plumb(["push", &module]).ended(3).says(&[
        &format!("{module} on host-1: REFUSED, nothing was touched"),
        "~ containers.app.dns: [\"192.0.2.1\"] -> [\"192.0.2.2\"]  [needs recreation]",
        "--recreate",
    ]);
    assert_eq!(fleet.engine().mutations(), [""; 0]);
    assert_eq!(identity(&container), before);
    fleet.plumb(["status", &module]).ended(0).says(&["refused"]);
}

#[test]
fn with_permission_it_recreates_once() {
    let (fleet, module, container) = running("allowed");
    let first = identity(&container);
    fleet.register(&module, &waiting(&module, &[DNS_2]));
    let said = fleet.plumb(["push", &module, "--recreate"]).ended(0).says(&["on host-1: recreated"]);
    assert_eq!(said.stdout.matches("needs recreation").count(), 1, "one change: {}", said.stdout);
    let second = identity(&container);
    assert_ne!(second[0], first[0]);
    assert_eq!(inspect(&container)["HostConfig"]["Dns"], json!(["192.0.2.2"]));
    assert_eq!(containers_of(&module), std::slice::from_ref(&container), "the old one is gone");

    fleet.engine().forget();
    fleet.plumb(["push", &module, "--recreate"]).ended(0).says(&["unchanged, everything is as declared"]);
    assert_eq!(fleet.engine().mutations(), [""; 0]);
    assert_eq!(identity(&container), second);
}

#[test]
fn a_plan_mutates_nothing_whatever_it_finds() {
    let (fleet, module, container) = running("plan");
    let before = identity(&container);
    let new = fleet.module("planned-new");
    fleet.register(&new, &waiting(&new, &[]));
    fleet.write("changed.yaml", waiting(&module, &[DNS_2, "mem_limit: 64m"]));
    fleet.engine().forget();
    for (arguments, code, parts) in [
        (&["plan", &module][..], 0, &["unchanged"][..]),
        (&["plan", &module, "--exit-code"], 0, &["unchanged"]),
        (&["plan", &new, "--node", "host-1"], 0, &["would be applied", "would be created"]),
        (&["plan", &new, "--node", "host-1", "--exit-code"], 2, &["would be applied"]),
        (&["plan", "-f", "changed.yaml"], 0, &["would be REFUSED", "~ containers.app.dns"]),
        (&["plan", "-f", "changed.yaml", "--exit-code"], 2, &["+ containers.app.mem_limit", "[in place]"]),
        (&["plan", "-f", "changed.yaml", "--recreate", "--exit-code"], 2, &["would be recreated"]),
        (&["plan", &new], 1, &["has no nodes", "--node"]),
    ] {
        fleet.plumb(arguments).ended(code).says(parts);
    }
    assert_eq!(fleet.engine().mutations(), [""; 0]);
    assert_eq!(identity(&container), before);
    assert_eq!(containers_of(&new), Vec::<String>::new());
    let status = fleet.plumb(["status", &module, "-o", "json"]).ended(0).json().remove(0);
    assert_eq!(status["module"]["latestRevision"], "1", "a planned file is not registered");
}

#[tokio::test]
async fn json_is_the_mapping_of_the_answer() {
    let (fleet, module, _) = running("json");
    fleet.register(&module, &waiting(&module, &[DNS_2, "environment: {NEW: value}"]));
    let said = fleet.plumb(["plan", &module, "-o", "json"]).ended(0);
    assert_eq!(said.stdout.lines().count(), 1);
    let descriptor = ModuleServicePlanResponse::default().descriptor();
    let mut json = serde_json::Deserializer::from_str(&said.stdout);
    let printed =
        DynamicMessage::deserialize(descriptor, &mut json).expect("it is the mapping of the answer");
    let printed: ModuleServicePlanResponse = printed.transcode_to().expect("it is of this type");
    let request = ModuleServicePlanRequest { module, ..ModuleServicePlanRequest::default() };
    let answered = fleet.modules().await.plan(request).await.expect("it is known").into_inner();
    assert_eq!(printed, answered);
}

#[test]
fn a_host_that_is_down_makes_a_push_partial() {
    let mut fleet = Fleet::of(2);
    let module = fleet.module("partial");
    fleet.register(&module, &waiting(&module, &[]));
    let address = fleet.agents[1].server.address();
    fleet.agents[1].server.stop();
    let push = ["push", &module, "--node", "host-1", "--node", "host-2"];
    let down = format!("{module} on host-2: FAILED: the agent of node host-2 at {address}");
    fleet.plumb(push).ended(4).says(&[&format!("{module} on host-1: applied"), &down, "Check that"]);
    assert_eq!(inspect(&format!("{module}-app"))["State"]["Running"], true);

    fleet.plumb(["plan", &module]).ended(4).says(&["on host-1: unchanged", "on host-2: FAILED"]);
    fleet.plumb(["push", &module, "--node", "host-2"]).ended(1).says(&[&down]);
    fleet.plumb(["status", &module]).ended(0).says(&["host-1", "applied", "host-2", "failed"]);
}

#[tokio::test]
async fn an_older_revision_is_refused_and_a_rollback_is_a_new_one() {
    let (fleet, module, container) = running("revision");
    fleet.register(&module, &waiting(&module, &[DNS_2]));
    fleet.plumb(["push", &module, "--recreate"]).ended(0);
    let before = identity(&container);
    fleet.engine().forget();
    fleet.plumb(["push", &module, "--revision", "1", "--recreate"]).ended(1).says(&[
        "revision 1 is older than revision 2, which was applied already; nothing was touched",
        "edit the manifest back",
    ]);
    fleet.plumb(["push", &module, "--revision", "9"]).ended(1).says(&["revision 9", "2"]);
    assert_eq!(fleet.engine().mutations(), [""; 0]);
    assert_eq!(identity(&container), before);

    let mut modules = fleet.modules().await;
    let request = ModuleServiceRollbackRequest { module: module.clone(), revision: 1 };
    let made =
        modules.rollback(request).await.expect("it is known").into_inner().revision.expect("one is made");
    assert_eq!((made.number, made.registered_by.as_str()), (3, "operator olga"));
    let request = ModuleServiceListRevisionsRequest { module: module.clone() };
    let listed = modules.list_revisions(request).await.expect("it is known").into_inner().revisions;
    assert_eq!(listed.iter().map(|revision| revision.number).collect::<Vec<_>>(), [3, 2, 1]);
    assert_eq!(identity(&container), before, "a rollback is not sent");

    fleet.plumb(["push", &module, "--recreate"]).ended(0).says(&["recreated"]);
    assert_eq!(inspect(&container)["HostConfig"]["Dns"], json!(["192.0.2.1"]));
}

#[test]
fn a_change_by_hand_is_seen_and_said_to_be_one() {
    let (fleet, module, container) = running("by-hand");
    let before = identity(&container);
    docker(&["update", "--memory", "128m", "--memory-swap", "256m", &container]);
    let by_hand = "containers.app.mem_limit: 134217728";
    fleet.plumb(["plan", &module, "--exit-code"]).ended(2).says(&[by_hand, "changed by hand"]);
    assert_eq!(identity(&container), before);
}

#[test]
fn two_operators_who_push_at_once_recreate_once() {
    let (fleet, module, container) = running("at-once");
    fleet.register(&module, &waiting(&module, &[DNS_2]));
    fleet.engine().forget();
    let push = ["push", &module, "--recreate"];
    let said = std::thread::scope(|scope| {
        let both = [scope.spawn(|| fleet.plumb(push)), scope.spawn(|| fleet.plumb(push))];
        both.map(|one| one.join().expect("it ends").ended(0).stdout)
    });
    let count = |text: &str| said.iter().filter(|said| said.contains(text)).count();
    assert_eq!((count(": recreated"), count(": unchanged")), (1, 1), "{said:?}");
    let created = fleet.engine().mutations();
    assert_eq!(created.iter().filter(|call| *call == "POST /containers/create").count(), 1, "{created:?}");
    assert_eq!(inspect(&container)["HostConfig"]["Dns"], json!(["192.0.2.2"]));
}

#[test]
fn what_is_removed_by_hand_is_made_again_and_what_broke_down_is_started() {
    let (fleet, module, container) = running("gone");
    let id = identity(&container)[0].clone();
    docker(&["kill", &container]);
    fleet.plumb(["plan", &module, "--exit-code"]).ended(2).says(&["would be started"]);
    fleet.plumb(["push", &module]).ended(0).says(&["started"]);
    assert_eq!((&inspect(&container)["State"]["Running"], &identity(&container)[0]), (&json!(true), &id));

    docker(&["rm", "--force", &container]);
    fleet.plumb(["plan", &module, "--exit-code"]).ended(2).says(&["would be created"]);
    fleet.plumb(["push", &module]).ended(0).says(&["created"]);
    assert_ne!(identity(&container)[0], id);
}

#[test]
fn a_secret_is_in_no_output_and_no_log() {
    let fleet = Fleet::start();
    let module = fleet.module("secret");
    let declare = |password: &str| waiting(&module, &[&format!("environment: {{PASSWORD: {password}}}")]);
    let mut said = String::new();
    for (password, code) in [("hunter2", 0), ("correct-horse", 3)] {
        fleet.register(&module, &declare(password));
        let node = ["--node", "host-1"];
        for command in ["plan", "push"] {
            for form in ["text", "json"] {
                said += &fleet.plumb([command, &module, node[0], node[1], "-o", form]).all();
            }
        }
        said += &fleet.plumb(["push", &module, "-o", "json"]).ended(code).all();
    }
    assert!(said.contains("PASSWORD") && said.contains("(secret "), "{said}");
    let logs = fleet.controller.log() + &fleet.agents[0].server.log();
    for password in ["hunter2", "correct-horse"] {
        assert!(!said.contains(password) && !logs.contains(password), "{said}{logs}");
    }
    assert_ne!(inspect(&format!("{module}-app"))["Config"]["Env"].to_string().find("hunter2"), None);
}
