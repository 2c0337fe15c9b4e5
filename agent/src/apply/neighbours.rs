//! Who else on the host holds on to what a module would replace or take away.
//!
//! What becomes of a container whose referent was replaced by another of the same name, measured on 20.10:
//!
//! | it refers by | it | its next start |
//! | --- | --- | --- |
//! | `network_mode: container:` | runs on without a network | 500 `No such container: <old id>` |
//! | `ipc: container:` | runs on | 500 `can't join IPC of container <old id>` |
//! | `pid: container:` | is killed (137) when the old one stops | 500 `cannot join PID of a non running container` |
//! | a link on the default bridge | runs on with the old address | 500 `Cannot link to a non running container` |
//! | a link on another network | runs on, and finds the new one | as before |
//! | `volumes_from` | runs on with the volumes that it has | as before |
//!
//! So the first four are in the way as long as they run; whoever stops one has accepted that it starts no more. The modules'
//! own containers follow in the same apply (`plumbline::order::bound_to`).

use std::collections::{BTreeMap, BTreeSet};

use plumbline::catalogue::ApiVersion;
use plumbline::plan::{Facts, Neighbours, Standing, are_replaced};
use plumbline::proto::v1::{Consequence, ObjectKind};
use serde_json::{Value as Json, json};

use super::{ApplyError, Host};
use crate::container::{LABEL_CONTAINER, LABEL_INSTALLATION, LABEL_MODULE};
use crate::engine::{EngineError, EngineReader};
use crate::removal;

/// Since this version the engine keeps a container's hardware address with its endpoint, and forgets it when that is taken
/// off. Before, it stays with the container (measured on 20.10).
const KEEPS_ADDRESS_IN_ENDPOINT: ApiVersion = ApiVersion { major: 1, minor: 44 };

/// Fills in who else holds on to the objects that would be replaced or taken away, and what a volume holds that would be.
pub(super) async fn look(
    reader: &EngineReader,
    host: &Host,
    objects: &mut [Facts],
) -> Result<(), ApplyError> {
    for facts in objects.iter_mut().filter(|facts| is_changed_volume(facts)) {
        let inspect = reader.volume(&facts.engine_name).await?.unwrap_or_default();
        let users = reader.users_of("volume", &[facts.engine_name.as_str()]).await?;
        let users: Vec<String> = users.into_values().collect();
        let used = if users.is_empty() { String::new() } else { format!("; used by {}", users.join(", ")) };
        facts.neighbours.holds = format!("{}{used}", removal::of_volume(reader, host, &inspect).await);
    }
    let replaced = are_replaced(objects);
    if !objects.iter().zip(&replaced).any(|(facts, replaced)| *replaced && !facts.engine_id.is_empty()) {
        return Ok(());
    }
    let ids: BTreeSet<String> = own_ids(&*objects);
    let leaving: BTreeSet<String> = own_ids(objects.iter().filter(|one| one.standing == Standing::LeftOver));
    let all = every_container(reader).await?;
    for (facts, _) in objects.iter_mut().zip(replaced).filter(|(_, replaced)| *replaced) {
        match facts.kind {
            ObjectKind::Container => {
                facts.neighbours = dependants(&facts.engine_id, &all, &ids, &host.installation);
            }
            ObjectKind::Network if facts.standing == Standing::Ours => {
                let attached = reader.attached_to(&facts.engine_name, &facts.engine_id).await?;
                facts.neighbours.in_the_way =
                    in_the_way_on(host, &facts.engine_name, &attached, &all, &ids, &leaving);
            }
            ObjectKind::Network | ObjectKind::Volume | ObjectKind::Unspecified => {}
        }
    }
    Ok(())
}

fn is_changed_volume(facts: &Facts) -> bool {
    facts.kind == ObjectKind::Volume
        && facts.standing == Standing::Ours
        && facts.changes.iter().any(|change| change.consequence == Consequence::Recreate)
}

