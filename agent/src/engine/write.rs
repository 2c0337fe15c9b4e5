//! The calls that change something.

use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

use ::http::Method;
use plumbline::catalogue::ApiVersion;
use serde_json::{Value as Json, json};

use super::{EngineError, EngineReader, escape};

/// A handle on an engine with every call.
#[derive(Debug, Clone)]
pub struct Engine {
    reader: EngineReader,
}

impl Deref for Engine {
    type Target = EngineReader;

    fn deref(&self) -> &EngineReader {
        &self.reader
    }
}

impl Engine {
    /// A handle on the engine behind this Unix socket. Nothing is sent yet.
    pub fn new(socket: &Path) -> Self {
        Self { reader: EngineReader::new(socket) }
    }

    /// The same engine, asked in no newer API version than this.
    #[must_use]
    pub fn at_most(self, newest: ApiVersion) -> Self {
        Self { reader: self.reader.at_most(newest) }
    }

    /// The same engine, waited for as long as this: for every call that does not wait for a container or a registry. A stop
    /// is waited for that much longer than the container's own grace period.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { reader: self.reader.deadline(deadline) }
    }

    /// The half that only looks.
    pub fn reader(&self) -> &EngineReader {
        &self.reader
    }

    async fn post(&self, path: &str, body: Option<&Json>, deadline: Duration) -> Result<Json, EngineError> {
        self.send(Method::POST, path, body, deadline).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Json>,
        deadline: Duration,
    ) -> Result<Json, EngineError> {
        let api = self.version().await?.api;
        self.reader.http.call(method, &format!("/v{api}{path}"), body, deadline).await
    }

    /// Creates a container and returns its id.
    pub async fn create_container(
        &self,
        name: &str,
        platform: Option<&str>,
        body: &Json,
    ) -> Result<String, EngineError> {
        let platform = platform.map(|platform| format!("&platform={}", escape(platform))).unwrap_or_default();
        let path = format!("/containers/create?name={}{platform}", escape(name));
        let answer = self.post(&path, Some(body), self.reader.http.deadline()).await?;
        for warning in answer.get("Warnings").and_then(Json::as_array).into_iter().flatten() {
            tracing::warn!(container = name, %warning, "the engine warns");
        }
        answer.get("Id").and_then(Json::as_str).map(str::to_owned).ok_or_else(|| EngineError::Malformed {
            call: "POST /containers/create".to_owned(),
            reason: "the answer has no Id".to_owned(),
        })
    }

    /// Starts a container. One that runs already is fine.
    pub async fn start(&self, container: &str) -> Result<(), EngineError> {
        self.post(&format!("/containers/{}/start", escape(container)), None, self.reader.http.deadline())
            .await
            .map(drop)
    }

    /// Lets a paused container go on.
    pub async fn unpause(&self, container: &str) -> Result<(), EngineError> {
        let path = format!("/containers/{}/unpause", escape(container));
        self.post(&path, None, self.reader.http.deadline()).await.map(drop)
    }

    /// Stops a container after its own grace period. One that is stopped already is fine.
    pub async fn stop(&self, container: &str, grace: Option<Duration>) -> Result<(), EngineError> {
        // The engine answers after the grace period (10 s unless the container says otherwise).
        let deadline = self.reader.http.deadline() + grace.unwrap_or(Duration::from_secs(10));
        self.post(&format!("/containers/{}/stop", escape(container)), None, deadline).await.map(drop)
    }

    /// Gives a container another name.
    pub async fn rename(&self, container: &str, name: &str) -> Result<(), EngineError> {
        let path = format!("/containers/{}/rename?name={}", escape(container), escape(name));
        self.post(&path, None, self.reader.http.deadline()).await.map(drop)
    }

    /// Changes limits and the restart policy. The engine answers 200 to fields it ignores: read back.
    pub async fn update(&self, container: &str, body: &Json) -> Result<(), EngineError> {
        self.post(
            &format!("/containers/{}/update", escape(container)),
            Some(body),
            self.reader.http.deadline(),
        )
        .await
        .map(drop)
    }

    /// Removes a container, running or not, and none of its volumes.
    pub async fn remove_container(&self, container: &str) -> Result<(), EngineError> {
        let path = format!("/containers/{}?force=1&v=0", escape(container));
        self.send(Method::DELETE, &path, None, self.reader.http.deadline()).await.map(drop)
    }

    /// Attaches a container to a network.
    pub async fn connect(&self, network: &str, container: &str, endpoint: &Json) -> Result<(), EngineError> {
        let body = json!({ "Container": container, "EndpointConfig": endpoint });
        self.post(&format!("/networks/{}/connect", escape(network)), Some(&body), self.reader.http.deadline())
            .await
            .map(drop)
    }

    /// Detaches a container from a network, also from an endpoint that a failed connect left behind.
    pub async fn disconnect(&self, network: &str, container: &str) -> Result<(), EngineError> {
        let body = json!({ "Container": container, "Force": true });
        self.post(
            &format!("/networks/{}/disconnect", escape(network)),
            Some(&body),
            self.reader.http.deadline(),
        )
        .await
        .map(drop)
    }

    /// Creates a network and returns its id.
    pub async fn create_network(&self, body: &Json) -> Result<String, EngineError> {
        let answer = self.post("/networks/create", Some(body), self.reader.http.deadline()).await?;
        Ok(answer.get("Id").and_then(Json::as_str).unwrap_or_default().to_owned())
    }

    /// Removes a network.
    pub async fn remove_network(&self, network: &str) -> Result<(), EngineError> {
        self.send(
            Method::DELETE,
            &format!("/networks/{}", escape(network)),
            None,
            self.reader.http.deadline(),
        )
        .await
        .map(drop)
    }

    /// Creates a volume. One of that name that exists already is left as it is, so look first.
    pub async fn create_volume(&self, body: &Json) -> Result<(), EngineError> {
        self.post("/volumes/create", Some(body), self.reader.http.deadline()).await.map(drop)
    }

    /// Removes a volume that no container uses.
    pub async fn remove_volume(&self, volume: &str) -> Result<(), EngineError> {
        self.send(Method::DELETE, &format!("/volumes/{}", escape(volume)), None, self.reader.http.deadline())
            .await
            .map(drop)
    }
}
