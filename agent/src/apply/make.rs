//! One container: made, started, watched, removed.

use std::collections::BTreeMap;
use std::time::Duration;

use plumbline::guard::Place;
use plumbline::proto::v1::Phase;
use serde_json::json;

use super::execute::{Executor, step};
use super::undo::{Begun, unmake};
use super::{ApplyError, ContainerObject};
use crate::container::{Body, LABEL_CONTAINER, LABEL_INSTALLATION, LABEL_MODULE, create_body};
use crate::journal::{Entry, Record, Step};

/// How long a started container must stay up before it counts as started.
const SETTLE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(100);

impl Executor<'_> {
    /// A container where there was none. After a failure `begun` says what there is to be undone.
    pub(super) async fn create(
        &self,
        entry: &Entry,
        begun: &mut Begun,
        object: &ContainerObject,
    ) -> Result<String, (&'static str, ApplyError)> {
        let (change, name) = (begun.number, begun.change.name.clone());
        let note = |record: Record| entry.write(&record).map_err(|error| ("the journal", error.into()));
        note(Record::Step { change, step: Step::Make })?;
        let body = self.body(&begun.change.key, object, &BTreeMap::new());
        let id = self.make(&name, &body).await.map_err(|error| ("creation", error))?;
        begun.new = Some(id.clone());
        note(Record::Made { change, id: id.clone() })?;
        self.report.progress(Phase::Created, &name, "");
        note(Record::Step { change, step: Step::Start })?;
        self.bring_up_guarded(&id, object).await.map_err(|error| ("start", error))?;
        self.report.progress(Phase::Started, &name, "");
        Ok(id)
    }

    pub(super) async fn start(&self, name: &str, object: &ContainerObject) -> Result<(), ApplyError> {
        let Some(observed) = &object.observed else { return Ok(()) };
        if observed.paused {
            step(name, "unpausing", self.engine.unpause(&observed.id).await)?;
        } else if observed.running {
            // The namespace that it lived in is gone, or goes with this apply.
            step(name, "stop", self.engine.stop(&observed.id, observed.stop_grace()).await)?;
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
                unmake(self.engine, &id).await?;
                return Err(error.into());
            }
        }
        Ok(id)
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
            let removed = unmake(self.engine, id).await;
            tracing::info!(container = name, ?removed, "removed what an unheard creation made");
        }
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
