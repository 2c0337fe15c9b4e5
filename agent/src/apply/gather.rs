//! Looking: what inspect and the agent's memory say of everything a module declares.
//!
//! Whoever answers for inspect ([`Inspect`]: an engine, or the text that somebody pasted), the way from there to the facts is
//! this one.

use std::collections::{BTreeMap, BTreeSet};

use plumbline::catalogue::{Path, container_descriptor};
use plumbline::diff::{Comparison, LeafChange, diff};
use plumbline::normal::normalise;
use plumbline::order::{bound_to, container_order, lives_with, mentioned};
use plumbline::plan::{Facts, Neighbours, RemovesItself, Standing};
use plumbline::proto::v1::{Cause, ContainerSpec, ModuleSpec, ObjectKind};
use prost_reflect::{DynamicMessage, ReflectMessage as _};
use serde_json::Value as Json;

use super::find::find_ours;
use super::hardware::keep_hardware_addresses;
use super::{ApplyError, NetworkKeys, networks, update_lock};
use crate::container::{Names, Observed, align, desired, resolve};
use crate::engine::{EngineReader, Inspect, Version};
use crate::guard::{Former, HostFiles, PlannedMove, Watched, formers};
use crate::moving::Move;
use crate::state::{ContainerState, KnownResidue, Memory};

/// What does not change during an apply.
#[derive(Debug, Clone)]
pub struct Host {
    /// The certificate authority that this agent belongs to.
    pub installation: String,
    /// The engine's version.
    pub version: Version,
    /// The host's name, which the engine gives to containers in the host's network.
    pub host_name: String,
    /// Where the engine keeps its files.
    pub engine_root: String,
    /// The host's files.
    pub files: HostFiles,
}

impl Host {
    /// Asks the engine. The agent is taken for a process of the host.
    pub async fn ask(reader: &EngineReader, installation: &str) -> Result<Self, ApplyError> {
        let version = reader.version().await?;
        let info = reader.info().await?;
        let text = |name: &str| info[name].as_str().unwrap_or_default().to_owned();
        Ok(Self {
            installation: installation.to_owned(),
            version,
            host_name: text("Name"),
            engine_root: text("DockerRootDir"),
            files: HostFiles::default(),
        })
    }
}

/// One object: the facts that decide, and what it takes to act.
#[derive(Debug, Clone)]
pub struct Gathered {
    /// For the decision.
    pub facts: Facts,
    /// For the act.
    pub detail: Detail,
}

/// What it takes to act on an object.
#[derive(Debug, Clone)]
pub enum Detail {
    /// A declared container.
    Container(Box<ContainerObject>),
    /// A declared network or volume.
    Simple {
        /// The body that creates it.
        create: Json,
        /// What is desired of it, to be remembered.
        desired: Json,
    },
    /// A container that left the declaration.
    LeftOver(Box<Observed>),
    /// A network or volume that left the declaration.
    LeftBehind,
}

/// A declared container.
#[derive(Debug, Clone)]
pub struct ContainerObject {
    /// Resolved, in the declaration's own words.
    pub declared: DynamicMessage,
    /// In normal form, with the image's defaults.
    pub desired: DynamicMessage,
    /// What runs.
    pub observed: Option<Observed>,
    /// The id of the declared image, if it is on the host.
    pub image_id: Option<String>,
    /// The image as declared.
    pub image: String,
    /// always, missing, never.
    pub pull_policy: String,
    /// The keys of its networks in the declaration.
    pub network_keys: NetworkKeys,
    /// What the decision about its mounts was made on.
    pub watched: Vec<Watched>,
    /// What it was when it was last applied, if it is gone since.
    pub remembered: Option<ContainerSpec>,
    /// Where the data of mounts was, by their targets.
    pub moved_from: BTreeMap<String, Former>,
    /// Moves of the module that are over and of which the original stays where it was.
    pub settled: Vec<Move>,
    /// The data that is moved before it is made.
    pub moves: Vec<PlannedMove>,
    /// It runs on data that is moved for another container of the module.
    pub has_moving_data: bool,
}

