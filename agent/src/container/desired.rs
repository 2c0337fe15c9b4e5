//! From declared to desired: what the image and the engine fill in.
//!
//! The rules are those measured on 20.10, 26.1 and 28.5: environment, labels, exposed ports and volumes are merged by
//! key; command, entrypoint, user, working directory and stop signal are replaced; health is merged by member.

use std::collections::HashMap;

use plumbline::catalogue::container_descriptor;
use plumbline::engine_form::{FormError, from_engine};
use plumbline::normal::normalise;
use prost_reflect::{DynamicMessage, MapKey, Value};
use serde_json::{Map, Value as Json, json};

use super::{binds, ports};

/// The declaration (in normal form) with the image's defaults merged in. `image`: the image's inspect answer; without
/// it nothing is merged.
pub fn desired(declared: &DynamicMessage, image: Option<&Json>) -> Result<DynamicMessage, FormError> {
    let mut desired = declared.clone();
    if desired.get_field_by_name("network_mode").as_deref() == Some(&Value::String("bridge".to_owned())) {
        desired.clear_field_by_name("network_mode");
    }
    let unattached = !desired.has_field_by_name("network_mode")
        && !desired.has_field_by_name("networks")
        && !desired.has_field_by_name("network_disabled");
    if unattached {
        // Engines attach a container that says nothing to the default bridge.
        let bridge = from_engine(
            &container_descriptor(),
            &json!({ "NetworkSettings": { "Networks": { "bridge": {} } } }),
        )?;
        copy(&bridge, &mut desired, "networks");
    }
    let defaults = image_defaults(image)?;
    for name in ["environment", "labels"] {
        merge_map(&defaults, &mut desired, name);
    }
    if let Some(unset) = list(&desired, "unset_environment")
        && let Some(Value::Map(mut entries)) = field(&desired, "environment")
    {
        entries.retain(|key, _| !unset.iter().any(|name| name.as_str() == key.as_str()));
        desired.set_field_by_name("environment", Value::Map(entries));
    }
    for name in ["user", "working_dir", "stop_signal"] {
        if !desired.has_field_by_name(name) {
            copy(&defaults, &mut desired, name);
        }
    }
    match field(&desired, "entrypoint") {
        Some(Value::Message(own)) if list(&own, "values").is_some_and(|values| !values.is_empty()) => {}
        own => {
            if own.is_none() {
                copy(&defaults, &mut desired, "entrypoint");
            }
            if !desired.has_field_by_name("command") {
                copy(&defaults, &mut desired, "command");
            }
        }
    }
    merge_health(&defaults, &mut desired);
    merge_exposed(&defaults, &mut desired);
    merge_volumes(image, &mut desired)?;
    normalise(&mut desired);
    Ok(desired)
}

/// The part of the image's configuration that becomes the container's, read like a container's.
fn image_defaults(image: Option<&Json>) -> Result<DynamicMessage, FormError> {
    let config = image.map(|image| image["Config"].clone()).unwrap_or_default();
    let mut kept = Map::new();
    for member in ["User", "WorkingDir", "StopSignal", "Cmd", "Healthcheck", "Labels"] {
        kept.insert(member.to_owned(), config[member].clone());
    }
    if config["Entrypoint"].as_array().is_some_and(|values| !values.is_empty()) {
        kept.insert("Entrypoint".to_owned(), config["Entrypoint"].clone());
    }
    let entries =
        config["Env"].as_array().into_iter().flatten().filter_map(|entry| entry.as_str()?.split_once('='));
    kept.insert("Env".to_owned(), entries.map(|(key, value)| (key.to_owned(), json!(value))).collect());
    let exposed = config["ExposedPorts"].as_object().into_iter().flatten();
    kept.insert(
        "ExposedPorts".to_owned(),
        exposed.map(|(port, _)| json!(ports::with_protocol(port))).collect(),
    );
    let mut defaults = from_engine(&container_descriptor(), &json!({ "Config": kept }))?;
    normalise(&mut defaults);
    Ok(defaults)
}

