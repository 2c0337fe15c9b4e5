//! The order in which a module's containers are applied, and what each refers to.

use std::collections::{BTreeMap, BTreeSet};

use crate::proto::v1::{ContainerSpec, ModuleSpec};

/// Containers that wait for one another in a circle.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the containers {} depend on one another in a circle: take one of the references out", .0.join(", "))]
pub struct Circle(pub Vec<String>);

/// The keys of the module's containers, each after those it depends on, otherwise by name.
pub fn container_order(spec: &ModuleSpec) -> Result<Vec<String>, Circle> {
    let mut waiting: BTreeMap<&String, BTreeSet<String>> =
        spec.containers.iter().map(|(key, container)| (key, keys_of(spec, references(container)))).collect();
    let mut order: Vec<String> = Vec::new();
    while !waiting.is_empty() {
        let Some(next) = waiting.iter().find(|(_, needs)| needs.iter().all(|need| order.contains(need)))
        else {
            return Err(Circle(waiting.into_keys().cloned().collect()));
        };
        let next = (*next.0).clone();
        waiting.remove(&next);
        order.push(next);
    }
    Ok(order)
}

/// The module's containers that this one is bound to: it must be recreated after they are. Engines keep the old
/// container's id for a shared namespace (its next start fails with "No such container", measured on 20.10, 26.1 and
/// 28.5), the old container itself for a link, and the old one's mounts.
pub fn bound_to(spec: &ModuleSpec, container: &ContainerSpec) -> BTreeSet<String> {
    let names = container.links.iter().chain(&container.volumes_from).map(|text| first_part(text).to_owned());
    keys_of(spec, names.chain(shared_namespaces(container)))
}

/// The module's containers in whose namespaces this one lives: when one of them ends, so does its namespace.
pub fn lives_with(spec: &ModuleSpec, container: &ContainerSpec) -> BTreeSet<String> {
    keys_of(spec, shared_namespaces(container))
}

/// The containers that this one names anywhere: what it depends on, shares a namespace with, links to, mounts from.
fn references(container: &ContainerSpec) -> impl Iterator<Item = String> {
    let links = container.networks.values().flat_map(|endpoint| &endpoint.links).chain(&container.links);
    let names = container.depends_on.iter().chain(links).chain(&container.volumes_from);
    names.map(|text| first_part(text).to_owned()).chain(shared_namespaces(container))
}

/// The containers that this one names where the engine shows a name whatever was sent: shared namespaces and links.
pub fn mentioned(container: &ContainerSpec) -> BTreeSet<String> {
    let links = container.links.iter().map(|text| first_part(text).to_owned());
    links.chain(shared_namespaces(container)).collect()
}

fn shared_namespaces(container: &ContainerSpec) -> impl Iterator<Item = String> {
    [&container.network_mode, &container.ipc, &container.pid, &container.cgroup_container]
        .into_iter()
        .flatten()
        .filter_map(|mode| mode.strip_prefix("container:"))
        .map(str::to_owned)
}

fn first_part(text: &str) -> &str {
    text.split(':').next().unwrap_or(text)
}

/// The keys of those references that mean a container of this module, whether by its key or by its name at the engine.
fn keys_of(spec: &ModuleSpec, references: impl Iterator<Item = String>) -> BTreeSet<String> {
    let key_of = |reference: String| {
        if spec.containers.contains_key(&reference) {
            return Some(reference);
        }
        let named = spec.containers.iter().find(|(key, container)| match &container.container_name {
            Some(name) => *name == reference,
            None => format!("{}-{key}", spec.name()) == reference,
        });
        named.map(|(key, _)| key.clone())
    };
    references.filter_map(key_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(containers: &[(&str, ContainerSpec)]) -> ModuleSpec {
        let containers = containers.iter().map(|(key, spec)| ((*key).to_owned(), spec.clone())).collect();
        ModuleSpec { containers, ..ModuleSpec::default() }
    }

    #[test]
    fn each_container_comes_after_those_it_names() {
        let shares =
            ContainerSpec { network_mode: Some("container:z".to_owned()), ..ContainerSpec::default() };
        let links = ContainerSpec { links: vec!["b:alias".to_owned()], ..ContainerSpec::default() };
        let plain = ContainerSpec { depends_on: vec!["not-ours".to_owned()], ..ContainerSpec::default() };
        let spec = module(&[("a", links), ("b", shares), ("z", plain)]);
        assert_eq!(container_order(&spec), Ok(vec!["z".to_owned(), "b".to_owned(), "a".to_owned()]));
    }

    #[test]
    fn who_is_named_by_its_engine_name_is_the_same_container() {
        let guest = ContainerSpec {
            network_mode: Some("container:m-host".to_owned()),
            links: vec!["named:x".to_owned()],
            volumes_from: vec!["stranger".to_owned()],
            ..ContainerSpec::default()
        };
        let named = ContainerSpec { container_name: Some("named".to_owned()), ..ContainerSpec::default() };
        let mut spec = module(&[("a", guest.clone()), ("host", ContainerSpec::default()), ("other", named)]);
        spec.name = Some("m".to_owned());
        assert_eq!(bound_to(&spec, &guest), BTreeSet::from(["host".to_owned(), "other".to_owned()]));
        assert_eq!(container_order(&spec), Ok(["host", "other", "a"].map(str::to_owned).to_vec()));
    }

    #[test]
    fn a_circle_is_an_error_that_names_its_members() {
        let on = |name: &str| ContainerSpec { depends_on: vec![name.to_owned()], ..ContainerSpec::default() };
        let spec = module(&[("a", on("b")), ("b", on("a")), ("c", ContainerSpec::default())]);
        assert_eq!(container_order(&spec), Err(Circle(vec!["a".to_owned(), "b".to_owned()])));
    }
}
