//! `plumb remove`: what is said before, what goes, and what stays.

use std::process::Command;

use crate::harness::{Fleet, Said, docker, plumb};
use crate::manifests::waiting;
use crate::tools::{containers_of, run};

/// A fleet with a module that runs on the first node, with a volume that holds one file.
fn running(name: &str) -> (Fleet, String, String) {
    let fleet = Fleet::start();
    let module = fleet.module(name);
    let manifest = waiting(&module, &["mounts: [\"data:/vol\"]", "update_lock: /tmp/lock"]);
    fleet.register(&module, &format!("{manifest}volumes: {{data: {{}}}}\nnetworks: {{front: {{}}}}\n"));
    fleet.plumb(["push", &module, "--node", "host-1"]).ended(0);
    docker(&["exec", &format!("{module}-app"), "sh", "-c", "printf 12345 >/vol/file"]);
    let volume = format!("{module}_data");
    (fleet, module, volume)
}

fn has(kind: &str, name: &str) -> bool {
    run(Command::new("docker").args([kind, "inspect", name]), "").ok
}

#[test]
fn without_consent_it_shows_what_would_go_and_touches_nothing() {
    let (fleet, module, volume) = running("ask");
    fleet.engine().forget();
    let shown = [
        &format!("{module} on host-1: would be removed") as &str,
        &format!("container {module}-app: would be removed"),
        &format!("network {module}_front: would be removed"),
        &format!("volume {volume} (1 file, 5 bytes): stays"),
        &format!("--volume {volume}"),
    ];
    fleet.plumb(["remove", &module]).ended(3).says(&shown).says(&["--yes", "nothing was removed"]);
    fleet.plumb(["remove", &module, "--exit-code"]).ended(2).says(&shown);
    let gone = format!("volume {volume} (1 file, 5 bytes): would be removed");
    fleet.plumb(["remove", &module, "--exit-code", "--volume", &volume]).ended(2).says(&[&gone]);
    assert_eq!(fleet.engine().mutations(), [""; 0]);
    assert_eq!(containers_of(&module).len(), 1);
    fleet.plumb(["status", &module]).ended(0).says(&["applied"]);
}

#[test]
fn on_a_terminal_it_asks() {
    let (fleet, module, _) = running("terminal");
    // script(1) is a terminal for the command that it runs.
    let answer = |answer: &str, code: i32| {
        let line = format!("{} remove {module}", env!("CARGO_BIN_EXE_plumb"));
        let plumb = fleet.command(["remove"]);
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
        script.envs(plumb.get_envs().filter_map(|(key, value)| Some((key, value?))));
        Said::of(&mut script, answer)
            .ended(code)
            .says(&["would be removed", &format!("Remove {module}? [y/N]")])
    };
    answer("\n", 3).says(&["nothing was removed"]);
    assert_eq!(containers_of(&module).len(), 1);
    answer("y\n", 0).says(&[&format!("{module} on host-1: removed")]);
    assert_eq!(containers_of(&module), [""; 0]);
}

#[test]
fn containers_go_the_volume_stays_and_nothing_sends_the_module_there_again_unasked() {
    let (fleet, module, volume) = running("gone");
    fleet.plumb(["policy", &module, "roll_out"]).ended(0);
    fleet.plumb(["remove", &module, "--yes"]).ended(0).says(&[
        &format!("{module} on host-1: removed"),
        &format!("volume {volume} (1 file, 5 bytes): stays"),
    ]);
    assert_eq!(containers_of(&module), [""; 0]);
    assert!(has("volume", &volume) && !has("network", &format!("{module}_front")));
    fleet.plumb(["status", &module]).ended(0).says(&["host-1", "removed"]);

    fleet.engine().forget();
    let again = fleet.plumb(["remove", &module, "--yes"]).ended(0);
    again.says(&[&format!("{module} on host-1: nothing to remove")]);
    fleet.plumb(["remove", &module, "--exit-code"]).ended(0);
    // Its revisions are kept, and none is sent to where it was removed.
    fleet.register(&module, &waiting(&module, &["init: true"]));
    fleet.plumb(["push", &module]).ended(1).says(&["has no nodes"]);
    assert_eq!(fleet.engine().mutations(), [""; 0]);
    let status = fleet.plumb(["status", &module, "-o", "json"]).ended(0).json().remove(0);
    assert_eq!(status["module"]["latestRevision"], "2");
    assert_eq!(status["module"]["applies"][0]["removed"], true, "{status}");

    let asked = fleet.plumb(["remove", &module, "--volume", &volume, "--yes"]).ended(0);
    asked.says(&[
        &format!("volume {volume} (1 file, 5 bytes): would be removed"),
        &format!("volume {volume} (1 file, 5 bytes): removed"),
    ]);
    assert!(!has("volume", &volume));
    fleet.plumb(["push", &module, "--node", "host-1"]).ended(0).says(&["created"]);
    fleet.plumb(["status", &module]).ended(0).says(&["applied"]);
}