/// Every object of a module in the order in which it is applied: networks, volumes, containers, what is left over.
pub async fn gather(
    reader: &impl Inspect,
    memory: &Memory,
    host: &Host,
    spec: &ModuleSpec,
) -> Result<Vec<Gathered>, ApplyError> {
    let names = names(reader, spec).await?;
    let mut objects = networks::gather(reader, memory, host, spec, &names).await?;
    let (mut ours, left_over) = find_ours(reader, memory, host, spec, &names).await?;
    let leaving: BTreeSet<String> = left_over.iter().map(|(_, observed)| observed.id.clone()).collect();
    for key in container_order(spec)? {
        let Some(container) = spec.containers.get(&key) else { continue };
        let observed = ours.remove(&key);
        let resolved = resolve(&key, container, &names);
        let runs = observed.as_ref().is_some_and(|observed| observed.running);
        let on_networks = networks_of(&names, Some(container), observed.as_ref());
        let one = One { spec, names: &names, key: &key, resolved, observed, leaving: &leaving };
        let mut gathered = gather_container(reader, memory, host, one).await?;
        gathered.facts.bound_to = bound_to(spec, container);
        gathered.facts.networks = on_networks;
        if runs {
            gathered.facts.lives_with = lives_with(spec, container);
        }
        objects.push(gathered);
    }
    for (key, observed) in left_over {
        let on_networks = networks_of(&names, None, Some(&observed));
        let mut gathered = left_over_object(reader, memory, host, key, observed).await?;
        gathered.facts.networks = on_networks;
        objects.push(gathered);
    }
    Ok(objects)
}

/// The keys of the module's networks that a container is declared to be on, or is on.
fn networks_of(
    names: &Names,
    declared: Option<&ContainerSpec>,
    observed: Option<&Observed>,
) -> BTreeSet<String> {
    let declared = declared.into_iter().flat_map(|container| container.networks.keys().cloned());
    let attached = observed.and_then(|observed| observed.spec.get_field_by_name("networks"));
    let attached = attached.as_ref().and_then(|networks| networks.as_map());
    let is_on = |name: &String| {
        attached.is_some_and(|networks| networks.keys().any(|one| one.as_str() == Some(name.as_str())))
    };
    let attached = names.networks.iter().filter(|(_, name)| is_on(name)).map(|(key, _)| key.clone());
    declared.filter(|key| names.networks.contains_key(key)).chain(attached).collect()
}

/// The names at the engine of everything that the module names. What is not the module's own may be named by its id,
/// and the engine shows its name all the same.
pub(super) async fn names(reader: &impl Inspect, spec: &ModuleSpec) -> Result<Names, ApplyError> {
    let mut names = Names::of(spec);
    for (key, _) in spec.networks.iter().filter(|(_, network)| network.external()) {
        let found = reader.network(&names.networks[key]).await?.unwrap_or_default();
        if let Some(name) = found["Name"].as_str() {
            names.networks.insert(key.clone(), name.to_owned());
        }
    }
    let mentioned: BTreeSet<String> = spec.containers.values().flat_map(mentioned).collect();
    for reference in mentioned.into_iter().filter(|reference| !spec.containers.contains_key(reference)) {
        let found = reader.container(&reference).await?.unwrap_or_default();
        if let Some(name) = found["Name"].as_str() {
            names.outside.insert(reference, name.trim_start_matches('/').to_owned());
        }
    }
    Ok(names)
}

/// One declared container, before it is compared.
pub(super) struct One<'a> {
    pub(super) spec: &'a ModuleSpec,
    pub(super) names: &'a Names,
    pub(super) key: &'a str,
    pub(super) resolved: ContainerSpec,
    pub(super) observed: Option<Observed>,
    /// The ids of the module's containers that the declaration no longer has.
    pub(super) leaving: &'a BTreeSet<String>,
}

