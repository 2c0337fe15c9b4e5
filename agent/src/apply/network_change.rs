//! A network made anew, with all containers of the module that are on it.
//!
//! Engines can neither change nor rename a network, and take no second one of its name or its addresses. So the old one has
//! to go before the new one can be made, and the containers on it have to be stopped for that. Nothing is lost on the way: a
//! network holds only settings, and they are in the journal, with those of every endpoint, before the first call; the old
//! containers stay until the new ones on the new network were read back, and are committed with it, as one.

use std::collections::BTreeSet;

use plumbline::plan::{Facts, Standing};
use plumbline::proto::v1::{Action, ObjectKind, Phase};
use serde_json::{Value as Json, json};

use super::network_undo::{body_of, endpoint_of, named};
use super::recreate::{Failed, is_held_down, look, random, spare_name};
use super::transaction::{Open, Transaction};
use super::{ApplyError, ContainerObject, Detail, update};
use crate::container::{LABEL_MARK, Observed};
use crate::journal::{NetworkChange, Record, Step};

/// A network that is made anew and not committed yet.
#[derive(Debug)]
pub(super) struct OpenNetwork {
    /// Of the object.
    pub(super) index: usize,
    pub(super) change: NetworkChange,
    /// What is to be remembered of it, under which key, once it was read back.
    made: Option<(String, Json)>,
}

/// A container of the module that is on the network and will be recreated.
struct OnIt<'a> {
    index: usize,
    object: &'a ContainerObject,
    old: &'a Observed,
}

impl<'a> Transaction<'a> {
    /// Puts a new network in the place of the old one, and returns its id. If that fails, it and all that is open are as they
    /// were before.
    pub(super) async fn replace_network(
        &mut self,
        index: usize,
        create: &Json,
    ) -> Result<String, ApplyError> {
        let name = self.decisions[index].0.facts.engine_name.clone();
        match self.try_replace_network(index, create).await {
            Ok(id) => Ok(id),
            Err((step, source)) => {
                let left = "the network and the containers on it are as they were".to_owned();
                Err(self.undone(&name, step, source, left).await)
            }
        }
    }

    async fn try_replace_network(&mut self, index: usize, create: &Json) -> Result<String, Failed> {
        let (executor, engine) = (self.executor, self.executor.engine);
        let facts = &self.decisions[index].0.facts;
        let (name, id) = (facts.engine_name.as_str(), facts.engine_id.as_str());
        let on_it = self.on_it(facts);
        // All that can be known before is, for what follows stops them all.
        for one in &on_it {
            let key = &self.decisions[one.index].0.facts.key;
            executor.guard_again(one.object).await.map_err(|error| ("data guard", error))?;
            let unlocked = executor.check_update_lock(one.old, key, Some(&one.object.declared)).await;
            unlocked.map_err(|error| ("stop of a container on it", error))?;
        }
        let change = self.begin_network(index, &on_it).await?;
        for one in on_it.iter().rev() {
            self.stop_down(one.index, one.old, "its network is made anew").await?;
        }
        self.nobody_else(name, &change).await?;

        let what = "removal of the old network";
        match engine.remove_network(id).await {
            Err(error) if !error.is_not_found() => return Err((what, error.into())),
            _ => {}
        }
        if engine.network(id).await.map_err(|error| (what, error.into()))?.is_some() {
            return Err((what, ApplyError::NotDone(what.to_owned())));
        }
        executor.report.progress(Phase::Removed, name, "the old network");

        let mut body = create.clone();
        body["Labels"][LABEL_MARK] = json!(change.mark);
        let made = engine.create_network(&body).await;
        made.map_err(|error| ("creation of the new network", error.into()))
    }

