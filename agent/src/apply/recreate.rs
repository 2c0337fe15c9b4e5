//! A new container in the place of the old one.
//!
//! create new under a spare name, read back, stop old (its restart policy first set to "no", so that an engine restart
//! cannot start both), rename old aside, rename new in, start new, watch it through its window. Each step is journalled, made, and looked at:
//! the engine's word alone is none. What undoes them is [`super::undo`]; the old container is removed when the change is
//! committed.

use std::collections::BTreeMap;

use plumbline::diff::LeafChange;
use plumbline::proto::v1::Phase;
use serde_json::{Value as Json, json};

use super::execute::Executor;
use super::read_back::{read_back, residue_of};
use super::undo::Begun;
use super::{ApplyError, ContainerObject, update};
use crate::container::Observed;
use crate::journal::{Entry, Record, Step};

/// A step that failed, by the name that people read, and why.
pub(super) type Failed = (&'static str, ApplyError);

/// Puts a new container in the place of the old one, and returns its id. After a failure `begun` says what there is to be
/// undone.
pub(super) async fn replace(
    executor: &Executor<'_>,
    entry: &Entry,
    begun: &mut Begun,
    old: &Observed,
    object: &ContainerObject,
) -> Result<String, Failed> {
    let (engine, report) = (executor.engine, executor.report);
    let (key, name) = (begun.change.key.clone(), begun.change.name.clone());
    let spare = begun.change.spare.clone().unwrap_or_else(|| spare_name(&name));
    let change = begun.number;
    let announce = |step| {
        let record = Record::Step { change, step };
        entry.write(&record).map_err(|error| ("the journal", error.into()))
    };

    announce(Step::Make)?;
    let body = executor.body(&key, object, &carried(old, object));
    let new = executor.make(&spare, &body).await.map_err(|error| ("creation", error))?;
    begun.new = Some(new.clone());
    let made = Record::Made { change, id: new.clone() };
    entry.write(&made).map_err(|error| ("the journal", error.into()))?;
    report.progress(Phase::Created, &name, "under a spare name");
    check_mounts(executor, &new, &key, object).await.map_err(|error| ("reading back", error))?;

    executor.guard_again(object).await.map_err(|error| ("data guard", error))?;
    let unlocked = executor.check_update_lock(old, &key, Some(&object.declared)).await;
    unlocked.map_err(|error| ("stop of the old container", error))?;

    announce(Step::HoldDown)?;
    let what = "setting the old restart policy aside";
    engine.update(&old.id, &update::no_restart_body()).await.map_err(|error| (what, error.into()))?;
    look(executor, &old.id, what, is_held_down).await?;

    announce(Step::Stop)?;
    let what = "stop of the old container";
    engine.stop(&old.id, old.stop_grace()).await.map_err(|error| (what, error.into()))?;
    look(executor, &old.id, what, |shown| shown["State"]["Running"] == json!(false)).await?;
    report.progress(Phase::Stopped, &old.name, "");

    announce(Step::SetAside)?;
    let (what, aside) = ("renaming the old container", aside_name(old));
    engine.rename(&old.id, &aside).await.map_err(|error| (what, error.into()))?;
    look(executor, &old.id, what, |shown| shown["Name"] == json!(format!("/{aside}"))).await?;

    announce(Step::PutIn)?;
    let what = "renaming the new container";
    engine.rename(&new, &name).await.map_err(|error| (what, error.into()))?;
    look(executor, &new, what, |shown| shown["Name"] == json!(format!("/{name}"))).await?;

    announce(Step::Start)?;
    executor.bring_up_guarded(&name, &new, object).await.map_err(|error| ("start", error))?;
    Ok(new)
}

/// No engine starts it by itself.
pub(super) fn is_held_down(shown: &Json) -> bool {
    matches!(shown["HostConfig"]["RestartPolicy"]["Name"].as_str(), Some("no" | ""))
}

/// Looks whether a step was really made.
pub(super) async fn look(
    executor: &Executor<'_>,
    id: &str,
    what: &'static str,
    is_done: impl Fn(&Json) -> bool,
) -> Result<(), Failed> {
    let shown = executor.engine.container(id).await.map_err(|error| (what, error.into()))?;
    if shown.as_ref().is_some_and(is_done) {
        return Ok(());
    }
    Err((what, ApplyError::NotDone(format!("the container {}", id.get(..12).unwrap_or(id)))))
}

/// Anonymous volumes keep their data: the new container names them. Only those that are still wanted.
fn carried(old: &Observed, object: &ContainerObject) -> BTreeMap<String, String> {
    let wanted: Vec<String> = object
        .desired
        .get_field_by_name("mounts")
        .iter()
        .flat_map(|mounts| mounts.as_list().unwrap_or_default())
        .filter_map(|mount| {
            let mount = mount.as_message()?;
            let unnamed = !mount.has_field_by_name("source");
            let target = mount.get_field_by_name("target")?.as_str()?.to_owned();
            unnamed.then_some(target)
        })
        .collect();
    let carried = old.anonymous_volumes.iter().filter(|(target, _)| wanted.contains(target));
    carried.map(|(target, name)| (target.clone(), name.clone())).collect()
}

/// What the engine holds of the mounts is known before the old container is touched: an engine that drops an option
/// there would show other data. What the old container's mounts read back in the same way is no news.
async fn check_mounts(
    executor: &Executor<'_>,
    new: &str,
    key: &str,
    object: &ContainerObject,
) -> Result<(), ApplyError> {
    let Executor { engine, host, state, module, .. } = executor;
    let (_, residue) = read_back(engine, host, object, key, new).await?;
    let known = state.module(module).containers.remove(key).unwrap_or_default().residue;
    let is_known =
        |change: &LeafChange| known.contains(&residue_of(change, &host.version.engine, state.hasher()));
    let root = format!("containers.{key}.mounts");
    let wrong: Vec<String> = residue
        .iter()
        .filter(|change| change.path.is_at_or_below(&root) && !is_known(change))
        .map(|change| change.path.to_string())
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(ApplyError::NotDone(wrong.join(", "))) }
}

/// In the name of a container that waits aside, after the name that it had.
pub(super) const ASIDE: &str = ".plumbline-old-";

/// Where the new container waits. Never derived from an earlier spare name, so names do not grow.
pub(super) fn spare_name(name: &str) -> String {
    format!("{name}.plumbline-new-{}", random())
}

/// Where a container waits that is in the way of another. Nobody else has it, whatever an earlier apply left behind.
pub(super) fn aside_name(container: &Observed) -> String {
    format!("{}{ASIDE}{}", container.name, container.id.get(..12).unwrap_or_default())
}

pub(super) fn random() -> String {
    let mut bytes = [0_u8; 6];
    // Without random numbers a name may be taken, and the engine says so.
    let _ = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes);
    data_encoding::HEXLOWER.encode(&bytes)
}
