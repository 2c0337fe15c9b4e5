//! The order in which a module's containers are applied, and what each refers to.

use std::collections::{BTreeMap, BTreeSet};

use crate::proto::v1::{ContainerSpec, ModuleSpec};

/// Containers that wait for one another in a circle.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the containers {} depend on one another in a circle: take one of the references out", .0.join(", "))]
pub struct Circle(pub Vec<String>);

/// The keys of the module's containers, each after those it depends on, otherwise by name.
pub fn container_order(spec: &ModuleSpec) -> Result<Vec<String>, Circle> {
    let mut waiting: BTreeMap<&String, BTreeSet<String>> = spec
        .containers
        .iter()
        .map(|(key, container)| {
            let needs =
                references(container).into_iter().filter(|name| spec.containers.contains_key(name)).collect();
            (key, needs)
        })
        .collect();
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

/// The containers that this one names anywhere: what it depends on, shares a namespace with, links to, mounts from.
pub fn references(container: &ContainerSpec) -> BTreeSet<String> {
    let links = container.networks.values().flat_map(|endpoint| &endpoint.links).chain(&container.links);
    let names = container.depends_on.iter().chain(links).chain(&container.volumes_from);
    let mut all: BTreeSet<String> =
        names.filter_map(|text| text.split(':').next()).map(str::to_owned).collect();
    all.extend(shared_namespaces(container));
    all
}

/// The containers whose namespaces this one lives in: it must be recreated after they are, because engines keep the
/// old container's id in it (its next start fails with "No such container", measured on 20.10, 26.1 and 28.5).
pub fn shared_namespaces(container: &ContainerSpec) -> BTreeSet<String> {
    [&container.network_mode, &container.ipc, &container.pid, &container.cgroup_container]
        .into_iter()
        .flatten()
        .filter_map(|mode| mode.strip_prefix("container:"))
        .map(str::to_owned)
        .collect()
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
    fn a_circle_is_an_error_that_names_its_members() {
        let on = |name: &str| ContainerSpec { depends_on: vec![name.to_owned()], ..ContainerSpec::default() };
        let spec = module(&[("a", on("b")), ("b", on("a")), ("c", ContainerSpec::default())]);
        assert_eq!(container_order(&spec), Err(Circle(vec!["a".to_owned(), "b".to_owned()])));
    }
}
