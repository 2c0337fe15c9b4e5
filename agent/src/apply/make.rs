//! One container: made, started, watched, removed.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use plumbline::guard::Place;
use plumbline::proto::v1::{Phase, UpdateConfig};
use serde_json::Value as Json;
use tokio::time::Instant;

use super::execute::{Executor, step};
use super::failure::of_container;
use super::health::{First, Sight, Window};
use super::undo::{Begun, unmake};
use super::{ApplyError, ContainerObject};
use crate::container::{Body, LABEL_CONTAINER, LABEL_INSTALLATION, LABEL_MODULE, create_body};
use crate::journal::{Entry, Record, Step};

/// How long a started container is left alone between two looks: at first, and at most.
const POLL: Duration = Duration::from_millis(50);
const LONGEST_POLL: Duration = Duration::from_secs(1);

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
        self.bring_up_guarded(&name, &id, object).await.map_err(|error| ("start", error))?;
        Ok(id)
    }

    /// Starts a container that is down, or again one that lives in what was started. There is no other to put back.
    pub(super) async fn start(&self, name: &str, object: &ContainerObject) -> Result<(), ApplyError> {
        let Some(observed) = &object.observed else { return Ok(()) };
        if observed.paused {
            step(name, "unpausing", self.engine.unpause(&observed.id).await)?;
        } else if observed.running {
            // The namespace that it lived in is gone, or goes with this apply.
            step(name, "stop", self.engine.stop(&observed.id, observed.stop_grace()).await)?;
        }
        self.bring_up(name, &observed.id, object).await.map_err(|source| ApplyError::Step {
            object: name.to_owned(),
            step: "start",
            source: Box::new(source),
            left: "it is the container that was there before, and is left as it is now".to_owned(),
            rolled_back: false,
        })
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

    /// Starts a container and watches it until it came through its window, or did not. One that ends well by itself counts as
    /// up.
    pub(super) async fn bring_up(
        &self,
        name: &str,
        id: &str,
        object: &ContainerObject,
    ) -> Result<(), ApplyError> {
        let look = async || self.engine.container(id).await;
        let asked = SystemTime::now();
        if let Err(error) = self.engine.start(id).await {
            let sight = Sight::of(look().await.ok().flatten().as_ref());
            return Err(of_container(self.engine, id, sight, error.into()).await);
        }
        let began = Instant::now();
        let inspect = look().await?;
        let check = inspect.as_ref().map(|inspect| &inspect["Config"]["Healthcheck"]);
        let window = Window::of(check.unwrap_or(&Json::Null), &update_config(object), self.monitor);
        self.report.progress(Phase::Started, name, &window.to_string());
        let mut sight = Sight::of(inspect.as_ref());
        let first = First::of(&sight, object.observed.as_ref().map(|observed| observed.started_at.as_str()));
        loop {
            // Without an answer the error says less.
            if sight.ended_unseen(&first)
                && let Ok(end) = self.engine.last_end(id, asked).await
            {
                sight.ended(end);
            }
            match sight.judge(window, &first, began.elapsed()) {
                Some(Ok(came)) => {
                    self.report.progress(Phase::Healthy, name, &came);
                    return Ok(());
                }
                Some(Err(not_up)) => {
                    return Err(of_container(self.engine, id, sight, ApplyError::Window(not_up)).await);
                }
                None => {}
            }
            // A container that is watched for minutes need not be asked ten times a second.
            tokio::time::sleep(POLL.max(began.elapsed() / 50).min(LONGEST_POLL)).await;
            let next = Sight::of(look().await?.as_ref());
            if let Some(news) = next.news(&sight) {
                self.report.progress(Phase::Started, name, &news);
            }
            sight = next;
        }
    }
}

/// What the declaration says of the window.
fn update_config(object: &ContainerObject) -> UpdateConfig {
    let declared = object.declared.get_field_by_name("update_config");
    let declared = declared.as_ref().and_then(|value| value.as_message());
    declared.and_then(|message| message.transcode_to().ok()).unwrap_or_default()
}
