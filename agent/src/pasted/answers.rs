//! What pasted text answers in an engine's place.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use super::Pasted;
use super::unknown_image::assumed_image;
use crate::container::LABEL_INSTALLATION;
use crate::engine::{EngineError, Inspect, Presence};

/// Pasted text, asked on behalf of one module.
#[derive(Debug)]
pub(super) struct Answers<'a> {
    pub(super) pasted: &'a Pasted,
    /// The ids of the containers whose declaration takes the image's entrypoint away.
    pub(super) without_entrypoint: BTreeSet<&'a str>,
}

impl Inspect for Answers<'_> {
    fn knows_all(&self) -> bool {
        false
    }

    async fn container(&self, name: &str) -> Result<Option<Json>, EngineError> {
        Ok(self.pasted.find_container(name).cloned())
    }

    async fn image(&self, reference: &str) -> Result<Option<Json>, EngineError> {
        Ok(self.pasted.find_image(reference).cloned())
    }

    async fn image_of(&self, container: &str, image: &str) -> Result<Option<Json>, EngineError> {
        let known = self.pasted.find_image(image).cloned();
        let assumed = || {
            let inspect = self.pasted.find_container(container)?;
            Some(assumed_image(inspect, self.without_entrypoint.contains(container)))
        };
        Ok(known.or_else(assumed))
    }

    async fn network(&self, name: &str) -> Result<Option<Json>, EngineError> {
        Ok(self.pasted.find_network(name).cloned())
    }

    async fn volume(&self, name: &str) -> Result<Option<Json>, EngineError> {
        Ok(self.pasted.find_volume(name).cloned())
    }

    async fn containers_with(&self, labels: &[(&str, &str)]) -> Result<Vec<String>, EngineError> {
        // Text does not belong to an installation that could tell its own from another's.
        let asked = labels.iter().filter(|(name, _)| *name != LABEL_INSTALLATION);
        let has = |container: &&Json| {
            asked.clone().all(|(name, value)| container["Config"]["Labels"][*name] == json!(value))
        };
        let ids = self.pasted.containers.iter().filter(has);
        Ok(ids.filter_map(|container| container["Id"].as_str().map(str::to_owned)).collect())
    }

    async fn file(&self, _container: &str, _path: &str) -> Result<Presence, EngineError> {
        // Text has no files. That they were not looked at is said in a note.
        Ok(Presence::Absent)
    }
}
