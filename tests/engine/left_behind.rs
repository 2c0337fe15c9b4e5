//! Networks and volumes that left the declaration, and volumes whose declaration changed.

use plumbline::proto::v1::{Action, ModuleSpec, ObjectKind, ObjectResult, Outcome, RefusalReason};
use serde_json::{Value as Json, json};

use crate::served::Served;
use crate::site::{Site, docker, hold, object};

/// A container on a network with a volume, or without both.
fn module(site: &Site, with: bool) -> ModuleSpec {
    if !with {
        return site.module(json!({ "containers": { "c": hold(&json!({})) } }));
    }
    let container = json!({ "networks": { "back": {} }, "mounts": ["data:/data"] });
    site.module(json!({ "networks": { "back": {} }, "volumes": { "data": {} }, "containers": { "c": hold(&container) } }))
}

fn left(objects: &[ObjectResult], kind: ObjectKind) -> &ObjectResult {
    objects.iter().find(|object| object.kind() == kind).expect("it is shown")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_left_goes_and_a_volume_that_left_stays_and_is_shown() {
    let host = Served::new("leftboth").await;
    let site = &host.site;
    host.apply(&module(site, true), false).await;
    docker(&["exec", &host.container(), "sh", "-c", "echo kept > /data/file"]);

    let planned = host.plan(&module(site, false)).await;
    let used = format!("whatever it holds (used so far by {})", host.container());
    assert!(left(&planned.objects, ObjectKind::Volume).detail.contains(&used), "{planned:?}");
    let (network, volume) =
        (left(&planned.objects, ObjectKind::Network), left(&planned.objects, ObjectKind::Volume));
    assert_eq!((network.action(), volume.action()), (Action::Unchanged, Action::Unchanged));
    assert!(network.detail.contains("--recreate"), "{}", network.detail);

    let applied = host.apply_accepting(&module(site, false), &["/data=removed"]).await;
    assert_eq!(left(&applied.objects, ObjectKind::Network).action(), Action::Removed);
    assert!(!docker(&["network", "ls"]).contains(&format!("{}_back", site.name)));
    let volume = left(&applied.objects, ObjectKind::Volume);
    let name = format!("{}_data", site.name);
    assert_eq!((volume.action(), volume.engine_name.as_str()), (Action::Unchanged, name.as_str()));
    assert!(volume.detail.contains(&format!("docker volume rm {name}")), "{}", volume.detail);

    // It changes no outcome, and comes back with its data when it is declared again.
    host.settled(&module(site, false)).await;
    let settled = host.apply(&module(site, false), false).await;
    assert_eq!((settled.outcome(), settled.action()), (Outcome::Applied, Action::Unchanged));
    host.apply(&module(site, true), true).await;
    assert_eq!(docker(&["exec", &host.container(), "cat", "/data/file"]), "kept");
    host.settled(&module(site, true)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_left_and_is_used_by_others_stays_and_names_them() {
    let host = Served::new("leftused").await;
    let site = &host.site;
    let stranger = format!("{}-stranger", site.name);
    host.apply(&module(site, true), false).await;
    let (network, volume) = (format!("{}_back", site.name), format!("{}_data:/d", site.name));
    docker(&[
        "create",
        "--name",
        &stranger,
        "--network",
        &network,
        "-v",
        &volume,
        "plumbline/sample:1",
        "hold",
    ]);
    let applied = host.apply_accepting(&module(site, false), &["/data=removed"]).await;
    for kind in [ObjectKind::Network, ObjectKind::Volume] {
        let shown = left(&applied.objects, kind);
        assert_eq!(shown.action(), Action::Unchanged);
        assert!(shown.detail.contains(&stranger), "{}", shown.detail);
    }
    host.settled(&module(site, false)).await;
    docker(&["rm", "-f", &stranger]);
    let applied = host.apply(&module(site, false), true).await;
    assert_eq!(left(&applied.objects, ObjectKind::Network).action(), Action::Removed);
    assert_eq!((applied.outcome(), applied.action()), (Outcome::Applied, Action::Removed));
}

/// A container that leaves goes before its network does.
#[tokio::test(flavor = "multi_thread")]
async fn a_network_leaves_with_its_container_or_both_stay() {
    let host = Served::new("lefttogether").await;
    let site = &host.site;
    let spec = |old: bool, entrypoint: &str| {
        let mut module = json!({ "containers": { "c": hold(&json!({ "entrypoint": [entrypoint] })) } });
        if old {
            module["networks"] = json!({ "back": {} });
            module["containers"]["old"] = hold(&json!({ "networks": { "back": {} } }));
        }
        site.module(module)
    };
    host.apply(&spec(true, "/bin/entry"), false).await;
    let refused = host.apply(&spec(false, "/bin/entry"), false).await;
    assert_eq!(object(&refused, "old").reason(), RefusalReason::NeedsRemoval);
    host.fails(&spec(false, "/nonexistent")).await;
    host.settled(&spec(true, "/bin/entry")).await;
    let applied = host.apply(&spec(false, "/bin/entry"), true).await;
    assert_eq!(object(&applied, "old").action(), Action::Removed);
    assert_eq!(object(&applied, "back").action(), Action::Removed);
    assert!(!docker(&["network", "ls"]).contains(&format!("{}_back", site.name)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_volume_is_refused_with_what_would_be_lost() {
    let site = Site::new("volumelost").await;
    let spec = |labels: Json| {
        let container = hold(&json!({ "mounts": ["data:/fresh"] }));
        site.module(json!({ "volumes": { "data": { "labels": labels } }, "containers": { "c": container } }))
    };
    site.apply(&spec(json!({})), false).await;
    let name = format!("{}-c", site.name);
    docker(&["exec", &name, "sh", "-c", "echo one > /fresh/1; echo two > /fresh/2"]);
    for allow in [false, true] {
        let mutations = site.engine.mutations();
        let refused = site.apply(&spec(json!({ "edit": "1" })), allow).await;
        let volume = object(&refused, "data");
        assert_eq!(volume.reason(), RefusalReason::WouldLoseData);
        for part in ["2 files, 8 bytes", "driver local", &format!("used by {name}")] {
            assert!(volume.detail.contains(part), "{part}: {}", volume.detail);
        }
        assert_eq!(site.engine.mutations(), mutations);
    }
    assert_eq!(docker(&["exec", &name, "cat", "/fresh/1", "/fresh/2"]), "one\ntwo");
}
