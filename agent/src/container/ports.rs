//! Ports: a flat list in a spec, two maps at the engine.

use serde_json::{Map, Value as Json, json};

/// Brings `HostConfig.PortBindings` and `Config.ExposedPorts` of an inspect answer into the catalogue's shape.
///
/// A binding whose port is not exposed is not published, and no error says so (measured on 20.10, 26.1 and 28.5): it
/// is no published port. A port that is published is not listed as exposed again.
pub(super) fn reshape(inspect: &mut Json) {
    let empty = Map::new();
    let exposed: Vec<String> = inspect["Config"]["ExposedPorts"]
        .as_object()
        .unwrap_or(&empty)
        .keys()
        .map(|port| with_protocol(port))
        .collect();
    let mut ports = Vec::new();
    for (port, bindings) in inspect["HostConfig"]["PortBindings"].as_object().unwrap_or(&empty) {
        let port = with_protocol(port);
        let Some((target, protocol)) = port.split_once('/') else { continue };
        if !exposed.contains(&port) {
            continue;
        }
        for binding in bindings.as_array().into_iter().flatten() {
            ports.push(json!({
                "target": target.parse::<u32>().ok(),
                "protocol": protocol,
                "HostIp": binding["HostIp"],
                "HostPort": binding["HostPort"],
            }));
        }
    }
    let published = |port: &String| {
        ports.iter().any(|one| {
            one["target"]
                .as_u64()
                .zip(one["protocol"].as_str())
                .map(|(target, protocol)| format!("{target}/{protocol}"))
                == Some(port.clone())
        })
    };
    let exposed: Vec<Json> = exposed.iter().filter(|port| !published(port)).map(|port| json!(port)).collect();
    if inspect["Config"].is_object() {
        inspect["Config"]["ExposedPorts"] = Json::Array(exposed);
    }
    if inspect["HostConfig"].is_object() {
        inspect["HostConfig"]["PortBindings"] = Json::Array(ports);
    }
}

/// The other way: both maps of a create body, from the catalogue's shape.
pub(super) fn unshape(json: &mut Json) {
    let mut exposed = Map::new();
    for port in json["Config"]["ExposedPorts"].as_array().into_iter().flatten().filter_map(Json::as_str) {
        exposed.insert(with_protocol(port), json!({}));
    }
    let mut bindings: Map<String, Json> = Map::new();
    for port in json["HostConfig"]["PortBindings"].as_array().into_iter().flatten() {
        let key = format!("{}/{}", port["target"], port["protocol"].as_str().unwrap_or("tcp"));
        exposed.insert(key.clone(), json!({}));
        let binding = json!({
            "HostIp": port["HostIp"].as_str().unwrap_or_default(),
            "HostPort": port["HostPort"].as_str().unwrap_or_default(),
        });
        match bindings.entry(key).or_insert(json!([])) {
            Json::Array(list) => list.push(binding),
            other => *other = json!([binding]),
        }
    }
    if !exposed.is_empty() {
        json["Config"]["ExposedPorts"] = Json::Object(exposed);
    }
    if !bindings.is_empty() {
        json["HostConfig"]["PortBindings"] = Json::Object(bindings);
    }
}

pub(super) fn with_protocol(port: &str) -> String {
    let lower = port.to_ascii_lowercase();
    if lower.contains('/') { lower } else { format!("{lower}/tcp") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_that_is_not_exposed_is_not_published() {
        let mut inspect = json!({
            "Config": { "ExposedPorts": { "80/tcp": {}, "81/udp": {} } },
            "HostConfig": { "PortBindings": {
                "80/tcp": [{ "HostIp": "::1", "HostPort": "8080" }], "82/tcp": [{ "HostIp": "", "HostPort": "1" }]
            } }
        });
        reshape(&mut inspect);
        assert_eq!(inspect["Config"]["ExposedPorts"], json!(["81/udp"]));
        assert_eq!(
            inspect["HostConfig"]["PortBindings"],
            json!([{ "target": 80, "protocol": "tcp", "HostIp": "::1", "HostPort": "8080" }])
        );
    }

    #[test]
    fn a_published_port_is_exposed_too() {
        let mut body =
            json!({ "Config": {}, "HostConfig": { "PortBindings": [{ "target": 80, "HostPort": "8080" }] } });
        unshape(&mut body);
        assert_eq!(body["Config"]["ExposedPorts"], json!({ "80/tcp": {} }));
        assert_eq!(
            body["HostConfig"]["PortBindings"],
            json!({ "80/tcp": [{ "HostIp": "", "HostPort": "8080" }] })
        );
    }
}
