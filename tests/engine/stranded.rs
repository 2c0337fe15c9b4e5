//! Containers that are as declared and yet not in force: in a namespace that ended, or on a network that is gone.

use plumbline::proto::v1::{Action, ModuleSpec};
use serde_json::{Value as Json, json};

use crate::served::Served;
use crate::site::{docker, hold, object};

/// An owner `a` of a namespace, and `b` that lives in it.
fn owner_and_guest(host: &Served, more: &Json) -> ModuleSpec {
    let mut containers = json!({
        "a": hold(&json!({ "ipc": "shareable" })),
        "b": hold(&json!({ "network_mode": "container:a" })),
    });
    for (key, container) in more.as_object().into_iter().flatten() {
        containers[key] = container.clone();
    }
    host.site.module(json!({ "containers": containers }))
}

/// The network namespace in which a container really is.
async fn namespace(host: &Served, key: &str) -> String {
    let pid = host.site.inspect(key).await["State"]["Pid"].to_string();
    let link = std::fs::read_link(format!("/proc/{pid}/ns/net")).expect("it runs");
    link.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_is_started_again_with_its_owner() {
    let host = Served::new("stranded").await;
    let spec = owner_and_guest(&host, &json!({}));
    host.apply(&spec, false).await;
    let name = format!("{}-a", host.site.name);

    docker(&["stop", "-t", "1", &name]);
    let result = host.apply(&spec, false).await;
    assert_eq!(object(&result, "a").action(), Action::Started);
    assert_eq!(object(&result, "b").action(), Action::Started);
    assert_eq!(namespace(&host, "b").await, namespace(&host, "a").await);
    host.settled(&spec).await;

    // Somebody else started the owner.
    docker(&["restart", "-t", "1", &name]);
    let result = host.apply(&spec, false).await;
    assert_eq!(object(&result, "a").action(), Action::Unchanged);
    assert_eq!(object(&result, "b").action(), Action::Started);
    assert_eq!(namespace(&host, "b").await, namespace(&host, "a").await);
    host.settled(&spec).await;
}

/// The guest's old container has no owner to go back to: it is not put back because something else fails later.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_stands_is_not_undone_for_a_stranger() {
    let host = Served::new("group").await;
    host.apply(&owner_and_guest(&host, &json!({})), false).await;
    docker(&["rm", "--force", &format!("{}-a", host.site.name)]);
    let failing = json!({ "image": "plumbline/sample:1", "command": ["/nonexistent"], "depends_on": ["b"] });
    host.fails(&owner_and_guest(&host, &json!({ "z": failing }))).await;
    assert_eq!(namespace(&host, "b").await, namespace(&host, "a").await);
    host.settled(&owner_and_guest(&host, &json!({}))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_was_made_again_is_connected_again() {
    let host = Served::new("netagain").await;
    let endpoint = json!({ "networks": { "lan": { "aliases": ["a"] } } });
    let spec = host.site.module(json!({
        "networks": { "lan": {} }, "containers": { "c": hold(&endpoint) }
    }));
    let lan = format!("{}_lan", host.site.name);
    for made_again in [false, true] {
        host.apply(&spec, true).await;
        docker(&["stop", "-t", "1", &host.container()]);
        let labels =
            host.site.engine.network(&lan).await.expect("it answers").expect("it is there")["Labels"].clone();
        docker(&["network", "rm", &lan]);
        if made_again {
            let body = json!({ "Name": lan, "Labels": labels });
            host.site.engine.create_network(&body).await.expect("it is made");
        }
        let before = host.site.identity("c").await.0;
        let result = host.apply(&spec, false).await;
        assert_eq!(object(&result, "c").action(), Action::Updated, "made again: {made_again}");
        assert_eq!(host.site.identity("c").await.0, before);
        let inspect = host.site.inspect("c").await;
        assert_eq!(inspect["State"]["Running"], json!(true));
        assert_ne!(inspect["NetworkSettings"]["Networks"][&lan]["IPAddress"], json!(""));
        host.settled(&spec).await;
    }
}

/// Nobody chose the name of the volume that was carried over, so nobody changed it.
#[tokio::test(flavor = "multi_thread")]
async fn a_carried_volume_that_leaves_the_declaration_was_not_changed_by_hand() {
    let host = Served::new("carriedgone").await;
    let with =
        |host_name: &str| host.site.holding(&json!({ "hostname": host_name, "mounts": ["/anonymous"] }));
    host.apply(&with("one"), false).await;
    host.apply(&with("two"), true).await;
    let found = host.differs(&host.site.holding(&json!({ "hostname": "two" }))).await;
    assert!(
        !found.is_empty() && found.iter().all(|line| line.ends_with("(RECREATE, DECLARED)")),
        "{found:#?}"
    );
}

/// An old container that can run no more is put back under its name, and does not keep the module from being mended.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_container_that_cannot_start_again_blocks_no_later_apply() {
    let host = Served::new("cannotback").await;
    let peer = format!("{}-peer", host.site.name);
    docker(&["run", "--detach", "--name", &peer, "plumbline/sample:1", "hold"]);
    let guest = json!({ "network_mode": format!("container:{peer}") });
    host.apply(&host.site.holding(&guest), false).await;
    // It runs on, and its namespace can never be entered again.
    docker(&["rm", "--force", &peer]);
    let failure = host.fails(&host.site.holding(&json!({ "entrypoint": ["/nonexistent"] }))).await;
    assert!(!failure.rolled_back, "{}", failure.message);
    assert_eq!(host.site.containers(), [host.container()], "what was before is in its place");

    let mended = host.site.holding(&json!({ "labels": { "mended": "1" } }));
    let result = host.apply(&mended, true).await;
    assert_eq!(object(&result, "c").action(), Action::Recreated);
    assert_eq!(host.site.inspect("c").await["State"]["Running"], json!(true));
    host.settled(&mended).await;
}
