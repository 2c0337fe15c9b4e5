//! The incident for which Plumbline exists, and what a build promises since: it says who will act on its result before
//! anybody does.

use std::io::{BufRead as _, BufReader};

use serde_json::json;

use crate::harness::{Fleet, identity};
use crate::manifests::waiting;
use crate::tools::{containers_of, inspect};

const RECORDED: [&str; 5] = ["wiki", "mail", "chat", "calendar", "board"];

/// Six modules, each in a file of its own in `modules/`; the forge has the policy `roll_out`.
struct Six {
    fleet: Fleet,
    forge: String,
    recorded: Vec<String>,
}

impl Six {
    fn new() -> Self {
        let fleet = Fleet::of(2);
        let forge = fleet.module("forge");
        let recorded: Vec<String> = RECORDED.iter().map(|name| fleet.module(name)).collect();
        std::fs::create_dir(fleet.path("modules")).expect("the folder can be written");
        for module in recorded.iter().chain([&forge]) {
            fleet.write(&format!("modules/{module}.yaml"), waiting(module, &[]));
            // That they have hosts does not make a build send them.
            fleet.plumb(["policy", module, "--node", "host-1"]).ended(0);
        }
        fleet
            .plumb(["policy", &forge, "roll_out", "--node", "host-2"])
            .ended(0)
            .says(&["roll_out", "host-2"]);
        Self { fleet, forge, recorded }
    }

    fn assert_only_registered(&self, modules: &[String]) {
        let status = self.fleet.plumb(["status", "-o", "json"]).ended(0).json().remove(0);
        for module in modules {
            assert_eq!(containers_of(module), Vec::<String>::new(), "{module} was not to be sent");
            let shown = status["modules"].as_array().expect("there are modules").iter();
            let shown = shown.clone().find(|shown| shown["name"] == **module).expect("it is registered");
            assert_eq!((&shown["latestRevision"], shown.get("applies")), (&json!("1"), None), "{shown}");
        }
    }
}

#[test]
fn six_are_built_and_the_one_that_is_deployed_is_named_first() {
    let six = Six::new();
    let said = six.fleet.plumb(["build", "-f", "modules"]).ended(0);
    let deployed = format!("{}: policy roll_out: will be DEPLOYED AT ONCE to host-2", six.forge);
    assert_eq!(said.stdout.matches("DEPLOYED AT ONCE").count(), 1, "{}", said.stdout);
    let at = |text: &str| said.stdout.find(text).unwrap_or_else(|| panic!("no {text:?}:\n{}", said.stdout));
    for module in &six.recorded {
        assert!(at(&format!("{module}: policy record: registered only")) < at(" revision 1 registered"));
    }
    assert!(at(&deployed) < at(" revision 1 registered"));

    assert_eq!(inspect(&format!("{}-app", six.forge))["State"]["Running"], true);
    assert!(!six.fleet.agents[1].engine.mutations().is_empty());
    assert_eq!(six.fleet.agents[0].engine.mutations(), [""; 0], "nothing was sent to the other host");
    six.assert_only_registered(&six.recorded);
}

#[test]
fn the_first_message_is_the_announcement_and_nothing_was_sent_before_it() {
    let six = Six::new();
    // The agent's first mutating call waits, so whatever has come by then came before it.
    six.fleet.agents[1].engine.hold("POST /containers/create");
    let mut build = six.fleet.spawn(["build", "-o", "json", "-f", "modules"]);
    let mut lines = BufReader::new(build.stdout()).lines();
    let first = lines.next().expect("there is a first").expect("it can be read");
    let first: serde_json::Value = serde_json::from_str(&first).expect("it is JSON");
    let intents = first["announcement"]["intents"].as_array().expect("it comes first").clone();
    assert_eq!(intents.len(), 6);
    for intent in &intents {
        let expected = if intent["module"] == *six.forge {
            json!({"module": six.forge, "upgradePolicy": "UPGRADE_POLICY_ROLL_OUT", "willBeSent": true, "receivers": ["host-2"]})
        } else {
            json!({"module": intent["module"], "upgradePolicy": "UPGRADE_POLICY_RECORD"})
        };
        assert_eq!(*intent, expected);
    }
    six.fleet.agents[1].engine.wait_until_held();
    assert_eq!(containers_of(&six.forge), Vec::<String>::new());
    six.fleet.agents[1].engine.release();
    assert!(lines.all(|line| line.is_ok()));
    build.wait().ended(0);
    assert_eq!(containers_of(&six.forge), [format!("{}-app", six.forge)]);
}

#[test]
fn register_only_sends_nothing_whatever_the_policies_say() {
    let six = Six::new();
    six.fleet.agents.iter().for_each(|agent| agent.engine.forget());
    let said = six.fleet.plumb(["build", "--register-only", "-f", "modules"]).ended(0);
    assert!(!said.stdout.contains("DEPLOYED"), "{}", said.stdout);
    for agent in &six.fleet.agents {
        assert_eq!(agent.engine.calls(), 0, "{} was asked for something", agent.name);
        assert!(!agent.server.log().contains("Accepted"), "{} was sent an apply", agent.name);
    }
    six.assert_only_registered(&six.recorded);
    six.assert_only_registered(std::slice::from_ref(&six.forge));
}

