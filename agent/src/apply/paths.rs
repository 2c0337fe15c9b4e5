//! Paths in the words of the declaration: a module's network has a key there and another name at the engine.

use std::collections::BTreeMap;

use plumbline::diff::LeafChange;
use plumbline::proto::v1::ContainerSpec;

use crate::container::{Names, Observed};

/// Where the key stands in `containers.web.networks[front]`.
const NETWORK_KEY: usize = 3;

/// The declared keys of a container's networks, by their names at the engine.
#[derive(Debug, Clone, Default)]
pub struct NetworkKeys(BTreeMap<String, String>);

impl NetworkKeys {
    /// The keys of the networks that `container` (not resolved) declares.
    pub(super) fn of(container: &ContainerSpec, names: &Names, observed: Option<&Observed>) -> Self {
        let renamed = container.networks.keys().filter_map(|key| {
            let name = names.networks.get(key).filter(|name| *name != key)?;
            Some((name.clone(), key.clone()))
        });
        let keys: BTreeMap<String, String> = renamed.collect();
        // Somebody's network that is named like one of the keys would have the same path.
        let attached = observed.and_then(|observed| observed.spec.get_field_by_name("networks"));
        let is_attached = |key: &String| {
            let attached = attached.as_ref().and_then(|networks| networks.as_map());
            attached.is_some_and(|networks| networks.keys().any(|name| name.as_str() == Some(key.as_str())))
        };
        if keys.values().any(is_attached) { Self::default() } else { Self(keys) }
    }

    /// Names networks by their keys.
    pub(super) fn apply(&self, changes: &mut [LeafChange]) {
        for change in changes {
            if let Some(key) = change.path.key_at(NETWORK_KEY).and_then(|name| self.0.get(name))
                && change.path.field_at(NETWORK_KEY - 1) == Some("networks")
            {
                change.path = change.path.with_key_at(NETWORK_KEY, key);
            }
        }
    }

    /// The name at the engine of the network with this key in a path.
    pub(super) fn name<'a>(&'a self, key: &'a str) -> &'a str {
        self.0.iter().find(|(_, own)| *own == key).map_or(key, |(name, _)| name)
    }
}
