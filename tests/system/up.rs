//! `plumb up`: one host, no set-up.

use std::process::Output;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Fleet, docker, identity};
use crate::manifests::waiting;
use crate::tools::{containers_of, inspect};

/// Names of their own, and no servers but those that `plumb up` runs itself.
fn nothing() -> Fleet {
    Fleet::of(0)
}

#[test]
fn on_a_fresh_machine_it_applies_and_the_second_time_nothing_is_to_be_done() {
    let host = nothing();
    let module = host.module("up");
    host.write("module.yaml", waiting(&module, &["dns: [192.0.2.1]"]));
    let up = |more: &[&str]| -> Output {
        let mut plumb = host.command([&["up", "-f", "module.yaml"][..], more].concat());
        // Everything that it keeps goes below the home folder, and no controller that it could ask is told to it.
        for variable in ["PLUMBLINE_CONTROLLER", "PLUMBLINE_CA", "PLUMBLINE_CERT", "PLUMBLINE_KEY"] {
            plumb.env_remove(variable);
        }
        plumb.env_remove("XDG_DATA_HOME").env("HOME", host.path("home")).output().expect("plumb was built")
    };
    let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let first = up(&[]);
    assert_eq!(first.status.code(), Some(0), "{first:?}");
    assert!(text(&first).contains(&format!("{module} on local: applied")), "{first:?}");
    assert!(host.path("home/.local/share/plumbline/ca/ca.pem").exists());
    let container = format!("{module}-app");
    assert_eq!(inspect(&container)["HostConfig"]["Dns"], json!(["192.0.2.1"]));
    let before = identity(&container);

    let second = up(&["--recreate"]);
    assert_eq!(second.status.code(), Some(0), "{second:?}");
    assert!(text(&second).contains("unchanged, everything is as declared"), "{second:?}");
    assert_eq!(identity(&container), before);

    host.write("module.yaml", waiting(&module, &["dns: [192.0.2.2]"]));
    let third = up(&[]);
    assert_eq!(third.status.code(), Some(3), "{third:?}");
    assert!(text(&third).contains("REFUSED, nothing was touched"), "{third:?}");
    assert_eq!(identity(&container), before);
    let fourth = up(&["--recreate", "-o", "json"]);
    let last = text(&fourth).lines().last().map(serde_json::from_str::<Value>).expect("it says something");
    let last = last.expect("it is JSON");
    assert_eq!(last["nodeEvent"]["event"]["result"]["outcome"], "OUTCOME_RECREATED", "{last}");
    assert_eq!(inspect(&container)["HostConfig"]["Dns"], json!(["192.0.2.2"]));
}

#[test]
fn it_applies_every_module_of_every_file() {
    let host = nothing();
    let [one, two, three] = ["one", "two", "three"].map(|name| host.module(name));
    host.write("both.yaml", format!("{}---\n{}", waiting(&one, &[]), waiting(&two, &[])));
    host.write("third.yaml", waiting(&three, &[]));
    let up = ["up", "-f", "both.yaml", "-f", "third.yaml", "--data-dir", "up"];
    host.plumb(up).ended(0);
    for module in [&one, &two, &three] {
        assert_eq!(containers_of(module), [format!("{module}-app")]);
    }
    // One that is refused does not hinder the others, and is not hidden by them.
    docker(&["rm", "--force", &format!("{three}-app")]);
    host.write("both.yaml", format!("{}---\n{}", waiting(&one, &["init: true"]), waiting(&two, &[])));
    host.plumb(up).ended(4).says(&["REFUSED", "unchanged", "created"]);
    assert_eq!(containers_of(&three).len(), 1);
}

#[test]
fn a_second_one_on_the_same_data_says_what_to_do() {
    // A host whose engine can be held, so that the first one is still at work when the second comes.
    let host = Fleet::start();
    let (first, second) = (host.module("first"), host.module("second"));
    host.write("first.yaml", waiting(&first, &[]));
    host.write("second.yaml", waiting(&second, &[]));
    let socket = host.path("host-1.sock").display().to_string();
    let up = |file: &'static str| ["up", "-f", file, "--data-dir", "up", "--engine", &socket];
    host.engine().hold("POST /containers/create");
    let mut at_work = host.spawn(up("first.yaml"));
    host.engine().wait_until_held();
    host.plumb(up("second.yaml"))
        .ended(1)
        .says(&["another `plumb up` uses the data directory", "run this one again"]);
    host.engine().release();
    assert_eq!(containers_of(&second), Vec::<String>::new());

    at_work.wait().ended(0).says(&["applied"]);
    assert_eq!(containers_of(&first).len(), 1);
    host.plumb(up("second.yaml")).ended(0).says(&["applied"]);
}

#[test]
fn one_that_is_interrupted_finishes_what_it_began() {
    let host = Fleet::start();
    let module = host.module("interrupted");
    let socket = host.path("host-1.sock").display().to_string();
    let up = ["up", "-f", "module.yaml", "--data-dir", "up", "--engine", &socket, "--recreate"];
    host.write("module.yaml", waiting(&module, &["dns: [192.0.2.1]"]));
    host.plumb(up).ended(0);
    host.write("module.yaml", waiting(&module, &["dns: [192.0.2.2]"]));
    host.engine().hold("/rename");
    let mut interrupted = host.spawn(up);
    host.engine().wait_until_held();
    interrupted.interrupt();
    std::thread::sleep(Duration::from_millis(300));
    host.engine().release();
    interrupted.wait().ended(1).says(&["finishing what is being applied", "interrupted: "]);
    let container = format!("{module}-app");
    assert_eq!(containers_of(&module), std::slice::from_ref(&container), "what was begun is finished");
    assert_eq!(inspect(&container)["HostConfig"]["Dns"], json!(["192.0.2.2"]));
    host.plumb(up).ended(0).says(&["unchanged"]);
}

