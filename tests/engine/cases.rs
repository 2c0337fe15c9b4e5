//! Cases from other tools' issue trackers, by their number in the list of cases: what is no change, and what is.

use plumbline::proto::v1::{Action, ModuleSpec, Outcome, RefusalReason};
use serde_json::{Value as Json, json};

use crate::free::{free_ports, own_subnet};
use crate::served::Served;
use crate::site::{docker, hold, object, text};

/// Applies each of these in turn; each is read back equal, and at rest afterwards.
async fn each_is_at_rest(host: &Served, all: &[Json]) {
    for settings in all {
        let spec = host.site.holding(settings);
        let result = host.apply(&spec, true).await;
        assert_eq!(object(&result, "c").residue, [], "{settings}");
        host.settled(&spec).await;
    }
}

/// Where an environment entry was lost or kept: set, empty, and not there are three states.
#[tokio::test(flavor = "multi_thread")]
async fn h05_set_empty_and_absent_are_three_states() {
    let host = Served::new("h05").await;
    let states = [json!({ "V": "x" }), json!({ "V": "" }), json!({})];
    let specs = states.map(|environment| host.site.holding(&json!({ "environment": environment })));
    for (index, spec) in specs.iter().enumerate() {
        host.apply(spec, true).await;
        let inspect = host.site.inspect("c").await;
        let entries: Vec<&Json> = inspect["Config"]["Env"].as_array().into_iter().flatten().collect();
        assert_eq!(entries, [&["V=x"][..], &["V="], &[]][index]);
        for (other, spec) in specs.iter().enumerate() {
            let words = host.differs(spec).await;
            let value = |index: usize| if index == 2 { "absent" } else { "secret" };
            if other == index {
                assert_eq!(words, [""; 0]);
            } else {
                let (before, after) = (value(index), value(other));
                assert_eq!(words, [format!("environment[V]: {before} -> {after} (RECREATE, DECLARED)")]);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h08_changed_driver_options_of_a_volume_are_refused_and_say_so() {
    let host = Served::new("h08").await;
    let spec = |size: &str| {
        let options = json!({ "type": "tmpfs", "device": "tmpfs", "o": format!("size={size}") });
        host.site.module(json!({
            "volumes": { "d": { "driver_opts": options } },
            "containers": { "c": hold(&json!({ "mounts": ["d:/data"] })) }
        }))
    };
    host.apply(&spec("10m"), false).await;
    host.settled(&spec("10m")).await;
    let before = host.site.identity("c").await;
    let refused = host.apply(&spec("20m"), true).await;
    assert_eq!(refused.outcome(), Outcome::RefusedNeedsRecreation);
    let volume = object(&refused, "d");
    assert_eq!(volume.reason(), RefusalReason::WouldLoseData);
    assert!(volume.detail.contains("never recreated"), "{}", volume.detail);
    assert_eq!(host.engine.take_mutations(), [""; 0]);
    let inspect =
        docker(&["volume", "inspect", "--format", "{{.Options.o}}", &format!("{}_d", host.site.name)]);
    assert_eq!(inspect, "size=10m");
    assert_eq!(host.site.identity("c").await, before);
}

/// A network that is named by its id is the same network: the address is given, and the second apply does nothing.
#[tokio::test(flavor = "multi_thread")]
async fn h10_a_declared_hardware_address_is_given_whatever_the_network_is_named_by() {
    let host = Served::new("h10").await;
    let lan = format!("{}-lan", host.site.name);
    let id = docker(&["network", "create", "--subnet", &format!("{}.0/24", own_subnet()), &lan]);
    for (name, mac) in [(&id, "02:42:ac:11:00:02"), (&lan, "02:42:ac:11:00:03")] {
        let spec = host.site.module(json!({
            "networks": { "lan": { "external": true, "name": name } },
            "containers": { "c": hold(&json!({ "mac_address": mac, "networks": { "lan": { "aliases": ["a"] } } })) }
        }));
        let result = host.apply(&spec, true).await;
        assert_eq!(object(&result, "c").residue, []);
        let endpoint = host.site.inspect("c").await["NetworkSettings"]["Networks"][&lan].clone();
        assert_eq!(endpoint["MacAddress"], mac);
        host.settled(&spec).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h12_a_changed_quota_is_in_place_and_reaches_the_control_group() {
    let host = Served::new("h12").await;
    let spec = |quota: i64| host.site.holding(&json!({ "cpu_period": 100_000, "cpu_quota": quota }));
    host.apply(&spec(50_000), false).await;
    let before = host.site.inspect("c").await;
    assert_eq!(host.differs(&spec(60_000)).await, ["cpu_quota: 50000 -> 60000 (IN_PLACE, DECLARED)"]);
    assert_eq!(host.apply(&spec(60_000), false).await.action(), Action::Updated);
    let after = host.site.inspect("c").await;
    assert_eq!((&after["Id"], &after["State"]["Pid"]), (&before["Id"], &before["State"]["Pid"]));
    assert_eq!(crate::in_place::control_group(&after, "cpu", "cpu.cfs_quota_us"), "60000");
}

#[tokio::test(flavor = "multi_thread")]
async fn h13_swap_in_every_way_to_say_it() {
    let host = Served::new("h13").await;
    let all = [
        json!({ "mem_limit": "128m" }),
        json!({ "mem_limit": "128m", "memswap_limit": "256m" }),
        json!({ "mem_limit": "128m", "memswap_limit": "128m" }),
        json!({ "mem_limit": "128m", "memswap_limit": -1 }),
        json!({ "mem_limit": "128m", "memswap_limit": 0 }),
        json!({ "memswap_limit": 0 }),
    ];
    each_is_at_rest(&host, &all).await;
}

/// This machine's engine adds log options of its own (`log-opts` in daemon.json).
#[tokio::test(flavor = "multi_thread")]
async fn h15_log_options_of_the_engine_are_no_change() {
    let host = Served::new("h15").await;
    let all = [
        json!({}),
        json!({ "logging": { "driver": "json-file" } }),
        json!({ "logging": { "driver": "json-file", "options": { "max-size": "1m" } } }),
        json!({ "logging": { "options": { "max-size": "2m" } } }),
        json!({ "logging": { "driver": "local" } }),
        json!({ "logging": { "driver": "none" } }),
    ];
    each_is_at_rest(&host, &all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h15_a_log_option_that_is_taken_out_is_noticed() {
    let host = Served::new("h15out").await;
    let spec = |options: Json| host.site.holding(&json!({ "logging": { "options": options } }));
    let (with, without) = (spec(json!({ "labels": "a" })), spec(json!({})));
    host.apply(&with, false).await;
    assert_eq!(host.differs(&without).await, ["logging.options[labels]: a -> absent (RECREATE, DECLARED)"]);
    host.apply(&without, true).await;
    assert_eq!(host.site.inspect("c").await["HostConfig"]["LogConfig"]["Config"].get("labels"), None);
    host.settled(&without).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h18_published_ports_in_every_form_stay() {
    let host = Served::new("h18").await;
    let (one, other, range) = (free_ports(), free_ports(), free_ports());
    let ports = json!([
        format!("{one}:80"),
        format!("127.0.0.1:{other}:81/udp"),
        format!("{range}-{}:90-92", range + 2),
        format!("[::1]:{}:82", one + 1),
        format!("{}:80", one + 2),
        "83",
        { "target": 84, "published": format!("{}-{}", other + 1, other + 2), "host_ip": "127.0.0.1" }
    ]);
    let spec = host.site.holding(&json!({ "ports": ports }));
    host.apply(&spec, false).await;
    let published = host.site.inspect("c").await["NetworkSettings"]["Ports"].clone();
    assert_eq!(published["91/tcp"][0]["HostPort"], (range + 1).to_string());
    assert_eq!(published["81/udp"], json!([{ "HostIp": "127.0.0.1", "HostPort": other.to_string() }]));
    assert_eq!(published["82/tcp"], json!([{ "HostIp": "::1", "HostPort": (one + 1).to_string() }]));
    host.settled(&spec).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h19_h20_h23_h24_limits_policies_and_empty_lists() {
    let host = Served::new("h19").await;
    let nothing = json!({
        "cap_add": [], "dns": [], "mounts": [], "environment": {}, "labels": {}, "ulimits": {}, "ports": [],
        "restart": "no", "pids_limit": 0, "privileged": false, "tty": false, "cpu_shares": 0, "hostname": ""
    });
    let all = [
        json!({}),
        nothing,
        json!({ "ulimits": { "nofile": { "soft": 500, "hard": 500 }, "nproc": 1024 }, "cpus": 1.5 }),
        json!({ "cpus": 0.1, "restart": "always" }),
        json!({ "cpus": 0.07, "restart": "on-failure" }),
    ];
    each_is_at_rest(&host, &all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h22_h33_a_generated_hardware_address_is_no_change_and_is_not_kept() {
    let host = Served::new("h22").await;
    let spec = |label: &str| {
        host.site.module(json!({
            "networks": { "lan": {} },
            "containers": { "c": hold(&json!({ "labels": { "edit": label }, "restart": "always", "networks": { "lan": {} } })) }
        }))
    };
    host.apply(&spec("1"), false).await;
    host.settled(&spec("1")).await;
    docker(&["stop", &host.container()]);
    assert_eq!(host.apply(&spec("1"), false).await.action(), Action::Started);
    host.settled(&spec("1")).await;
    host.apply(&spec("2"), true).await;
    host.settled(&spec("2")).await;
    assert_eq!(text(&host.site.inspect("c").await["Config"]["MacAddress"]), "", "none is pinned");
}

#[tokio::test(flavor = "multi_thread")]
async fn h25_a_healthcheck_switched_off_is_what_is_read_back() {
    let host = Served::new("h25").await;
    let with_one = json!({ "image": "plumbline/defaults:1" });
    let off = json!({ "image": "plumbline/defaults:1", "healthcheck": { "test": ["NONE"] } });
    let off_without = json!({ "healthcheck": { "test": ["NONE"] } });
    each_is_at_rest(&host, &[off_without, json!({}), off.clone()]).await;
    assert_eq!(host.site.inspect("c").await["Config"]["Healthcheck"]["Test"], json!(["NONE"]));
    each_is_at_rest(&host, &[with_one]).await;
    assert_eq!(host.site.inspect("c").await["Config"]["Healthcheck"]["Test"], json!(["CMD", "true"]));
    let words = host.differs(&host.site.holding(&off)).await;
    assert_eq!(words, ["healthcheck.test: [CMD, true] -> [NONE] (RECREATE, DECLARED)"]);
}

/// A new image of the same name, with a volume at the same place.
#[tokio::test(flavor = "multi_thread")]
async fn h27_a_new_image_finds_the_data_of_the_old_ones_volume() {
    let host = Served::new("h27").await;
    let (image, maker) = (format!("{}:v", host.site.name), format!("{}-maker", host.site.name));
    docker(&["create", "--name", &maker, "plumbline/sample:1"]);
    let build = |version: &str| {
        let label = format!("LABEL version={version}");
        docker(&["commit", "--change", "VOLUME /var/t", "--change", &label, &maker, &image])
    };
    let first = build("1");
    let spec = host.site.holding(&json!({ "image": image, "pull_policy": "never" }));
    host.apply(&spec, false).await;
    let volume = |inspect: &Json| {
        let mounts = inspect["Mounts"].as_array().expect("mounts");
        assert_eq!((mounts.len(), &mounts[0]["Destination"]), (1, &json!("/var/t")));
        text(&mounts[0]["Name"])
    };
    let before = volume(&host.site.inspect("c").await);
    docker(&["exec", &host.container(), "/bin/sh", "-c", "echo kept > /var/t/file"]);
    let second = build("2");
    assert_eq!(host.apply(&spec, true).await.outcome(), Outcome::Recreated);
    let inspect = host.site.inspect("c").await;
    assert_eq!(inspect["Config"]["Labels"]["version"], "2");
    assert_eq!(volume(&inspect), before);
    assert_eq!(docker(&["exec", &host.container(), "cat", "/var/t/file"]), "kept");
    host.settled(&spec).await;
    docker(&["rm", "--force", &maker, &host.container()]);
    docker(&["rmi", "--force", &first, &second]);
}

/// Whatever a container wrote between two recreations is there after the next.
#[tokio::test(flavor = "multi_thread")]
async fn h30_data_on_an_anonymous_volume_accumulates() {
    let host = Served::new("h30").await;
    for edit in ["1", "2", "3"] {
        let settings = json!({ "labels": { "edit": edit }, "mounts": ["/data"] });
        host.apply(&host.site.holding(&settings), true).await;
        docker(&["exec", &host.container(), "/bin/sh", "-c", &format!("echo {edit} >> /data/log")]);
    }
    assert_eq!(docker(&["exec", &host.container(), "cat", "/data/log"]), "1\n2\n3");
}

#[tokio::test(flavor = "multi_thread")]
async fn h31_a_declaration_that_lost_its_mounts_is_refused_mount_by_mount() {
    let host = Served::new("h31").await;
    let folders = ["a", "b"].map(|name| host.site.host_folder(name));
    for folder in &folders {
        std::fs::write(format!("{folder}/file"), "kept").expect("written");
    }
    let mounts = json!([format!("{}:/a", folders[0]), format!("{}:/b", folders[1])]);
    host.apply(&host.site.holding(&json!({ "mounts": mounts })), false).await;
    let (before, bare) = (host.site.identity("c").await, host.site.holding(&json!({})));
    let words = host.differs(&bare).await.join("\n");
    for target in ["mounts[/a].source", "mounts[/b].source"] {
        assert!(words.contains(target), "{words}");
    }
    for allow in [false, true] {
        host.engine.take_mutations();
        let refused = host.apply(&bare, allow).await;
        assert_eq!(refused.outcome(), Outcome::RefusedNeedsRecreation);
        assert_eq!(host.engine.take_mutations(), [""; 0]);
        let named: Vec<&str> =
            object(&refused, "c").mounts.iter().map(|mount| mount.target.as_str()).collect();
        assert_eq!(named, ["/a", "/b"]);
    }
    assert_eq!(host.site.identity("c").await, before);
}

fn with_links(host: &Served, edit: &str) -> ModuleSpec {
    host.site.module(json!({ "containers": {
        "c": hold(&json!({ "links": ["z1:one", "z2:two"] })),
        "z1": hold(&json!({ "labels": { "edit": edit } })),
        "z2": hold(&json!({}))
    } }))
}

/// The link leads to the container that is there now, also after that one was recreated.
#[tokio::test(flavor = "multi_thread")]
async fn h40_a_link_leads_to_the_recreated_container() {
    let host = Served::new("h40").await;
    host.apply(&host.site.holding(&json!({})), false).await;
    host.apply(&with_links(&host, "1"), true).await;
    host.settled(&with_links(&host, "1")).await;
    host.apply(&with_links(&host, "2"), true).await;
    host.settled(&with_links(&host, "2")).await;
    let links = host.site.inspect("c").await["HostConfig"]["Links"].as_array().map(Vec::len);
    assert_eq!(links, Some(2));
    let said = docker(&["exec", &host.container(), "ping", "-c", "1", "-W", "2", "one"]);
    assert!(said.contains(" 0% packet loss"), "{said}");
}

/// From every kind of network to every other.
#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_network_may_follow_every_other() {
    let host = Served::new("netkinds").await;
    let owner = format!("{}-owner", host.site.name);
    let id = docker(&["run", "-d", "--name", &owner, "plumbline/sample:1", "hold"]);
    let spec = |settings: &Json| {
        host.site.module(json!({ "networks": { "lan": {} }, "containers": { "c": hold(settings) } }))
    };
    let kinds = [
        json!({}),
        json!({ "network_mode": "host" }),
        json!({ "networks": { "lan": {} } }),
        json!({ "network_mode": format!("container:{owner}") }),
        json!({ "network_mode": "none" }),
        json!({ "network_mode": format!("container:{id}") }),
        json!({ "network_mode": "bridge" }),
        json!({ "networks": { "lan": {}, "bridge": {} } }),
        json!({ "network_mode": "none" }),
        json!({ "networks": { "bridge": {} } }),
    ];
    for kind in kinds {
        let result = host.apply(&spec(&kind), true).await;
        assert_eq!(object(&result, "c").residue, [], "{kind}");
        host.settled(&spec(&kind)).await;
    }
}

/// A network that somebody took away by hand is made again, and the container is attached to it, in place.
#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_was_removed_by_hand_comes_back() {
    let host = Served::new("netgone").await;
    let spec = host.site.module(json!({
        "networks": { "lan": {} },
        "containers": { "c": hold(&json!({ "networks": { "lan": { "aliases": ["a"] } } })) }
    }));
    host.apply(&spec, false).await;
    let before = host.site.identity("c").await;
    let lan = format!("{}_lan", host.site.name);
    docker(&["network", "disconnect", "--force", &lan, &host.container()]);
    docker(&["network", "rm", &lan]);
    let result = host.apply(&spec, false).await;
    assert_eq!(object(&result, "lan").action(), Action::Created);
    assert_eq!(object(&result, "c").action(), Action::Updated);
    assert_eq!(host.site.identity("c").await, before);
    host.settled(&spec).await;
}

/// Networks and volumes of that name that are not the module's are never taken for its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_strangers_network_or_volume_is_refused_and_a_missing_external_one_too() {
    let host = Served::new("netforeign").await;
    let name = &host.site.name;
    docker(&["network", "create", &format!("{name}_lan")]);
    docker(&["volume", "create", &format!("{name}_data")]);
    let spec = |kind: &str, key: &str, declared: Json| {
        host.site.module(json!({ kind: { key: declared }, "containers": { "c": hold(&json!({})) } }))
    };
    for (kind, key) in [("networks", "lan"), ("volumes", "data")] {
        let refused = host.apply(&spec(kind, key, json!({})), true).await;
        assert_eq!(object(&refused, key).reason(), RefusalReason::NotOurs);
        let external = json!({ "external": true, "name": format!("{name}-not-there") });
        let refused = host.apply(&spec(kind, key, external), true).await;
        assert_eq!(object(&refused, key).reason(), RefusalReason::Missing);
        assert_eq!(object(&refused, "c").reason(), RefusalReason::Module);
    }
    assert_eq!(host.engine.take_mutations(), [""; 0]);
    assert_eq!(host.site.containers(), [""; 0]);
}
