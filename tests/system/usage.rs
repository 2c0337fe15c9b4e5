//! The command line itself: what is asked wrongly, help, and the catalogue.

use std::collections::BTreeSet;

use plumbline::proto::DESCRIPTOR_POOL;
use prost_reflect::DynamicMessage;

use crate::harness::{Fleet, plumb};
use crate::manifests::waiting;

const COMMANDS: [&str; 12] = [
    "up",
    "build",
    "plan",
    "push",
    "take",
    "status",
    "policy",
    "node",
    "fields",
    "ca",
    "controller",
    "agent",
];

#[test]
fn what_is_asked_wrongly_ends_with_64_and_names_what_is_wrong() {
    for (arguments, part) in [
        (&["plan", "web", "--recrate"][..], "--recrate"),
        (&["push"], "<MODULE>"),
        (&["build"], "--file"),
        (&["plan"], "registered module"),
        (&["plan", "web", "-f", "web.yaml"], "cannot be used with"),
        (&["plan", "web", "--revision", "first"], "first"),
        (&["policy", "web", "sometimes"], "roll_out"),
        (&["deploy", "web"], "deploy"),
        (&["status", "-o", "xml"], "json"),
        (&["node"], "list"),
        (&[], "Usage"),
    ] {
        let said = plumb(arguments).ended(64);
        assert!(said.stdout.is_empty() && said.stderr.contains(part), "{arguments:?}: {said:?}");
    }
    // Known only after the certificate was looked for.
    let fleet = Fleet::of(0);
    fleet.plumb(["policy", "web"]).ended(64).says(&["say what to set"]);
}

#[test]
fn help_is_an_answer() {
    plumb(&["--help"]).ended(0).says(&COMMANDS).says(&["Exit codes: 0 done, 1 error, 2 changes pending"]);
    plumb(&["--version"]).ended(0).says(&["plumb 0."]);
    for command in COMMANDS {
        let said = plumb(&[command, "--help"]).ended(0).says(&["Usage: plumb"]);
        assert!(said.stderr.is_empty(), "{said:?}");
    }
}

#[test]
fn every_field_is_listed_with_its_place_in_the_engine_and_its_rule() {
    let said = plumb(&["fields", "-o", "json"]).ended(0);
    let fields = said.json().remove(0)["fields"].as_array().expect("there are fields").clone();
    assert!(fields.len() > 120, "{}", fields.len());
    let paths: BTreeSet<&str> = fields.iter().filter_map(|field| field["path"].as_str()).collect();
    assert_eq!(paths.len(), fields.len(), "each once, and each with a path");
    for known in
        ["container.image", "container.mounts[].source", "container.dns", "network.ipam.config[].subnet"]
    {
        assert!(paths.contains(known), "{known}");
    }
    for field in &fields {
        let means = field["rule"]["means"].as_str().unwrap_or_default();
        assert!(means.starts_with("MEANS_"), "{field}");
        let engine_path = field["enginePath"].as_str().unwrap_or_default();
        assert_eq!(engine_path.is_empty(), means == "MEANS_INSTRUCTION", "{field}");
        let consequence = match means {
            "MEANS_INSTRUCTION" => None,
            "MEANS_RECREATE" => Some("CONSEQUENCE_RECREATE"),
            _ => Some("CONSEQUENCE_IN_PLACE"),
        };
        assert_eq!(field["consequence"].as_str(), consequence, "{field}");
    }
    // For people: the same, a line each.
    let table = plumb(&["fields"]).ended(0).stdout;
    for path in paths {
        assert!(table.lines().any(|line| line.split_whitespace().next() == Some(path)), "{path}");
    }
}

#[test]
fn a_nodes_fields_say_what_its_engine_cannot_hold() {
    let fleet = Fleet::start();
    let said = fleet.plumb(["fields", "--node", "host-1", "-o", "json"]).ended(0);
    let answer = said.json().remove(0);
    let version: f64 =
        answer["engineApiVersion"].as_str().and_then(|text| text.parse().ok()).expect("as 1.41");
    let fields = answer["fields"].as_array().expect("there are fields");
    for field in fields {
        let since: f64 = field["rule"]["since"].as_str().and_then(|text| text.parse().ok()).unwrap_or(1.0);
        assert_eq!(field["supported"] == true, since <= version, "{field}");
    }
    fleet.plumb(["fields", "--node", "host-9"]).ended(1).says(&["host-9"]);
}

#[test]
fn json_output_is_the_mapping_of_each_commands_answer() {
    let fleet = Fleet::start();
    let module = fleet.module("mapping");
    fleet.write("module.yaml", waiting(&module, &[]));
    let address = fleet.agent_address();
    for (arguments, message) in [
        (&["build", "-f", "module.yaml"][..], "ModuleServiceBuildResponse"),
        (&["plan", &module, "--node", "host-1"], "ModuleServicePlanResponse"),
        (&["push", &module, "--node", "host-1"], "ModuleServicePushResponse"),
        (&["take", "host-1", &format!("{module}-app"), "--as", &module], "ModuleServiceTakeResponse"),
        (&["policy", &module, "record"], "ModuleServiceSetPolicyResponse"),
        (&["status"], "ModuleServiceListResponse"),
        (&["status", &module], "ModuleServiceGetResponse"),
        (&["node", "list"], "NodeServiceListResponse"),
        (&["node", "add", "host-1", &address], "NodeServiceEnrolResponse"),
        (&["fields", "--node", "host-1"], "GetNodeResponse"),
    ] {
        let said = fleet.plumb([arguments, &["-o", "json"]].concat()).ended(0);
        let descriptor =
            DESCRIPTOR_POOL.get_message_by_name(&format!("plumbline.v1.{message}")).expect("it is one");
        assert!(!said.stdout.is_empty(), "{arguments:?}");
        for line in said.stdout.lines() {
            let read = DynamicMessage::deserialize(
                descriptor.clone(),
                &mut serde_json::Deserializer::from_str(line),
            );
            assert!(read.is_ok(), "{arguments:?}: {read:?}: {line}");
        }
    }
}

#[test]
fn what_is_not_known_is_said_to_be_so() {
    let fleet = Fleet::start();
    for (arguments, parts) in [
        (&["plan", "nothing"][..], &["nothing"][..]),
        (&["push", "nothing", "--node", "host-1"], &["nothing", "plumb build"]),
        (&["status", "nothing"], &["nothing"]),
        (&["take", "host-9", "x"], &["host-9", "plumb node"]),
        (&["take", "host-1", "no-such-container"], &["host-1", "no-such-container"]),
        (&["policy", "Bad Name", "record"], &["is not the name of a module"]),
        (&["policy", "web", "--node", "host-9"], &["host-9"]),
        (&["node", "add", "host-9", "nowhere"], &["`nowhere` is not an address", "host:port"]),
        (&["node", "add", "Bad Name", "h:1"], &["is not the name of a node"]),
    ] {
        let said = fleet.plumb(arguments).ended(1);
        assert!(said.stdout.is_empty(), "{arguments:?}: {said:?}");
        said.says(parts);
    }
    let said = fleet.plumb(["plan", "nothing", "-o", "json"]).ended(1);
    let error: serde_json::Value = serde_json::from_str(&said.stderr).expect("an error is JSON, too");
    assert_eq!(error["error"]["code"], "NotFound", "{error}");
}
