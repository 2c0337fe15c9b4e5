//! What a comparison asks, whoever answers: an engine, or the text of `docker inspect`.

use std::future::Future;

use serde_json::Value as Json;

use super::{EngineError, EngineReader, Presence};

/// Answers what `docker inspect` would. `None` stands for an object that does not exist.
pub trait Inspect: Sync {
    /// A container by name or id.
    fn container(&self, name: &str) -> impl Future<Output = Result<Option<Json>, EngineError>> + Send;

    /// An image by reference or id.
    fn image(&self, reference: &str) -> impl Future<Output = Result<Option<Json>, EngineError>> + Send;

    /// The image that a container was made from. `container` and `image` are their ids.
    fn image_of(
        &self,
        container: &str,
        image: &str,
    ) -> impl Future<Output = Result<Option<Json>, EngineError>> + Send;

    /// A network by name or id.
    fn network(&self, name: &str) -> impl Future<Output = Result<Option<Json>, EngineError>> + Send;

    /// A volume by name.
    fn volume(&self, name: &str) -> impl Future<Output = Result<Option<Json>, EngineError>> + Send;

    /// What it does not find is not there.
    fn knows_all(&self) -> bool;

    /// The ids of all containers, running or not, that carry these labels.
    fn containers_with(
        &self,
        labels: &[(&str, &str)],
    ) -> impl Future<Output = Result<Vec<String>, EngineError>> + Send;

    /// Whether there is anything at this path in a container.
    fn file(&self, container: &str, path: &str)
    -> impl Future<Output = Result<Presence, EngineError>> + Send;
}

/// The engine has no other answer than its own calls.
impl Inspect for EngineReader {
    async fn container(&self, name: &str) -> Result<Option<Json>, EngineError> {
        EngineReader::container(self, name).await
    }

    async fn image(&self, reference: &str) -> Result<Option<Json>, EngineError> {
        EngineReader::image(self, reference).await
    }

    async fn image_of(&self, _container: &str, image: &str) -> Result<Option<Json>, EngineError> {
        if image.is_empty() { Ok(None) } else { EngineReader::image(self, image).await }
    }

    async fn network(&self, name: &str) -> Result<Option<Json>, EngineError> {
        EngineReader::network(self, name).await
    }

    async fn volume(&self, name: &str) -> Result<Option<Json>, EngineError> {
        EngineReader::volume(self, name).await
    }

    fn knows_all(&self) -> bool {
        true
    }

    async fn containers_with(&self, labels: &[(&str, &str)]) -> Result<Vec<String>, EngineError> {
        EngineReader::containers_with(self, labels).await
    }

    async fn file(&self, container: &str, path: &str) -> Result<Presence, EngineError> {
        EngineReader::file(self, container, path).await
    }
}
