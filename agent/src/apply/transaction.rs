//! The containers that an apply makes, replaces and takes away, until it is known that they stand.
//!
//! Every change is journalled before it begins and before each of its steps. A container alone is committed as soon as its
//! new one was read back; containers that are bound to one another together, when all of them were: the old container of a
//! guest can run only with the old one of its owner. What left the declaration goes when all the rest stands.

use plumbline::plan::{Decision, Standing};
use plumbline::proto::v1::{Action, ObjectKind, Phase};
use serde_json::{Value as Json, json};

use super::data_moves::OpenMove;
use super::execute::{Executor, step};
use super::network_change::OpenNetwork;
use super::recreate::{Failed, aside_name, is_held_down, look, replace, spare_name};
use super::undo::{Begun, Others, Owner, put_all_back, remove};
use super::{ApplyError, ContainerObject, Detail, update};
use crate::container::Observed;
use crate::journal::{Change, DataMove, Entry, Old, Record, Step};
use crate::state::ContainerState;

/// What can still be undone.
pub(super) struct Transaction<'a> {
    pub(super) executor: &'a Executor<'a>,
    pub(super) decisions: &'a [(Decision, Detail)],
    pub(super) entry: Entry,
    /// How many changes have begun.
    begun: usize,
    pub(super) open: Vec<Open>,
    /// The networks that are made anew.
    pub(super) networks: Vec<OpenNetwork>,
    /// The data that is moved.
    pub(super) moves: Vec<OpenMove>,
    /// All data that is to be moved was, or is being.
    pub(super) data_moved: bool,
    /// What the result says of objects, by their index.
    pub(super) said: Vec<(usize, String)>,
    /// Which objects, by their index, are as they were before.
    back: Vec<usize>,
    /// Where data is that was kept when a move was undone.
    notes: Vec<String>,
    /// Something is left to be done that could not be done now.
    unfinished: bool,
}

pub(super) struct Open {
    /// Of the object.
    pub(super) index: usize,
    pub(super) begun: Begun,
    /// What is to be remembered of the new container, once it was read back.
    verified: Option<ContainerState>,
}

impl<'a> Transaction<'a> {
    pub(super) fn new(executor: &'a Executor<'a>, decisions: &'a [(Decision, Detail)]) -> Self {
        let entry = executor.state.journal().entry(executor.module);
        Self {
            executor,
            decisions,
            entry,
            begun: 0,
            open: Vec::new(),
            networks: Vec::new(),
            moves: Vec::new(),
            data_moved: false,
            said: Vec::new(),
            back: Vec::new(),
            notes: Vec::new(),
            unfinished: false,
        }
    }

