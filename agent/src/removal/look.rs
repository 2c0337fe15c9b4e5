//! Looking: what a module has on this host, by labels, by the agent's memory, and by what its containers use.

use std::collections::{BTreeMap, BTreeSet};

use plumbline::order::container_order;
use plumbline::proto::v1::{ContainerSpec, ModuleSpec};
use prost_reflect::DynamicMessage;
use serde_json::Value as Json;

use super::decide::{Found, FoundContainer, FoundNetwork, FoundVolume, Whose};
use crate::apply::{ApplyError, Host, dependants, every_container, held, lock_paths, owned, read_desired};
use crate::container::{LABEL_INSTALLATION, LABEL_MODULE, Observed, is_generated_name};
use crate::engine::{EngineError, EngineReader};
use crate::state::{LeftVolume, Memory};

/// Networks that every engine has.
const BUILT_IN: [&str; 3] = ["bridge", "host", "none"];

/// Everything, in the order of removal.
pub(super) async fn look(
    reader: &EngineReader,
    (memory, left): (&Memory, &[LeftVolume]),
    host: &Host,
    module: &str,
    named: &BTreeSet<String>,
) -> Result<Found, ApplyError> {
    let mut containers = owned(reader, memory, host, module).await?;
    sort_for_removal(module, memory, &mut containers);
    let own = Own { reader, module, host, ids: containers.iter().map(|(_, one)| one.id.clone()).collect() };
    let networks = own.networks(&containers).await?;
    let volumes = own.volumes(&containers, left, named).await?;
    let all = every_container(reader).await?;
    let mut found = Vec::new();
    for (key, observed) in containers {
        let neighbours = dependants(&observed.id, &all, &own.ids, &host.installation);
        let paths = lock_paths(&memory.module, &key, &observed.id, None);
        let update_lock = held(reader, &observed.id, paths).await?;
        found.push(FoundContainer {
            grace: observed.stop_grace(),
            loses_volumes: observed.removes_itself() && !observed.made_volumes.is_empty(),
            key,
            name: observed.name,
            id: observed.id,
            update_lock,
            neighbours,
        });
    }
    Ok(Found { containers: found, networks, volumes })
}

/// Each container before those that it depends on, by what was declared; where nothing is remembered, by what it shares.
fn sort_for_removal(module: &str, memory: &Memory, containers: &mut [(String, Observed)]) {
    let mut spec = ModuleSpec { name: Some(module.to_owned()), ..ModuleSpec::default() };
    let read = |message: &DynamicMessage| message.transcode_to::<ContainerSpec>().unwrap_or_default();
    for (key, observed) in containers.iter() {
        let known = memory.module.containers.get(key);
        let desired = known.and_then(|container| read_desired(&container.desired));
        let mut container = read(desired.as_ref().unwrap_or(&observed.spec));
        container.container_name = Some(observed.name.clone());
        spec.containers.insert(key.clone(), container);
    }
    // Those that wait for one another in a circle have no order; no apply would have made them.
    let order = container_order(&spec).unwrap_or_default();
    let place = |key: &String| order.iter().position(|other| other == key);
    containers.sort_by_key(|(key, _)| std::cmp::Reverse(place(key)));
}

/// The module's own things, and who else uses them.
struct Own<'a> {
    reader: &'a EngineReader,
    module: &'a str,
    host: &'a Host,
    /// The module's containers.
    ids: BTreeSet<String>,
}