#[test]
fn one_invalid_manifest_among_six_registers_and_sends_nothing() {
    let six = Six::new();
    let broken = &six.recorded[2];
    six.fleet.write(&format!("modules/{broken}.yaml"), waiting(broken, &[]).replace("command", "comand"));
    let file = format!("modules/{broken}.yaml:5:5: containers.app.comand: unknown key");
    six.fleet.plumb(["build", "-f", "modules"]).ended(1).says(&[&file, "did you mean `command`?"]);
    let status = six.fleet.plumb(["status", "-o", "json"]).ended(0).json().remove(0);
    for module in status["modules"].as_array().expect("their policies are known") {
        assert_eq!(module.get("latestRevision"), None, "{module}");
    }
    assert_eq!(containers_of(&six.forge), Vec::<String>::new());
}

/// The second half of the incident: data moved by a rename, so the old container still holds the right inode, and an
/// apply that did not compare paths found nothing to do.
#[test]
fn a_moved_directory_is_a_change_also_where_the_rename_keeps_its_inode() {
    let fleet = Fleet::start();
    let module = fleet.module("moved");
    let (old, new) = (fleet.path("old"), fleet.path("new"));
    std::fs::create_dir(&old).expect("the folder can be written");
    let mount = |source: &std::path::Path| {
        format!("mounts: [{{type: bind, source: {}, target: /data, read_only: true}}]", source.display())
    };
    fleet.register(&module, &waiting(&module, &[&mount(&old)]));
    fleet.plumb(["push", &module, "--node", "host-1"]).ended(0);
    let before = identity(&format!("{module}-app"));

    std::fs::rename(&old, &new).expect("it is one file system");
    fleet.register(&module, &waiting(&module, &[&mount(&new)]));
    fleet.engine().forget();
    let said = fleet.plumb(["push", &module]).ended(3);
    let change =
        format!("~ containers.app.mounts[/data].source: \"{}\" -> \"{}\"", old.display(), new.display());
    assert_eq!(said.stdout.matches("[needs recreation]").count(), 1, "{}", said.stdout);
    said.says(&["REFUSED, nothing was touched", &change]);
    assert_eq!(fleet.engine().mutations(), [""; 0]);
    assert_eq!(identity(&format!("{module}-app")), before);
    assert!(!old.exists(), "an apply does not make host paths");

    let said = fleet.plumb(["push", &module, "--recreate"]).ended(0);
    said.says(&["on host-1: recreated", "data /data moved: what the container has from"]);
    assert!(!old.exists(), "an apply does not make host paths");
}

/// The first half: the container was recreated on a directory that did not hold the data yet.
#[test]
fn a_directory_that_does_not_hold_the_data_yet_is_refused_until_somebody_says_that_it_is_meant() {
    let fleet = Fleet::start();
    let module = fleet.module("blank");
    let container = format!("{module}-app");
    let (old, new) = (fleet.path("old"), fleet.path("new"));
    std::fs::create_dir(&old).expect("the folder can be written");
    std::fs::write(old.join("keys"), "kept").expect("the folder can be written");
    let declare = |source: &std::path::Path| {
        let mount = format!("mounts: ['{}:/data']", source.display());
        fleet.register(&module, &waiting(&module, &[&mount]));
    };
    declare(&old);
    fleet.plumb(["push", &module, "--node", "host-1"]).ended(0).says(&["data /data first_use: "]);
    let before = identity(&container);
    fleet.engine().forget();
    declare(&new);
    let refused = |verdict: &str| {
        let remedy = format!("--accept-data app:/data={verdict}");
        let line = format!("! /data {verdict}: {}", new.display());
        let plan = fleet.plumb(["plan", &module, "--recreate"]).ended(0);
        plan.says(&["would be REFUSED", "refused (data guard)", &line, &remedy]);
        fleet.plumb(["plan", &module]).ended(0).says(&["refused (needs recreation)", &line]);
        fleet.plumb(["push", &module, "--recreate"]).ended(3).says(&["(data guard)", &line, &remedy]);
        assert_eq!(fleet.engine().mutations(), [""; 0]);
        assert_eq!(identity(&container), before);
    };
    refused("missing");
    assert!(!new.exists(), "an apply does not make host paths");
    std::fs::create_dir(&new).expect("the folder can be written");
    refused("empty");
    std::fs::write(new.join("keys"), "fresh").expect("the folder can be written");
    refused("different");

    let plan = fleet.plumb(["plan", &module, "--recreate", "-o", "json"]).ended(0).json().remove(0);
    let object = &plan["nodes"][0]["plan"]["result"]["objects"][0];
    let change = object["diff"]["changes"][0].clone();
    assert_eq!(
        (&object["reason"], &change["dataGuard"]),
        (&json!("REFUSAL_REASON_DATA_GUARD"), &json!("DATA_GUARD_VERDICT_DIFFERENT"))
    );
    let mount = &object["mounts"][0];
    let expected = json!([
        "app",
        "/data",
        "DATA_GUARD_VERDICT_DIFFERENT",
        old.display().to_string(),
        new.display().to_string(),
        true
    ]);
    let members = ["container", "target", "verdict", "sourceBefore", "sourceAfter", "refused"];
    assert_eq!(json!(members.map(|member| &mount[member])), expected);

    let push = |accept: &str| fleet.plumb(["push", &module, "--recreate", "--accept-data", accept]);
    push("/data=empty").ended(3).says(&["accepted as empty, and that is not what was found"]);
    push("/data").ended(64).says(&["as /data=empty"]);
    push("other:/data=different").ended(1).says(&["no such container (it has app)"]);
    assert_eq!(identity(&container), before);
    fleet
        .plumb(["plan", &module, "--recreate", "--accept-data", "app:/data=different"])
        .ended(0)
        .says(&["would be recreated", "accepted: /data different"]);
    push("app:/data=different").ended(0).says(&["on host-1: recreated", "accepted: /data different"]);
    assert_ne!(identity(&container), before);
}
