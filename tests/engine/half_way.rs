//! An apply that fails half-way through a module: what is bound together comes back together, and the answer says for
//! every object how far it got.

use plumbline::proto::v1::{Action, ModuleSpec};
use serde_json::{Value as Json, json};

use crate::free::own_subnet;
use crate::served::Served;
use crate::site::{docker, hold, object};

const BAD: &str = "/no/such/program";

#[tokio::test(flavor = "multi_thread")]
async fn what_was_done_before_the_failure_is_named_and_the_rest_is_not_reached() {
    let host = Served::new("halfway").await;
    let spec = |entrypoint: &str| {
        host.site.module(json!({
            "networks": { "lan": {} },
            "containers": {
                "a": hold(&json!({})),
                "b": hold(&json!({ "depends_on": ["a"], "entrypoint": [entrypoint] })),
                "c": hold(&json!({ "depends_on": ["b"] }))
            }
        }))
    };
    let failure = host.fails(&spec(BAD)).await;
    assert!(!failure.rolled_back, "a and the network are there now");
    let (a, lan) = (format!("{}-a", host.site.name), format!("{}_lan", host.site.name));
    for words in ["-b: start failed", BAD, "there is none now", "stays:", &a, &lan] {
        assert!(failure.message.contains(words), "without `{words}`: {}", failure.message);
    }
    let reached = failure.reached.expect("the plan");
    assert_eq!(object(&reached, "a").detail, "");
    assert!(object(&reached, "b").detail.contains(BAD), "{}", object(&reached, "b").detail);
    assert!(object(&reached, "c").detail.starts_with("not reached"), "{}", object(&reached, "c").detail);
    assert_eq!(host.site.containers(), [a]);

    // The next apply goes on where this one ended.
    let result = host.apply(&spec("/bin/entry"), false).await;
    assert_eq!(object(&result, "a").action(), Action::Unchanged);
    assert_eq!(object(&result, "c").action(), Action::Created);
    host.settled(&spec("/bin/entry")).await;
}

fn owner_and_guests(host: &Served, edit: &str, entrypoint: &str) -> ModuleSpec {
    host.site.module(json!({ "containers": {
        "owner": hold(&json!({ "labels": { "edit": edit }, "restart": "always" })),
        "guest": hold(&json!({ "network_mode": "container:owner", "restart": "always" })),
        "last": hold(&json!({
            "network_mode": "container:owner", "depends_on": ["guest"], "entrypoint": [entrypoint, "sleep"],
            "command": ["3600"], "restart": "always"
        }))
    } }))
}

/// A guest lives in the namespace of its owner's old container: without that one it can never start again.
#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_fails_brings_its_owner_and_the_other_guests_back() {
    let host = Served::new("guests").await;
    host.apply(&owner_and_guests(&host, "1", "/bin/entry"), false).await;
    let keys = ["owner", "guest", "last"];
    let mut before: Vec<Json> = Vec::new();
    for key in keys {
        before.push(host.site.inspect(key).await);
    }
    for _ in 0..2 {
        let failure = host.fails(&owner_and_guests(&host, "2", BAD)).await;
        assert!(failure.rolled_back, "{}", failure.message);
        assert!(failure.message.contains("-last: start failed"), "{}", failure.message);
        for (key, before) in keys.iter().zip(&before) {
            let now = host.site.inspect(key).await;
            assert_eq!((&now["Id"], &now["State"]["Running"]), (&before["Id"], &json!(true)), "{key}");
            assert_eq!(now["HostConfig"]["RestartPolicy"], before["HostConfig"]["RestartPolicy"], "{key}");
            assert_eq!(now["HostConfig"]["NetworkMode"], before["HostConfig"]["NetworkMode"], "{key}");
        }
        assert_eq!(host.site.containers().len(), 3, "{:?}", host.site.containers());
    }
    // It is what it was to the agent, too.
    host.settled(&owner_and_guests(&host, "1", "/bin/entry")).await;
    host.apply(&owner_and_guests(&host, "2", "/bin/entry"), true).await;
    host.settled(&owner_and_guests(&host, "2", "/bin/entry")).await;
    assert_eq!(host.site.containers().len(), 3);
}

