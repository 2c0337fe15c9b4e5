//! From a declaration to the bodies of create, update and connect.

use std::collections::BTreeMap;

use plumbline::catalogue::ApiVersion;
use plumbline::engine_form::to_engine;
use prost_reflect::DynamicMessage;
use serde_json::{Map, Value as Json, json};

use super::{binds, ports};

/// More than one network at creation needs this version; before it the others are connected afterwards.
const SEVERAL_NETWORKS_SINCE: ApiVersion = ApiVersion { major: 1, minor: 44 };

/// Everything that creates a container.
#[derive(Debug, Clone, PartialEq)]
pub struct Body {
    /// The body of POST /containers/create.
    pub create: Json,
    /// The platform, for the query.
    pub platform: Option<String>,
    /// Networks to be connected before the start: name and endpoint.
    pub connect: Vec<(String, Json)>,
}

/// Everything that creates the declared container. `declared` is resolved, in the words of the declaration (not in
/// normal form: a declared value that equals the engine's default is sent all the same). `labels` carry identity.
/// `anonymous_volumes`: the names that take the place of unnamed volumes, by target.
///
/// All mounts go out in the form that never makes host paths, but for those that ask for relabelling, which only the
/// text form can.
pub fn create_body(
    declared: &DynamicMessage,
    labels: &[(&str, &str)],
    anonymous_volumes: &BTreeMap<String, String>,
    api: ApiVersion,
) -> Body {
    let mut json = to_engine(declared);
    for member in ["Config", "HostConfig"] {
        if !json[member].is_object() {
            json[member] = json!({});
        }
    }
    write_environment(&mut json["Config"]);
    ports::unshape(&mut json);
    for (key, value) in labels {
        json["Config"]["Labels"][*key] = json!(value);
    }
    write_mounts(&mut json["HostConfig"], anonymous_volumes);
    if let Some(devices) = json["HostConfig"]["Devices"].as_array_mut() {
        for device in devices.iter_mut().filter(|device| device["CgroupPermissions"].is_null()) {
            // An empty value passes create and fails at start.
            device["CgroupPermissions"] = json!("rwm");
        }
    }

    let networks = json["NetworkSettings"]["Networks"].as_object().cloned().unwrap_or_default();
    let mut connect: Vec<(String, Json)> = networks.into_iter().collect();
    // Where the API has a gateway priority, the highest leads; then by name, so that every creation leads alike.
    connect
        .sort_by_key(|(name, endpoint)| (-endpoint["GwPriority"].as_i64().unwrap_or_default(), name.clone()));
    let mut endpoints = Map::new();
    if let Some((main, _)) = connect.first() {
        json["HostConfig"]["NetworkMode"] = json!(main);
        let at_once = if api < SEVERAL_NETWORKS_SINCE { 1 } else { connect.len() };
        endpoints.extend(connect.drain(..at_once));
    }

    let mut create = json["Config"].take();
    create["HostConfig"] = json["HostConfig"].take();
    create["NetworkingConfig"] = json!({ "EndpointsConfig": endpoints });
    Body { create, platform: json["Platform"].as_str().map(str::to_owned), connect }
}

fn write_environment(config: &mut Json) {
    let mut entries: Vec<String> = Vec::new();
    for (key, value) in config["Env"].as_object().into_iter().flatten() {
        entries.push(format!("{key}={}", value.as_str().unwrap_or_default()));
    }
    entries.sort();
    entries.extend(
        config["Env[]"].as_array().into_iter().flatten().filter_map(|key| key.as_str().map(str::to_owned)),
    );
    if let Some(config) = config.as_object_mut() {
        config.remove("Env[]");
        config.insert("Env".to_owned(), json!(entries));
    }
}

fn write_mounts(host: &mut Json, anonymous_volumes: &BTreeMap<String, String>) {
    let mounts = host["Mounts"].as_array().cloned().unwrap_or_default();
    let (mut typed, mut binds) = (Vec::new(), Vec::new());
    let mut carried: BTreeMap<&String, &String> = anonymous_volumes.iter().collect();
    for mut mount in mounts {
        if mount["BindOptions"]["SELinux"].is_string() {
            binds.push(json!(binds::write_bind(&mount)));
            continue;
        }
        let target = binds::clean(mount["Target"].as_str().unwrap_or_default());
        let unnamed = mount["Type"] == "volume" && mount["Source"].as_str().unwrap_or_default().is_empty();
        if unnamed && let Some(name) = carried.get(&target) {
            mount["Source"] = json!(name);
        }
        carried.retain(|carried, _| **carried != target);
        typed.push(mount);
    }
    let tmpfs: Vec<String> =
        host["Tmpfs"].as_object().into_iter().flatten().map(|(target, _)| binds::clean(target)).collect();
    // What is left are volumes that the image asks for.
    for (target, name) in carried.into_iter().filter(|(target, _)| !tmpfs.contains(target)) {
        typed.push(json!({ "Type": "volume", "Source": name, "Target": target }));
    }
    if !typed.is_empty() {
        host["Mounts"] = json!(typed);
    } else if let Some(host) = host.as_object_mut() {
        host.remove("Mounts");
    }
    if !binds.is_empty() {
        host["Binds"] = json!(binds);
    }
}

/// The endpoint that `desired` has on a network, for POST /networks/{name}/connect; none: not attached.
pub fn endpoint_body(desired: &DynamicMessage, network: &str) -> Option<Json> {
    let json = to_engine(desired);
    json["NetworkSettings"]["Networks"].get(network).cloned()
}

