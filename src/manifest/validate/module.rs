//! Names, and what the parts of a module say about each other.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Findings, forms};
use crate::catalogue::Path;
use crate::manifest::node::quoted;
use crate::manifest::short::is_name;
use crate::proto::v1::{ContainerSpec, IpamPool, ModuleSpec, NetworkSpec, VolumeSpec};

pub(super) const NAME_REMEDY: &str = "begin with a letter or digit, and go on with these, _ . and -";

pub(super) fn check(spec: &ModuleSpec, findings: &mut Findings) {
    let root = Path::default();
    if let Some(name) = spec.name.as_deref()
        && !is_module_name(name)
    {
        let message = format!("{} is not a module's name", quoted(name));
        findings.add(&root.field("name"), message, "use 1 to 63 lower-case letters, digits and hyphens");
    }
    let keys = spec.containers.keys().map(|key| ("containers", key));
    let keys = keys.chain(spec.networks.keys().map(|key| ("networks", key)));
    for (map, key) in keys.chain(spec.volumes.keys().map(|key| ("volumes", key))) {
        if !key.is_empty() && !is_name(key) {
            findings.add(&root.field(map).key(key), format!("{} is not a name", quoted(key)), NAME_REMEDY);
        }
    }
    for (key, network) in &spec.networks {
        check_network(network, &root.field("networks").key(key), findings);
    }
    for (key, volume) in &spec.volumes {
        check_volume(volume, &root.field("volumes").key(key), findings);
    }
    check_names_of_containers(spec, findings);
    check_needs(spec, findings);
}

/// Is this the name of a module (or node): 1 to 63 lower-case letters, digits and hyphens, not starting with a hyphen?
pub fn is_module_name(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && !name.starts_with('-')
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

fn check_network(network: &NetworkSpec, path: &Path, findings: &mut Findings) {
    check_name(network.name.as_deref(), path, findings);
    if network.external == Some(true) {
        let alone =
            NetworkSpec { name: network.name.clone(), external: network.external, ..NetworkSpec::default() };
        refuse_beside_external(&alone == network, path, findings);
    }
    for (index, pool) in network.ipam.iter().flat_map(|ipam| &ipam.config).enumerate() {
        check_pool(pool, &path.field("ipam").field("config").key(&index.to_string()), findings);
    }
}

fn check_pool(pool: &IpamPool, path: &Path, findings: &mut Findings) {
    for (name, range) in [("subnet", &pool.subnet), ("ip_range", &pool.ip_range)] {
        if let Some(range) = range
            && forms::range(range).is_none()
        {
            let message = format!("{} is not a range of addresses", quoted(range));
            findings.add(&path.field(name), message, "write it as 172.31.250.0/24");
        }
    }
    for (name, address) in &pool.aux_addresses {
        if address.parse::<std::net::IpAddr>().is_err() {
            let message = format!("{} is not an IP address", quoted(address));
            findings.add(&path.field("aux_addresses").key(name), message, "write it as 172.31.250.5");
        }
    }
}

fn check_volume(volume: &VolumeSpec, path: &Path, findings: &mut Findings) {
    check_name(volume.name.as_deref(), path, findings);
    if volume.external == Some(true) {
        let alone =
            VolumeSpec { name: volume.name.clone(), external: volume.external, ..VolumeSpec::default() };
        refuse_beside_external(&alone == volume, path, findings);
    }
}

fn check_name(name: Option<&str>, path: &Path, findings: &mut Findings) {
    if let Some(name) = name
        && !is_name(name)
    {
        findings.add(&path.field("name"), format!("{} is not a name", quoted(name)), NAME_REMEDY);
    }
}

fn refuse_beside_external(alone: bool, path: &Path, findings: &mut Findings) {
    if !alone {
        let remedy = "what is external exists already and is never changed: keep external and name only";
        findings.add(path, "it is external and says how to be made", remedy);
    }
}

/// The name of each container at the engine belongs to one of them.
fn check_names_of_containers(spec: &ModuleSpec, findings: &mut Findings) {
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for (key, container) in &spec.containers {
        if let Some(other) = seen.insert(engine_name(spec, key, container), key) {
            let path = Path::default().field("containers").key(key);
            findings.add(
                &path,
                format!("it has the same name at the engine as {other}"),
                "change container_name",
            );
        }
    }
}

fn engine_name(spec: &ModuleSpec, key: &str, container: &ContainerSpec) -> String {
    container.container_name.clone().unwrap_or_else(|| format!("{}-{key}", spec.name()))
}

/// A container must be there before another: the field that says so, and which one.
struct Need<'a> {
    from: &'a str,
    field: &'static str,
    to: &'a str,
}

