//! A step that fails: what was before is back, and the answer says so.

use plumbline::proto::v1::{Action, Outcome, RefusalReason};
use plumbline_agent::apply::ApplyError;
use serde_json::json;

use crate::free::free_ports;
use crate::site::{Site, docker, hold, object, request, text};

/// The old container is the one that runs, under its own name, with its own restart policy, and nothing else is there.
async fn is_back(site: &Site, before: &serde_json::Value) {
    let now = site.inspect("c").await;
    assert_eq!(now["Id"], before["Id"]);
    assert_eq!(now["State"]["Running"], true);
    // Engine 20.10 shows "" where none was ever set; that and "no" are the same.
    let policy =
        |inspect: &serde_json::Value| text(&inspect["HostConfig"]["RestartPolicy"]["Name"]).replace("no", "");
    assert_eq!(policy(&now), policy(before));
    assert_eq!(now["Mounts"], before["Mounts"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn h34_h36_a_bad_entrypoint_brings_the_old_container_back_five_times() {
    let site = Site::new("badentry").await;
    site.apply(&site.holding(&json!({ "restart": "always", "mounts": ["/anonymous"] })), false).await;
    let before = site.inspect("c").await;
    let volumes = docker(&["volume", "ls", "-q"]).lines().count();
    let bad = site.holding(
        &json!({ "restart": "always", "mounts": ["/anonymous"], "entrypoint": ["/no/such/program"] }),
    );
    for _ in 0..5 {
        let error = site.fails(&bad).await;
        assert!(error.rolled_back(), "{error}");
        assert!(error.to_string().contains("the old container runs again"), "{error}");
        is_back(&site, &before).await;
        assert_eq!(
            site.containers(),
            [format!("{}-c", site.name)],
            "no stray container, and names do not grow"
        );
    }
    assert!(docker(&["volume", "ls", "-q"]).lines().count() <= volumes + 8, "no volume for each attempt");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_container_that_dies_at_once_tells_its_last_lines() {
    let site = Site::new("dies").await;
    site.apply(&site.holding(&json!({ "restart": "unless-stopped" })), false).await;
    let before = site.inspect("c").await;
    let dying = site.holding(&json!({
        "restart": "unless-stopped", "entrypoint": ["/bin/sh", "-c"], "command": ["echo no such database; exit 7"]
    }));
    let error = site.fails(&dying).await;
    assert!(error.to_string().contains("exit code 7"), "{error}");
    // Under load the engine has started it again before its lines were read.
    let lines = &error.failure().expect("how it ended").last_lines;
    assert!(!lines.is_empty() && lines.iter().all(|line| line == "no such database"), "{lines:?}");
    is_back(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_of_a_stranger_brings_the_old_container_back() {
    let site = Site::new("taken").await;
    let port = format!("127.0.0.1:{}:8080", free_ports());
    docker(&[
        "run",
        "-d",
        "--name",
        &format!("{}-stranger", site.name),
        "-p",
        &port,
        "plumbline/sample:1",
        "hold",
    ]);
    site.apply(&site.holding(&json!({})), false).await;
    let before = site.inspect("c").await;
    let error = site.fails(&site.holding(&json!({ "ports": [port] }))).await;
    assert!(error.to_string().contains("already allocated"), "{error}");
    is_back(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h29_a_bind_source_that_is_missing_is_refused_and_nothing_is_made_on_the_host() {
    let site = Site::new("missing").await;
    let missing = format!("{}/not-there", site.host_folder("root"));
    let spec = site.holding(&json!({ "mounts": [format!("{missing}:/data")] }));
    let refused = site.apply(&spec, true).await;
    assert_eq!(object(&refused, "c").reason(), RefusalReason::DataGuard);
    // Who accepts that it is missing hears it from the engine, which does not make it either.
    let accepting = async |spec| site.apply_request(&request(spec, &["/data=missing"])).await.error;
    let error = accepting(&spec).await.expect("it cannot be mounted");
    assert!(error.to_string().contains("bind source path does not exist"), "{error}");
    assert!(!std::path::Path::new(&missing).exists());
    assert_eq!(site.containers(), [] as [&str; 0]);

    site.apply(&site.holding(&json!({})), false).await;
    let before = site.inspect("c").await;
    let relabelled = site.holding(&json!({ "mounts": [format!("{missing}:/data:z")] }));
    for spec in [&spec, &relabelled] {
        let refused = site.apply(spec, true).await;
        assert_eq!(object(&refused, "c").reason(), RefusalReason::DataGuard);
        assert!(accepting(spec).await.is_some());
        assert!(
            !std::path::Path::new(&missing).exists(),
            "not even in the form that engines make host paths for"
        );
        is_back(&site, &before).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_cannot_be_had_touches_nothing() {
    let site = Site::new("noimage").await;
    site.apply(&site.holding(&json!({})), false).await;
    let before = site.inspect("c").await;
    let error = site.fails(&site.holding(&json!({ "image": "127.0.0.1:1/no/such:1" }))).await;
    assert!(matches!(error, ApplyError::Engine(_)), "{error}");
    is_back(&site, &before).await;
    let never = site.holding(&json!({ "image": "127.0.0.1:1/no/such:1", "pull_policy": "never" }));
    let result = site.apply(&never, true).await;
    assert_eq!(object(&result, "c").reason(), RefusalReason::Missing);
    is_back(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_of_the_same_name_is_never_touched() {
    let site = Site::new("stranger").await;
    let name = format!("{}-c", site.name);
    docker(&["run", "-d", "--name", &name, "plumbline/sample:1", "hold"]);
    let before = site.inspect("c").await;
    let mutations = site.engine.mutations();
    let result = site.apply(&site.holding(&json!({})), true).await;
    assert_eq!(object(&result, "c").reason(), RefusalReason::NotOurs);
    assert!(object(&result, "c").detail.contains("plumb take"));
    assert_eq!(site.engine.mutations(), mutations, "not one mutating call");
    is_back(&site, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_this_engine_cannot_hold_is_refused_before_anything_is_touched() {
    let site = Site::new("tooold").await;
    let api = site.engine.version().await.expect("the engine answers").api;
    let leaf = plumbline::catalogue::leaves()
        .into_iter()
        .find(|leaf| !leaf.supported_by(api) && leaf.path == "container.annotations[*]");
    let Some(leaf) = leaf else { return assert!(api.minor >= 43, "annotations came with API 1.43") };
    let spec = site.module(json!({
        "containers": { "c": hold(&json!({ "annotations": { "a": "1" } })) }, "volumes": { "data": {} }
    }));
    let mutations = site.engine.mutations();
    let result = site.apply(&spec, true).await;
    let refused = object(&result, "c");
    assert_eq!(refused.reason(), RefusalReason::Unsupported);
    assert!(
        refused.detail.contains(&leaf.rule.since) && refused.detail.contains("annotations[a]"),
        "{}",
        refused.detail
    );
    assert_eq!(site.engine.mutations(), mutations);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_volume_is_refused_and_its_data_stays() {
    let site = Site::new("volume").await;
    let spec = |label: &str| {
        site.module(json!({
            "containers": { "c": hold(&json!({ "mounts": ["data:/data"] })) }, "volumes": { "data": { "labels": { "l": label } } }
        }))
    };
    site.apply(&spec("1"), false).await;
    let name = format!("{}_data", site.name);
    let before = site.engine.volume(&name).await.expect("the engine answers").expect("the volume is there");
    let result = site.apply(&spec("2"), true).await;
    assert_eq!(result.outcome(), Outcome::RefusedNeedsRecreation);
    assert_eq!(object(&result, "data").reason(), RefusalReason::WouldLoseData);
    assert_eq!(object(&result, "data").action(), Action::Refused);
    let after = site.engine.volume(&name).await.expect("the engine answers").expect("the volume is there");
    assert_eq!(text(&after["CreatedAt"]), text(&before["CreatedAt"]));
}