#[test]
fn a_module_is_forgotten_once_it_is_nowhere() {
    let (fleet, module, _) = running("forget");
    fleet.engine().stop();
    let said = fleet.plumb(["remove", &module, "--forget", "--yes"]).ended(1);
    said.says(&["FAILED", "NOT forgotten"]);
    fleet.engine().start_again();
    let said = fleet.plumb(["remove", &module, "--forget", "--yes"]).ended(0);
    said.says(&[&format!("{module} on host-1: removed"), "forgotten, with all its revisions"]);
    fleet.plumb(["status", &module]).ended(1).says(&[&module]);
    fleet.register(&module, &waiting(&module, &[]));
    fleet.plumb(["push", &module, "--node", "host-1"]).ended(0).says(&["created"]);
}

#[test]
fn every_node_gives_its_own_answer() {
    let fleet = Fleet::of(2);
    let module = fleet.module("nodes");
    fleet.register(&module, &waiting(&module, &["update_lock: /tmp/lock"]));
    fleet.plumb(["push", &module, "--node", "host-1"]).ended(0);
    fleet.plumb(["policy", &module, "--node", "host-1", "--node", "host-2"]).ended(0);
    docker(&["exec", &format!("{module}-app"), "touch", "/tmp/lock"]);
    let locked = format!("{module} on host-1: REFUSED, nothing was touched");
    fleet.plumb(["remove", &module, "--yes", "--node", "host-1"]).ended(3).says(&[&locked, "/tmp/lock"]);
    docker(&["exec", &format!("{module}-app"), "rm", "/tmp/lock"]);
    fleet.agents[1].engine.stop();
    let said = fleet.plumb(["remove", &module, "--yes"]).ended(4);
    said.says(&[&format!("{module} on host-1: removed"), &format!("{module} on host-2: FAILED")]);
    let status = fleet.plumb(["status", &module]).ended(0);
    assert!(status.stdout.contains("host-1") && status.stdout.contains("host-2"), "{}", status.stdout);
}

#[test]
fn up_removes_with_what_it_knows() {
    let host = Fleet::of(0);
    let module = host.module("up");
    let manifest = waiting(&module, &["mounts: [\"data:/data\"]"]);
    host.write("module.yaml", format!("{manifest}volumes: {{data: {{}}}}\n"));
    host.plumb(["up", "-f", "module.yaml", "--data-dir", "up"]).ended(0);
    let up = ["up", "--data-dir", "up", "--remove", &module];
    host.plumb(up).ended(3).says(&["would be removed", "--yes"]);
    assert_eq!(containers_of(&module).len(), 1);
    host.plumb([&up[..], &["--yes"]].concat()).ended(0).says(&["on local: removed"]);
    assert_eq!(containers_of(&module), [""; 0]);
    let volume = format!("{module}_data");
    assert!(has("volume", &volume));
    host.plumb(["up", "-f", "module.yaml", "--data-dir", "up"]).ended(0).says(&["created"]);
    let by_key = host.plumb([&up[..], &["--volume", "data", "--yes"]].concat()).ended(3);
    by_key.says(&["volume data: would be refused (missing)", &format!("did you mean --volume {volume}?")]);
    assert_eq!(containers_of(&module).len(), 1);
    host.plumb([&up[..], &["--volume", &volume, "--yes"]].concat()).ended(0);
    assert!(!has("volume", &volume));
    for wrong in
        [&["up", "-f", "module.yaml", "--yes"][..], &["up", "-f", "module.yaml", "--remove", &module]]
    {
        plumb(wrong).ended(64);
    }
}