impl Own<'_> {
    fn labels(&self) -> [(&str, &str); 2] {
        [(LABEL_INSTALLATION, &self.host.installation), (LABEL_MODULE, self.module)]
    }

    /// Its key in the module, as far as its name tells.
    fn key(&self, name: &str) -> String {
        name.strip_prefix(&format!("{}_", self.module)).unwrap_or(name).to_owned()
    }

    fn others(&self, users: BTreeMap<String, String>) -> Vec<String> {
        users.into_iter().filter(|(id, _)| !self.ids.contains(id)).map(|(_, name)| name).collect()
    }

    async fn networks(&self, containers: &[(String, Observed)]) -> Result<Vec<FoundNetwork>, EngineError> {
        let mut found = Vec::new();
        for network in self.reader.networks_with(&self.labels()).await? {
            let name = text(&network["Name"]);
            let id = text(&network["Id"]);
            let others = self.others(self.reader.attached_to(&name, &id).await?);
            found.push(FoundNetwork { key: self.key(&name), name, id, is_own: true, others });
        }
        let attached: BTreeSet<String> =
            containers.iter().flat_map(|(_, one)| names_in(&one.spec, "networks")).collect();
        let outside = attached.into_iter().filter(|name| !BUILT_IN.contains(&name.as_str()));
        for name in outside.collect::<Vec<_>>() {
            if !found.iter().any(|one| one.name == name) {
                found.push(FoundNetwork {
                    key: name.clone(),
                    name,
                    id: String::new(),
                    is_own: false,
                    others: Vec::new(),
                });
            }
        }
        Ok(found)
    }

    async fn volumes(
        &self,
        containers: &[(String, Observed)],
        left: &[LeftVolume],
        named: &BTreeSet<String>,
    ) -> Result<Vec<FoundVolume>, EngineError> {
        let own = self.reader.volumes_with(&self.labels()).await?;
        let own: BTreeSet<String> = own.iter().map(|volume| text(&volume["Name"])).collect();
        let left = left.iter().map(|one| (one.name.clone(), one.container.clone()));
        let had: BTreeMap<String, String> = left.collect();
        let has = containers
            .iter()
            .flat_map(|(key, one)| volumes_of(one).into_iter().map(|name| (name, key.clone())));
        let has: BTreeMap<String, String> = has.collect();
        let all: BTreeSet<&String> = own.iter().chain(has.keys()).chain(had.keys()).chain(named).collect();
        let mut found = Vec::new();
        for name in all {
            let inspect = self.reader.volume(name).await?;
            let whose = match &inspect {
                None if !named.contains(name) => continue,
                None => Whose::Nobodys,
                Some(_) if own.contains(name) => Whose::Own,
                Some(_) if had.contains_key(name) => Whose::Anonymous,
                Some(_) if has.contains_key(name) && is_generated_name(name) => Whose::Anonymous,
                Some(_) => Whose::NotOurs,
            };
            let others = match whose {
                Whose::Nobodys => Vec::new(),
                _ => self.others(self.reader.users_of("volume", &[name]).await?),
            };
            let created = text(&inspect.unwrap_or_default()["CreatedAt"]);
            let container = has.get(name).or(had.get(name)).cloned();
            let (key, name) = (self.key(name), name.clone());
            found.push(FoundVolume { key, name, created, whose, container, others });
        }
        Ok(found)
    }
}

/// The volumes that a container uses, named or not.
fn volumes_of(observed: &Observed) -> BTreeSet<String> {
    let mounts = observed.spec.get_field_by_name("mounts");
    let mounts = mounts.as_ref().and_then(|mounts| mounts.as_list()).unwrap_or_default();
    let of_type = |mount: &DynamicMessage, name: &str| {
        mount.get_field_by_name(name).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
    };
    let named =
        mounts.iter().filter_map(|mount| mount.as_message()).filter(|one| of_type(one, "type") == "volume");
    let named = named.map(|mount| of_type(mount, "source")).filter(|source| !source.is_empty());
    named.chain(observed.anonymous_volumes.values().cloned()).collect()
}

/// The keys of a map in a spec.
fn names_in(spec: &DynamicMessage, field: &str) -> Vec<String> {
    let map = spec.get_field_by_name(field);
    let keys =
        map.as_ref().and_then(|map| map.as_map()).into_iter().flat_map(std::collections::HashMap::keys);
    keys.filter_map(|key| key.as_str().map(str::to_owned)).collect()
}

fn text(json: &Json) -> String {
    json.as_str().unwrap_or_default().to_owned()
}
