//! A new container in the place of the old one: what is kept.

use plumbline::proto::v1::{Action, Outcome};
use serde_json::json;

use crate::free::{free_ports, own_subnet};
use crate::site::{Site, docker, object, text};

#[tokio::test(flavor = "multi_thread")]
async fn h27_h30_anonymous_volumes_keep_their_data_twice() {
    let site = Site::new("anonymous").await;
    let spec = |label: &str| {
        site.module(json!({ "containers": { "c": {
            "image": "plumbline/defaults:1", "user": "0", "labels": { "edit": label }, "mounts": ["/own"]
        } } }))
    };
    site.apply(&spec("1"), false).await;
    let name = format!("{}-c", site.name);
    let volumes = |inspect: &serde_json::Value| {
        let mut all: Vec<(String, String)> = inspect["Mounts"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|mount| (text(&mount["Destination"]), text(&mount["Name"])))
            .collect();
        all.sort();
        all
    };
    let before = volumes(&site.inspect("c").await);
    assert_eq!(before.len(), 2, "the image's volume and the declared one: {before:?}");
    for (target, _) in &before {
        docker(&["exec", &name, "/bin/sh", "-c", &format!("echo kept > {target}/file")]);
    }
    for edit in ["2", "3"] {
        let result = site.apply(&spec(edit), true).await;
        assert_eq!(object(&result, "c").action(), Action::Recreated);
        assert_eq!(volumes(&site.inspect("c").await), before, "the same volumes");
        for (target, _) in &before {
            assert_eq!(docker(&["exec", &name, "cat", &format!("{target}/file")]), "kept");
        }
        assert_eq!(object(&site.apply(&spec(edit), true).await, "c").action(), Action::Unchanged);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h28_h38_a_fixed_port_and_a_bind_are_kept() {
    let site = Site::new("port").await;
    let (folder, port) = (site.host_folder("up"), free_ports());
    let spec = |value: &str| {
        site.holding(&json!({
            "environment": { "EDIT": value }, "ports": [format!("127.0.0.1:{port}:8080")], "mounts": [format!("{folder}:/upload")]
        }))
    };
    site.apply(&spec("1"), false).await;
    let old = site.identity("c").await;
    let result = site.apply(&spec("2"), true).await;
    assert_eq!(result.outcome(), Outcome::Recreated);
    let new = site.inspect("c").await;
    assert_ne!(text(&new["Id"]), old.0);
    assert_eq!(new["Mounts"][0]["Source"], json!(folder));
    assert_eq!(new["NetworkSettings"]["Ports"]["8080/tcp"][0]["HostPort"], port.to_string());
    assert_eq!(site.containers(), [format!("{}-c", site.name)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn h32_h33_a_static_address_is_kept_and_a_generated_one_is_not_pinned() {
    let site = Site::new("static").await;
    let subnet = own_subnet();
    let address = format!("{subnet}.10");
    let network = json!({ "lan": { "ipam": { "config": [{ "subnet": format!("{subnet}.0/24") }] } } });
    let spec = |label: &str| {
        let container = crate::site::hold(&json!({
            "labels": { "edit": label }, "networks": { "lan": { "ipv4_address": address } }
        }));
        site.module(json!({ "containers": { "c": container }, "networks": network }))
    };
    site.apply(&spec("1"), false).await;
    site.apply(&spec("2"), true).await;
    let inspect = site.inspect("c").await;
    let endpoint = &inspect["NetworkSettings"]["Networks"][format!("{}_lan", site.name)];
    assert_eq!(endpoint["IPAddress"], address);
    assert_eq!(
        inspect["Config"]["MacAddress"].as_str().unwrap_or_default(),
        "",
        "no address of hardware is declared"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn h39_who_lives_in_a_namespace_is_recreated_after_its_owner() {
    let site = Site::new("namespace").await;
    let spec = |label: &str| {
        site.module(json!({ "containers": {
            "a": crate::site::hold(&json!({ "labels": { "edit": label }, "ipc": "shareable" })),
            "b": crate::site::hold(&json!({ "network_mode": "container:a" })),
            "by-name": crate::site::hold(&json!({ "ipc": format!("container:{}-a", site.name) })),
            "linked": crate::site::hold(&json!({ "links": [format!("{}-a:x", site.name)] }))
        } }))
    };
    site.apply(&spec("1"), false).await;
    let guest = site.identity("b").await;
    site.apply(&spec("2"), true).await;
    let owner = site.inspect("a").await;
    let new_guest = site.inspect("b").await;
    assert_ne!(text(&new_guest["Id"]), guest.0);
    assert_eq!(new_guest["HostConfig"]["NetworkMode"], json!(format!("container:{}", text(&owner["Id"]))));
    let again = site.apply(&spec("2"), true).await;
    assert!(again.objects.iter().all(|object| object.action() == Action::Unchanged));
}

#[tokio::test(flavor = "multi_thread")]
async fn h35_a_container_that_removes_itself_is_refused_and_runs_on() {
    let site = Site::new("autoremove").await;
    let spec = |value: &str| site.holding(&json!({ "auto_remove": true, "environment": { "EDIT": value } }));
    site.apply(&spec("1"), false).await;
    let before = site.identity("c").await;
    let result = site.apply(&spec("2"), true).await;
    assert_eq!(result.outcome(), Outcome::RefusedNeedsRecreation);
    assert!(object(&result, "c").detail.contains("removes"), "{}", object(&result, "c").detail);
    assert_eq!(site.identity("c").await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn h16_a_tag_that_moved_is_a_change_and_another_name_of_the_image_is_not() {
    let site = Site::new("tag").await;
    let tag = format!("{}:latest", site.name);
    docker(&["tag", "plumbline/sample:1", &tag]);
    let spec = site.holding(&json!({ "image": tag, "pull_policy": "never" }));
    site.apply(&spec, false).await;
    let other_name = site.holding(&json!({ "image": "plumbline/sample:1" }));
    assert_eq!(crate::site::paths(&site.differs(&other_name).await), [] as [&str; 0]);
    docker(&["tag", "plumbline/sample:2", &tag]);
    assert_eq!(crate::site::paths(&site.differs(&spec).await), ["image"]);
    let result = site.apply(&spec, true).await;
    assert_eq!(object(&result, "c").action(), Action::Recreated);
    assert_eq!(docker(&["exec", &format!("{}-c", site.name), "cat", "/version"]), "sample:2");
    docker(&["rmi", &tag]);
}
