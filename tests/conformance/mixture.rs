//! Many samples in one module: which of them go together, and what the module then declares.

use plumbline::catalogue::Leaf;
use plumbline::proto::v1::{Means, ModuleSpec};
use serde_json::{Value as Json, json};

use crate::samples::{Sample, Samples, over};
use crate::world::{World, has_all_capabilities, read_module};

/// Which value of a leaf is declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    A,
    B,
    /// Only what is declared when the field is not.
    Base,
}

/// A leaf and its value.
#[derive(Debug, Clone)]
pub(crate) struct Part<'a> {
    pub(crate) leaf: &'a Leaf,
    pub(crate) sample: &'a Sample,
    pub(crate) side: Side,
}

/// Fields that no container or network has together, and why. Each begins the path of a leaf, below the object.
const APART: &[(&[&str], &[&str], &str)] = &[
    (
        &["network_mode", "network_disabled"],
        &[
            "networks",
            "ports",
            "publish_all_ports",
            "links",
            "mac_address",
            "dns",
            "extra_hosts",
            "expose",
            "sysctls",
        ],
        "without a network of its own there is nothing to set",
    ),
    (
        &["network_mode"],
        &["network_disabled", "hostname", "domainname", "uts"],
        "each says whose network or name it has",
    ),
    (&["networks"], &["links", "mac_address"], "they are of the default network"),
    (&["command"], &["entrypoint"], "together they are one command"),
    (&["uts"], &["hostname", "domainname"], "the host's name is the host's"),
    (&["auto_remove"], &["restart"], "one excludes the other"),
    (&["auto_remove"], &[""], "the engine removes it when it stops, so it is not recreated"),
    (&["pid"], &["init"], "process 1 is another container's"),
    (&["ipam.config"], &["enable_ipv"], "each sample has a list of subnets of its own"),
];

/// Lists in which every leaf has an element of its own.
const JOINED: [&str; 3] = ["mounts", "ports", "devices"];

/// The samples that can be mixed on this engine.
pub(crate) fn usable<'a>(world: &World, leaves: &'a [Leaf], samples: &'a Samples) -> Vec<Part<'a>> {
    let all_capabilities = has_all_capabilities();
    let part = |leaf: &'a Leaf| {
        let sample = samples.of(&leaf.path)?;
        let can = !sample.exempt.contains_key("all")
            && leaf.rule.means() != Means::Instruction
            && (sample.only_if != "all_capabilities" || all_capabilities)
            && leaf.supported_by(world.host.version.api);
        can.then_some(Part { leaf, sample, side: Side::A })
    };
    leaves.iter().filter_map(part).collect()
}

/// Takes the parts one after the other, and leaves out what does not go with those before it: the manifest would be
/// refused, or a table above says why.
pub(crate) fn assemble<'a>(world: &World, module: &str, parts: Vec<Part<'a>>) -> (Vec<Part<'a>>, ModuleSpec) {
    let mut taken: Vec<Part<'a>> = Vec::new();
    let mut spec = declare(world, module, &taken).expect("the bare module is valid");
    for part in parts {
        if taken.iter().any(|other| are_apart(&other.leaf.path, &part.leaf.path)) {
            continue;
        }
        taken.push(part);
        match declare(world, module, &taken) {
            Some(with) => spec = with,
            None => drop(taken.pop()),
        }
    }
    (taken, spec)
}

/// The module that these parts declare; `None` if it is not valid.
pub(crate) fn declare(world: &World, module: &str, parts: &[Part<'_>]) -> Option<ModuleSpec> {
    let mut container = json!({ "image": "plumbline/sample:1", "command": ["hold"] });
    let (mut network, mut volume, mut volumes) = (Json::Null, Json::Null, json!({}));
    let bases = parts.iter().map(|part| (part.leaf, &part.sample.base));
    let values = parts.iter().map(|part| {
        let value = match part.side {
            Side::A => &part.sample.a,
            Side::B => &part.sample.b,
            Side::Base => &Json::Null,
        };
        (part.leaf, value)
    });
    for (leaf, value) in bases.chain(values) {
        let object = match leaf.path.split('.').next() {
            Some("network") => &mut network,
            Some("volume") => &mut volume,
            _ => &mut container,
        };
        let joined = JOINED.iter().filter_map(|list| {
            let (before, after) = (object.get(list)?.as_array()?, value.get(list)?.as_array()?);
            Some(((*list).to_owned(), Json::Array(before.iter().chain(after).cloned().collect())))
        });
        let joined = Json::Object(joined.collect());
        *object = over(&over(&over(&json!({}), object), value), &joined);
    }
    for part in parts {
        volumes = over(&volumes, &part.sample.volumes);
    }
    let mut manifest = world.manifest(module, &container, &volumes);
    for (kind, object) in [("networks", network), ("volumes", volume)] {
        if !object.is_null() {
            manifest[kind]["n"] = object;
        }
    }
    read_module(&manifest).ok()
}

/// The same leaf, two leaves of one element, or fields that exclude each other.
fn are_apart(one: &str, other: &str) -> bool {
    let element = |path: &str| path.split_once("[]").map(|(list, _)| list.to_owned());
    let same_element = element(one).is_some_and(|list| {
        element(other).as_ref() == Some(&list)
            && !JOINED.iter().any(|joined| list == format!("container.{joined}"))
    });
    let (kind, first) = one.split_once('.').expect("object and field");
    let (other_kind, second) = other.split_once('.').expect("object and field");
    let begins = |path: &str, fields: &[&str]| fields.iter().any(|field| path.starts_with(field));
    let apart = |(these, those, _): &(&[&str], &[&str], &str)| {
        (begins(first, these) && begins(second, those)) || (begins(first, those) && begins(second, these))
    };
    one == other || same_element || (kind == other_kind && APART.iter().any(apart))
}
