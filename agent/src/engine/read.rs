//! The calls that only look.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::Method;
use plumbline::catalogue::ApiVersion;
use serde_json::{Value as Json, json};

use super::http::Http;
use super::{EngineError, escape};

/// What the engine says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// As `20.10.24`, or `Podman 5.4.2`.
    pub engine: String,
    /// The API version in use: the newest that both sides know.
    pub api: ApiVersion,
}

impl Version {
    /// Podman, by its Docker-compatible API.
    pub fn is_podman(&self) -> bool {
        self.engine.starts_with(PODMAN)
    }
}

/// How a container's process ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct End {
    /// As the engine says it; a process that a signal ended has 128 and the signal's number.
    pub exit_code: Option<i32>,
    /// The container reached its memory limit.
    pub oom_killed: bool,
}

/// Before the version of an engine that is no Docker.
const PODMAN: &str = "Podman ";

/// A handle on an engine without any mutating call.
#[derive(Debug, Clone)]
pub struct EngineReader {
    pub(super) http: Http,
    /// The newest API version that is asked for.
    newest: ApiVersion,
    known: Arc<Mutex<Option<(Instant, Version)>>>,
}

/// How long an engine may take to say anything at all.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);

/// How long the engine's version is taken for granted.
const VERSION_KEPT: Duration = Duration::from_secs(5);

impl EngineReader {
    /// A handle on the engine behind this Unix socket. Nothing is sent yet.
    pub fn new(socket: &Path) -> Self {
        Self { http: Http::new(socket), newest: ApiVersion::NEWEST, known: Arc::default() }
    }

    /// The same engine, asked in no newer API version than this: what a field needs beyond it is unsupported.
    #[must_use]
    pub fn at_most(self, newest: ApiVersion) -> Self {
        Self { newest: self.newest.min(newest), known: Arc::default(), ..self }
    }

