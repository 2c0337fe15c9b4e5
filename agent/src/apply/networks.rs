//! The module's networks and volumes: compared, and created if missing. What makes a network anew is `network_change`; a
//! volume never is.

use std::collections::BTreeSet;

use plumbline::catalogue::{Path, network_descriptor, volume_descriptor};
use plumbline::diff::{Comparison, LeafChange, SecretHasher, diff};
use plumbline::engine_form::{from_engine, to_engine};
use plumbline::normal::normalise;
use plumbline::plan::{Facts, Neighbours, RemovesItself, Standing};
use plumbline::proto::v1::{ModuleSpec, ObjectKind};
use prost_reflect::{DynamicMessage, MessageDescriptor, ReflectMessage as _, Value};
use serde_json::{Value as Json, json};

use super::gather::ignore;
use super::read_back::residue_of;
use super::{ApplyError, Detail, Gathered, Host};
use crate::container::{LABEL_INSTALLATION, LABEL_MODULE, LABEL_PREFIX, Names, network_in_docker_words};
use crate::engine::{EngineReader, Inspect};
use crate::state::{Memory, ModuleState};

/// The facts of every network and volume that the module declares.
pub(super) async fn gather(
    reader: &impl Inspect,
    memory: &Memory,
    host: &Host,
    spec: &ModuleSpec,
    names: &Names,
) -> Result<Vec<Gathered>, ApplyError> {
    let (remembered, hasher) = (&memory.module, &memory.hasher);
    let mut objects = Vec::new();
    for (key, network) in &spec.networks {
        let name = &names.networks[key];
        // An inspect by name also finds an id that starts like it.
        let found =
            reader.network(name).await?.filter(|found| found["Name"] == name.as_str() || network.external());
        let object = Simple {
            kind: ObjectKind::Network,
            key,
            name,
            external: network.external(),
            declared: network.transcode_to_dynamic(),
            descriptor: network_descriptor(),
        };
        objects.push(object.gather(host, spec, found.as_ref(), remembered, hasher)?);
    }
    for (key, volume) in &spec.volumes {
        let name = &names.volumes[key];
        let object = Simple {
            kind: ObjectKind::Volume,
            key,
            name,
            external: volume.external(),
            declared: volume.transcode_to_dynamic(),
            descriptor: volume_descriptor(),
        };
        objects.push(object.gather(host, spec, reader.volume(name).await?.as_ref(), remembered, hasher)?);
    }
    Ok(objects)
}

/// Under which key the agent remembers a network or volume.
pub(super) fn others_key(kind: ObjectKind, key: &str) -> String {
    root(kind).key(key).to_string()
}

fn root(kind: ObjectKind) -> Path {
    Path::default().field(if kind == ObjectKind::Network { "networks" } else { "volumes" })
}

/// What inspect shows of a network or volume that was made a moment ago, where it differs from what was desired.
pub(super) async fn read_back(
    reader: &EngineReader,
    host: &Host,
    facts: &Facts,
    desired: &Json,
) -> Result<Vec<LeafChange>, ApplyError> {
    let name = &facts.engine_name;
    let (found, descriptor) = match facts.kind {
        ObjectKind::Network => (reader.network(name).await?, network_descriptor()),
        _ => (reader.volume(name).await?, volume_descriptor()),
    };
    let found = found.ok_or_else(|| ApplyError::NotDone(format!("{name} is not there")))?;
    let desired = DynamicMessage::deserialize(descriptor.clone(), desired)
        .map_err(|error| ApplyError::NotDone(format!("{name}: {error}")))?;
    let mut observed = observe(&descriptor, host, &found)?;
    forget_chosen_pools(&desired, None, &mut observed);
    let comparison = Comparison {
        declared: &desired,
        desired: &desired,
        observed: &observed,
        previous: None,
        as_running: None,
        api: host.version.api,
    };
    Ok(diff(&comparison, &root(facts.kind).key(&facts.key)))
}

/// An inspect answer as a spec in normal form. Labels that carry identity are not part of it.
fn observe(descriptor: &MessageDescriptor, host: &Host, found: &Json) -> Result<DynamicMessage, ApplyError> {
    let mut found = found.clone();
    if host.version.is_podman() && *descriptor == network_descriptor() {
        network_in_docker_words(&mut found);
    }
    if let Some(labels) = found["Labels"].as_object_mut() {
        labels.retain(|key, _| !key.starts_with(LABEL_PREFIX));
    }
    let mut observed = from_engine(descriptor, &found)?;
    normalise(&mut observed);
    Ok(observed)
}