#[test]
fn it_shows_what_becomes_of_networks_and_volumes() {
    let host = nothing();
    let module = host.module("upnet");
    let manifest = |objects: &str, settings: &[&str]| format!("{}{objects}", waiting(&module, settings));
    let on = ["networks: {lan: {}}", "mounts: [\"data:/fresh\"]"];
    let up = |objects: &str, settings: &[&str], more: &[&str]| {
        host.write("module.yaml", manifest(objects, settings));
        host.plumb([&["up", "-f", "module.yaml"][..], more].concat())
    };
    up("networks: {lan: {}}\nvolumes: {data: {}}\n", &on, &[]).ended(0);
    docker(&["exec", &format!("{module}-app"), "sh", "-c", "printf 12345 >/fresh/file"]);

    let labelled = "networks: {lan: {labels: {l: \"1\"}}}\nvolumes: {data: {}}\n";
    up(labelled, &on, &[]).ended(3).says(&[&format!("network {module}_lan: refused (needs recreation)")]);
    up(labelled, &on, &["--recreate"])
        .ended(0)
        .says(&[&format!("network {module}_lan: recreated"), &format!("container {module}-app: recreated")]);

    let lost = up("networks: {lan: {}}\nvolumes: {data: {labels: {l: \"1\"}}}\n", &on, &["--recreate"]);
    lost.ended(3).says(&[
        &format!("volume {module}_data: refused (would lose data)"),
        "driver local, 1 file, 5 bytes",
        &format!("used by {module}-app"),
    ]);

    let left = up("", &[], &["--recreate", "--accept-data", "/fresh=removed"]);
    left.ended(0).says(&[
        &format!("network {module}_lan: removed"),
        &format!("volume {module}_data: stays"),
        &format!("docker volume rm {module}_data"),
    ]);
    up("", &[], &[]).ended(0).says(&["unchanged, everything is as declared", "stays"]);
}

#[test]
fn a_new_container_that_dies_tells_how_it_ended_and_the_old_one_is_back() {
    let host = nothing();
    let module = host.module("dies");
    let up = ["up", "-f", "module.yaml", "--data-dir", "up", "--recreate"];
    host.write("module.yaml", waiting(&module, &[]));
    host.plumb(up).ended(0).says(&["started (it has to stay up for 1 s)", "came up (up for 1 s)"]);
    let container = format!("{module}-app");
    let before = inspect(&container)["Id"].clone();

    let dying = ["entrypoint: [/bin/sh, -c, \"echo token $TOKEN; echo no such database; exit 7\", sh]"];
    host.write("module.yaml", waiting(&module, &[dying[0], "environment: {TOKEN: hunter22}"]));
    let said = host.plumb(up).ended(1).says(&["FAILED", "exit code 7", "the old container runs again"]);
    let count = |part: &str| said.all().matches(part).count();
    assert_eq!((count("no such database"), count("hunter22")), (1, 0), "{}", said.all());

    let json = host.plumb([&up[..], &["-o", "json"]].concat()).ended(1).json();
    let failure = &json.last().expect("it says something")["nodeEvent"]["event"]["failure"];
    assert_eq!(failure["rolledBack"], true, "{failure}");
    // Nothing was done that stays so.
    let reached = &failure["reached"];
    for of in [reached, &reached["objects"][0]] {
        let word = |member: &str| of[member].as_str().unwrap_or("UNSPECIFIED").to_owned();
        assert!(word("action").contains("UNSPECIFIED"), "{of}");
        assert!(word("outcome").contains("UNSPECIFIED"), "{of}");
    }
    let known = &failure["reached"]["objects"][0]["failure"];
    let expected =
        json!({ "exitCode": 7, "lastLines": ["token (secret)", "no such database"], "health": "none" });
    assert_eq!(known, &expected, "{failure}");
    let now = inspect(&container);
    assert_eq!((&now["Id"], &now["State"]["Running"]), (&before, &json!(true)));
    assert_eq!(containers_of(&module), [container]);
}

#[test]
fn a_dry_run_says_what_would_be_done_and_does_nothing() {
    let host = nothing();
    let module = host.module("dry");
    let up =
        |options: &[&'static str]| [&["up", "-f", "module.yaml", "--data-dir", "up"][..], options].concat();
    host.write("module.yaml", waiting(&module, &[]));
    host.plumb(up(&["--dry-run"])).ended(0).says(&["would be applied", "would be created"]);
    assert_eq!(containers_of(&module), Vec::<String>::new());
    host.plumb(up(&[])).ended(0);
    let before = inspect(&format!("{module}-app"));
    host.write("module.yaml", waiting(&module, &["environment: {EDIT: one}"]));
    host.plumb(up(&["--dry-run"])).ended(0).says(&["would be REFUSED", "needs recreation"]);
    host.plumb(up(&["--dry-run", "--recreate"])).ended(0).says(&["would be recreated"]);
    let now = inspect(&format!("{module}-app"));
    assert_eq!((&now["Id"], &now["State"]["StartedAt"]), (&before["Id"], &before["State"]["StartedAt"]));
}