pub(super) async fn gather_container(
    reader: &impl Inspect,
    memory: &Memory,
    host: &Host,
    one: One<'_>,
) -> Result<Gathered, ApplyError> {
    let One { spec, names, key, resolved, observed, leaving } = one;
    let declared_container = spec.containers.get(key);
    let network_keys = declared_container
        .map(|container| NetworkKeys::of(container, names, observed.as_ref()))
        .unwrap_or_default();
    let name = resolved.container_name().to_owned();
    let image = resolved.image().to_owned();
    let moved_from = formers(reader, spec.name(), &names.volumes, &resolved).await?;
    let pull_policy = resolved.pull_policy.clone().unwrap_or_else(|| "missing".to_owned());
    let wanted_image = reader.image(&image).await?;
    let image_id = wanted_image.as_ref().and_then(|image| image["Id"].as_str()).map(str::to_owned);
    // Without the declared image, the defaults of the one that runs are the best that is known.
    let defaults = match (&wanted_image, &observed) {
        (None, Some(observed)) => reader.image_of(&observed.id, &observed.image_id).await?,
        (wanted, _) => wanted.clone(),
    };
    let declared = resolved.transcode_to_dynamic();
    let mut normal = declared.clone();
    normalise(&mut normal);
    let mut wanted = desired(&normal, defaults.as_ref())?;
    let as_running = match &observed {
        Some(observed) if image_id.as_ref().is_some_and(|id| *id != observed.image_id) => {
            reader.image(&observed.image_id).await?.map(|image| desired(&normal, Some(&image))).transpose()?
        }
        _ => None,
    };
    let mut observed = observed;
    let remembered = memory.module.containers.get(key);
    let at = Path::default().field("containers").key(key);
    let (changes, standing, engine_id) = match &mut observed {
        Some(observed) => {
            align(&mut wanted, &mut observed.spec, image_id.as_deref(), &observed.image_id, host.version.api);
            let previous = remembered.and_then(|container| read_desired(&container.desired));
            let comparison = Comparison {
                declared: &normal,
                desired: &wanted,
                observed: &observed.spec,
                previous: previous.as_ref(),
                as_running: as_running.as_ref(),
                api: host.version.api,
            };
            let mut changes = diff(&comparison, &at);
            keep_hardware_addresses(&mut changes, &wanted, &observed.spec);
            network_keys.apply(&mut changes);
            if let Some(remembered) = remembered {
                forget_residue(&mut changes, remembered, memory, host);
                remembered.correct(&mut changes, &host.version.engine);
            }
            let image = at.field("image");
            for change in changes.iter_mut().filter(|change| change.path == image) {
                // Nobody can give a container another image by hand.
                change.cause = Cause::Declared;
            }
            let taken = observed.name != name && holder(reader, &name, leaving).await?.is_some();
            (changes, if taken { Standing::Foreign } else { Standing::Ours }, observed.id.clone())
        }
        None => {
            let nothing = DynamicMessage::new(container_descriptor());
            let comparison = Comparison {
                declared: &normal,
                desired: &normal,
                observed: &nothing,
                previous: None,
                as_running: None,
                api: host.version.api,
            };
            let stranger = holder(reader, &name, leaving).await?;
            let standing = if stranger.is_some() { Standing::Foreign } else { Standing::Absent };
            let mut changes = diff(&comparison, &at);
            network_keys.apply(&mut changes);
            (changes, standing, stranger.unwrap_or_default())
        }
    };
    let mut changes = changes;
    let ignored = ignore(&mut changes, &spec.ignore_paths);
    let update_lock = match &observed {
        Some(observed) => {
            let paths = update_lock::paths(&memory.module, key, &observed.id, Some(&declared));
            update_lock::held(reader, &observed.id, paths).await?
        }
        None => None,
    };
    let facts = Facts {
        kind: ObjectKind::Container,
        key: key.to_owned(),
        engine_name: name,
        engine_id,
        standing,
        ignored,
        changes,
        down: observed.as_ref().is_some_and(Observed::is_down),
        removes_itself: observed.as_ref().map_or(RemovesItself::No, removes_itself),
        image_missing: image_id.is_none() && pull_policy == "never",
        bound_to: BTreeSet::new(),
        lives_with: BTreeSet::new(),
        networks: BTreeSet::new(),
        neighbours: Neighbours::default(),
        update_lock,
        mounts: Vec::new(),
        api: host.version.api,
    };
    let remembered = match &observed {
        Some(_) => None,
        None => memory.module.containers.get(key).and_then(|known| read_desired(&known.desired)),
    };
    let object = ContainerObject {
        remembered: remembered.and_then(|known| known.transcode_to().ok()),
        declared,
        desired: wanted,
        observed,
        image_id,
        image,
        pull_policy,
        network_keys,
        watched: Vec::new(),
        moved_from,
        settled: memory.module.settled(),
        moves: Vec::new(),
        has_moving_data: false,
    };
    Ok(Gathered { facts, detail: Detail::Container(Box::new(object)) })
}

