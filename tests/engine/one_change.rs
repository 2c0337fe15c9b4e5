//! The fields whose change nobody noticed before, one test each: exactly one change with its path, both values and its
//! consequence; refused without permission, the container untouched; with it recreated and read back; then at rest.

use plumbline::proto::v1::{Action, Outcome, RefusalReason};
use serde_json::{Value as Json, json};

use crate::free::own_subnet;
use crate::served::{Served, lines};
use crate::site::{changes, object};

/// Goes from one declaration to the other. `expected` is the one change; `shows` what inspect must show in the end.
async fn one_change(test: &str, before: &Json, after: &Json, expected: &str, shows: impl Fn(&Json)) {
    let host = Served::new(test).await;
    one_change_on(&host, before, after, expected, shows).await;
}

async fn one_change_on(host: &Served, before: &Json, after: &Json, expected: &str, shows: impl Fn(&Json)) {
    let (before, after) = (host.site.holding(before), host.site.holding(after));
    let made = host.apply(&before, false).await;
    assert_eq!((made.outcome(), made.action()), (Outcome::Applied, Action::Created));
    let old = host.site.identity("c").await;

    host.engine.take_mutations();
    let planned = host.plan(&after).await;
    assert_eq!(lines(&changes(object(&planned, "c"))), [expected]);
    let refused = host.apply(&after, false).await;
    assert_eq!(refused.outcome(), Outcome::RefusedNeedsRecreation);
    assert_eq!(object(&refused, "c").reason(), RefusalReason::NeedsRecreation);
    assert_eq!(refused.objects, planned.objects, "the plan is what the apply says");
    assert_eq!(host.engine.take_mutations(), [""; 0], "not one mutating call");
    assert_eq!(host.site.identity("c").await, old, "not even restarted");

    let allowed = host.apply(&after, true).await;
    assert_eq!((allowed.outcome(), allowed.action()), (Outcome::Recreated, Action::Recreated));
    assert_eq!(lines(&changes(object(&allowed, "c"))), [expected]);
    assert_eq!(object(&allowed, "c").residue, []);
    let inspect = host.site.inspect("c").await;
    assert_eq!(inspect["Id"], json!(object(&allowed, "c").engine_id));
    assert_ne!(inspect["Id"], json!(old.0));
    assert_eq!(inspect["State"]["Running"], true);
    shows(&inspect);
    assert_eq!(host.site.containers(), [host.container()], "the old one is gone");
    host.settled(&after).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h03_h09_a_changed_bind_path_is_one_change() {
    let host = Served::new("onebind").await;
    // Another path to the same data: what stands there is not what is tested here.
    let (old, new) = (host.site.host_folder("old"), format!("{}/new", host.site.host_folder("links")));
    std::os::unix::fs::symlink(&old, &new).expect("a link");
    let declare = |folder: &str| json!({ "mounts": [format!("{folder}:/srv")] });
    let expected = format!("mounts[/srv].source: {old} -> {new} (RECREATE, DECLARED)");
    one_change_on(&host, &declare(&old), &declare(&new), &expected, |inspect| {
        assert_eq!(inspect["Mounts"][0]["Source"], json!(new));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_dns_server_is_one_change() {
    let declare = |server: &str| json!({ "dns": [server, "192.0.2.9"] });
    let expected = "dns: [192.0.2.1, 192.0.2.9] -> [192.0.2.2, 192.0.2.9] (RECREATE, DECLARED)";
    one_change("onedns", &declare("192.0.2.1"), &declare("192.0.2.2"), expected, |inspect| {
        assert_eq!(inspect["HostConfig"]["Dns"], json!(["192.0.2.2", "192.0.2.9"]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h04_a_removed_environment_entry_is_one_change_and_the_images_own_stay() {
    let declare = |environment: Json| json!({ "image": "plumbline/defaults:1", "environment": environment });
    let (both, one) = (declare(json!({ "V1": "1", "V2": "2" })), declare(json!({ "V1": "1" })));
    let expected = "environment[V2]: secret -> absent (RECREATE, DECLARED)";
    one_change("oneenv", &both, &one, expected, |inspect| {
        let mut entries: Vec<&str> =
            inspect["Config"]["Env"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
        entries.sort_unstable();
        assert_eq!(entries, ["IMAGE_ONE=first", "IMAGE_TWO=two words", "V1=1"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_label_is_one_change() {
    let (both, one) = (json!({ "labels": { "a": "1", "b": "2" } }), json!({ "labels": { "a": "1" } }));
    let expected = "labels[b]: 2 -> absent (RECREATE, DECLARED)";
    one_change("onelabel", &both, &one, expected, |inspect| {
        assert_eq!(inspect["Config"]["Labels"]["a"], "1");
        assert!(inspect["Config"]["Labels"].get("b").is_none());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h06_a_changed_health_interval_is_one_change() {
    let declare =
        |interval: &str| json!({ "healthcheck": { "test": ["CMD", "true"], "interval": interval } });
    let expected = "healthcheck.interval: 1s -> 2s (RECREATE, DECLARED)";
    one_change("onehealth", &declare("1s"), &declare("2s"), expected, |inspect| {
        assert_eq!(inspect["Config"]["Healthcheck"]["Interval"], 2_000_000_000_i64);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h12_a_changed_tmpfs_option_is_one_change() {
    let declare = |options: &str| json!({ "tmpfs": { "/t": options } });
    let expected = "tmpfs[/t]: size=10m,noexec -> size=20m,noexec (RECREATE, DECLARED)";
    let (before, after) = (declare("size=10m,noexec"), declare("size=20m,noexec"));
    one_change("onetmpfs", &before, &after, expected, |inspect| {
        assert_eq!(inspect["HostConfig"]["Tmpfs"], json!({ "/t": "size=20m,noexec" }));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_ulimit_is_one_change() {
    let declare = |soft: i64| json!({ "ulimits": { "nofile": { "soft": soft, "hard": 512 }, "core": 0 } });
    let expected = "ulimits[nofile].soft: 128 -> 256 (RECREATE, DECLARED)";
    one_change("oneulimit", &declare(128), &declare(256), expected, |inspect| {
        let nofile = inspect["HostConfig"]["Ulimits"].as_array().into_iter().flatten();
        let nofile: Vec<&Json> = nofile.filter(|limit| limit["Name"] == "nofile").collect();
        assert_eq!(nofile, [&json!({ "Name": "nofile", "Soft": 256, "Hard": 512 })]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h12_a_toggled_init_is_one_change() {
    let declare = |init: bool| json!({ "init": init });
    one_change(
        "oneinit",
        &declare(false),
        &declare(true),
        "init: false -> true (RECREATE, DECLARED)",
        |inspect| assert_eq!(inspect["HostConfig"]["Init"], true),
    )
    .await;
}

/// H11: an address is changed on the running container, by disconnecting and connecting; a name server is not.
#[tokio::test(flavor = "multi_thread")]
async fn h11_dns_and_address_are_two_changes_of_which_the_address_is_in_place() {
    let host = Served::new("onestatic").await;
    let subnet = own_subnet();
    let (first, second) = (format!("{subnet}.10"), format!("{subnet}.11"));
    let declare = |dns: &str, address: &str| {
        host.site.module(json!({
            "networks": { "lan": { "ipam": { "config": [{ "subnet": format!("{subnet}.0/24") }] } } },
            "containers": { "c": crate::site::hold(&json!({
                "dns": [dns], "networks": { "lan": { "ipv4_address": address } }
            })) }
        }))
    };
    let address_of = |inspect: &Json| {
        let lan = &inspect["NetworkSettings"]["Networks"][format!("{}_lan", host.site.name)];
        assert_eq!(lan["IPAddress"], lan["IPAMConfig"]["IPv4Address"]);
        lan["IPAddress"].clone()
    };
    host.apply(&declare("10.0.0.2", &first), false).await;
    let old = host.site.inspect("c").await;
    assert_eq!(address_of(&old), first);

    let moved = format!("networks[lan].ipv4_address: {first} -> {second} (IN_PLACE, DECLARED)");
    let both = declare("10.0.0.3", &second);
    assert_eq!(
        host.differs(&both).await,
        [moved.as_str(), "dns: [10.0.0.2] -> [10.0.0.3] (RECREATE, DECLARED)"]
    );

    let address_alone = declare("10.0.0.2", &second);
    assert_eq!(host.differs(&address_alone).await, [moved.as_str()]);
    let result = host.apply(&address_alone, false).await;
    assert_eq!((result.outcome(), result.action()), (Outcome::Applied, Action::Updated));
    let new = host.site.inspect("c").await;
    assert_eq!(address_of(&new), second);
    assert_eq!((&new["Id"], &new["State"]["Pid"]), (&old["Id"], &old["State"]["Pid"]), "the same process");
    host.settled(&address_alone).await;

    let refused = host.apply(&both, false).await;
    assert_eq!(refused.outcome(), Outcome::RefusedNeedsRecreation);
    assert_eq!(host.apply(&both, true).await.outcome(), Outcome::Recreated);
    assert_eq!(address_of(&host.site.inspect("c").await), second);
    host.settled(&both).await;
}