/// A limit cannot be taken away again in place, so it is given last.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_is_not_left_behind_when_a_network_refuses() {
    let host = Served::new("nolimit").await;
    let (subnet, busy) = (own_subnet(), format!("{}-busy", host.site.name));
    let lan = format!("{}-lan", host.site.name);
    docker(&["network", "create", "--subnet", &format!("{subnet}.0/24"), &lan]);
    let address = format!("{subnet}.9");
    docker(&[
        "run",
        "-d",
        "--name",
        &busy,
        "--network",
        &lan,
        "--ip",
        &address,
        "plumbline/sample:1",
        "hold",
    ]);
    let spec = |settings: Json| {
        let networks = json!({ "lan": { "external": true, "name": lan } });
        host.site.module(json!({ "networks": networks, "containers": { "c": hold(&settings) } }))
    };
    host.apply(&spec(json!({})), false).await;
    let networks = json!({ "bridge": {}, "lan": { "ipv4_address": address } });
    let failure = host.fails(&spec(json!({ "mem_limit": "64m", "networks": networks }))).await;
    assert!(failure.rolled_back && failure.message.contains("connect failed"), "{}", failure.message);
    assert_eq!(host.site.inspect("c").await["HostConfig"]["Memory"], 0);
    host.settled(&spec(json!({}))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_left_the_declaration_runs_on_when_the_rest_fails() {
    let host = Served::new("leaving").await;
    let both = host.site.module(json!({ "containers": {
        "c": hold(&json!({})),
        "old": hold(&json!({ "restart": "always" })),
        "passing": hold(&json!({ "auto_remove": true }))
    } }));
    host.apply(&both, false).await;
    let before = host.site.inspect("old").await;
    let failure = host.fails(&host.site.holding(&json!({ "entrypoint": [BAD] }))).await;
    assert!(failure.rolled_back, "{}", failure.message);
    let after = host.site.inspect("old").await;
    assert_eq!((&after["Id"], &after["State"]["Running"]), (&before["Id"], &json!(true)));
    assert_eq!(after["HostConfig"]["RestartPolicy"], before["HostConfig"]["RestartPolicy"]);
    host.settled(&both).await;

    host.apply(&host.site.holding(&json!({})), true).await;
    assert_eq!(host.site.containers(), [host.container()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ignored_paths_of_networks_and_volumes_are_counted_too() {
    let host = Served::new("ignoring").await;
    let spec = |label: &str| {
        host.site.module(json!({
            "networks": { "lan": { "labels": { "build": label } } },
            "volumes": { "data": { "labels": { "build": label } } },
            "containers": { "c": hold(&json!({ "networks": { "lan": {} }, "mounts": ["data:/data"] })) },
            "ignore_paths": ["networks.lan.labels", "volumes.data.labels[build]"]
        }))
    };
    host.apply(&spec("1"), false).await;
    let planned = host.plan(&spec("2")).await;
    for key in ["lan", "data"] {
        assert_eq!(object(&planned, key).diff.clone().unwrap_or_default().ignored, 1, "{key}");
        assert_eq!(object(&planned, key).action(), Action::Unchanged);
    }
}

/// A network has a key in the module and another name at the engine: paths are in the module's words.
#[tokio::test(flavor = "multi_thread")]
async fn a_network_is_named_by_its_key_in_paths_and_may_be_ignored_by_it() {
    let host = Served::new("keyed").await;
    let spec = |aliases: Json, ignored: Json| {
        host.site.module(json!({
            "networks": { "lan": {} },
            "containers": { "c": hold(&json!({ "networks": { "lan": { "aliases": aliases } } })) },
            "ignore_paths": ignored
        }))
    };
    host.apply(&spec(json!(["a"]), json!([])), false).await;
    let words = host.differs(&spec(json!(["b"]), json!([]))).await;
    assert_eq!(words, ["networks[lan].aliases: [a] -> [b] (IN_PLACE, DECLARED)"]);
    let ignored = json!(["containers.c.networks[lan].aliases"]);
    assert_eq!(host.differs(&spec(json!(["b"]), ignored)).await, [""; 0]);

    // A stranger's network that has the key for its name is told apart, and goes.
    let stranger = host.site.name.clone();
    let spec = host.site.module(json!({
        "networks": { &stranger: {} }, "containers": { "c": hold(&json!({ "networks": { &stranger: {} } })) }
    }));
    host.apply(&spec, true).await;
    docker(&["network", "create", &stranger]);
    docker(&["network", "connect", &stranger, &host.container()]);
    let words = host.differs(&spec).await;
    assert_eq!(words, [format!("networks[{stranger}]: true -> absent (IN_PLACE, CHANGED_BY_HAND)")]);
    host.apply(&spec, false).await;
    let networks = host.site.inspect("c").await["NetworkSettings"]["Networks"].clone();
    let names: Vec<&String> = networks.as_object().expect("networks").keys().collect();
    assert_eq!(names, [&format!("{stranger}_{stranger}")]);
}
