//! Changing a running container in place, and reading it back; undone if a step fails.

use std::collections::BTreeSet;

use plumbline::catalogue::Path;
use plumbline::plan::Decision;
use plumbline::proto::v1::path_segment::Step;
use plumbline::proto::v1::{Means, Phase};
use prost_reflect::DynamicMessage;
use serde_json::Value as Json;

use super::execute::Executor;
use super::read_back::read_back;
use super::{ApplyError, ContainerObject, NetworkKeys};
use crate::container::{endpoint_body, update_body};

/// What there is to do in place.
#[derive(Debug, Default, PartialEq, Eq)]
struct Work {
    /// Top-level fields for the update endpoint.
    update: BTreeSet<String>,
    /// A new name.
    rename: bool,
    /// Networks to be attached anew.
    networks: BTreeSet<String>,
}

impl Work {
    fn of(decision: &Decision, keys: &NetworkKeys) -> Self {
        let mut work = Self::default();
        for change in &decision.facts.changes {
            let (field, key) = field_and_key(&change.path);
            match change.rule.means() {
                Means::Update => {
                    work.update.insert(field);
                }
                Means::Rename => work.rename = true,
                Means::Connect => work.networks.extend(key.map(|key| keys.name(&key).to_owned())),
                Means::Recreate | Means::Instruction | Means::Unspecified => {}
            }
        }
        work
    }
}

/// `containers.web.networks[front].aliases` is about the field `networks` and its key `front`.
fn field_and_key(path: &Path) -> (String, Option<String>) {
    let steps: Vec<Step> = path.to_wire().into_iter().filter_map(|segment| segment.step).collect();
    let field = match steps.get(2) {
        Some(Step::Field(name)) => name.clone(),
        _ => String::new(),
    };
    let key = match steps.get(3) {
        Some(Step::Key(key)) => Some(key.clone()),
        _ => None,
    };
    (field, key)
}

/// The body that gives a container the restart policy of a spec.
pub(super) fn restart_body(spec: &DynamicMessage) -> Json {
    update_body(spec, &["restart"])
}

/// The body that keeps an engine from starting a container by itself.
pub(super) fn no_restart_body() -> Json {
    serde_json::json!({ "RestartPolicy": { "Name": "no" } })
}

/// Brings the container to what is desired: name, networks, limits, in this order. After a failure the steps that were
/// done are undone, the last first. Limits come last, for an engine does not take a limit away again; a call that changes
/// them does all or nothing.
pub(super) async fn update(
    executor: &Executor<'_>,
    decision: &Decision,
    object: &ContainerObject,
) -> Result<(), ApplyError> {
    let Some(observed) = &object.observed else { return Ok(()) };
    let mut work = Work::of(decision, &object.network_keys);
    if executor.host.version.is_podman() && !work.update.is_empty() {
        // Podman sets it to `no` in an update that does not name it (measured on 5.4.2).
        work.update.insert("restart".to_owned());
    }
    let (engine, id) = (executor.engine, observed.id.as_str());
    let mut undo: Vec<Undo> = Vec::new();
    let done: Result<(), (&'static str, ApplyError)> = async {
        // What undoes a step stands before it: a call that fails may have been done all the same.
        if work.rename {
            undo.push(Undo::Rename(observed.name.clone()));
            engine.rename(id, &decision.facts.engine_name).await.map_err(|error| ("rename", error.into()))?;
        }
        for network in &work.networks {
            let before = endpoint_body(&observed.spec, network);
            let is_attached = before.is_some();
            undo.push(Undo::Network(network.clone(), before));
            if is_attached {
                // A connected endpoint must be disconnected first, even to change it.
                engine.disconnect(network, id).await.map_err(|error| ("disconnect", error.into()))?;
            } else {
                // The engine may still show one on an earlier network of this name.
                clear_endpoint(executor, network, id).await.map_err(|error| ("disconnect", error))?;
            }
            if let Some(endpoint) = endpoint_body(&object.desired, network) {
                engine.connect(network, id, &endpoint).await.map_err(|error| ("connect", error.into()))?;
            }
        }
        if !work.update.is_empty() {
            let fields: Vec<&str> = work.update.iter().map(String::as_str).collect();
            undo.push(Undo::Update(update_body(&observed.spec, &fields)));
            let body = update_body(&object.desired, &fields);
            engine.update(id, &body).await.map_err(|error| ("update", error.into()))?;
        }
        match still_differs(executor, decision, object, id).await {
            Ok(paths) if paths.is_empty() => Ok(()),
            Ok(paths) => Err(("reading back", ApplyError::NotInPlace(paths))),
            Err(error) => Err(("reading back", error)),
        }
    }
    .await;
    let Err((step, source)) = done else {
        executor.report.progress(Phase::Updated, &decision.facts.engine_name, "");
        return Ok(());
    };
    let mut left = "the steps that were done before it were undone".to_owned();
    // A call that was given up would else be made after it is undone.
    let mut rolled_back = !engine.has_unanswered() || engine.all_answered().await;
    if !rolled_back {
        left += "; the engine has not ended a call that was given up: plan again";
    }
    for step in undo.into_iter().rev() {
        if let Err(error) = step.run(executor, id).await {
            left = format!("undoing the steps before it failed, too: {error}");
            rolled_back = false;
        }
    }
    if rolled_back {
        let as_before = ContainerObject { desired: observed.spec.clone(), ..object.clone() };
        let paths = still_differs(executor, decision, &as_before, id).await.unwrap_or_default();
        if !paths.is_empty() {
            left = format!("this could not be undone: {}", paths.join(", "));
            rolled_back = false;
        }
    }
    executor.report.progress(Phase::RolledBack, &decision.facts.engine_name, &left);
    Err(ApplyError::Step { object: observed.name.clone(), step, source: Box::new(source), left, rolled_back })
}