    fn owner(&self) -> Owner<'a> {
        Owner { installation: &self.executor.host.installation, module: self.executor.module }
    }

    /// Writes down that a change begins.
    pub(super) fn begin(
        &mut self,
        index: usize,
        spare: Option<String>,
        old: Option<&Observed>,
    ) -> Result<(), ApplyError> {
        let facts = &self.decisions[index].0.facts;
        let change = Change {
            key: facts.key.clone(),
            name: facts.engine_name.clone(),
            spare,
            old: old.map(as_old),
            guests: old.map(|_| self.guests(&facts.key)).unwrap_or_default(),
        };
        let begins = self.entry.write(&Record::Begin(Box::new(change.clone())));
        step(&change.name, "the journal", begins)?;
        let begun = Begun { number: self.begun, change, new: None, stopping: false };
        self.begun += 1;
        self.open.push(Open { index, begun, verified: None });
        Ok(())
    }

    /// Makes a container where there was none. If it does not come up, nothing is left of it.
    pub(super) async fn create(
        &mut self,
        index: usize,
        object: &ContainerObject,
    ) -> Result<String, ApplyError> {
        let executor = self.executor;
        let name = self.decisions[index].0.facts.engine_name.clone();
        let at = match self.open.iter().position(|open| open.index == index) {
            // Data was moved for it.
            Some(at) => at,
            None => {
                self.begin(index, Some(name.clone()), None)?;
                self.open.len() - 1
            }
        };
        let (step, source) = match executor.create(&self.entry, &mut self.open[at].begun, object).await {
            Ok(id) => return Ok(id),
            Err(failed) => failed,
        };
        let left = "there was no container before and there is none now".to_owned();
        let error = self.undone(&name, step, source, left).await;
        let in_the_way = executor.engine.container(&name).await;
        Err(match error {
            // One that could not be seen when it was looked for, or a stranger's that has just been made.
            ApplyError::Step { object, step, source, rolled_back, .. } if !matches!(in_the_way, Ok(None)) => {
                let left =
                    "a container of that name may be there, and was not touched: plan again".to_owned();
                ApplyError::Step { object, step, source, left, rolled_back }
            }
            error => error,
        })
    }

    /// Puts a new container in the place of the old one. If that fails, it and all that is open are as they were before.
    pub(super) async fn recreate(
        &mut self,
        index: usize,
        object: &ContainerObject,
    ) -> Result<String, ApplyError> {
        let executor = self.executor;
        let name = self.decisions[index].0.facts.engine_name.clone();
        let Some(old) = &object.observed else {
            return Err(ApplyError::NotDone(format!("{name} does not exist, so it cannot be recreated")));
        };
        let begun = self.open.iter().position(|open| open.index == index);
        let at = match begun {
            // It was stopped already, for a network that is made anew or data that is moved.
            Some(at) => at,
            None => {
                self.begin(index, Some(spare_name(&name)), Some(old))?;
                self.open.len() - 1
            }
        };
        let (step, source) = match replace(executor, &self.entry, &mut self.open[at].begun, old, object).await
        {
            Ok(id) => return Ok(id),
            Err(failed) => failed,
        };
        let was_stopped = begun.is_some();
        let left = if !was_stopped && matches!(step, "creation" | "reading back" | "data guard") {
            "the old container was not touched"
        } else if old.running {
            "the old container runs again, under its own name"
        } else {
            "the old container is as it was"
        };
        Err(self.undone(&name, step, source, left.to_owned()).await)
    }

    /// Undoes all that is open, and says what that means.
    pub(super) async fn undone(
        &mut self,
        name: &str,
        step: &'static str,
        source: ApplyError,
        left: String,
    ) -> ApplyError {
        let failed = self.roll_back().await.err();
        let left = match &failed {
            // Whoever recovers looks again when it has.
            None if self.unfinished => format!("{left}; the engine has not ended a call that was given up"),
            None => left,
            Some(error) => format!(
                "putting back what was before failed, too: {error}; the agent goes on trying, see `docker ps -a`"
            ),
        };
        let rolled_back = failed.is_none();
        let left = [&[left], self.notes.as_slice()].concat().join("; ");
        ApplyError::Step { object: name.to_owned(), step, source: Box::new(source), left, rolled_back }
    }

    /// Stops a container that left the declaration, so that not even an engine restart starts it again.
    pub(super) async fn set_aside(&mut self, index: usize, old: &Observed) -> Result<(), ApplyError> {
        let (engine, change) = (self.executor.engine, self.begun);
        let key = &self.decisions[index].0.facts.key;
        step(&old.name, "stop", self.executor.check_update_lock(old, key, None).await)?;
        self.begin(index, None, Some(old))?;
        let announce = |step| self.entry.write(&Record::Step { change, step });
        announce(Step::SetAside)?;
        let aside = aside_name(old);
        step(&old.name, "renaming", engine.rename(&old.id, &aside).await)?;
        let has_name = |shown: &Json| shown["Name"] == json!(format!("/{aside}"));
        seen(&old.name, look(self.executor, &old.id, "renaming", has_name).await)?;
        if old.removes_itself() {
            // Stopped, it would be gone, with no way back.
            return Ok(());
        }
        announce(Step::HoldDown)?;
        let held = engine.update(&old.id, &update::no_restart_body()).await;
        step(&old.name, "setting its restart policy aside", held)?;
        announce(Step::Stop)?;
        step(&old.name, "stop", engine.stop(&old.id, old.stop_grace()).await)?;
        let is_down = |shown: &Json| is_held_down(shown) && shown["State"]["Running"] == json!(false);
        seen(&old.name, look(self.executor, &old.id, "stop", is_down).await)?;
        self.executor.report.progress(Phase::Stopped, &old.name, "it left the declaration");
        Ok(())
    }

    /// The container with this index was read back. It is committed once all that are bound to it were.
    pub(super) async fn verified(&mut self, index: usize, state: ContainerState) -> Result<(), ApplyError> {
        let Some(open) = self.open.iter_mut().find(|open| open.index == index) else { return Ok(()) };
        open.verified = Some(state);
        let group = self.group(index);
        let is_verified =
            |index: &usize| self.open.iter().any(|open| open.index == *index && open.verified.is_some());
        if !group.iter().all(is_verified) {
            return Ok(());
        }
        let open = std::mem::take(&mut self.open);
        let leaving = self.leaving_with(&group);
        let (these, others) =
            open.into_iter().partition(|open| group.contains(&open.index) || leaving.contains(&open.index));
        self.open = others;
        self.commit_these(these).await
    }

    /// The objects that are made in this apply and bound to this one, directly or not.
    fn group(&self, index: usize) -> Vec<usize> {
        let is_made = |index: &usize| {
            matches!(self.decisions[*index].0.action, Action::Created | Action::Recreated)
                && self.decisions[*index].0.facts.kind == ObjectKind::Container
        };
        let is_bound = |one: usize, other: usize| {
            let (one, other) = (&self.decisions[one].0.facts, &self.decisions[other].0.facts);
            one.bound_to.contains(&other.key)
                || other.bound_to.contains(&one.key)
                || self.share_new(one, other)
        };
        let is_bound = |one: usize, other: usize| is_bound(one, other) || self.move_together(one, other);
        let mut group = vec![index];
        let mut next = 0;
        while let Some(&one) = group.get(next) {
            let bound = (0..self.decisions.len()).filter(is_made).filter(|other| is_bound(one, *other));
            let new: Vec<usize> = bound.filter(|other| !group.contains(other)).collect();
            group.extend(new);
            next += 1;
        }
        group
    }

    /// All stands: what is old goes.
    pub(super) async fn commit(&mut self) -> Result<(), ApplyError> {
        let open = std::mem::take(&mut self.open);
        self.commit_these(open).await?;
        self.end()
    }

    async fn commit_these(&mut self, these: Vec<Open>) -> Result<(), ApplyError> {
        if these.is_empty() {
            return Ok(());
        }
        let stand = these.iter().map(|open| (open.begun.number, open.verified.clone())).collect();
        if let Err(error) = self.entry.write(&Record::Committed(stand)) {
            // They are not: they can be undone, and are.
            self.open.extend(these);
            return Err(error.into());
        }
        if let Err(error) = self.remember(&these).await {
            // They stand all the same. The journal knows, and whoever recovers remembers it.
            self.unfinished = true;
            tracing::warn!(module = self.executor.module, %error, "what was committed is not remembered yet");
        }
        for open in these {
            let Some(old) = &open.begun.change.old else { continue };
            let announced = self.entry.write(&Record::Step { change: open.begun.number, step: Step::Remove });
            if let Err(error) = announced {
                // Recovery does not need it: it asks the engine.
                tracing::warn!(container = old.id, %error, "a removal could not be announced");
            }
            let why = if open.verified.is_some() { "the old container" } else { "it left the declaration" };
            match remove(self.executor.engine, &old.id).await {
                Ok(()) => self.executor.report.progress(
                    Phase::Removed,
                    &old.name,
                    &format!("{why}; its volumes stay"),
                ),
                Err(error) => {
                    // It is stopped and never restarts.
                    self.unfinished = true;
                    tracing::warn!(container = old.id, %error, "a container could not be removed yet");
                }
            }
        }
        Ok(())
    }

    async fn remember(&mut self, these: &[Open]) -> Result<(), ApplyError> {
        self.executor.state.change(self.executor.module, |module| {
            for open in these {
                module.committed(&open.begun.change, open.verified.clone());
            }
        })?;
        self.networks_stand(these)?;
        self.moves_stand(these).await
    }

    /// Which objects, by their index, are as they were before.
    pub(super) fn back(&self) -> &[usize] {
        &self.back
    }

    /// Where data is that was kept when moves were undone.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Nothing is left to be done, or the journal stays for whoever recovers.
    fn end(&mut self) -> Result<(), ApplyError> {
        if !self.unfinished {
            self.entry.end()?;
        }
        Ok(())
    }

    /// Undoes everything that is not committed. Every step is tried, whatever the others come to; the first error is
    /// returned, and the journal stays.
    pub(super) async fn roll_back(&mut self) -> Result<(), ApplyError> {
        let open = std::mem::take(&mut self.open);
        let begun: Vec<Begun> = open.iter().map(|open| open.begun.clone()).collect();
        let networks = std::mem::take(&mut self.networks);
        let changes: Vec<_> = networks.iter().map(|network| (network.change.clone(), false)).collect();
        let moves: Vec<DataMove> =
            std::mem::take(&mut self.moves).into_iter().map(|open| open.begun).collect();
        let files = &self.executor.host.files;
        let others = Others { networks: &changes, files, moves: &moves, kept: &[] };
        let put_back = put_all_back(self.executor.engine, self.owner(), &begun, others).await;
        let done = put_back.placed.and(put_back.started);
        for open in &open {
            let (name, left) = match &open.begun.change.old {
                None => (&open.begun.change.name, "the new container was removed"),
                Some(old) if old.running => (&old.name, "the old container runs again, under its own name"),
                Some(old) => (&old.name, "the old container is as it was"),
            };
            if done.is_ok() {
                self.executor.report.progress(Phase::RolledBack, name, left);
                self.back.push(open.index);
            }
        }
        if done.is_ok() {
            self.back.extend(networks.iter().map(|network| network.index));
        }
        self.unfinished |= done.is_err() || put_back.owed;
        self.notes.extend(put_back.notes);
        done.and(self.end())
    }

    /// The ids of the old containers that live with this one: they stop working when it is stopped.
    fn guests(&self, key: &str) -> Vec<String> {
        let (mut keys, mut guests) = (vec![key], Vec::new());
        for (decision, detail) in self.decisions {
            let facts = &decision.facts;
            let is_bound = facts.bound_to.iter().any(|owner| keys.contains(&owner.as_str()));
            if !is_bound || facts.standing != Standing::Ours {
                continue;
            }
            keys.push(&facts.key);
            if let Detail::Container(object) = detail {
                let running = object.observed.as_ref().filter(|old| old.running);
                guests.extend(running.map(|old| old.id.clone()));
            }
        }
        guests
    }
}

/// A step of a container that leaves was not found to be done.
fn seen(name: &str, looked: Result<(), Failed>) -> Result<(), ApplyError> {
    looked.or_else(|(what, error)| step(name, what, Err(error)))
}

fn as_old(observed: &Observed) -> Old {
    Old {
        id: observed.id.clone(),
        name: observed.name.clone(),
        running: observed.running,
        removes_itself: observed.removes_itself(),
        restart: update::restart_body(&observed.spec),
    }
}