fn removes_itself(observed: &Observed) -> RemovesItself {
    match (observed.removes_itself(), observed.running && !observed.paused) {
        (false, _) => RemovesItself::No,
        (true, false) => RemovesItself::Resting,
        (true, true) => RemovesItself::Running,
    }
}

/// The id of the container that has this name, unless it is about to leave. An inspect by name also finds an id that
/// starts like it (`db`).
async fn holder(
    reader: &impl Inspect,
    name: &str,
    leaving: &BTreeSet<String>,
) -> Result<Option<String>, ApplyError> {
    let found = reader.container(name).await?.unwrap_or_default();
    let id = found["Id"].as_str().unwrap_or_default();
    let has_it = found["Name"].as_str().is_some_and(|found| found.trim_start_matches('/') == name);
    Ok((has_it && !leaving.contains(id)).then(|| id.to_owned()))
}

/// Leaves out what the module says to ignore, and says how much that was.
pub(super) fn ignore(changes: &mut Vec<LeafChange>, paths: &[String]) -> u32 {
    let before = changes.len();
    changes.retain(|change| !paths.iter().any(|path| change.path.is_at_or_below(path)));
    u32::try_from(before - changes.len()).unwrap_or(u32::MAX)
}

pub(crate) fn read_desired(json: &Json) -> Option<DynamicMessage> {
    DynamicMessage::deserialize(container_descriptor(), json).ok()
}

/// What the engine read back differently right after creation, and still does, is no change: recreating would not help.
/// If it was another version that did, it is one, and no hand made it.
fn forget_residue(changes: &mut Vec<LeafChange>, remembered: &ContainerState, memory: &Memory, host: &Host) {
    let engine = &host.version.engine;
    changes.retain_mut(|change| {
        let now = super::read_back::residue_of(change, engine, &memory.hasher);
        let seen: Vec<&KnownResidue> = remembered.residue.iter().filter(|seen| seen.is_as(&now)).collect();
        if !seen.is_empty() {
            change.cause = Cause::EngineDefault;
        }
        !seen.iter().any(|seen| seen.engine == *engine)
    });
}

async fn left_over_object(
    reader: &impl Inspect,
    memory: &Memory,
    host: &Host,
    key: String,
    observed: Observed,
) -> Result<Gathered, ApplyError> {
    let paths = update_lock::paths(&memory.module, &key, &observed.id, None);
    let update_lock = update_lock::held(reader, &observed.id, paths).await?;
    let facts = Facts {
        kind: ObjectKind::Container,
        key,
        engine_name: observed.name.clone(),
        engine_id: observed.id.clone(),
        update_lock,
        ..networks::no_container(host)
    };
    Ok(Gathered { facts, detail: Detail::LeftOver(Box::new(observed)) })
}
