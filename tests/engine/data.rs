//! No apply takes data away (P7), and what a container shows to the network goes on being shown.

use plumbline::proto::v1::{Action, Outcome};
use serde_json::{Value as Json, json};

use crate::free::free_ports;
use crate::served::Served;
use crate::site::{docker, hold, object, text};

/// A volume may be named like those that engines name themselves: whoever moves an anonymous volume into a manifest
/// writes that name down.
#[tokio::test(flavor = "multi_thread")]
async fn a_named_volume_stays_when_a_container_on_it_fails_whatever_its_name_looks_like() {
    let host = Served::new("hexvolume").await;
    let volume = format!("{:064x}", uuid::Uuid::new_v4().as_u128());
    docker(&["run", "--rm", "-v", &format!("{volume}:/d"), "plumbline/sample:1", "touch", "/d/file"]);
    let has_data = || {
        docker(&["run", "--rm", "-v", &format!("{volume}:/d:nocopy"), "plumbline/sample:1", "ls", "/d"])
            == "file"
    };
    assert!(has_data());
    let spec = |settings: Json| {
        let volumes = json!({ "data": { "external": true, "name": volume } });
        host.site.module(json!({ "volumes": volumes, "containers": { "c": hold(&settings) } }))
    };
    let bad = json!({ "mounts": ["data:/data"], "entrypoint": ["/no/such/program"] });
    host.fails(&spec(bad.clone())).await;
    assert!(has_data(), "a creation that failed");
    host.apply(&spec(json!({})), false).await;
    host.fails(&spec(bad)).await;
    assert!(has_data(), "a recreation that failed");
    docker(&["rm", "--force", &host.container()]);
    docker(&["volume", "rm", &volume]);
}

/// The volumes that an engine made for containers that failed are not left lying about; those that were carried over stay.
#[tokio::test(flavor = "multi_thread")]
async fn anonymous_volumes_of_failed_containers_are_not_left() {
    let host = Served::new("freshvolumes").await;
    let bad = json!({ "mounts": ["/first", "/second", "/third"], "entrypoint": ["/no/such"] });
    let bad = host.site.holding(&bad);
    let removed = || {
        let calls = host.engine.take_mutations();
        calls.iter().filter_map(|call| call.strip_prefix("DELETE /volumes/").map(str::to_owned)).collect()
    };
    host.fails(&bad).await;
    let all: Vec<String> = removed();
    assert_eq!(all.len(), 3);
    host.apply(&host.site.holding(&json!({ "mounts": ["/first", "/second"] })), false).await;
    let before = volumes_of(&host.site.inspect("c").await);
    host.engine.take_mutations();
    host.fails(&bad).await;
    let third: Vec<String> = removed();
    assert_eq!(third.len(), 1);
    for volume in all.iter().chain(&third) {
        assert!(host.site.engine.volume(volume).await.expect("the engine answers").is_none(), "{volume}");
    }
    assert_eq!(volumes_of(&host.site.inspect("c").await), before);
    for (target, volume) in before {
        assert!(host.site.engine.volume(&volume).await.expect("the engine answers").is_some(), "{target}");
    }
}

fn volumes_of(inspect: &Json) -> Vec<(String, String)> {
    let mounts = inspect["Mounts"].as_array().into_iter().flatten();
    let mut all: Vec<_> = mounts.map(|mount| (text(&mount["Destination"]), text(&mount["Name"]))).collect();
    all.sort();
    all
}

/// A container that somebody made by hand, once it is taken, is recreated like one of ours.
#[tokio::test(flavor = "multi_thread")]
async fn a_taken_container_keeps_its_volumes_when_it_is_recreated() {
    let host = Served::new("takenvolumes").await;
    let (name, named) = (host.container(), format!("{}-data:/data:nocopy", host.site.name));
    let ports = format!("127.0.0.1:{}:8080", free_ports());
    docker(&["run", "-d", "--name", &name, "-v", &named, "-v", "/own", "-p", &ports, "plumbline/defaults:1"]);
    docker(&[
        "exec",
        "--user",
        "0",
        &name,
        "/bin/sh",
        "-c",
        "for d in /own /imgvol /data; do touch $d/kept; done",
    ]);
    let before = volumes_of(&host.site.inspect("c").await);
    assert_eq!(before.len(), 3, "{before:?}");

    let mut spec = host.observe(&name).await.declaration.expect("a declaration");
    assert!(host.adopt(&name, &spec).await.adopted);
    for edit in ["1", "2"] {
        let container = spec.containers.values_mut().next().expect("it has one");
        container.labels.insert("edit".to_owned(), edit.to_owned());
        let result = host.apply(&spec, true).await;
        assert_eq!(result.outcome(), Outcome::Recreated);
        let inspect = host.site.inspect("c").await;
        assert_eq!(volumes_of(&inspect), before);
        let found = docker(&["exec", &name, "ls", "/own/kept", "/imgvol/kept", "/data/kept"]);
        assert_eq!(found.lines().count(), 3, "{found}");
        host.settled(&spec).await;
    }
}

