//! Recreations that have not ended yet: their old containers are still there.
//!
//! A container alone is committed as soon as its new one was read back. Containers that are bound to one another are
//! replaced together or not at all: the old container of a guest can run only with the old one of its owner.

use plumbline::plan::{Decision, Standing};
use plumbline::proto::v1::Phase;

use super::execute::Executor;
use super::recreate::Recreation;
use super::{ApplyError, ContainerObject, Detail};
use crate::container::Observed;
use crate::state::ContainerState;

/// The recreations of one apply that can still be undone.
pub(super) struct Open<'a> {
    executor: &'a Executor<'a>,
    decisions: &'a [(Decision, Detail)],
    recreations: Vec<One<'a>>,
    /// Which objects, by their index, are as they were before.
    back: Vec<usize>,
}

struct One<'a> {
    index: usize,
    recreation: Recreation<'a>,
    /// What the agent knew of the old container.
    remembered: Option<ContainerState>,
}

impl<'a> Open<'a> {
    pub(super) fn new(executor: &'a Executor<'a>, decisions: &'a [(Decision, Detail)]) -> Self {
        Self { executor, decisions, recreations: Vec::new(), back: Vec::new() }
    }

    /// Recreates the container with this index. If that fails, it and all that is open are as they were before.
    pub(super) async fn recreate(
        &mut self,
        index: usize,
        object: &'a ContainerObject,
    ) -> Result<String, ApplyError> {
        let facts = &self.decisions[index].0.facts;
        let name = &facts.engine_name;
        let Some(old) = &object.observed else {
            return Err(ApplyError::NotDone(format!("{name} does not exist, so it cannot be recreated")));
        };
        let remembered = self.executor.state.module(self.executor.module).containers.get(&facts.key).cloned();
        let mut recreation = Recreation::of(self.executor, old);
        let done = recreation.run(name, &facts.key, object).await;
        self.recreations.push(One { index, recreation, remembered });
        let (step, source) = match done {
            Ok(id) => return Ok(id),
            Err(failed) => failed,
        };
        let failed = self.roll_back().await.err();
        let left = match &failed {
            None if old.running => "the old container runs again, under its own name".to_owned(),
            None => "the old container is as it was".to_owned(),
            Some(error) => format!("putting the old container back failed, too: {error}; look at {}", old.id),
        };
        Err(ApplyError::Step {
            object: name.clone(),
            step,
            source: Box::new(source),
            left,
            rolled_back: failed.is_none(),
        })
    }

    /// The new container with this index was read back: its old one goes, unless others are bound to it.
    pub(super) async fn verified(&mut self, index: usize) {
        let facts = &self.decisions[index].0.facts;
        let is_bound = !facts.bound_to.is_empty()
            || self.decisions.iter().any(|(other, _)| other.facts.bound_to.contains(&facts.key));
        if is_bound {
            return;
        }
        if let Some(at) = self.recreations.iter().position(|one| one.index == index) {
            self.recreations.remove(at).recreation.commit().await;
        }
    }

    /// All stands: the old containers go.
    pub(super) async fn commit(&mut self) {
        for one in self.recreations.drain(..) {
            one.recreation.commit().await;
        }
    }

    /// Which objects, by their index, are as they were before.
    pub(super) fn back(&self) -> &[usize] {
        &self.back
    }

    /// Puts back every old container that is still there. Every step is tried, whatever the others say; the first error
    /// is returned.
    pub(super) async fn roll_back(&mut self) -> Result<(), ApplyError> {
        let executor = self.executor;
        let mut open: Vec<One<'a>> = self.recreations.drain(..).collect();
        let mut done: Result<(), ApplyError> = Ok(());
        for one in open.iter_mut().rev() {
            done = done.and(one.recreation.put_back().await.map_err(ApplyError::from));
        }
        // Owners first, as they were created.
        for one in &open {
            let started = one.recreation.start_again().await;
            let old = one.recreation.old();
            let left = match &started {
                Ok(()) if old.running => "the old container runs again, under its own name",
                Ok(()) => "the old container is as it was",
                Err(_) => "the old container could not be started again",
            };
            executor.report.progress(Phase::RolledBack, &old.name, left);
            done = done.and(started);
        }
        let stopped: Vec<usize> = open.iter().map(|one| one.index).collect();
        for guest in self.still_bound_to(&stopped) {
            done = done.and(self.restart(guest).await);
        }
        for one in open {
            let key = self.decisions[one.index].0.facts.key.clone();
            let remembered = executor.state.change(executor.module, |module| {
                match one.remembered {
                    Some(state) => module.containers.insert(key, state),
                    None => module.containers.remove(&key),
                };
            });
            done = done.and(remembered.map_err(ApplyError::from));
            self.back.push(one.index);
        }
        done
    }

    /// The old containers, not replaced themselves, that live with one of these: its namespace ended when it was stopped.
    fn still_bound_to(&self, stopped: &[usize]) -> Vec<&'a Observed> {
        let mut keys: Vec<&str> =
            stopped.iter().map(|index| self.decisions[*index].0.facts.key.as_str()).collect();
        let mut guests = Vec::new();
        for (index, (decision, detail)) in self.decisions.iter().enumerate() {
            let facts = &decision.facts;
            let is_bound = facts.bound_to.iter().any(|owner| keys.contains(&owner.as_str()));
            if !is_bound || stopped.contains(&index) || facts.standing != Standing::Ours {
                continue;
            }
            keys.push(&facts.key);
            if let Detail::Container(object) = detail {
                guests.extend(object.observed.as_ref().filter(|old| old.running));
            }
        }
        guests
    }

    async fn restart(&self, guest: &Observed) -> Result<(), ApplyError> {
        self.executor.engine.stop(&guest.id, guest.stop_grace()).await?;
        self.executor.start_seen(&guest.id).await?;
        let why = "restarted, for it lives with a container that is back";
        self.executor.report.progress(Phase::Started, &guest.name, why);
        Ok(())
    }
}