    /// The same engine, waited for as long as this: for every call that does not wait for a container or a registry.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { http: self.http.with_deadline(deadline), ..self }
    }

    /// Whether a call that may change something was given up and has not ended: the engine may still do it.
    pub fn has_unanswered(&self) -> bool {
        self.http.has_unanswered()
    }

    /// Waits until every such call has ended, no longer than one call may take. True: all have.
    pub async fn all_answered(&self) -> bool {
        self.http.all_answered().await
    }

    /// The socket's path.
    pub fn socket(&self) -> &Path {
        self.http.socket()
    }

    /// How many calls that may change something were sent over this handle and its clones.
    pub fn mutations(&self) -> u64 {
        self.http.mutations()
    }

    /// The version in use, negotiated: an engine refuses a version newer than its own (measured on 20.10).
    /// The answer is kept for a few seconds: an engine may be upgraded under a running agent.
    pub async fn version(&self) -> Result<Version, EngineError> {
        if let Some((asked, version)) = self.known.lock().unwrap_or_else(PoisonError::into_inner).as_ref()
            && asked.elapsed() < VERSION_KEPT
        {
            return Ok(version.clone());
        }
        self.ask_version().await
    }

    /// Asks for the version now, whatever is known: an answer says that the engine answers.
    pub async fn ask_version(&self) -> Result<Version, EngineError> {
        let deadline = ANSWER_DEADLINE.min(self.http.deadline());
        let answer = self.http.call(Method::GET, "/version", None, deadline).await?;
        let text = |name: &str| answer.get(name).and_then(Json::as_str).unwrap_or_default().to_owned();
        let newest: ApiVersion = text("ApiVersion")
            .parse()
            .map_err(|reason| EngineError::Malformed { call: "GET /version".to_owned(), reason })?;
        if newest < ApiVersion::OLDEST {
            return Err(EngineError::TooOld { found: newest, needed: ApiVersion::OLDEST });
        }
        let mut components = answer["Components"].as_array().into_iter().flatten();
        let product = if components.any(|one| one["Name"] == "Podman Engine") { PODMAN } else { "" };
        let engine = format!("{product}{}", text("Version"));
        let version = Version { engine, api: newest.min(self.newest) };
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), version.clone()));
        Ok(version)
    }

    async fn get(&self, path: &str) -> Result<Json, EngineError> {
        let api = self.version().await?.api;
        self.http.get(&format!("/v{api}{path}")).await
    }

    /// `None` for an object that does not exist.
    async fn find(&self, path: &str) -> Result<Option<Json>, EngineError> {
        match self.get(path).await {
            Ok(json) => Ok(Some(json)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The engine's settings (GET /info).
    pub async fn info(&self) -> Result<Json, EngineError> {
        self.get("/info").await
    }

    /// A container by name or id.
    pub async fn container(&self, name: &str) -> Result<Option<Json>, EngineError> {
        self.find(&format!("/containers/{}/json", escape(name))).await
    }

    /// An image by reference or id.
    pub async fn image(&self, reference: &str) -> Result<Option<Json>, EngineError> {
        self.find(&format!("/images/{}/json", escape(reference))).await
    }

    /// A network by name or id.
    pub async fn network(&self, name: &str) -> Result<Option<Json>, EngineError> {
        self.find(&format!("/networks/{}", escape(name))).await
    }

    /// A volume by name.
    pub async fn volume(&self, name: &str) -> Result<Option<Json>, EngineError> {
        self.find(&format!("/volumes/{}", escape(name))).await
    }

    /// What a container added to its image's files, changed or deleted there.
    pub async fn changes(&self, container: &str) -> Result<Json, EngineError> {
        self.get(&format!("/containers/{}/changes", escape(container))).await
    }

    /// The ids of all containers, running or not, that carry these labels.
    pub async fn containers_with(&self, labels: &[(&str, &str)]) -> Result<Vec<String>, EngineError> {
        let list = self.get(&format!("/containers/json?all=1&filters={}", with_labels(labels))).await?;
        let ids = list.as_array().into_iter().flatten();
        Ok(ids.filter_map(|one| one.get("Id").and_then(Json::as_str).map(str::to_owned)).collect())
    }

    /// The inspect answers of all networks that carry these labels.
    pub async fn networks_with(&self, labels: &[(&str, &str)]) -> Result<Vec<Json>, EngineError> {
        let list = self.get(&format!("/networks?filters={}", with_labels(labels))).await?;
        Ok(list.as_array().cloned().unwrap_or_default())
    }

    /// The inspect answers of all volumes that carry these labels.
    pub async fn volumes_with(&self, labels: &[(&str, &str)]) -> Result<Vec<Json>, EngineError> {
        let list = self.get(&format!("/volumes?filters={}", with_labels(labels))).await?;
        Ok(list["Volumes"].as_array().cloned().unwrap_or_default())
    }

    /// All containers, running or not, that use a `volume` or `network` of one of these names: id and name.
    pub async fn users_of(
        &self,
        kind: &str,
        names: &[&str],
    ) -> Result<BTreeMap<String, String>, EngineError> {
        let filters = json!({ kind: names }).to_string();
        let list = self.get(&format!("/containers/json?all=1&filters={}", escape(&filters))).await?;
        let user = |one: &Json| {
            let name = one["Names"][0].as_str().unwrap_or_default().trim_start_matches('/');
            Some((one["Id"].as_str()?.to_owned(), name.to_owned()))
        };
        Ok(list.as_array().into_iter().flatten().filter_map(user).collect())
    }

    /// All that is attached to this network: its users, and endpoints of whatever kind. Id and name.
    pub async fn attached_to(&self, name: &str, id: &str) -> Result<BTreeMap<String, String>, EngineError> {
        // A container that never ran knows its networks by name only.
        let mut users = self.users_of("network", &[name, id]).await?;
        let inspect = self.network(id).await?.unwrap_or_default();
        for (id, endpoint) in inspect["Containers"].as_object().into_iter().flatten() {
            let name = endpoint["Name"].as_str().unwrap_or_default().to_owned();
            users.entry(id.clone()).or_insert(name);
        }
        Ok(users)
    }

    /// The bytes in every volume that the engine can count, by name.
    pub async fn volume_sizes(&self, api: ApiVersion) -> Result<BTreeMap<String, u64>, EngineError> {
        // Older engines count everything that they have.
        let only = if api >= (ApiVersion { major: 1, minor: 42 }) { "?type=volume" } else { "" };
        let usage = self.get(&format!("/system/df{only}")).await?;
        let size = |one: &Json| Some((one["Name"].as_str()?.to_owned(), one["UsageData"]["Size"].as_u64()?));
        Ok(usage["Volumes"].as_array().into_iter().flatten().filter_map(size).collect())
    }

    /// How a container's process last ended since then, as far as the engine remembers: also of one that runs again, or is
    /// gone. An engine keeps its last 256 events (Docker Engine 20.10 and 28.5, `daemon/events`).
    pub async fn last_end(&self, container: &str, since: SystemTime) -> Result<End, EngineError> {
        let filters = json!({ "container": [container], "event": ["die", "oom"] }).to_string();
        // Only with an end of time does the engine stop telling.
        let of = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let (since, now) = (of(since), of(SystemTime::now()));
        let path = format!("/events?since={since:.6}&until={now:.6}&filters={}", escape(&filters));
        let bytes = self.bytes("GET /events", &path).await?;
        let mut end = End::default();
        for event in serde_json::Deserializer::from_slice(&bytes).into_iter::<Json>() {
            let event = event.map_err(|error| EngineError::Malformed {
                call: "GET /events".to_owned(),
                reason: error.to_string(),
            })?;
            if event["Action"] == "oom" {
                end.oom_killed = true;
            } else {
                let code = event["Actor"]["Attributes"]["exitCode"].as_str();
                end.exit_code = code.and_then(|code| code.parse().ok());
            }
        }
        Ok(end)
    }

    /// An answer that is not one JSON document.
    async fn bytes(&self, call: &str, path: &str) -> Result<Bytes, EngineError> {
        use http_body_util::BodyExt as _;
        let path = format!("/v{}{path}", self.version().await?.api);
        let read = async {
            let (status, body) = self.http.send(Method::GET, &path, None, None).await?;
            let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            super::http::check(call, status, &bytes).map(|()| bytes)
        };
        let deadline = self.http.deadline();
        let late = |_| EngineError::TimedOut { call: call.to_owned(), deadline };
        tokio::time::timeout(deadline, read).await.map_err(late)?
    }

    /// The last lines a container wrote, for an error message.
    pub async fn last_lines(&self, container: &str, lines: u32) -> Result<String, EngineError> {
        let path = format!("/containers/{}/logs?stdout=1&stderr=1&tail={lines}", escape(container));
        // Without them the error says less.
        let bytes = match self.bytes("GET /containers/logs", &path).await {
            Err(EngineError::TimedOut { .. }) => Bytes::new(),
            read => read?,
        };
        let text: String = String::from_utf8_lossy(&without_frames(&bytes))
            .chars()
            .filter(|character| matches!(character, '\n' | '\t') || !character.is_control())
            .collect();
        Ok(text.trim().to_owned())
    }
}

/// A filter for objects that carry these labels.
fn with_labels(labels: &[(&str, &str)]) -> String {
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    escape(&json!({ "label": labels }).to_string())
}

/// The output of a container without a terminal comes in frames: one byte for the stream, three zeros, four bytes for the
/// length (Docker Engine API, "Attach to a container"). With a terminal it comes as it is.
fn without_frames(bytes: &[u8]) -> Vec<u8> {
    let (mut rest, mut text) = (bytes, Vec::new());
    while let [0..=2, 0, 0, 0, a, b, c, d, after @ ..] = rest {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let (frame, next) = after.split_at(length.min(after.len()));
        text.extend_from_slice(frame);
        rest = next;
    }
    text.extend_from_slice(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::without_frames;

    #[test]
    fn frames_are_taken_off() {
        assert_eq!(without_frames(b"\x01\0\0\0\0\0\0\x26abc"), b"abc");
        assert_eq!(without_frames(b"\x01\0\0\0\0\0\0\x02ab\x02\0\0\0\0\0\0\x01c"), b"abc");
        assert_eq!(without_frames(b"plain"), b"plain");
    }
}