/// The ids of the module's containers.
pub(super) fn own_ids<'a>(objects: impl IntoIterator<Item = &'a Facts>) -> BTreeSet<String> {
    let own = objects.into_iter().filter(|facts| {
        facts.kind == ObjectKind::Container
            && matches!(facts.standing, Standing::Ours | Standing::LeftOver)
            && !facts.engine_id.is_empty()
    });
    own.map(|facts| facts.engine_id.clone()).collect()
}

/// The inspect answers of all containers of the host. One that goes away meanwhile is none.
pub(crate) async fn every_container(reader: &EngineReader) -> Result<Vec<Json>, EngineError> {
    let mut all = Vec::new();
    for id in reader.containers_with(&[]).await? {
        all.extend(reader.container(&id).await?);
    }
    Ok(all)
}

fn id_of(inspect: &Json) -> &str {
    inspect["Id"].as_str().unwrap_or_default()
}

fn name_of(inspect: &Json) -> &str {
    inspect["Name"].as_str().unwrap_or_default().trim_start_matches('/')
}

/// A container as people know it: `shop-web (container web of module shop)`.
fn described(inspect: &Json, installation: &str) -> String {
    let (name, labels) = (name_of(inspect), &inspect["Config"]["Labels"]);
    match (labels[LABEL_CONTAINER].as_str(), labels[LABEL_MODULE].as_str()) {
        (Some(key), Some(module)) if labels[LABEL_INSTALLATION] == installation => {
            format!("{name} (container {key} of module {module})")
        }
        _ => format!("container {name}"),
    }
}

/// What would become of those that refer to the container with this id, once it is another or gone. `own`: the ids of those
/// that come and go with it.
pub(crate) fn dependants(id: &str, all: &[Json], own: &BTreeSet<String>, installation: &str) -> Neighbours {
    let mut found = Neighbours::default();
    let name = all.iter().find(|other| id_of(other) == id).map(name_of).unwrap_or_default();
    for other in all.iter().filter(|other| id_of(other) != id && !own.contains(id_of(other))) {
        let broken = broken_references(other, id, name);
        let who = described(other, installation);
        if broken.is_empty() {
            if takes_volumes(other, id, name) {
                found.to_be_known.push(format!("{who} took its volumes from it, and goes on with those"));
            }
        } else if other["State"]["Running"] == json!(true) {
            found
                .in_the_way
                .push(format!("{who} {}, and could not start again after it", broken.join(" and ")));
        } else {
            found.to_be_known.push(format!(
                "{who} {}, and cannot start again until it is made anew",
                broken.join(" and ")
            ));
        }
    }
    found
}

/// In which ways it holds on to the container of this id and name, so that it cannot start without.
fn broken_references(inspect: &Json, id: &str, name: &str) -> Vec<&'static str> {
    let host_config = &inspect["HostConfig"];
    let mut broken = Vec::new();
    for (member, words) in [
        ("NetworkMode", "lives in its network namespace"),
        ("IpcMode", "lives in its IPC namespace"),
        ("PidMode", "lives in its PID namespace"),
    ] {
        let mode = host_config[member].as_str().unwrap_or_default();
        if mode.strip_prefix("container:") == Some(id) {
            broken.push(words);
        }
    }
    // Those of the default bridge. On other networks they are the endpoint's, and mean a name.
    let mut links = host_config["Links"].as_array().into_iter().flatten().filter_map(Json::as_str);
    let target = format!("/{name}:");
    if !name.is_empty() && links.any(|link| link.starts_with(&target)) {
        broken.push("is linked to it");
    }
    broken
}

fn takes_volumes(inspect: &Json, id: &str, name: &str) -> bool {
    let from = inspect["HostConfig"]["VolumesFrom"].as_array().into_iter().flatten();
    let mut sources = from.filter_map(|from| from.as_str()?.split(':').next());
    sources.any(|source| !source.is_empty() && (source == name || id.starts_with(source)))
}

