//! Another service's integration: a Python client that grpcio-tools generates from `proto/` (python/client.py) plans and
//! pushes over mutual TLS, and reads diff and outcome as typed data. What it read comes back as JSON.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::Fleet;
use crate::tools::{Said, copy_tree, inspect, run, tool, workspace};

#[test]
fn a_generated_client_plans_and_pushes_and_reads_typed_data() {
    let fleet = Fleet::start();
    let module = fleet.module("python");
    let client = GeneratedClient::from(&workspace().join("proto"));
    let read = client.read("deploy", &fleet, &module);

    // The module is new: every declared leaf is a change from nothing.
    for plan in ["agent_plan", "plan"] {
        assert_eq!(read[plan]["outcome"], "OUTCOME_APPLIED");
        assert_eq!(read[plan]["action"], "ACTION_CREATED");
        assert_eq!(changed(&read[plan], "before", "image"), json!(["absent", null]));
        assert_eq!(changed(&read[plan], "after", "image"), json!(["string_value", "plumbline/sample:1"]));
    }
    assert_eq!(read["plan"], read["agent_plan"], "the controller relays what the agent says, unchanged");
    assert_eq!(
        read["build"],
        json!({"policy": "UPGRADE_POLICY_RECORD", "will_be_sent": false, "receivers": [], "revision": 1})
    );
    assert_eq!(read["push"]["outcome"], "OUTCOME_APPLIED");
    assert_eq!(read["push"]["action"], "ACTION_CREATED");
    assert_eq!(
        read["push"]["phases"],
        json!([
            "PHASE_ACCEPTED",
            "PHASE_PLANNED",
            "PHASE_CREATED",
            "PHASE_STARTED",
            "PHASE_HEALTHY",
            "PHASE_VERIFIED"
        ])
    );

    // One leaf of every type, before and after in that type.
    assert_eq!(read["build_changed"]["revision"], 2);
    let mebibyte = 1 << 20;
    let expected = json!({
        "dns": [["list_value", ["192.0.2.1"]], ["list_value", ["192.0.2.2"]], "CONSEQUENCE_RECREATE"],
        "hostname": [["absent", null], ["string_value", "sky"], "CONSEQUENCE_RECREATE"],
        "read_only": [["absent", null], ["bool_value", true], "CONSEQUENCE_RECREATE"],
        "stop_grace_period": [["absent", null], ["duration_value", 3.0], "CONSEQUENCE_RECREATE"],
        "cpus": [["absent", null], ["double_value", 0.5], "CONSEQUENCE_IN_PLACE"],
        "mem_limit": [["int64_value", 64 * mebibyte], ["int64_value", 96 * mebibyte], "CONSEQUENCE_IN_PLACE"],
        // A secret is told apart from another one, and not shown.
        "environment[COLOUR]": [
            changed(&read["push"], "after", "environment[COLOUR]"),
            changed(&read["plan_changed"], "after", "environment[COLOUR]"),
            "CONSEQUENCE_RECREATE",
        ],
    });
    for answer in ["plan_changed", "push_refused", "push_allowed"] {
        assert_eq!(changes(&read[answer]), expected, "{answer}");
    }
    let secret = &read["plan_changed"]["changes"]["containers.web.environment[COLOUR]"];
    assert_eq!(secret["before"][0], "secret_value");
    assert_ne!(secret["before"], secret["after"]);
    assert_eq!(
        secret["path"],
        json!([["field", "containers"], ["key", "web"], ["field", "environment"], ["key", "COLOUR"]])
    );

    // Refused, allowed, and nothing left to do.
    for answer in ["plan_changed", "push_refused"] {
        assert_eq!(read[answer]["outcome"], "OUTCOME_REFUSED_NEEDS_RECREATION", "{answer}");
        assert_eq!(read[answer]["reason"], "REFUSAL_REASON_NEEDS_RECREATION", "{answer}");
        assert_eq!(read[answer]["engine_id"], read["push"]["engine_id"], "{answer}");
    }
    assert_eq!(read["push_refused"]["phases"], json!(["PHASE_ACCEPTED", "PHASE_PLANNED"]));
    assert_eq!(read["push_allowed"]["outcome"], "OUTCOME_RECREATED");
    assert_ne!(read["push_allowed"]["engine_id"], read["push"]["engine_id"]);
    assert_eq!(read["push_allowed"]["residue"], 0);
    assert_eq!(read["push_again"]["outcome"], "OUTCOME_APPLIED");
    assert_eq!(read["push_again"]["action"], "ACTION_UNCHANGED");
    assert_eq!(read["push_again"]["changes"], json!({}));

    // What the client was told is what the engine has.
    let container = inspect(&format!("{module}-web"));
    assert_eq!(container["Id"], read["push_again"]["engine_id"]);
    assert_eq!(container["State"]["Running"], true);
    assert_eq!(container["HostConfig"]["Dns"], json!(["192.0.2.2"]));
    assert_eq!(container["HostConfig"]["Memory"], 96 * mebibyte);
    assert_eq!(container["Config"]["Hostname"], "sky");
}