/// What container:NAME names, if it is that.
pub(super) fn shared_container(mode: Option<&String>) -> Option<&str> {
    mode.and_then(|mode| mode.strip_prefix("container:"))
}

fn check_needs<'s>(spec: &'s ModuleSpec, findings: &mut Findings) {
    let containers = Path::default().field("containers");
    // A container is named by its key, or by its name at the engine.
    let mut known: HashMap<String, &str> = spec
        .containers
        .iter()
        .map(|(key, container)| (engine_name(spec, key, container), key.as_str()))
        .collect();
    known.extend(spec.containers.keys().map(|key| (key.clone(), key.as_str())));
    let mut needs = Vec::new();
    for (from, container) in &spec.containers {
        for (index, to) in container.depends_on.iter().enumerate() {
            match spec.containers.get_key_value(to) {
                Some((to, _)) => needs.push(Need { from, field: "depends_on", to }),
                None => findings.add(
                    &containers.key(from).field("depends_on").key(&index.to_string()),
                    format!("{} is not a container of this module", quoted(to)),
                    format!("the containers are {}", some_of(spec.containers.keys())),
                ),
            }
        }
        let before_colon = |text: &'static str, entries: &'s [String]| {
            entries.iter().map(move |entry| (text, entry.split(':').next().unwrap_or_default()))
        };
        let named = [
            ("network_mode", shared_container(container.network_mode.as_ref())),
            ("ipc", shared_container(container.ipc.as_ref())),
            ("pid", shared_container(container.pid.as_ref())),
            ("cgroup_container", shared_container(container.cgroup_container.as_ref())),
        ];
        let named = named.into_iter().filter_map(|(field, name)| Some((field, name?)));
        let named = named
            .chain(before_colon("volumes_from", &container.volumes_from))
            .chain(before_colon("links", &container.links));
        for (field, name) in named {
            needs.extend(known.get(name).map(|to| Need { from, field, to }));
        }
    }
    if let Some(cycle) = find_cycle(spec, &needs) {
        let way: Vec<&str> = cycle.iter().map(|need| need.to).take(10).collect();
        let path = containers.key(cycle[0].from).field(cycle[0].field);
        let message = format!("{} needs {}", cycle[0].from, way.join(", which needs "));
        findings.add(&path, message, "a container cannot wait for itself: take one of these out");
    }
}

/// The first ten, and whether there are more.
fn some_of<'s>(keys: impl Iterator<Item = &'s String>) -> String {
    let keys: Vec<&str> = keys.map(String::as_str).take(11).collect();
    match keys.get(..10) {
        Some(first) if keys.len() > 10 => format!("{} and more", first.join(", ")),
        _ => keys.join(", "),
    }
}

/// Takes away, again and again, what needs nothing that is still there: what stays goes in a circle.
fn find_cycle<'a, 'n>(spec: &'a ModuleSpec, needs: &'n [Need<'a>]) -> Option<Vec<&'n Need<'a>>> {
    let mut open: BTreeMap<&str, usize> = spec.containers.keys().map(|key| (key.as_str(), 0)).collect();
    let mut needed_by: HashMap<&str, Vec<&str>> = HashMap::new();
    for need in needs {
        *open.entry(need.from).or_default() += 1;
        needed_by.entry(need.to).or_default().push(need.from);
    }
    let mut ready: Vec<&str> = open.iter().filter(|(_, count)| **count == 0).map(|(key, _)| *key).collect();
    while let Some(key) = ready.pop() {
        open.remove(key);
        for from in needed_by.get(key).into_iter().flatten() {
            let count = open.get_mut(from)?;
            *count -= 1;
            if *count == 0 {
                ready.push(from);
            }
        }
    }
    let next: HashMap<&str, &Need<'a>> =
        needs.iter().filter(|need| open.contains_key(need.to)).map(|need| (need.from, need)).collect();
    let (mut key, mut seen) = (*open.keys().next()?, BTreeSet::new());
    while seen.insert(key) {
        key = next.get(key)?.to;
    }
    let (start, mut cycle) = (key, Vec::new());
    loop {
        let need = *next.get(key)?;
        cycle.push(need);
        key = need.to;
        if key == start {
            return Some(cycle);
        }
    }
}

/// Has the network addresses that were declared, so that an engine gives static ones?
pub(super) fn has_subnet(spec: &ModuleSpec, network: &str) -> bool {
    let Some(network) = spec.networks.get(network) else { return false };
    network.external == Some(true) || network.ipam.as_ref().is_some_and(|ipam| !ipam.config.is_empty())
}