fn field(message: &DynamicMessage, name: &str) -> Option<Value> {
    message
        .has_field_by_name(name)
        .then(|| message.get_field_by_name(name).map(std::borrow::Cow::into_owned))?
}

fn list(message: &DynamicMessage, name: &str) -> Option<Vec<Value>> {
    match field(message, name) {
        Some(Value::List(values)) => Some(values),
        _ => None,
    }
}

fn copy(from: &DynamicMessage, to: &mut DynamicMessage, name: &str) {
    if let Some(value) = field(from, name) {
        to.set_field_by_name(name, value);
    }
}

fn merge_map(defaults: &DynamicMessage, desired: &mut DynamicMessage, name: &str) {
    let entries = |message: &DynamicMessage| match field(message, name) {
        Some(Value::Map(entries)) => entries,
        _ => HashMap::<MapKey, Value>::new(),
    };
    let mut merged = entries(defaults);
    merged.extend(entries(desired));
    if !merged.is_empty() {
        desired.set_field_by_name(name, Value::Map(merged));
    }
}

fn merge_health(defaults: &DynamicMessage, desired: &mut DynamicMessage) {
    let Some(Value::Message(image)) = field(defaults, "healthcheck") else {
        let off = Value::List(vec![Value::String("NONE".to_owned())]);
        if let Some(Value::Message(own)) = field(desired, "healthcheck")
            && field(&own, "test") == Some(off)
        {
            desired.clear_field_by_name("healthcheck");
        }
        return;
    };
    let mut merged = image;
    if let Some(Value::Message(own)) = field(desired, "healthcheck") {
        for (member, value) in own.fields() {
            merged.set_field(&member, value.clone());
        }
    }
    desired.set_field_by_name("healthcheck", Value::Message(merged));
}

/// Published ports are not listed as exposed again, on neither side of the comparison.
fn merge_exposed(defaults: &DynamicMessage, desired: &mut DynamicMessage) {
    let published: Vec<String> = list(desired, "ports")
        .unwrap_or_default()
        .iter()
        .filter_map(|port| {
            let port = port.as_message()?;
            let target = port.get_field_by_name("target")?.as_u32()?;
            let protocol = field(port, "protocol").and_then(|value| value.as_str().map(str::to_owned));
            Some(format!("{target}/{}", protocol.as_deref().unwrap_or("tcp")))
        })
        .collect();
    let mut exposed = list(desired, "expose").unwrap_or_default();
    exposed.extend(list(defaults, "expose").unwrap_or_default());
    exposed.retain(|port| !published.iter().any(|published| port.as_str() == Some(published)));
    desired.set_field_by_name("expose", Value::List(exposed));
}

/// Every volume of the image is an anonymous volume, unless something else is mounted there.
fn merge_volumes(image: Option<&Json>, desired: &mut DynamicMessage) -> Result<(), FormError> {
    let mut mounts = list(desired, "mounts").unwrap_or_default();
    let mut taken: Vec<String> = mounts
        .iter()
        .filter_map(|mount| mount.as_message()?.get_field_by_name("target")?.as_str().map(binds::clean))
        .collect();
    if let Some(Value::Map(entries)) = field(desired, "tmpfs") {
        taken.extend(entries.keys().filter_map(|key| key.as_str().map(binds::clean)));
    }
    let volumes = image.and_then(|image| image["Config"]["Volumes"].as_object()).into_iter().flatten();
    let missing: Vec<Json> = volumes
        .map(|(target, _)| binds::clean(target))
        .filter(|target| !taken.contains(target))
        .map(|target| binds::anonymous(&target))
        .collect();
    let read = from_engine(&container_descriptor(), &json!({ "HostConfig": { "Mounts": missing } }))?;
    mounts.extend(list(&read, "mounts").unwrap_or_default());
    desired.set_field_by_name("mounts", Value::List(mounts));
    Ok(())
}
