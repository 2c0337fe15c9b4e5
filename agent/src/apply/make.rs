//! One container: made, started, watched, removed.

use std::collections::BTreeMap;
use std::time::Duration;

use plumbline::guard::Place;
use plumbline::proto::v1::Phase;
use serde_json::json;

use super::execute::{Executor, step};
use super::{ApplyError, ContainerObject};
use crate::container::{Body, LABEL_CONTAINER, LABEL_INSTALLATION, LABEL_MODULE, create_body};
use crate::engine::EngineError;

/// How long a started container must stay up before it counts as started.
const SETTLE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(100);
const REMOVAL_TRIES: u32 = 3;

impl Executor<'_> {
    /// A container where there was none. If it does not come up, nothing is left of it.
    pub(super) async fn create(
        &self,
        name: &str,
        key: &str,
        object: &ContainerObject,
    ) -> Result<String, ApplyError> {
        let body = self.body(key, object, &BTreeMap::new());
        let id = step(name, "creation", self.make(name, &body).await)?;
        self.report.progress(Phase::Created, name, "");
        if let Err(source) = self.bring_up_guarded(&id, object).await {
            let removed = self.unmake(&id).await;
            self.report.progress(Phase::RolledBack, name, "the new container was removed");
            let left = match &removed {
                Ok(()) => "there was no container before and there is none now".to_owned(),
                Err(error) => format!("the new container could not be removed: {error}"),
            };
            return Err(ApplyError::Step {
                object: name.to_owned(),
                step: "start",
                source: Box::new(source),
                left,
                rolled_back: removed.is_ok(),
            });
        }
        self.report.progress(Phase::Started, name, "");
        Ok(id)
    }

    pub(super) async fn start(&self, name: &str, object: &ContainerObject) -> Result<(), ApplyError> {
        let Some(observed) = &object.observed else { return Ok(()) };
        if observed.paused {
            step(name, "unpausing", self.engine.unpause(&observed.id).await)?;
        }
        step(name, "start", self.bring_up(&observed.id).await)?;
        self.report.progress(Phase::Started, name, "");
        Ok(())
    }

    pub(super) fn body(
        &self,
        key: &str,
        object: &ContainerObject,
        volumes: &BTreeMap<String, String>,
    ) -> Body {
        let labels = [
            (LABEL_INSTALLATION, self.host.installation.as_str()),
            (LABEL_MODULE, self.module),
            (LABEL_CONTAINER, key),
        ];
        create_body(&object.declared, &labels, volumes, self.host.version.api)
    }

    /// Creates a container and attaches it to all its networks. If that fails, nothing is left of it.
    pub(super) async fn make(&self, name: &str, body: &Body) -> Result<String, ApplyError> {
        for bind in body.create["HostConfig"]["Binds"].as_array().into_iter().flatten() {
            // In this form an engine makes a missing source, empty, at every start.
            let source = bind.as_str().and_then(|bind| bind.split(':').next()).unwrap_or_default();
            if !matches!(self.host.files.place(source).await, Place::Found { .. }) {
                return Err(ApplyError::MissingSource { path: source.to_owned() });
            }
        }
        let created = self.engine.create_container(name, body.platform.as_deref(), &body.create).await;
        let id = match created {
            Err(error) if error.is_unclear() => {
                self.unmake_unheard(name).await;
                return Err(error.into());
            }
            created => created?,
        };
        for (network, endpoint) in &body.connect {
            if let Err(error) = self.engine.connect(network, &id, endpoint).await {
                self.unmake(&id).await?;
                return Err(error.into());
            }
        }
        Ok(id)
    }

    /// Removes a container that was made a moment ago, and the volumes that the engine made with it, which hold nothing but
    /// the image's files. A volume that anybody named stays, whatever its name looks like.
    pub(super) async fn unmake(&self, id: &str) -> Result<(), EngineError> {
        let observed = super::observe_container(self.engine.reader(), self.host, id).await;
        self.remove(id).await?;
        if let Ok(Some(observed)) = observed {
            for volume in observed.made_volumes {
                let _ = self.engine.remove_volume(&volume).await;
            }
        }
        Ok(())
    }

    /// Removes what a creation made whose answer did not come: it has the name, this module's labels, and never ran.
    async fn unmake_unheard(&self, name: &str) {
        let Ok(Some(found)) = self.engine.container(name).await else { return };
        let labels = &found["Config"]["Labels"];
        let is_ours = labels[LABEL_INSTALLATION] == self.host.installation.as_str()
            && labels[LABEL_MODULE] == self.module
            && found["Name"] == format!("/{name}");
        if is_ours
            && found["State"]["Status"] == "created"
            && let Some(id) = found["Id"].as_str()
        {
            let removed = self.unmake(id).await;
            tracing::info!(container = name, ?removed, "removed what an unheard creation made");
        }
    }

    /// Removes a container, and does not give up at once: one that stays is in the way of the next apply.
    pub(super) async fn remove(&self, id: &str) -> Result<(), EngineError> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.engine.remove_container(id).await {
                // It may have removed itself, or an unheard call did it.
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) if tries < REMOVAL_TRIES => {
                    tracing::warn!(container = id, %error, "a container could not be removed yet");
                    tokio::time::sleep(POLL).await;
                }
                removed => return removed,
            }
        }
    }

    /// Starts a container again that is known to work, and looks once whether it runs: the engine's word alone is none.
    pub(super) async fn start_seen(&self, id: &str) -> Result<(), ApplyError> {
        self.engine.start(id).await?;
        let inspect = self.engine.container(id).await?.unwrap_or_default();
        let state = &inspect["State"];
        let exit_code = state["ExitCode"].as_i64().unwrap_or_default();
        if state["Running"] == json!(true) || exit_code == 0 && state["Status"] == "exited" {
            return Ok(());
        }
        let error = state["Error"].as_str().filter(|error| !error.is_empty()).map(str::to_owned);
        Err(ApplyError::NotUp {
            exit_code,
            error,
            lines: self.engine.last_lines(id, 10).await.unwrap_or_default(),
        })
    }

    /// Starts a container and watches that it stays up. One that ends well by itself counts as up.
    pub(super) async fn bring_up(&self, id: &str) -> Result<(), ApplyError> {
        self.engine.start(id).await?;
        let until = tokio::time::Instant::now() + SETTLE;
        loop {
            let inspect = self.engine.container(id).await?.unwrap_or_default();
            let state = &inspect["State"];
            let restarted = inspect["RestartCount"].as_i64().unwrap_or_default() > 0
                || state["Restarting"] == json!(true);
            let exit_code = state["ExitCode"].as_i64().unwrap_or_default();
            let ended = state["Running"] != json!(true);
            let failed = exit_code != 0 && (restarted || ended);
            if failed || state["Dead"] == json!(true) {
                let error = state["Error"].as_str().filter(|error| !error.is_empty()).map(str::to_owned);
                let lines = self.engine.last_lines(id, 10).await.unwrap_or_default();
                return Err(ApplyError::NotUp { exit_code, error, lines });
            }
            if ended || tokio::time::Instant::now() >= until {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    }
}
