//! HTTP over the engine's Unix socket: one call, one deadline, JSON in and out.
//!
//! bollard's types lose members that engines have (`Config.MacAddress`, and every member newer than they are), and its
//! untyped requests are private; comparing every field needs the raw JSON in both directions.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use hyperlocal::UnixConnector;
use serde_json::Value as Json;
use tokio::sync::watch;

use super::EngineError;

/// How long a call may take that does not wait for a container, unless the handle says otherwise.
const CALL_DEADLINE: Duration = Duration::from_secs(60);

/// How many deadlines an answer is still listened for after the agent gave it up.
const LISTENED_FOR: u32 = 10;

/// The connection to one engine.
#[derive(Debug, Clone)]
pub(super) struct Http {
    socket: Arc<PathBuf>,
    client: Client<UnixConnector, Full<Bytes>>,
    mutations: Arc<AtomicU64>,
    deadline: Duration,
    /// How many calls that may change something were given up, and have not ended. The engine may still do them.
    unanswered: watch::Sender<usize>,
}

impl Http {
    pub(super) fn new(socket: &Path) -> Self {
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(4).build(UnixConnector);
        Self {
            socket: Arc::new(socket.to_owned()),
            client,
            mutations: Arc::default(),
            deadline: CALL_DEADLINE,
            unanswered: watch::Sender::new(0),
        }
    }

    pub(super) fn with_deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// How long a call may take that does not wait for a container.
    pub(super) fn deadline(&self) -> Duration {
        self.deadline
    }

    pub(super) fn has_unanswered(&self) -> bool {
        *self.unanswered.borrow() > 0
    }

    /// Waits until every call that was given up has ended, no longer than one call may take. True: all have.
    pub(super) async fn all_answered(&self) -> bool {
        let mut unanswered = self.unanswered.subscribe();
        let none = unanswered.wait_for(|count| *count == 0);
        tokio::time::timeout(self.deadline, none).await.is_ok()
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// How many calls that may change something were sent.
    pub(super) fn mutations(&self) -> u64 {
        self.mutations.load(Ordering::SeqCst)
    }

    pub(super) async fn get(&self, path: &str) -> Result<Json, EngineError> {
        self.call(Method::GET, path, None, self.deadline).await
    }

    /// One call. An empty answer is null; a status of 304 (already so) is a success.
    ///
    /// The engine does not stop doing what the agent no longer waits for. So the answer of a call that may change something
    /// is listened for beyond the deadline: [`Http::all_answered`] knows when it has come.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Json>,
        deadline: Duration,
    ) -> Result<Json, EngineError> {
        let call = format!("{method} {}", path.split('?').next().unwrap_or(path));
        let mutates = method != Method::GET;
        let (http, path, body) = (self.clone(), path.to_owned(), body.cloned());
        let mut exchange = Box::pin(async move { http.exchange(method, &path, body.as_ref()).await });
        if let Ok(answer) = tokio::time::timeout(deadline, &mut exchange).await {
            return answer;
        }
        if mutates {
            self.unanswered.send_modify(|count| *count += 1);
            let unanswered = self.unanswered.clone();
            let (call, longest) = (call.clone(), deadline * LISTENED_FOR);
            tokio::spawn(async move {
                let answer = tokio::time::timeout(longest, exchange).await;
                tracing::warn!(call, came = answer.is_ok(), "the answer of a call that was given up");
                unanswered.send_modify(|count| *count -= 1);
            });
        }
        Err(EngineError::TimedOut { call, deadline })
    }

    /// One request and its whole answer.
    async fn exchange(&self, method: Method, path: &str, body: Option<&Json>) -> Result<Json, EngineError> {
        let call = format!("{method} {}", path.split('?').next().unwrap_or(path));
        let malformed = |reason: String| EngineError::Malformed { call: call.clone(), reason };
        let (status, body) = self.send(method, path, body, None).await?;
        let bytes = body.collect().await.map_err(|error| malformed(error.to_string()))?.to_bytes();
        check(&call, status, &bytes)?;
        let text = bytes.trim_ascii();
        // Podman answers POST /networks/{id}/connect and disconnect with this word, where Docker says nothing.
        if text.is_empty() || text == b"OK" {
            return Ok(Json::Null);
        }
        // Other calls answer with plain text, too (GET /_ping); nobody here asks for those.
        serde_json::from_slice(&bytes).map_err(|error| malformed(error.to_string()))
    }

    /// Sends a request and returns the answer's head and its body, still to be read. `registry_auth` is the header with
    /// which the engine identifies itself to a registry.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Json>,
        registry_auth: Option<&str>,
    ) -> Result<(StatusCode, Incoming), EngineError> {
        if method != Method::GET {
            self.mutations.fetch_add(1, Ordering::SeqCst);
        }
        let call = format!("{method} {path}");
        let malformed = |reason: String| EngineError::Malformed { call: call.clone(), reason };
        let uri: http::Uri = hyperlocal::Uri::new(self.socket.as_path(), path).into();
        let request = Request::builder().method(method).uri(uri).header(http::header::HOST, "docker");
        let request = match registry_auth {
            Some(auth) => request.header("X-Registry-Auth", auth),
            None => request,
        };
        let request = match body {
            Some(json) => request
                .header(http::header::CONTENT_TYPE, "application/json")
                .body(Full::new(Bytes::from(json.to_string()))),
            None => request.body(Full::default()),
        };
        let request = request.map_err(|error| malformed(error.to_string()))?;
        let response = self.client.request(request).await.map_err(|error| {
            let source =
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            if error.is_connect() {
                EngineError::Unreachable { socket: self.socket.display().to_string(), reason: source }
            } else {
                malformed(source)
            }
        })?;
        let (head, body) = response.into_parts();
        Ok((head.status, body))
    }
}

/// An error status becomes an error with the engine's own message.
pub(super) fn check(call: &str, status: StatusCode, body: &[u8]) -> Result<(), EngineError> {
    if status.is_success() || status == StatusCode::NOT_MODIFIED {
        return Ok(());
    }
    let message = serde_json::from_slice::<Json>(body)
        .ok()
        .and_then(|json| json.get("message").and_then(Json::as_str).map(str::to_owned))
        .unwrap_or_else(|| String::from_utf8_lossy(body).trim().to_owned());
    Err(EngineError::Refused { call: call.to_owned(), status: status.as_u16(), message })
}