/// Something answers on this port, soon: after a start it takes a moment.
fn answers(port: u16) -> bool {
    (0..30).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        answers_now(port)
    })
}

fn answers_now(port: u16) -> bool {
    use std::io::{Read as _, Write as _};
    let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", port)) else { return false };
    let _ = stream.set_read_timeout(Some(std::time::Duration::from_secs(2)));
    let mut answer = String::new();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").is_ok()
        && stream.read_to_string(&mut answer).is_ok()
        && answer.contains("plumbline/sample:1")
}

/// Networks are changed on the running container; its published port answers after it, and after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_published_port_answers_when_the_network_was_changed_in_place() {
    let host = Served::new("moves").await;
    let port = free_ports();
    let spec = |networks: Json| {
        let container = json!({
            "image": "plumbline/sample:1", "ports": [format!("127.0.0.1:{port}:8080")], "networks": networks
        });
        host.site.module(json!({ "networks": { "a": {}, "b": {} }, "containers": { "c": container } }))
    };
    host.apply(&spec(json!({ "a": {} })), false).await;
    assert!(answers(port));
    for networks in
        [json!({ "b": { "aliases": ["x"] } }), json!({ "a": {}, "b": {} }), json!({ "bridge": {} })]
    {
        let spec = spec(networks.clone());
        let before = host.site.identity("c").await;
        assert_eq!(object(&host.apply(&spec, false).await, "c").action(), Action::Updated, "{networks}");
        assert_eq!(host.site.identity("c").await, before);
        assert!(answers(port), "on {networks}");
        host.settled(&spec).await;
        docker(&["restart", &host.container()]);
        assert!(answers(port), "on {networks} after a restart");
        host.settled(&spec).await;
    }
}

/// What was paused by hand does not work: an apply lets it go on, or recreates it.
#[tokio::test(flavor = "multi_thread")]
async fn a_paused_container_goes_on() {
    let host = Served::new("paused").await;
    let spec = |label: &str| host.site.holding(&json!({ "labels": { "edit": label } }));
    host.apply(&spec("1"), false).await;
    let (before, paused) = (host.site.identity("c").await, ["pause", &host.container()]);
    docker(&paused);
    assert_eq!(host.apply(&spec("1"), false).await.action(), Action::Started);
    assert_eq!(host.site.inspect("c").await["State"]["Paused"], false);
    assert_eq!(host.site.identity("c").await, before);
    docker(&paused);
    assert_eq!(host.apply(&spec("2"), true).await.outcome(), Outcome::Recreated);
    let state = host.site.inspect("c").await["State"].clone();
    assert_eq!((&state["Running"], &state["Paused"]), (&json!(true), &json!(false)));
    host.settled(&spec("2")).await;
}

/// An environment may hold secrets: they are shown as hashes in a diff, and nowhere else.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_in_no_answer_of_a_plan_or_an_apply() {
    let host = Served::new("secret").await;
    let spec = |secret: &str, entrypoint: &str| {
        host.site.holding(&json!({ "environment": { "PASSWORD": secret }, "entrypoint": [entrypoint] }))
    };
    let (first, second) = ("s3cr3t-one", "s3cr3t-two");
    let said = [
        format!("{:?}", host.events(host.request("1", &spec(first, "/bin/entry"), false)).await),
        format!("{:?}", host.plan(&spec(second, "/bin/entry")).await),
        format!("{:?}", host.events(host.request("2", &spec(second, "/no/such"), true)).await),
        format!("{:?}", host.events(host.request("3", &spec(second, "/bin/entry"), true)).await),
    ]
    .concat();
    assert!(said.contains("environment[PASSWORD]"));
    assert!(!said.contains("s3cr3t"), "{said}");
}