#[test]
fn what_a_newer_client_declares_is_refused_by_its_number_and_nothing_is_touched() {
    let fleet = Fleet::start();
    let module = fleet.module("newer");
    let newer = tempfile::tempdir().expect("a temporary folder can be made");
    copy_tree(&workspace().join("proto"), newer.path());
    let path = newer.path().join("plumbline/v1/spec.proto");
    let text = std::fs::read_to_string(&path).expect("it was copied");
    let container = "message ContainerSpec {\n";
    let edited = text.replace(container, &format!("{container}  optional string novelty = 9999;\n"));
    assert_ne!(text, edited, "the message to be changed is not in the file");
    std::fs::write(&path, edited).expect("the copy can be changed");

    let read = GeneratedClient::from(newer.path()).read("newer", &fleet, &module);
    for (call, at) in [
        ("agent_plan", "`spec.containers[web]`"),
        ("agent_apply", "`spec.containers[web]`"),
        // Of two modules the first is known in full; it is not registered either.
        ("controller_build", "`specs[1].containers[web]`"),
        ("controller_plan", "`spec.containers[web]`"),
    ] {
        let message = read[call]["message"].as_str().unwrap_or_default();
        assert_eq!(read[call]["code"], "INVALID_ARGUMENT", "{call}: {message}");
        assert!(message.contains("plumbline.v1.ContainerSpec has field number 9999 at"), "{call}: {message}");
        assert!(message.contains(at), "{call}: {message}");
    }
    assert_eq!(read["agent_apply_enum"]["code"], "INVALID_ARGUMENT");
    let message = read["agent_apply_enum"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("`recreate` has the value 99"), "{message}");

    assert_eq!(read["controller_get"]["code"], "NOT_FOUND", "nothing is registered");
    assert_eq!(fleet.engine().mutations(), Vec::<String>::new(), "nothing is touched");
}

#[test]
fn a_peer_without_a_certificate_is_sent_away_in_the_handshake() {
    let fleet = Fleet::start();
    let client = GeneratedClient::from(&workspace().join("proto"));
    let read = client.read("handshake", &fleet, "none");
    for server in ["agent", "controller"] {
        assert_eq!(read[server], json!({"alert": "TLSV13_ALERT_CERTIFICATE_REQUIRED"}), "{server}");
    }
}

/// The changes of a result: by field, what was there, what shall be, and what that takes.
fn changes(result: &Value) -> Value {
    let changes = result["changes"].as_object().expect("there are changes");
    let short = |path: &str| path.trim_start_matches("containers.web.").to_owned();
    changes
        .iter()
        .map(|(path, change)| {
            (short(path), json!([change["before"], change["after"], change["consequence"]]))
        })
        .collect()
}

fn changed(result: &Value, side: &str, field: &str) -> Value {
    result["changes"][format!("containers.web.{field}")][side].clone()
}

/// client.py with what grpcio-tools made of a contract.
struct GeneratedClient {
    generated: TempDir,
}

impl GeneratedClient {
    fn from(proto: &Path) -> Self {
        let generated = tempfile::tempdir().expect("a temporary folder can be made");
        let folder = proto.join("plumbline/v1");
        let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
            .expect("the contract is there")
            .map(|entry| entry.expect("it can be read").path())
            .collect();
        files.sort();
        let out = |option: &str| format!("--{option}={}", generated.path().display());
        let mut command = Command::new(tool("python3"));
        command
            .args(["-m", "grpc_tools.protoc", "-I"])
            .arg(proto)
            .args([out("python_out"), out("grpc_python_out")]);
        let said = run(command.args(files), "");
        assert!(said.ok, "no client can be generated: {}", said.stderr);
        Self { generated }
    }

    /// Runs it to its end, which must be a good one, and reads what it prints.
    fn read(&self, what: &str, fleet: &Fleet, module: &str) -> Value {
        let Said { ok, stdout, stderr } = run(
            Command::new(tool("python3"))
                .arg(workspace().join("tests/system/python/client.py"))
                .arg(what)
                .args(["--module", module])
                .args(["--node", fleet.node()])
                .args(["--agent", &fleet.agent_address(), "--controller", &fleet.controller_address()])
                .args(fleet.operator().options())
                .env("PYTHONPATH", self.generated.path())
                .env("PYTHONDONTWRITEBYTECODE", "1"),
            "",
        );
        assert!(ok, "client.py {what} failed: {stderr}");
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("client.py {what}: {error}: {stdout}"))
    }
}
