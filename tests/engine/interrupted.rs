//! What an agent that was killed in the middle of a recreation leaves behind does not block the next apply (H37).
//!
//! The agent is not killed here: the states that it would leave are made by hand, with its labels.

use plumbline::proto::v1::{Action, RefusalReason};
use serde_json::{Value as Json, json};

use crate::served::Served;
use crate::site::{docker, hold, object};

/// A host with a container that runs as first declared.
async fn with_one(test: &str) -> (Served, String) {
    let host = Served::new(test).await;
    let first = host.site.holding(&json!({ "restart": "always", "labels": { "edit": "1" } }));
    host.apply(&first, false).await;
    let old = host.site.identity("c").await.0;
    (host, old)
}

/// Makes what the agent would have made: a container with its labels, as declared the second time.
async fn make_new(host: &Served, name: &str) {
    let mut labels = host.site.inspect("c").await["Config"]["Labels"].clone();
    labels["edit"] = json!("2");
    let body = json!({
        "Image": "plumbline/sample:1", "Cmd": ["hold"], "Labels": labels,
        "HostConfig": { "RestartPolicy": { "Name": "always" } }
    });
    host.site.engine.create_container(name, None, &body).await.expect("it can be made");
}

fn stop_old(old: &str) {
    docker(&["update", "--restart", "no", old]);
    docker(&["stop", old]);
}

/// The next apply needs permission, and with it there is one container as declared, under its own name.
async fn recovers(host: &Served) {
    let second = host.site.holding(&json!({ "restart": "always", "labels": { "edit": "2" } }));
    let before = host.site.containers();
    let refused = host.apply(&second, false).await;
    assert_eq!(refused.action(), Action::Refused);
    assert_eq!(host.site.containers(), before, "nothing was touched");
    host.apply(&second, true).await;
    assert_eq!(host.site.containers(), [host.container()]);
    let inspect = host.site.inspect("c").await;
    let shown = (&inspect["State"]["Running"], &inspect["Config"]["Labels"]["edit"]);
    assert_eq!(shown, (&json!(true), &json!("2")));
    assert_eq!(inspect["HostConfig"]["RestartPolicy"]["Name"], "always");
    host.settled(&second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h37_killed_before_the_old_one_was_stopped() {
    let (host, _old) = with_one("kspare").await;
    for spare in ["plumbline-new", "plumbline-new-0123"] {
        make_new(&host, &format!("{}.{spare}", host.container())).await;
    }
    recovers(&host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h37_killed_between_the_two_renames() {
    let (host, old) = with_one("kaside").await;
    make_new(&host, &format!("{}.plumbline-new", host.container())).await;
    stop_old(&old);
    docker(&["rename", &old, &format!("{}.plumbline-old", host.container())]);
    recovers(&host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h37_killed_before_the_new_one_was_started() {
    let (host, old) = with_one("kstart").await;
    let spare = format!("{}.plumbline-new", host.container());
    make_new(&host, &spare).await;
    stop_old(&old);
    docker(&["rename", &old, &format!("{}.plumbline-old", host.container())]);
    docker(&["rename", &spare, &host.container()]);
    recovers(&host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h37_killed_before_the_old_one_was_removed() {
    let (host, old) = with_one("kremove").await;
    let spare = format!("{}.plumbline-new", host.container());
    make_new(&host, &spare).await;
    stop_old(&old);
    docker(&["rename", &old, &format!("{}.plumbline-old", host.container())]);
    docker(&["rename", &spare, &host.container()]);
    docker(&["start", &host.container()]);
    let new = host.site.identity("c").await;
    recovers(&host).await;
    assert_eq!(host.site.identity("c").await, new, "it was as declared already");
}

/// Another key in the manifest, the same name at the engine: the old container goes, the new one gets its name.
#[tokio::test(flavor = "multi_thread")]
async fn a_container_may_get_another_key_and_keep_its_name() {
    let host = Served::new("rekeyed").await;
    let named = |key: &str| {
        let container = hold(&json!({ "container_name": format!("{}-named", host.site.name) }));
        host.site.module(json!({ "containers": { key: container } }))
    };
    host.apply(&named("web"), false).await;
    let before = host.site.containers();
    let refused = host.apply(&named("www"), false).await;
    assert_eq!(object(&refused, "web").reason(), RefusalReason::NeedsRemoval);
    assert_eq!(object(&refused, "www").reason(), RefusalReason::Module);
    let allowed = host.apply(&named("www"), true).await;
    assert_eq!(object(&allowed, "web").action(), Action::Removed);
    assert_eq!(object(&allowed, "www").action(), Action::Created);
    assert_eq!(host.site.containers(), before);
    host.settled(&named("www")).await;
}

/// Engines find containers by the first digits of their id, too: a name like `db` may be such digits.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_digits_of_a_strangers_id_are_not_its_name() {
    let host = Served::new("digits").await;
    let stranger = format!("{}-stranger", host.site.name);
    let id = docker(&["run", "-d", "--name", &stranger, "plumbline/sample:1", "hold"]);
    let name = &id[..7];
    let spec = host.site.holding(&json!({ "container_name": name }));
    let result = host.apply(&spec, false).await;
    assert_eq!(object(&result, "c").action(), Action::Created);
    host.settled(&spec).await;
    let renamed = host.site.holding(&json!({ "container_name": &id[..8] }));
    assert_eq!(object(&host.apply(&renamed, false).await, "c").action(), Action::Updated);
    let shown: Json = host.site.inspect_name(&object(&result, "c").engine_id).await;
    assert_eq!(shown["Name"], json!(format!("/{}", &id[..8])));
    docker(&["rm", "--force", &object(&result, "c").engine_id]);
}
