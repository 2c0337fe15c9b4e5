//! A new container in the place of the old one, and the old one back if anything fails.
//!
//! create new under a spare name, read back, stop old (its restart policy first set to "no", so that an engine restart
//! cannot start both), rename old aside, rename new in, start new, watch it, remove old without its volumes.

use plumbline::diff::LeafChange;
use plumbline::proto::v1::Phase;

use super::execute::Executor;
use super::read_back::{read_back, residue_of};
use super::{ApplyError, ContainerObject, update};
use crate::container::Observed;
use crate::engine::EngineError;

/// How far a recreation is. What must be put back depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Nothing exists yet that was not there before.
    Nothing,
    /// The new container exists under a spare name.
    NewMade,
    /// The old one's restart policy may be "no", and it may be stopped.
    OldStopping,
    /// The old one may have its aside name.
    OldAside,
    /// The new one may have the name, and may have been started.
    NewIn,
}

/// A recreation: until it is committed, the old container is still there.
pub(super) struct Recreation<'a> {
    executor: &'a Executor<'a>,
    old: &'a Observed,
    new: Option<String>,
    stage: Stage,
}

impl<'a> Recreation<'a> {
    /// Nothing is done yet.
    pub(super) fn of(executor: &'a Executor<'a>, old: &'a Observed) -> Self {
        Self { executor, old, new: None, stage: Stage::Nothing }
    }

    /// The old container.
    pub(super) fn old(&self) -> &'a Observed {
        self.old
    }

    /// Puts a new container in the place of the old one, and returns its id.
    pub(super) async fn run(
        &mut self,
        name: &str,
        key: &str,
        object: &ContainerObject,
    ) -> Result<String, (&'static str, ApplyError)> {
        let (executor, engine, old) = (self.executor, self.executor.engine, self.old);
        let report = executor.report;
        let body = executor.body(key, object, &self.carried(object));
        let new = executor.make(&spare_name(name), &body).await.map_err(|error| ("creation", error))?;
        self.new = Some(new.clone());
        self.stage = Stage::NewMade;
        report.progress(Phase::Created, name, "under a spare name");
        self.check_mounts(&new, key, object).await.map_err(|error| ("reading back", error))?;
        executor.guard_again(object).await.map_err(|error| ("data guard", error))?;

        self.stage = Stage::OldStopping;
        let off = serde_json::json!({ "RestartPolicy": { "Name": "no" } });
        engine
            .update(&old.id, &off)
            .await
            .map_err(|error| ("setting the old restart policy aside", error.into()))?;
        engine
            .stop(&old.id, old.stop_grace())
            .await
            .map_err(|error| ("stop of the old container", error.into()))?;
        report.progress(Phase::Stopped, &old.name, "");
        self.stage = Stage::OldAside;
        engine
            .rename(&old.id, &aside_name(old))
            .await
            .map_err(|error| ("renaming the old container", error.into()))?;
        self.stage = Stage::NewIn;
        engine.rename(&new, name).await.map_err(|error| ("renaming the new container", error.into()))?;
        executor.bring_up_guarded(&new, object).await.map_err(|error| ("start", error))?;
        report.progress(Phase::Started, name, "");

        Ok(new)
    }

    /// The new container stands: the old one goes. One that cannot be removed is stopped, never restarts, and is ours.
    pub(super) async fn commit(self) {
        let old = self.old;
        match self.executor.remove(&old.id).await {
            Ok(()) => self.executor.report.progress(
                Phase::Removed,
                &old.name,
                "the old container; its volumes stay",
            ),
            Err(error) => {
                tracing::warn!(container = old.id, %error, "the old container could not be removed");
            }
        }
    }

    /// Anonymous volumes keep their data: the new container names them. Only those that are still wanted.
    fn carried(&self, object: &ContainerObject) -> std::collections::BTreeMap<String, String> {
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
        let carried = self.old.anonymous_volumes.iter().filter(|(target, _)| wanted.contains(target));
        carried.map(|(target, name)| (target.clone(), name.clone())).collect()
    }

    /// What the engine holds of the mounts is known before the old container is touched: an engine that drops an option
    /// there would show other data. What the old container's mounts read back in the same way is no news.
    async fn check_mounts(&self, new: &str, key: &str, object: &ContainerObject) -> Result<(), ApplyError> {
        let Executor { engine, host, state, module, .. } = self.executor;
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

    /// Puts the old container back in its place, not yet started. Every step is tried, whatever the others say; the first
    /// error is returned.
    pub(super) async fn put_back(&mut self) -> Result<(), EngineError> {
        let (engine, old) = (self.executor.engine, self.old);
        let mut done = Ok(());
        if let Some(new) = self.new.take() {
            done = done.and(self.executor.unmake(&new).await);
        }
        if self.stage >= Stage::OldAside {
            let renamed = engine.rename(&old.id, &old.name).await;
            // 400: it still has its name, for it was the renaming that failed.
            done = done.and(renamed.or_else(|error| match error.status() {
                Some(400) => Ok(()),
                _ => Err(error),
            }));
        }
        if self.stage >= Stage::OldStopping {
            done = done.and(engine.update(&old.id, &update::restart_body(&old.spec)).await);
        }
        done
    }

    /// Starts the old container, if it ran and may have been stopped.
    pub(super) async fn start_again(&self) -> Result<(), ApplyError> {
        if self.stage >= Stage::OldStopping && self.old.running {
            self.executor.start_seen(&self.old.id).await?;
        }
        Ok(())
    }
}

/// Where the new container waits. Never derived from an earlier spare name, so names do not grow.
fn spare_name(name: &str) -> String {
    format!("{name}.plumbline-new-{}", random())
}

/// Where a container waits that is in the way of another. Nobody else has it, whatever an earlier apply left behind.
pub(super) fn aside_name(container: &Observed) -> String {
    format!("{}.plumbline-old-{}", container.name, container.id.get(..12).unwrap_or_default())
}

fn random() -> String {
    let mut bytes = [0_u8; 6];
    // Without random numbers a name may be taken, and the engine says so.
    let _ = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes);
    data_encoding::HEXLOWER.encode(&bytes)
}