/// The paths, of those that were to be changed, that inspect does not show as desired.
async fn still_differs(
    executor: &Executor<'_>,
    decision: &Decision,
    object: &ContainerObject,
    id: &str,
) -> Result<Vec<String>, ApplyError> {
    let (_, differs) = read_back(executor.engine, executor.host, object, &decision.facts.key, id).await?;
    let wanted = |path: &Path| decision.facts.changes.iter().any(|change| change.path == *path);
    let paths = differs.into_iter().map(|change| change.path).filter(wanted);
    Ok(paths.map(|path| path.to_string()).collect())
}

enum Undo {
    Update(Json),
    Rename(String),
    Network(String, Option<Json>),
}

impl Undo {
    async fn run(self, executor: &Executor<'_>, id: &str) -> Result<(), ApplyError> {
        match self {
            Self::Update(body) => executor.engine.update(id, &body).await?,
            Self::Rename(name) => match executor.engine.rename(id, &name).await {
                // 400: it has that name still.
                Err(error) if error.status() == Some(400) => {}
                renamed => renamed?,
            },
            Self::Network(network, before) => {
                clear_endpoint(executor, &network, id).await?;
                if let Some(endpoint) = before {
                    executor.engine.connect(&network, id, &endpoint).await?;
                }
            }
        }
        Ok(())
    }
}

/// Takes a network away from a container, also the endpoint without an address that a refused connect leaves behind, on
/// which the container's next start would fail. Engine 20.10 does not disconnect such an endpoint (500, "is not
/// connected"), not even by force; one that was connected with any address it does.
async fn clear_endpoint(executor: &Executor<'_>, network: &str, id: &str) -> Result<(), ApplyError> {
    let (engine, is_attached) = (executor.engine, || async {
        let inspect = executor.engine.container(id).await?.unwrap_or_default();
        Ok::<bool, ApplyError>(inspect["NetworkSettings"]["Networks"].get(network).is_some())
    });
    if !is_attached().await? {
        return Ok(());
    }
    let disconnected = engine.disconnect(network, id).await;
    if is_attached().await? {
        tracing::info!(network, container = id, ?disconnected, "clearing what a refused connect left");
        engine.connect(network, id, &serde_json::json!({})).await?;
        engine.disconnect(network, id).await?;
    }
    Ok(())
}
