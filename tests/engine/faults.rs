//! Every mutating call of an apply fails once, before it reaches the engine and after: either all is as it was before and
//! the answer says so, or the new state stands and was read back (P6). Nothing is left over, and the next apply works.

use plumbline::proto::v1::ModuleSpec;
use plumbline::proto::v1::apply_response::Event;
use serde_json::{Value as Json, json};

use crate::proxy::Fault::{self, DoneAndLost, NotDone};
use crate::served::Served;
use crate::site::hold;

/// What must be the same after a failure.
async fn state_of(host: &Served, keys: &[&str]) -> Vec<Json> {
    let mut all = Vec::new();
    for key in keys {
        let inspect = host.site.inspect(key).await;
        let host_config = &inspect["HostConfig"];
        let networks = inspect["NetworkSettings"]["Networks"].as_object();
        let policy = host_config["RestartPolicy"]["Name"].as_str().unwrap_or_default().replace("no", "");
        all.push(json!([
            inspect["Id"],
            inspect["Name"],
            inspect["State"]["Running"],
            policy,
            host_config["Memory"],
            networks.map(|networks| networks.keys().cloned().collect::<Vec<_>>()),
            inspect["Mounts"].as_array().map(Vec::len)
        ]));
    }
    all
}

/// Goes from one declaration to another with each call failing in turn. `keys`: the containers that are there before.
async fn every_call_fails_once(host: &Served, specs: [&ModuleSpec; 2], keys: &[&str], fault: Fault) {
    let [before, after] = specs;
    host.apply(before, true).await;
    let mut number = 0;
    while one_call_fails(host, after, keys, number, fault).await {
        host.apply(before, true).await;
        host.settled(before).await;
        number += 1;
        assert!(number < 40, "it never ends");
    }
    assert!(number > 3, "only {number} calls");
}

/// False: no call was left to fail.
async fn one_call_fails(
    host: &Served,
    after: &ModuleSpec,
    keys: &[&str],
    number: usize,
    fault: Fault,
) -> bool {
    let (old, names) = (state_of(host, keys).await, host.site.containers());
    host.engine.take_mutations();
    host.engine.fail_after(number, fault);
    let id = format!("{fault:?}-{number}-{}", uuid::Uuid::new_v4());
    let end = host.events(host.request(&id, after, true)).await.pop().and_then(|event| event.event);
    let failed = host.engine.failed();
    let calls = host.engine.take_mutations();
    let what = format!("{fault:?} of call {number}, {:?}, among {calls:?}", calls.get(number));
    match end {
        Some(Event::Failure(failure)) => {
            assert!(failed, "{what}: {}", failure.message);
            assert!(failure.rolled_back, "{what}: {}", failure.message);
            assert!(failure.message.contains("a fault of the test"), "{what}: {}", failure.message);
            assert_eq!(state_of(host, keys).await, old, "{what}: {}", failure.message);
            assert_eq!(host.site.containers(), names, "{what}");
        }
        Some(Event::Result(_)) => {
            host.settled(after).await;
            let expected = after.containers.len();
            assert_eq!(host.site.containers().len(), expected, "{what}: {:?}", host.site.containers());
        }
        other => panic!("{what}: {other:?}"),
    }
    failed
}

async fn recreation(test: &str, fault: Fault) {
    let host = Served::new(test).await;
    let spec = |label: &str| {
        let settings = json!({ "labels": { "edit": label }, "restart": "always", "mounts": ["/anonymous"] });
        host.site.holding(&settings)
    };
    every_call_fails_once(&host, [&spec("1"), &spec("2")], &["c"], fault).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recreation_survives_any_call_that_is_not_done() {
    recreation("frecreate", NotDone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recreation_survives_any_call_whose_answer_is_lost() {
    recreation("frecreatelost", DoneAndLost).await;
}

async fn update(test: &str, fault: Fault) {
    let host = Served::new(test).await;
    let spec = |memory: &str, networks: Json| {
        let settings = json!({ "mem_limit": memory, "networks": networks });
        host.site.module(json!({ "networks": { "a": {}, "b": {} }, "containers": { "c": hold(&settings) } }))
    };
    let before = spec("64m", json!({ "a": {} }));
    let after = spec("96m", json!({ "a": { "aliases": ["x"] }, "b": {} }));
    every_call_fails_once(&host, [&before, &after], &["c"], fault).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_in_place_survives_any_call_that_is_not_done() {
    update("fupdate", NotDone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_in_place_survives_any_call_whose_answer_is_lost() {
    update("fupdatelost", DoneAndLost).await;
}

async fn owner_and_guest(test: &str, fault: Fault) {
    let host = Served::new(test).await;
    let spec = |label: &str| {
        host.site.module(json!({ "containers": {
            "a": hold(&json!({ "labels": { "edit": label } })),
            "b": hold(&json!({ "network_mode": "container:a" }))
        } }))
    };
    every_call_fails_once(&host, [&spec("1"), &spec("2")], &["a", "b"], fault).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_and_its_guest_survive_any_call_that_is_not_done() {
    owner_and_guest("fguest", NotDone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_and_its_guest_survive_any_call_whose_answer_is_lost() {
    owner_and_guest("fguestlost", DoneAndLost).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_survives_a_fault_of_any_call() {
    let host = Served::new("fcreate").await;
    let first = host.site.holding(&json!({}));
    let second = host.site.module(json!({
        "containers": { "c": hold(&json!({})), "new": hold(&json!({ "networks": { "x": {}, "y": {} } })) },
        "networks": { "x": { "external": true, "name": format!("{}-x", host.site.name) },
                      "y": { "external": true, "name": format!("{}-y", host.site.name) } }
    }));
    for name in ["x", "y"] {
        crate::site::docker(&["network", "create", &format!("{}-{name}", host.site.name)]);
    }
    host.apply(&first, true).await;
    for fault in [NotDone, DoneAndLost] {
        for number in 0..3 {
            assert!(one_call_fails(&host, &second, &["c"], number, fault).await);
        }
    }
}