    /// The module's containers that are on it, or shall be, and run already; each after those that it depends on.
    fn on_it(&self, network: &Facts) -> Vec<OnIt<'a>> {
        let decisions = self.decisions;
        let is_on = |facts: &Facts| {
            facts.kind == ObjectKind::Container
                && facts.standing == Standing::Ours
                && facts.networks.contains(&network.key)
        };
        let on_it = decisions.iter().enumerate().filter_map(|(index, (decision, detail))| match detail {
            Detail::Container(object) if decision.action == Action::Recreated && is_on(&decision.facts) => {
                Some(OnIt { index, object, old: object.observed.as_ref()? })
            }
            _ => None,
        });
        on_it.collect()
    }

    /// Writes down what there is, before anything of it is touched.
    async fn begin_network(&mut self, index: usize, on_it: &[OnIt<'a>]) -> Result<NetworkChange, Failed> {
        let journal = |error: ApplyError| ("the journal", error);
        let looked = |error: crate::engine::EngineError| ("look at the old network", error.into());
        for one in on_it {
            if !self.open.iter().any(|open| open.index == one.index) {
                let spare = spare_name(&self.decisions[one.index].0.facts.engine_name);
                self.begin(one.index, Some(spare), Some(one.old)).map_err(journal)?;
            }
        }
        let (engine, facts) = (self.executor.engine, &self.decisions[index].0.facts);
        let name = facts.engine_name.clone();
        let shown = named(engine, &name).await.map_err(looked)?.unwrap_or_default();
        if shown["Id"] != facts.engine_id.as_str() {
            let error = ApplyError::NotDone(format!("the network {name} is another by now"));
            return Err(("look at the old network", error));
        }
        let (mut attached, mut changes) = (Vec::new(), Vec::new());
        for open in &self.open {
            let Some(old) = &open.begun.change.old else { continue };
            let inspect = engine.container(&old.id).await.map_err(looked)?.unwrap_or_default();
            let endpoint = &inspect["NetworkSettings"]["Networks"][&name];
            if endpoint.is_object() {
                attached.push((old.id.clone(), endpoint_of(endpoint)));
            }
            if endpoint.is_object() || on_it.iter().any(|one| one.index == open.index) {
                changes.push(open.begun.number);
            }
        }
        let (before, id) = (body_of(&shown), facts.engine_id.clone());
        let change = NetworkChange { name, id, before, mark: random(), attached, changes };
        let record = Record::Network(Box::new(change.clone()));
        self.entry.write(&record).map_err(|error| ("the journal", error.into()))?;
        self.networks.push(OpenNetwork { index, change: change.clone(), made: None });
        Ok(change)
    }

    /// Stops a container so that not even an engine restart starts it again.
    pub(super) async fn stop_down(&self, index: usize, old: &Observed, why: &str) -> Result<(), Failed> {
        let engine = self.executor.engine;
        let open = self.open.iter().find(|open| open.index == index);
        let Some(change) = open.map(|open| open.begun.number) else { return Ok(()) };
        let announce = |step| {
            let record = Record::Step { change, step };
            self.entry.write(&record).map_err(|error| ("the journal", error.into()))
        };
        announce(Step::HoldDown)?;
        let what = "setting the old restart policy aside";
        engine.update(&old.id, &update::no_restart_body()).await.map_err(|error| (what, error.into()))?;
        look(self.executor, &old.id, what, is_held_down).await?;
        announce(Step::Stop)?;
        let what = "stop of the old container";
        engine.stop(&old.id, old.stop_grace()).await.map_err(|error| (what, error.into()))?;
        look(self.executor, &old.id, what, |shown| shown["State"]["Running"] == json!(false)).await?;
        self.executor.report.progress(Phase::Stopped, &old.name, why);
        Ok(())
    }

    /// The engine would remove the network under a stranger that is stopped, and that could not start again.
    async fn nobody_else(&self, name: &str, change: &NetworkChange) -> Result<(), Failed> {
        let what = "look at who is attached";
        let attached = self.executor.engine.attached_to(name, &change.id).await;
        let attached = attached.map_err(|error| (what, error.into()))?;
        let others = attached.into_iter().filter(|(id, _)| !change.attached.iter().any(|(own, _)| own == id));
        let others: BTreeSet<String> = others.map(|(_, name)| name).collect();
        if others.is_empty() {
            return Ok(());
        }
        let users = Vec::from_iter(others).join(", ");
        Err((what, ApplyError::InUse { object: format!("network {name}"), users }))
    }

    /// The new network was read back. It stands once the containers on it do; at once, if there were none.
    pub(super) fn network_made(
        &mut self,
        index: usize,
        key: String,
        desired: &Json,
    ) -> Result<(), ApplyError> {
        if let Some(open) = self.networks.iter_mut().find(|open| open.index == index) {
            open.made = Some((key, desired.clone()));
        }
        self.networks_stand(&[])
    }

    /// These changes are committed, and so are the networks that they are on.
    pub(super) fn networks_stand(&mut self, these: &[Open]) -> Result<(), ApplyError> {
        let stands = |open: &OpenNetwork| {
            let is_committed = |number: &usize| these.iter().any(|these| these.begun.number == *number);
            open.made.is_some()
                && (open.change.changes.is_empty() || open.change.changes.iter().any(is_committed))
        };
        let (standing, open) = std::mem::take(&mut self.networks).into_iter().partition(stands);
        self.networks = open;
        let standing: Vec<OpenNetwork> = standing;
        for (key, desired) in standing.into_iter().filter_map(|open| open.made) {
            self.executor
                .state
                .change(self.executor.module, |module| drop(module.others.insert(key, desired)))?;
        }
        Ok(())
    }

    /// Both are on a network that is made anew.
    pub(super) fn share_new(&self, one: &Facts, other: &Facts) -> bool {
        self.networks.iter().any(|open| {
            let key = &self.decisions[open.index].0.facts.key;
            one.networks.contains(key) && other.networks.contains(key)
        })
    }

    /// What leaves the declaration and was on a network that is made anew with these, or has data that is moved with them:
    /// there is no way back for it alone.
    pub(super) fn leaving_with(&self, group: &[usize]) -> Vec<usize> {
        let facts = |index: usize| &self.decisions[index].0.facts;
        let leaves = |open: &&Open| self.decisions[open.index].0.action == Action::Removed;
        let with = |open: &&Open| {
            group.iter().any(|one| {
                self.share_new(facts(*one), facts(open.index)) || self.move_together(*one, open.index)
            })
        };
        self.open.iter().filter(leaves).filter(with).map(|open| open.index).collect()
    }
}
