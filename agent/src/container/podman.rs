//! What Podman's Docker-compatible API says in other words than Docker, brought into Docker's (measured on 5.4.2).
//!
//! Only words for the same thing are translated. What Podman adds, ignores or does not show stays as it is, and so is
//! read back as different: `tests/conformance/podman.yaml` lists it.

use serde_json::{Map, Value as Json, json};

/// Annotations in which Podman keeps its own books; its API is older than the one in which they can be declared.
const OWN_ANNOTATIONS: [&str; 4] =
    ["io.container.manager", "io.podman.annotations.", "org.opencontainers.image.", "org.systemd.property."];

/// The inspect answer of a container.
pub fn container_in_docker_words(inspect: &mut Json) {
    let default_network = inspect["HostConfig"]["NetworkMode"] == "bridge";
    if let Some(Json::Object(host)) = inspect.get_mut("HostConfig") {
        for member in ["PidMode", "UTSMode"] {
            if host.get(member).is_some_and(|mode| mode == "private") {
                host.insert(member.to_owned(), json!(""));
            }
        }
        if let Some(annotations) = host.get_mut("Annotations").and_then(Json::as_object_mut) {
            annotations.retain(|key, _| !OWN_ANNOTATIONS.iter().any(|own| key.starts_with(own)));
        }
        for limit in host.get_mut("Ulimits").and_then(Json::as_array_mut).into_iter().flatten() {
            // As setrlimit(2) writes it: RLIMIT_NOFILE.
            if let Some(name) = limit["Name"].as_str().and_then(|name| name.strip_prefix("RLIMIT_")) {
                limit["Name"] = json!(name.to_lowercase());
            }
        }
    }
    if inspect["Config"]["Entrypoint"].as_array().is_some_and(Vec::is_empty) {
        inspect["Config"]["Entrypoint"] = Json::Null;
    }
    if default_network && let Some(Json::Object(networks)) = inspect.pointer_mut("/NetworkSettings/Networks")
    {
        // Called `bridge` wherever else its API speaks of it.
        *networks = std::mem::take(networks)
            .into_iter()
            .map(|(name, endpoint)| (if name == "podman" { "bridge".to_owned() } else { name }, endpoint))
            .collect::<Map<String, Json>>();
    }
}

/// The inspect answer of a network: the allocator of addresses, which Docker calls the driver of its IPAM, is shown as
/// an option of it.
pub fn network_in_docker_words(inspect: &mut Json) {
    if let Some(Json::Object(options)) = inspect.pointer_mut("/IPAM/Options")
        && options.get("driver").is_some_and(|driver| driver == "host-local")
    {
        options.remove("driver");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn podmans_words_become_dockers_and_values_stay() {
        let mut inspect = json!({
            "HostConfig": {
                "NetworkMode": "bridge", "PidMode": "private", "UTSMode": "host",
                "Annotations": { "io.container.manager": "libpod", "org.example": "1" },
                "Ulimits": [{ "Name": "RLIMIT_NOFILE", "Soft": 1, "Hard": 2 }]
            },
            "Config": { "Entrypoint": [], "Env": ["container=podman"] },
            "NetworkSettings": { "Networks": { "podman": { "Aliases": ["a"] }, "other": {} } }
        });
        container_in_docker_words(&mut inspect);
        assert_eq!(
            inspect,
            json!({
                "HostConfig": {
                    "NetworkMode": "bridge", "PidMode": "", "UTSMode": "host",
                    "Annotations": { "org.example": "1" },
                    "Ulimits": [{ "Name": "nofile", "Soft": 1, "Hard": 2 }]
                },
                "Config": { "Entrypoint": null, "Env": ["container=podman"] },
                "NetworkSettings": { "Networks": { "bridge": { "Aliases": ["a"] }, "other": {} } }
            })
        );
    }

    #[test]
    fn a_network_called_podman_that_is_not_the_default_keeps_its_name() {
        let mut inspect = json!({
            "HostConfig": { "NetworkMode": "podman" }, "NetworkSettings": { "Networks": { "podman": {} } }
        });
        container_in_docker_words(&mut inspect);
        assert!(inspect["NetworkSettings"]["Networks"]["podman"].is_object());
    }

    #[test]
    fn only_the_allocator_that_is_the_default_is_left_out() {
        let mut inspect = json!({ "IPAM": { "Options": { "driver": "host-local", "k": "1" } } });
        network_in_docker_words(&mut inspect);
        assert_eq!(inspect["IPAM"]["Options"], json!({ "k": "1" }));
        let mut inspect = json!({ "IPAM": { "Options": { "driver": "dhcp" } } });
        network_in_docker_words(&mut inspect);
        assert_eq!(inspect["IPAM"]["Options"], json!({ "driver": "dhcp" }));
    }
}