/// The body of POST /containers/{id}/update that brings the changed fields (names of top-level fields) to `desired`.
///
/// Fields that the engine changes only together go together: a memory limit with the swap limit, a restart policy with
/// its count, period with quota. A value that is taken away in place is sent as the one that means "none".
pub fn update_body(desired: &DynamicMessage, changed: &[&str]) -> Json {
    let json = to_engine(desired);
    let host = &json["HostConfig"];
    let twice_the_memory = || host["Memory"].as_i64().map(|memory| json!(memory.saturating_mul(2)));
    let restart = || {
        let name = host["RestartPolicy"]["Name"].as_str().unwrap_or("no");
        let count = host["RestartPolicy"]["MaximumRetryCount"].as_i64().unwrap_or_default();
        Some(json!({ "Name": name, "MaximumRetryCount": count }))
    };
    let own = |member: &str| host.get(member).filter(|value| !value.is_null()).cloned();
    let mut body = Map::new();
    for field in changed {
        let members: &[(&str, Option<Json>)] = &match *field {
            "cpu_shares" => vec![("CpuShares", own("CpuShares"))],
            "mem_limit" | "memswap_limit" => {
                vec![("Memory", own("Memory")), ("MemorySwap", own("MemorySwap").or_else(twice_the_memory))]
            }
            "mem_reservation" => vec![("MemoryReservation", own("MemoryReservation"))],
            "cpus" => vec![("NanoCpus", own("NanoCpus"))],
            "cpu_period" | "cpu_quota" => {
                vec![("CpuPeriod", own("CpuPeriod")), ("CpuQuota", own("CpuQuota"))]
            }
            "cpuset" => vec![("CpusetCpus", own("CpusetCpus"))],
            "cpuset_mems" => vec![("CpusetMems", own("CpusetMems"))],
            "blkio_config" => vec![("BlkioWeight", own("BlkioWeight"))],
            "pids_limit" => vec![("PidsLimit", own("PidsLimit").or(Some(json!(0))))],
            "restart" => vec![("RestartPolicy", restart())],
            _ => vec![],
        };
        for (member, value) in members {
            if let Some(value) = value {
                body.insert((*member).to_owned(), value.clone());
            }
        }
    }
    Json::Object(body)
}

#[cfg(test)]
mod tests {
    use plumbline::catalogue::{container_descriptor, leaves};
    use plumbline::proto::v1::Means;

    use super::*;

    fn container(json: Json) -> DynamicMessage {
        DynamicMessage::deserialize(container_descriptor(), json).expect("a container")
    }

    /// A field that the catalogue calls changeable by update, and that no update body carries, would be reported as
    /// changed in place and never be.
    #[test]
    fn every_field_that_update_can_change_is_sent() {
        let all = container(json!({
            "cpuShares": 2, "memLimit": 9, "memReservation": 8, "memswapLimit": 10, "cpus": 1.0, "cpuPeriod": 5,
            "cpuQuota": 6, "cpuset": "0", "cpusetMems": "0", "pidsLimit": 7, "blkioConfig": {"weight": 10},
            "restart": {"name": "on-failure", "maximumRetryCount": 3}
        }));
        for leaf in leaves().into_iter().filter(|leaf| leaf.rule.means() == Means::Update) {
            let field = leaf.path.split('.').nth(1).expect("a field");
            let body = update_body(&all, &[field]);
            let path = leaf.engine_path.strip_prefix("HostConfig.").expect("limits stand in HostConfig");
            let found = path.split('.').try_fold(&body, |json, member| json.get(member));
            assert!(found.is_some(), "{} is not sent: {body}", leaf.path);
        }
    }

    #[test]
    fn a_memory_limit_goes_with_the_swap_limit() {
        let body = update_body(&container(json!({ "memLimit": 64 })), &["mem_limit"]);
        assert_eq!(body, json!({ "Memory": 64, "MemorySwap": 128 }));
    }

    #[test]
    fn taking_away_in_place_is_sent_as_the_value_that_means_none() {
        assert_eq!(update_body(&container(json!({})), &["pids_limit"]), json!({ "PidsLimit": 0 }));
        let body = update_body(&container(json!({})), &["restart"]);
        assert_eq!(body, json!({ "RestartPolicy": { "Name": "no", "MaximumRetryCount": 0 } }));
    }

    #[test]
    fn carried_volumes_are_named_and_the_images_too() {
        let spec = container(json!({ "image": "a", "mounts": [{ "type": "volume", "target": "/d" }] }));
        let carried = [("/d".to_owned(), "aa".to_owned()), ("/image".to_owned(), "bb".to_owned())].into();
        let body = create_body(&spec, &[("dev.plumbline.module", "m")], &carried, ApiVersion::OLDEST);
        assert_eq!(
            body.create["HostConfig"]["Mounts"],
            json!([
                { "Type": "volume", "Target": "/d", "Source": "aa" },
                { "Type": "volume", "Source": "bb", "Target": "/image" }
            ])
        );
        assert_eq!(body.create["Labels"], json!({ "dev.plumbline.module": "m" }));
    }

    #[test]
    fn an_old_engine_gets_one_network_at_creation() {
        let spec = container(json!({ "image": "a", "networks": { "b": {}, "a": {} } }));
        let old = create_body(&spec, &[], &BTreeMap::new(), ApiVersion::OLDEST);
        assert_eq!(old.create["HostConfig"]["NetworkMode"], "a");
        assert_eq!(old.connect, [("b".to_owned(), json!({}))]);
        let new = create_body(&spec, &[], &BTreeMap::new(), ApiVersion::NEWEST);
        assert_eq!(new.connect, []);
    }
}