/// Why the network of this name cannot be made anew, of all that is attached.
fn in_the_way_on(
    host: &Host,
    network: &str,
    attached: &BTreeMap<String, String>,
    all: &[Json],
    ids: &BTreeSet<String>,
    leaving: &BTreeSet<String>,
) -> Vec<String> {
    let mut why = Vec::new();
    for (id, name) in attached {
        let shown = all.iter().find(|one| id_of(one) == id);
        if !ids.contains(id) {
            let who = shown
                .map_or_else(|| format!("endpoint {name}"), |shown| described(shown, &host.installation));
            why.push(format!("{who} is attached to it, and is not this module's"));
            continue;
        }
        let Some(shown) = shown else { continue };
        if leaving.contains(id) && shown["HostConfig"]["AutoRemove"] == json!(true) {
            why.push(format!(
                "{name}, which leaves the module, is attached to it, and the engine removes it as soon as it stops"
            ));
        }
        if has_fixed_hardware_address(host.version.api, shown, network) {
            why.push(format!(
                "{name} has a hardware address of its own on it, which this engine would not give back if the change had to \
                 be undone"
            ));
        }
    }
    why
}

fn has_fixed_hardware_address(api: ApiVersion, shown: &Json, network: &str) -> bool {
    let own = |value: &Json| value.as_str().is_some_and(|address| !address.is_empty());
    // A stopped container shows none but what was asked for; of one that runs, only the container's own tells.
    let stopped = shown["State"]["Running"] != json!(true);
    api >= KEEPS_ADDRESS_IN_ENDPOINT
        && (own(&shown["Config"]["MacAddress"])
            || stopped && own(&shown["NetworkSettings"]["Networks"][network]["MacAddress"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEWER: ApiVersion = ApiVersion { major: 1, minor: 45 };

    #[test]
    fn a_fixed_hardware_address_is_lost_only_where_the_endpoint_keeps_it() {
        let with = |own: &str, endpoint: &str, running| {
            json!({
                "Config": { "MacAddress": own }, "State": { "Running": running },
                "NetworkSettings": { "Networks": { "n": { "MacAddress": endpoint } } }
            })
        };
        for (api, shown, fixed) in [
            (ApiVersion::OLDEST, with("02:00:00:00:00:01", "", true), false),
            (NEWER, with("02:00:00:00:00:01", "", true), true),
            (NEWER, with("", "02:42:ac:11:00:02", true), false),
            (NEWER, with("", "02:00:00:00:00:01", false), true),
            (NEWER, with("", "", false), false),
        ] {
            assert_eq!(has_fixed_hardware_address(api, &shown, "n"), fixed, "{api:?} {shown}");
        }
    }

    #[test]
    fn who_runs_and_could_not_start_again_is_in_the_way() {
        let target = json!({ "Id": "t1", "Name": "/m-t" });
        let one = |host_config: Json, running: bool| json!({ "Id": "o1", "Name": "/o", "HostConfig": host_config, "State": { "Running": running } });
        for (host_config, running, in_the_way, known) in [
            (json!({ "NetworkMode": "container:t1" }), true, 1, 0),
            (json!({ "IpcMode": "container:t1" }), true, 1, 0),
            (json!({ "PidMode": "container:t1" }), true, 1, 0),
            (json!({ "NetworkMode": "container:t1" }), false, 0, 1),
            (json!({ "Links": ["/m-t:/o/x"] }), true, 1, 0),
            (json!({ "Links": ["/m-tt:/o/x"] }), true, 0, 0),
            (json!({ "VolumesFrom": ["m-t:ro"] }), true, 0, 1),
            (json!({ "VolumesFrom": ["t1"] }), true, 0, 1),
            (json!({ "VolumesFrom": ["else"], "NetworkMode": "container:t2" }), true, 0, 0),
        ] {
            let all = [target.clone(), one(host_config.clone(), running)];
            let found = dependants("t1", &all, &BTreeSet::new(), "i");
            assert_eq!(
                (found.in_the_way.len(), found.to_be_known.len()),
                (in_the_way, known),
                "{host_config}"
            );
        }
    }
}
