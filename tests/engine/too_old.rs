//! What came to engines later than the oldest that works: a module that declares it on an older one is refused before
//! anything is touched, and the answer names the field and both versions.

use std::collections::BTreeMap;

use plumbline::catalogue::{ApiVersion, leaves};
use plumbline::proto::v1::{Consequence, Outcome, RefusalReason};
use serde_json::{Value as Json, json};

use crate::served::Served;
use crate::site::{changes, hold, object};

/// A declaration of each leaf that is newer than the oldest engine, by its path in the catalogue.
fn declarations(folder: &str) -> BTreeMap<&'static str, Json> {
    let container = |settings: Json| json!({ "containers": { "c": hold(&settings) } });
    let mount = |mount: Json| container(json!({ "mounts": [mount] }));
    let bind = |option: &str| {
        mount(
            json!({ "type": "bind", "source": folder, "target": "/t", "read_only": true, "bind": { option: true } }),
        )
    };
    let endpoint = |options: Json| {
        let mut module = container(json!({ "networks": { "lan": options } }));
        module["networks"] = json!({ "lan": {} });
        module
    };
    BTreeMap::from([
        ("container.annotations[*]", container(json!({ "annotations": { "a": "1" } }))),
        (
            "container.healthcheck.start_interval",
            container(json!({ "healthcheck": { "test": ["CMD", "true"], "start_interval": "1s" } })),
        ),
        ("container.console_size", container(json!({ "console_size": [24, 80] }))),
        ("container.mounts[].bind.create_host_path", bind("create_host_path")),
        ("container.mounts[].bind.read_only_non_recursive", bind("read_only_non_recursive")),
        ("container.mounts[].bind.read_only_force_recursive", bind("read_only_force_recursive")),
        ("container.mounts[].volume.subpath", subpath()),
        (
            "container.mounts[].tmpfs.options",
            mount(json!({ "type": "tmpfs", "target": "/t", "tmpfs": { "options": [["noexec"]] } })),
        ),
        (
            "container.mounts[].image.subpath",
            mount(json!({
                "type": "image", "source": "plumbline/sample:1", "target": "/t", "image": { "subpath": "data" }
            })),
        ),
        ("container.networks[*].mac_address", endpoint(json!({ "mac_address": "02:42:ac:11:00:02" }))),
        ("container.networks[*].gw_priority", endpoint(json!({ "gw_priority": 1 }))),
        (
            "network.enable_ipv4",
            json!({
                "networks": { "c": { "enable_ipv4": false, "enable_ipv6": true } },
                "containers": { "other": hold(&json!({})) }
            }),
        ),
        // A value that is newer than its field.
        (
            "container.mounts[].type",
            mount(json!({ "type": "image", "source": "plumbline/sample:1", "target": "/t" })),
        ),
    ])
}

fn subpath() -> Json {
    let mount =
        json!({ "type": "volume", "source": "data", "target": "/t", "volume": { "subpath": "below" } });
    json!({ "volumes": { "data": {} }, "containers": { "c": hold(&json!({ "mounts": [mount] })) } })
}

/// The version that a leaf of the catalogue, or its newest value, needs.
fn needed(path: &str) -> ApiVersion {
    let leaf = leaves().into_iter().find(|leaf| leaf.path == path).expect("a leaf");
    let value = leaf.rule.value_since.iter().filter_map(|entry| entry.split_once('=')).next_back();
    let since = value.map_or(leaf.rule.since.as_str(), |(_, since)| since);
    since.parse().expect("a version")
}

#[test]
fn every_leaf_that_is_newer_than_the_oldest_engine_has_a_declaration() {
    let is_newer = |since: &str| since.parse::<ApiVersion>().is_ok_and(|since| since > ApiVersion::OLDEST);
    let mut newer: Vec<String> = leaves()
        .into_iter()
        .filter(|leaf| {
            let values = leaf.rule.value_since.iter().filter_map(|entry| entry.split_once('='));
            is_newer(&leaf.rule.since) || values.into_iter().any(|(_, since)| is_newer(since))
        })
        .map(|leaf| leaf.path)
        .collect();
    newer.sort();
    assert!(newer.iter().map(String::as_str).eq(declarations("/").into_keys()), "{newer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_engine_is_too_old_for_is_refused_untouched_by_name_and_both_versions() {
    let host = Served::new("since").await;
    let present = host.site.engine.version().await.expect("the engine answers").api;
    let folder = host.site.host_folder("bound");
    let mut refused = 0;
    for (path, module) in declarations(&folder) {
        let needed = needed(path);
        let spec = host.site.module(module);
        host.engine.take_mutations();
        if needed <= present {
            let planned = host.plan(&spec).await;
            assert_ne!(object(&planned, "c").reason(), RefusalReason::Unsupported, "{path}");
            continue;
        }
        refused += 1;
        for allow in [false, true] {
            let result = host.apply(&spec, allow).await;
            assert_eq!(result.outcome(), Outcome::RefusedNeedsRecreation, "{path}");
            let object = object(&result, "c");
            assert_eq!(object.reason(), RefusalReason::Unsupported, "{path}");
            let leaf = path.rsplit('.').next().expect("a name").trim_end_matches("[*]");
            for words in [leaf, &format!("needs API {needed}"), &format!("speaks API {present}")] {
                assert!(object.detail.contains(words), "{path} without `{words}`: {}", object.detail);
            }
            let changes = changes(object);
            let unsupported =
                changes.iter().filter(|change| change.consequence() == Consequence::Unsupported);
            let needs: Vec<&str> = unsupported.map(|change| change.needs_api.as_str()).collect();
            assert!(needs.contains(&needed.to_string().as_str()), "{path}: {needs:?}");
        }
        assert_eq!(host.engine.take_mutations(), [""; 0], "{path}");
        assert_eq!(host.site.containers(), [""; 0], "{path}");
    }
    assert!(refused > 0 || present >= ApiVersion { major: 1, minor: 48 }, "nothing was refused on {present}");
}

/// Engine 20.10 drops it without a word, and the container would have all of the volume.
#[tokio::test(flavor = "multi_thread")]
async fn a_subpath_of_a_volume_is_refused_on_an_engine_that_would_drop_it() {
    let host = Served::new("subpath").await;
    let present = host.site.engine.version().await.expect("the engine answers").api;
    let without =
        json!({ "volumes": { "data": {} }, "containers": { "c": hold(&json!({ "mounts": ["data:/t"] })) } });
    host.apply(&host.site.module(without.clone()), false).await;
    let before = host.site.identity("c").await;
    host.engine.take_mutations();
    let result = host.apply(&host.site.module(subpath()), false).await;
    assert_eq!(result.outcome(), Outcome::RefusedNeedsRecreation);
    if present < needed("container.mounts[].volume.subpath") {
        let result = host.apply(&host.site.module(subpath()), true).await;
        assert_eq!(
            object(&result, "c").detail,
            format!(
                "this engine speaks API {present} and cannot hold containers.c.mounts[/t].volume.subpath \
                 (needs API 1.45): use an engine that can, or take it out of the declaration"
            )
        );
    }
    assert_eq!(host.engine.take_mutations(), [""; 0]);
    assert_eq!(host.site.identity("c").await, before);
    host.settled(&host.site.module(without)).await;
}
