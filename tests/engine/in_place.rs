//! What is changed on the running container, without a new one.

use plumbline::proto::v1::{Action, Cause};
use serde_json::json;

use crate::free::own_subnet;
use crate::site::{Site, docker, object, paths, text};

/// What the kernel holds for a container, in control groups of version 1.
pub(crate) fn control_group(inspect: &serde_json::Value, controller: &str, file: &str) -> String {
    let groups =
        std::fs::read_to_string(format!("/proc/{}/cgroup", inspect["State"]["Pid"])).expect("a process");
    let line = groups.lines().find(|line| line.split(':').nth(1) == Some(controller)).expect("a controller");
    let group = line.splitn(3, ':').nth(2).expect("a path");
    let path = format!("/sys/fs/cgroup/{controller}{group}/{file}");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}")).trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_policy_name_and_networks_change_on_the_same_process() {
    let site = Site::new("inplace").await;
    let networks = json!({ "front": {} });
    let spec = |container| site.module(json!({ "containers": { "c": container }, "networks": networks }));
    let before = spec(crate::site::hold(&json!({ "mem_limit": "64m", "cpus": 0.5, "restart": "always" })));
    site.apply(&before, false).await;
    let old = site.inspect("c").await;

    let renamed = format!("{}-renamed", site.name);
    let after = spec(crate::site::hold(&json!({
        "mem_limit": "128m", "cpus": 0.75, "restart": "on-failure:4", "container_name": renamed,
        "networks": { "bridge": {}, "front": { "aliases": ["door"] } }
    })));
    let result = site.apply(&after, false).await;
    assert_eq!(object(&result, "c").action(), Action::Updated);

    let new = site.inspect_name(&renamed).await;
    assert_eq!(new["Id"], old["Id"]);
    assert_eq!(new["State"]["Pid"], old["State"]["Pid"]);
    assert_eq!(new["HostConfig"]["RestartPolicy"], json!({ "Name": "on-failure", "MaximumRetryCount": 4 }));
    let network = &new["NetworkSettings"]["Networks"][format!("{}_front", site.name)];
    assert!(network["Aliases"].as_array().expect("aliases").contains(&json!("door")));
    assert_ne!(text(&network["IPAddress"]), "");
    assert_eq!(control_group(&new, "memory", "memory.limit_in_bytes"), (128 * 1024 * 1024).to_string());
    assert_eq!(control_group(&new, "cpu", "cpu.cfs_quota_us"), "75000");
    assert_eq!(object(&site.apply(&after, false).await, "c").action(), Action::Unchanged);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_set_by_hand_on_a_container_that_declares_none_is_a_change() {
    let site = Site::new("byhand").await;
    let spec = site.holding(&json!({}));
    site.apply(&spec, false).await;
    docker(&["update", "--memory", "64m", "--memory-swap", "128m", &format!("{}-c", site.name)]);
    let changes = site.differs(&spec).await;
    assert_eq!(paths(&changes), ["mem_limit"]);
    assert_eq!(changes[0].cause(), Cause::ChangedByHand);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_connected_by_hand_is_taken_away_again_in_place() {
    let site = Site::new("byhandnet").await;
    let spec = site.holding(&json!({}));
    site.apply(&spec, false).await;
    let network = format!("{}-stranger", site.name);
    docker(&["network", "create", &network]);
    docker(&["network", "connect", &network, &format!("{}-c", site.name)]);
    let result = site.apply(&spec, false).await;
    assert_eq!(object(&result, "c").action(), Action::Updated);
    assert!(site.inspect("c").await["NetworkSettings"]["Networks"].get(&network).is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_fails_undoes_the_steps_before_it() {
    let site = Site::new("undo").await;
    let (subnet, lan) = (own_subnet(), format!("{}-lan", site.name));
    let address = format!("{subnet}.9");
    docker(&["network", "create", "--subnet", &format!("{subnet}.0/24"), &lan]);
    let lan = json!({ "lan": { "external": true, "name": format!("{}-lan", site.name) } });
    let spec = |settings| {
        site.module(json!({ "containers": { "c": crate::site::hold(&settings) }, "networks": lan }))
    };
    site.apply(&spec(json!({ "mem_limit": "64m" })), false).await;
    let busy = format!("{}-busy", site.name);
    docker(&[
        "run",
        "-d",
        "--name",
        &busy,
        "--network",
        &format!("{}-lan", site.name),
        "--ip",
        &address,
        "plumbline/sample:1",
        "hold",
    ]);

    let wanted =
        spec(json!({ "mem_limit": "96m", "networks": { "bridge": {}, "lan": { "ipv4_address": address } } }));
    let applied = site.try_apply(&wanted, false).await;
    let error = applied.error.expect("the address is taken");
    assert!(error.to_string().contains("connect"), "{error}");
    assert!(error.rolled_back());
    let inspect = site.inspect("c").await;
    assert_eq!(inspect["HostConfig"]["Memory"], 64 * 1024 * 1024);
    let networks = inspect["NetworkSettings"]["Networks"].as_object().expect("networks");
    assert_eq!(
        networks.keys().collect::<Vec<_>>(),
        ["bridge"],
        "no endpoint without an address is left behind"
    );
}
