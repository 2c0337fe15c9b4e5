//! What images and engines fill in is no difference (cases of kind b), and what was taken away is (kind a).

use plumbline::proto::v1::Action;
use serde_json::json;

use crate::site::{Site, object, paths};

#[tokio::test(flavor = "multi_thread")]
async fn h14_h21_h27_an_image_full_of_defaults_is_no_difference() {
    let site = Site::new("imagedefaults").await;
    for (settings, what) in [
        (json!({}), "nothing declared"),
        (json!({ "healthcheck": { "test": ["CMD", "true"] } }), "a part of the image's healthcheck"),
        (json!({ "healthcheck": { "test": ["NONE"] } }), "the image's healthcheck switched off (H25)"),
        (
            json!({ "environment": { "IMAGE_ONE": "mine", "NEW": "1" }, "unset_environment": ["IMAGE_TWO"] }),
            "environment",
        ),
        (json!({ "entrypoint": [], "command": ["/bin/entry", "hold"] }), "the image's entrypoint taken away"),
        (json!({ "ports": ["127.0.0.1::7000"] }), "the port that the image exposes"),
        (json!({ "mounts": [{ "type": "tmpfs", "target": "/imgvol" }] }), "the image's volume covered"),
        (
            json!({ "labels": { "org.example.one": "mine" }, "user": "root", "working_dir": "/var/" }),
            "replaced",
        ),
    ] {
        let mut container = json!({ "image": "plumbline/defaults:1" });
        for (key, value) in settings.as_object().expect("settings") {
            container[key] = value.clone();
        }
        let spec = site.module(json!({ "containers": { "c": container } }));
        let covers = what == "the image's volume covered";
        site.apply_accepting(&spec, if covers { &["/imgvol=removed"] } else { &[] }).await;
        let again = site.apply(&spec, true).await;
        assert_eq!(object(&again, "c").action(), Action::Unchanged, "{what}: {:?}", object(&again, "c").diff);
        assert!(object(&again, "c").residue.is_empty(), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_ways_to_write_the_same_are_no_difference() {
    let site = Site::new("forms").await;
    for settings in [
        json!({ "ports": ["8080:80", "127.0.0.1:8081:81/udp", "9000-9002:90-92", "[::1]:8082:82"], "network_mode": "bridge" }),
        json!({ "ulimits": { "nofile": 1000, "nproc": 900 }, "cpus": 1.5, "mem_limit": "128m" }),
        json!({ "cap_add": [], "dns": [], "restart": "no", "mem_swappiness": -1, "pids_limit": -1 }),
        json!({ "cap_add": ["cap_net_admin", "SYS_TIME"], "cpuset": "1,0", "stop_signal": "9", "working_dir": "/tmp//" }),
        json!({ "logging": { "driver": "json-file" }, "expose": ["90", "91/udp"], "shm_size": "64m" }),
        json!({ "mem_limit": "64m", "memswap_limit": "128m", "tmpfs": { "/run/": "size=1m" }, "hostname": "Named" }),
    ] {
        // Fixed ports of the host are not what is tested: an unstarted container would do, so ports are left to choose.
        let mut settings = settings;
        if settings["ports"].is_array() {
            settings["ports"] = json!(["80", "127.0.0.1::81/udp", "90-92", "[::1]::82"]);
        }
        let spec = site.holding(&settings);
        site.apply(&spec, true).await;
        let again = site.apply(&spec, true).await;
        assert_eq!(
            object(&again, "c").action(),
            Action::Unchanged,
            "{settings}: {:?}",
            object(&again, "c").diff
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_edit_is_the_change_that_was_made() {
    let site = Site::new("edits").await;
    let (old, new) = (site.host_folder("old"), site.host_folder("new"));
    let base = json!({
        "environment": { "V1": "1", "V2": "2" }, "labels": { "a": "1" }, "dns": ["10.0.0.2"],
        "mounts": [format!("{old}:/srv")], "tmpfs": { "/t": "size=10m" }, "ulimits": { "nofile": 100 },
        "healthcheck": { "test": ["CMD", "true"], "interval": "1s" }, "init": true, "cpu_quota": 50000
    });
    site.apply(&site.holding(&base), false).await;
    let before = site.identity("c").await;
    for (field, value, expected) in [
        ("environment", json!({ "V1": "1" }), "environment[V2]"),
        ("environment", json!({ "V1": "1", "V2": "" }), "environment[V2]"),
        ("labels", json!({}), "labels[a]"),
        ("dns", json!(["10.0.0.3"]), "dns"),
        ("mounts", json!([format!("{new}:/srv")]), "mounts[/srv].source"),
        ("tmpfs", json!({ "/t": "size=20m" }), "tmpfs[/t]"),
        ("ulimits", json!({ "nofile": { "soft": 100, "hard": 200 } }), "ulimits[nofile].hard"),
        ("healthcheck", json!({ "test": ["CMD", "true"], "interval": "30s" }), "healthcheck.interval"),
        ("init", json!(false), "init"),
        ("cpu_quota", json!(60000), "cpu_quota"),
    ] {
        let mut edited = base.clone();
        edited[field] = value;
        assert_eq!(paths(&site.differs(&site.holding(&edited)).await), [expected]);
    }
    let mut more = base.clone();
    more["mounts"] = json!([format!("{old}:/srv"), format!("{new}:/extra:ro")]);
    let added = site.differs(&site.holding(&more)).await;
    assert!(paths(&added).iter().all(|path| path.starts_with("mounts[/extra]")), "h01: {:?}", paths(&added));
    let mut moved = base.clone();
    moved["mounts"] = json!([format!("{old}:/other")]);
    let moved = site.differs(&site.holding(&moved)).await;
    assert!(
        paths(&moved).contains(&"mounts[/srv].target") && paths(&moved).contains(&"mounts[/other].target"),
        "h02"
    );
    let mut without = base.clone();
    without.as_object_mut().expect("settings").remove("mounts");
    let without = site.holding(&without);
    assert!(paths(&site.differs(&without).await).contains(&"mounts[/srv].source"), "h07, h31");
    assert_eq!(site.identity("c").await, before, "nothing was touched by asking");
    site.apply(&without, true).await;
    assert_eq!(site.inspect("c").await["Mounts"], json!([]), "h07: it is not mounted any more");
}
