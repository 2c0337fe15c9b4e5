//! Finding: the containers of a module, by labels and by the agent's memory.

use std::collections::BTreeMap;

use plumbline::proto::v1::ModuleSpec;

use serde_json::Value as Json;

use super::{ApplyError, Host};
use crate::container::{Names, Observed, container_in_docker_words, observe};
use crate::engine::Inspect;
use crate::state::Memory;

/// Every container that is this module's by its labels or by the agent's memory, with its key.
pub async fn owned(
    reader: &impl Inspect,
    memory: &Memory,
    host: &Host,
    module: &str,
) -> Result<Vec<(String, Observed)>, ApplyError> {
    let labels = [
        (crate::container::LABEL_INSTALLATION, host.installation.as_str()),
        (crate::container::LABEL_MODULE, module),
    ];
    let remembered = &memory.module;
    let mut ids = reader.containers_with(&labels).await?;
    ids.extend(remembered.containers.values().map(|container| container.id.clone()));
    ids.sort();
    ids.dedup();
    let mut found: Vec<(String, Observed)> = Vec::new();
    for id in ids {
        let Some(observed) = observe_container(reader, host, &id).await? else { continue };
        let by_state = remembered.containers.iter().find(|(_, container)| container.id == observed.id);
        let key = match (by_state, &observed.owner) {
            (Some((key, _)), _) => key.clone(),
            (None, Some((_, _, key))) => key.clone(),
            (None, None) => continue,
        };
        found.push((key, observed));
    }
    Ok(found)
}

/// This module's containers by key, and those that the declaration no longer has (or has a second time).
pub(super) async fn find_ours(
    reader: &impl Inspect,
    memory: &Memory,
    host: &Host,
    spec: &ModuleSpec,
    names: &Names,
) -> Result<(BTreeMap<String, Observed>, Vec<(String, Observed)>), ApplyError> {
    let remembered = &memory.module;
    let mut found = owned(reader, memory, host, spec.name()).await?;
    // Several are there where a recreation was interrupted. The one that runs under its name leads: it was verified, or
    // never stopped. Then the one that is remembered, then one that runs.
    found.sort_by_key(|(key, observed)| {
        let known = remembered.containers.get(key).is_some_and(|container| container.id == observed.id);
        let in_place = observed.running && names.containers.get(key) == Some(&observed.name);
        (!in_place, !known, !observed.running)
    });
    let (mut ours, mut left_over) = (BTreeMap::new(), Vec::new());
    for (key, observed) in found {
        if spec.containers.contains_key(&key) && !ours.contains_key(&key) {
            ours.insert(key, observed);
        } else {
            left_over.push((key, observed));
        }
    }
    Ok((ours, left_over))
}

/// A container by name or id, as observed.
pub async fn observe_container(
    reader: &impl Inspect,
    host: &Host,
    name: &str,
) -> Result<Option<Observed>, ApplyError> {
    let Some(mut inspect) = reader.container(name).await? else { return Ok(None) };
    if host.version.is_podman() {
        container_in_docker_words(&mut inspect);
    }
    let text = |name: &str| inspect[name].as_str().unwrap_or_default();
    let image = reader.image_of(text("Id"), text("Image")).await?;
    let mut shared = BTreeMap::new();
    let mut is_stranded = false;
    for member in ["NetworkMode", "IpcMode", "PidMode"] {
        let mode = inspect["HostConfig"][member].as_str().unwrap_or_default();
        if let Some(id) = mode.strip_prefix("container:")
            && let Some(other) = reader.container(id).await?
        {
            let name = other["Name"].as_str().unwrap_or_default().trim_start_matches('/').to_owned();
            shared.insert(id.to_owned(), name);
            is_stranded |= started(&other) > started(&inspect);
        }
    }
    if !host.version.is_podman() {
        forget_networks_that_are_gone(reader, &mut inspect).await?;
    }
    let mut observed = observe(&inspect, image.as_ref(), &host.host_name, |id| shared.get(id).cloned())?;
    observed.is_stranded = is_stranded && observed.running;
    Ok(Some(observed))
}

/// When a container was last started; none for one that never was.
fn started(inspect: &Json) -> Option<(i64, i32)> {
    let text = inspect["State"]["StartedAt"].as_str()?;
    let time: prost_types::Timestamp = text.parse().ok()?;
    Some((time.seconds, time.nanos))
}

/// A network that was removed, and perhaps made again under its name, while a container was stopped: the engine shows the
/// endpoint as before, and cannot start the container (404, measured on 20.10). It is attached to nothing there.
async fn forget_networks_that_are_gone(reader: &impl Inspect, inspect: &mut Json) -> Result<(), ApplyError> {
    let Some(endpoints) = inspect["NetworkSettings"]["Networks"].as_object() else { return Ok(()) };
    let mut gone = Vec::new();
    for (name, endpoint) in endpoints {
        let id = endpoint["NetworkID"].as_str().unwrap_or_default();
        // The engine's own networks may have another id after each of its starts.
        if id.is_empty() || matches!(name.as_str(), "bridge" | "host" | "none") {
            continue;
        }
        let is_gone = match reader.network(name).await? {
            Some(network) => network["Id"].as_str() != Some(id),
            None => reader.knows_all(),
        };
        if is_gone {
            gone.push(name.clone());
        }
    }
    if let Some(endpoints) = inspect["NetworkSettings"]["Networks"].as_object_mut() {
        endpoints.retain(|name, _| !gone.contains(name));
    }
    Ok(())
}