/// The engine adds an address pool of the family that the declaration leaves out: a declared IPv6 pool does not make its
/// IPv4 pool a change.
fn forget_chosen_pools(
    declared: &DynamicMessage,
    previous: Option<&DynamicMessage>,
    observed: &mut DynamicMessage,
) {
    let pools = |message: &DynamicMessage| match message
        .get_field_by_name("ipam")
        .and_then(|ipam| ipam.as_message()?.get_field_by_name("config").map(std::borrow::Cow::into_owned))
    {
        Some(Value::List(pools)) => pools,
        _ => Vec::new(),
    };
    let subnet = |pool: &Value| {
        pool.as_message()
            .and_then(|pool| pool.get_field_by_name("subnet")?.as_str().map(str::to_owned))
            .unwrap_or_default()
    };
    let is_v6 = |subnet: &String| subnet.contains(':');
    let declared: Vec<String> = pools(declared).iter().map(subnet).collect();
    let previous: Vec<String> = previous.map(pools).unwrap_or_default().iter().map(subnet).collect();
    if declared.is_empty() {
        return;
    }
    let mut kept = pools(observed);
    kept.retain(|pool| {
        let subnet = subnet(pool);
        previous.contains(&subnet) || declared.iter().any(|declared| is_v6(declared) == is_v6(&subnet))
    });
    if let Some(Value::Message(mut ipam)) =
        observed.get_field_by_name("ipam").map(std::borrow::Cow::into_owned)
    {
        ipam.set_field_by_name("config", Value::List(kept));
        observed.set_field_by_name("ipam", Value::Message(ipam));
    }
}

/// What a network or volume has not.
pub(super) fn no_container(host: &Host) -> Facts {
    Facts {
        kind: ObjectKind::Unspecified,
        key: String::new(),
        engine_name: String::new(),
        engine_id: String::new(),
        standing: Standing::LeftOver,
        changes: Vec::new(),
        ignored: 0,
        down: false,
        removes_itself: RemovesItself::No,
        image_missing: false,
        bound_to: BTreeSet::new(),
        lives_with: BTreeSet::new(),
        networks: BTreeSet::new(),
        neighbours: Neighbours::default(),
        update_lock: None,
        mounts: Vec::new(),
        api: host.version.api,
    }
}

struct Simple<'a> {
    kind: ObjectKind,
    key: &'a str,
    name: &'a str,
    external: bool,
    declared: DynamicMessage,
    descriptor: MessageDescriptor,
}

impl Simple<'_> {
    fn gather(
        &self,
        host: &Host,
        spec: &ModuleSpec,
        found: Option<&Json>,
        remembered: &ModuleState,
        hasher: &SecretHasher,
    ) -> Result<Gathered, ApplyError> {
        let module = spec.name();
        let labels = found.map(|found| found["Labels"].clone()).unwrap_or_default();
        let ours = labels[LABEL_INSTALLATION] == host.installation.as_str() && labels[LABEL_MODULE] == module;
        let standing = match (found, self.external, ours) {
            (Some(_), true, _) => Standing::External,
            (None, true, _) => Standing::ExternalMissing,
            (Some(_), false, true) => Standing::Ours,
            (Some(_), false, false) => Standing::Foreign,
            (None, false, _) => Standing::Absent,
        };
        let mut declared = self.declared.clone();
        normalise(&mut declared);
        let mut observed = match (found, standing) {
            (Some(found), Standing::Ours) => observe(&self.descriptor, host, found)?,
            _ => DynamicMessage::new(self.descriptor.clone()),
        };
        let others_key = others_key(self.kind, self.key);
        let previous = remembered
            .others
            .get(&others_key)
            .and_then(|json| DynamicMessage::deserialize(self.descriptor.clone(), json).ok());
        forget_chosen_pools(&declared, previous.as_ref(), &mut observed);
        let compared = matches!(standing, Standing::Ours | Standing::Absent);
        let comparison = Comparison {
            declared: &declared,
            desired: &declared,
            observed: &observed,
            previous: previous.as_ref(),
            as_running: None,
            api: host.version.api,
        };
        let mut changes =
            if compared { diff(&comparison, &root(self.kind).key(self.key)) } else { Vec::new() };
        if let Some(known) = remembered.others_residue.get(&others_key) {
            // Whichever version of the engine read it back: it is no reason to stop all that is on it.
            let is_known = |change: &LeafChange| {
                let now = residue_of(change, &host.version.engine, hasher);
                known.iter().any(|known| known.is_as(&now))
            };
            changes.retain(|change| !is_known(change));
        }
        let ignored = ignore(&mut changes, &spec.ignore_paths);
        let id = found.and_then(|found| found["Id"].as_str().or(found["Name"].as_str()));
        let facts = Facts {
            kind: self.kind,
            key: self.key.to_owned(),
            engine_name: self.name.to_owned(),
            engine_id: id.unwrap_or_default().to_owned(),
            standing,
            changes,
            ignored,
            ..no_container(host)
        };
        let create = self.body(host, module);
        let desired = serde_json::to_value(&declared).unwrap_or_default();
        Ok(Gathered { facts, detail: Detail::Simple { create, desired } })
    }

    fn body(&self, host: &Host, module: &str) -> Json {
        let mut body = to_engine(&self.declared);
        body["Name"] = json!(self.name);
        body["Labels"][LABEL_INSTALLATION] = json!(host.installation);
        body["Labels"][LABEL_MODULE] = json!(module);
        if self.kind == ObjectKind::Network {
            body["CheckDuplicate"] = json!(true);
        } else if let Some(options) = body.as_object_mut().and_then(|body| body.remove("Options")) {
            // The one member that inspect names otherwise than create.
            body["DriverOpts"] = options;
        }
        body
    }
}
