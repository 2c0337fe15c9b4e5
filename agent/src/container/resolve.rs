//! Keys of the module become names at the engine: of containers, networks and volumes.

use std::collections::BTreeMap;

use plumbline::proto::v1::{ContainerSpec, ModuleSpec};

/// The names at the engine of everything a module declares.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// Containers: key to name.
    pub containers: BTreeMap<String, String>,
    /// Networks: key to name.
    pub networks: BTreeMap<String, String>,
    /// Volumes: key to name.
    pub volumes: BTreeMap<String, String>,
    /// Containers outside the module that are referred to by another word than their name, as by their id.
    pub outside: BTreeMap<String, String>,
}

impl Names {
    /// What the module declares, and where it is silent `<module>-<key>` for containers and `<module>_<key>` for
    /// networks and volumes, as Docker Compose names them; an external one is named by its key.
    pub fn of(spec: &ModuleSpec) -> Self {
        let module = spec.name();
        let named = |key: &String, name: &Option<String>, external: bool| {
            let default = || if external { key.clone() } else { format!("{module}_{key}") };
            (key.clone(), name.clone().unwrap_or_else(default))
        };
        Self {
            containers: spec
                .containers
                .iter()
                .map(|(key, container)| {
                    let name = container.container_name.clone();
                    (key.clone(), name.unwrap_or_else(|| format!("{module}-{key}")))
                })
                .collect(),
            networks: spec.networks.iter().map(|(key, one)| named(key, &one.name, one.external())).collect(),
            volumes: spec.volumes.iter().map(|(key, one)| named(key, &one.name, one.external())).collect(),
            outside: BTreeMap::new(),
        }
    }

    /// The name of a container that is referred to by its key; a name outside the module stays.
    pub fn container<'a>(&'a self, reference: &'a str) -> &'a str {
        self.containers.get(reference).map_or(reference, String::as_str)
    }

    /// The same where the engine shows a name whatever was sent: an id outside the module becomes the name, too.
    fn shown<'a>(&'a self, reference: &'a str) -> &'a str {
        self.outside.get(reference).map_or_else(|| self.container(reference), String::as_str)
    }
}

/// The container with every key of the module replaced by the name at the engine.
pub fn resolve(key: &str, container: &ContainerSpec, names: &Names) -> ContainerSpec {
    let mut resolved = container.clone();
    resolved.container_name = Some(names.container(key).to_owned());
    for mode in
        [&mut resolved.network_mode, &mut resolved.ipc, &mut resolved.pid, &mut resolved.cgroup_container]
    {
        if let Some(target) = mode.as_deref().and_then(|mode| mode.strip_prefix("container:")) {
            *mode = Some(format!("container:{}", names.shown(target)));
        }
    }
    let rename = |text: &mut String, name_of: &dyn Fn(&str) -> String| {
        *text = match text.split_once(':') {
            Some((target, rest)) => format!("{}:{rest}", name_of(target)),
            None => name_of(text),
        };
    };
    let reference = |text: &mut String| rename(text, &|target| names.container(target).to_owned());
    resolved.links.iter_mut().for_each(|text| rename(text, &|target| names.shown(target).to_owned()));
    resolved.volumes_from.iter_mut().for_each(reference);
    resolved.networks = std::mem::take(&mut resolved.networks)
        .into_iter()
        .map(|(key, mut endpoint)| {
            endpoint.links.iter_mut().for_each(reference);
            (names.networks.get(&key).cloned().unwrap_or(key), endpoint)
        })
        .collect();
    for mount in &mut resolved.mounts {
        if mount.r#type() == "volume"
            && let Some(name) = mount.source.as_ref().and_then(|source| names.volumes.get(source))
        {
            mount.source = Some(name.clone());
        }
    }
    resolved
}

#[cfg(test)]
mod tests {
    use plumbline::proto::v1::{Endpoint, Mount, NetworkSpec, VolumeSpec};

    use super::*;

    #[test]
    fn keys_become_engine_names() {
        let external = NetworkSpec { external: Some(true), ..NetworkSpec::default() };
        let mut spec = ModuleSpec { name: Some("shop".to_owned()), ..ModuleSpec::default() };
        spec.networks.insert("front".to_owned(), NetworkSpec::default());
        spec.networks.insert("lan".to_owned(), external);
        spec.volumes
            .insert("db".to_owned(), VolumeSpec { name: Some("old-db".to_owned()), ..VolumeSpec::default() });
        spec.containers.insert("web".to_owned(), ContainerSpec::default());
        let container = ContainerSpec {
            network_mode: Some("container:web".to_owned()),
            links: vec!["web:w".to_owned(), "other:o".to_owned()],
            networks: [("front".to_owned(), Endpoint::default()), ("lan".to_owned(), Endpoint::default())]
                .into(),
            mounts: vec![Mount {
                r#type: Some("volume".to_owned()),
                source: Some("db".to_owned()),
                ..Mount::default()
            }],
            ..ContainerSpec::default()
        };
        let resolved = resolve("web", &container, &Names::of(&spec));
        assert_eq!(resolved.container_name(), "shop-web");
        assert_eq!(resolved.network_mode(), "container:shop-web");
        assert_eq!(resolved.links, ["shop-web:w", "other:o"]);
        assert_eq!(resolved.networks.keys().collect::<Vec<_>>(), ["lan", "shop_front"]);
        assert_eq!(resolved.mounts[0].source(), "old-db");
    }
}
