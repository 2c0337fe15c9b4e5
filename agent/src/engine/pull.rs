//! Pulling an image, with progress in bytes.

use std::collections::HashMap;
use std::time::Duration;

use http_body_util::BodyExt as _;
use serde_json::Value as Json;

use super::http::check;
use super::{Engine, EngineError, escape};
use crate::container::split_reference;

/// Between two pieces of the answer.
const IDLE_DEADLINE: Duration = Duration::from_secs(120);
/// For the whole pull.
const TOTAL_DEADLINE: Duration = Duration::from_secs(3600);

/// How far a pull is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PullProgress {
    /// Bytes done.
    pub done: u64,
    /// Bytes in all, as far as the registry told.
    pub total: u64,
}

impl Engine {
    /// Pulls an image. The engine answers 200 before it knows whether it works: an error stands in the stream.
    pub async fn pull(&self, image: &str, mut report: impl FnMut(PullProgress)) -> Result<(), EngineError> {
        let api = self.version().await?.api;
        let (name, tag) = split_reference(image);
        let path = format!("/v{api}/images/create?fromImage={}&tag={}", escape(name), escape(tag));
        let registry = registry_of(name).to_owned();
        let auth = tokio::task::spawn_blocking(move || registry_auth(&registry)).await.ok().flatten();
        let failed = |reason: String| EngineError::Pull { image: image.to_owned(), reason };
        let (status, mut body) = self.http().send(::http::Method::POST, &path, None, auth.as_deref()).await?;
        let whole = async {
            let (mut rest, mut layers) = (Vec::new(), HashMap::new());
            loop {
                let frame = tokio::time::timeout(IDLE_DEADLINE, body.frame())
                    .await
                    .map_err(|_| failed(format!("nothing came for {IDLE_DEADLINE:?}")))?;
                let Some(frame) = frame else { break };
                let frame = frame.map_err(|error| failed(error.to_string()))?;
                rest.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
                if !status.is_success() {
                    continue;
                }
                while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = rest.drain(..=end).collect();
                    if let Some(progress) = read_line(&line, &mut layers).map_err(failed)? {
                        report(progress);
                    }
                }
            }
            check("POST /images/create", status, &rest).map_err(|error| failed(error.to_string()))?;
            read_line(&rest, &mut layers).map(drop).map_err(failed)
        };
        tokio::time::timeout(TOTAL_DEADLINE, whole)
            .await
            .unwrap_or_else(|_| Err(failed(format!("it took longer than {TOTAL_DEADLINE:?}"))))
    }

    fn http(&self) -> &super::http::Http {
        &self.reader().http
    }
}

/// The registry of a name, as Docker's configuration file names it.
fn registry_of(name: &str) -> &str {
    match name.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host,
        _ => "https://index.docker.io/v1/",
    }
}

/// What this user's Docker configuration (or its credential helper) knows for the registry, as the header that the engine
/// expects: JSON in URL-safe base64.
fn registry_auth(registry: &str) -> Option<String> {
    use base64::Engine as _;
    use docker_credential::DockerCredential::{IdentityToken, UsernamePassword};

    let json = match docker_credential::get_credential(registry).ok()? {
        IdentityToken(token) => serde_json::json!({ "identitytoken": token, "serveraddress": registry }),
        UsernamePassword(user, password) => {
            serde_json::json!({ "username": user, "password": password, "serveraddress": registry })
        }
    };
    Some(base64::engine::general_purpose::URL_SAFE.encode(json.to_string()))
}

type Layers = HashMap<String, PullProgress>;

fn read_line(line: &[u8], layers: &mut Layers) -> Result<Option<PullProgress>, String> {
    let Ok(json) = serde_json::from_slice::<Json>(line) else { return Ok(None) };
    if let Some(error) = json.get("error").and_then(Json::as_str) {
        return Err(error.to_owned());
    }
    let (Some(layer), Some(detail)) = (json.get("id").and_then(Json::as_str), json.get("progressDetail"))
    else {
        return Ok(None);
    };
    if json.get("status").and_then(Json::as_str) != Some("Downloading") {
        return Ok(None);
    }
    let number = |name: &str| detail.get(name).and_then(Json::as_u64).unwrap_or_default();
    layers.insert(layer.to_owned(), PullProgress { done: number("current"), total: number("total") });
    Ok(Some(layers.values().fold(PullProgress::default(), |sum, layer| PullProgress {
        done: sum.done + layer.done,
        total: sum.total + layer.total,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_host_is_of_dockers_own_registry() {
        assert_eq!(registry_of("app"), "https://index.docker.io/v1/");
        assert_eq!(registry_of("team/app"), "https://index.docker.io/v1/");
        assert_eq!(registry_of("localhost/app"), "localhost");
        assert_eq!(registry_of("reg.example:5000/team/app"), "reg.example:5000");
    }

    #[test]
    fn an_error_in_the_stream_is_an_error() {
        let mut layers = Layers::new();
        assert_eq!(read_line(br#"{"error": "no such host"}"#, &mut layers), Err("no such host".to_owned()));
        let line = br#"{"id": "a", "status": "Downloading", "progressDetail": {"current": 1, "total": 4}}"#;
        assert_eq!(read_line(line, &mut layers), Ok(Some(PullProgress { done: 1, total: 4 })));
    }
}
