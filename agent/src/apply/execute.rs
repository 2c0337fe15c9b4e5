//! Doing what was decided. As little is decided here as possible: one arm for each action.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use plumbline::guard::Place;
use plumbline::plan::Decision;
use plumbline::proto::v1::{Action, ModuleResult, ObjectKind, ObjectResult, Outcome, Phase};
use serde_json::Value as Json;

use super::networks::{self, others_key};
use super::read_back::{read_back, residue_of, residue_on_wire};
use super::run::Report;
use super::transaction::Transaction;
use super::{ApplyError, ContainerObject, Detail, Host, update};
use crate::container::Observed;
use crate::engine::Engine;
use crate::state::{ContainerState, State};

/// What executing needs.
pub(super) struct Executor<'a> {
    pub(super) engine: &'a Engine,
    pub(super) state: &'a State,
    pub(super) host: &'a Host,
    pub(super) module: &'a str,
    /// How long a started container must stay up where its declaration does not say.
    pub(super) monitor: Duration,
    pub(super) report: &'a dyn Report,
    /// Where data was moved to in this apply, and what is there since.
    pub(super) arrived: Mutex<BTreeMap<String, Place>>,
}

impl Executor<'_> {
    /// Does everything, in order, filling in the result as it goes.
    pub(super) async fn execute(
        &self,
        decisions: &[(Decision, Detail)],
        result: &mut ModuleResult,
    ) -> Result<(), ApplyError> {
        let leaving: Vec<(usize, &Observed)> = decisions
            .iter()
            .enumerate()
            .filter_map(|(index, (decision, detail))| match detail {
                Detail::LeftOver(observed) if decision.action == Action::Removed => {
                    Some((index, &**observed))
                }
                _ => None,
            })
            .collect();
        let (mut begun, mut transaction) = (0, Transaction::new(self, decisions));
        let done = async {
            // Out of the way first, for it may hold a port or address; gone only when all the rest stands.
            for (index, observed) in leaving {
                transaction.set_aside(index, observed).await?;
            }
            for (index, (decision, detail)) in decisions.iter().enumerate() {
                begun = index + 1;
                if matches!(detail, Detail::Container(_)) {
                    transaction.move_data().await?;
                }
                self.one(decision, detail, result, index, &mut transaction).await?;
            }
            transaction.commit().await?;
            self.remove_left_networks(decisions, result).await
        }
        .await;
        // Also where another part failed afterwards: somebody has to know where originals are kept.
        for (index, words) in &transaction.said {
            result.objects[*index].detail.clone_from(words);
        }
        let Err(mut error) = done else { return Ok(()) };
        let told = transaction.notes().len();
        if let Err(failed) = transaction.roll_back().await {
            let done = vec![format!("putting back what was before failed: {failed}")];
            error = error.partly(done);
        }
        let fresh = &transaction.notes()[told..];
        if !fresh.is_empty() {
            error = error.partly(fresh.to_vec());
        }
        Err(halted(error, begun, decisions, transaction.back(), result))
    }

    async fn one<'a>(
        &'a self,
        decision: &'a Decision,
        detail: &'a Detail,
        result: &mut ModuleResult,
        index: usize,
        transaction: &mut Transaction<'a>,
    ) -> Result<(), ApplyError> {
        let facts = &decision.facts;
        let name = facts.engine_name.as_str();
        let object = match detail {
            Detail::Container(object) => object,
            Detail::Simple { create, desired } => {
                let shown = &mut result.objects[index];
                return self.simple(index, decision, create, desired, shown, transaction).await;
            }
            Detail::LeftOver(_) | Detail::LeftBehind => return Ok(()),
        };
        let id = match decision.action {
            Action::Created => transaction.create(index, object).await?,
            Action::Recreated => transaction.recreate(index, object).await?,
            Action::Updated => {
                self.update(decision, object).await?;
                if facts.down {
                    self.start(name, object).await?;
                }
                facts.engine_id.clone()
            }
            Action::Started => {
                self.start(name, object).await?;
                facts.engine_id.clone()
            }
            _ => facts.engine_id.clone(),
        };
        let fresh = matches!(decision.action, Action::Created | Action::Recreated);
        let (_, residue) = match read_back(self.engine, self.host, object, &facts.key, &id).await {
            Err(error) if fresh => {
                return Err(transaction.undone(name, "reading back", error, left_of(object)).await);
            }
            read => read?,
        };
        let hasher = self.state.hasher();
        let shown = &mut result.objects[index];
        shown.engine_id.clone_from(&id);
        let engine = &self.host.version.engine;
        let known: Vec<_> = residue.iter().map(|change| residue_of(change, engine, hasher)).collect();
        if fresh {
            shown.residue = residue.iter().map(|change| residue_on_wire(change, hasher)).collect();
        }
        if decision.action != Action::Unchanged {
            self.report.progress(Phase::Verified, name, &read_back_words(residue.len(), fresh));
        }
        let desired = serde_json::to_value(&object.desired).unwrap_or_default();
        if fresh {
            let state = ContainerState { id, desired, residue: known, ..ContainerState::default() };
            let committed = transaction.verified(index, state).await;
            return match committed {
                Err(error) => Err(transaction.undone(name, "the journal", error, left_of(object)).await),
                committed => committed,
            };
        }
        let remembered = self.state.change(self.module, |module| {
            let entry = module.containers.entry(facts.key.clone()).or_default();
            *entry = ContainerState { id, desired, ..std::mem::take(entry) };
        });
        remembered.map_err(|error| ApplyError::unremembered(name, error))
    }

    /// A network or volume: created if it is not there; a network may also be made anew.
    async fn simple<'a>(
        &'a self,
        index: usize,
        decision: &Decision,
        create: &Json,
        desired: &Json,
        shown: &mut ObjectResult,
        transaction: &mut Transaction<'a>,
    ) -> Result<(), ApplyError> {
        let (facts, hasher) = (&decision.facts, self.state.hasher());
        let name = facts.engine_name.as_str();
        let key = others_key(facts.kind, &facts.key);
        if matches!(decision.action, Action::Created | Action::Recreated) {
            let made = match (decision.action, facts.kind) {
                (Action::Recreated, _) => transaction.replace_network(index, create).await?,
                (_, ObjectKind::Network) => step(name, "creation", self.engine.create_network(create).await)?,
                _ => {
                    let made = self.engine.create_volume(create).await;
                    step(name, "creation", made.map(|()| name.to_owned()))?
                }
            };
            shown.engine_id = made;
            self.report.progress(Phase::Created, name, "");
            let differs = networks::read_back(self.engine, self.host, facts, desired).await?;
            shown.residue = differs.iter().map(|change| residue_on_wire(change, hasher)).collect();
            let engine = &self.host.version.engine;
            let known = differs.iter().map(|change| residue_of(change, engine, hasher));
            let remembered = self.state.change(self.module, |module| {
                let residue = module.others_residue.entry(key.clone()).or_default();
                // What was known of the old network is, until it is known that the new one stays.
                residue.retain(|_| decision.action == Action::Recreated);
                residue.extend(known);
            });
            remembered.map_err(|error| ApplyError::unremembered(name, error))?;
            self.report.progress(Phase::Verified, name, &read_back_words(differs.len(), true));
        }
        if decision.action == Action::Recreated {
            return transaction.network_made(index, key, desired);
        }
        let remembered =
            self.state.change(self.module, |module| drop(module.others.insert(key, desired.clone())));
        remembered.map_err(|error| ApplyError::unremembered(name, error))
    }

    /// Changes a container in place, and remembers what this engine did not change although it said so.
    async fn update(&self, decision: &Decision, object: &ContainerObject) -> Result<(), ApplyError> {
        let done = update::update(self, decision, object).await;
        if let Err(error) = &done
            && let Some(paths) = error.not_in_place()
        {
            let engine = &self.host.version.engine;
            let facts = &decision.facts;
            self.state.change(self.module, |module| {
                let entry = module.containers.entry(facts.key.clone()).or_default();
                entry.id.clone_from(&facts.engine_id);
                entry.not_in_place.extend(paths.iter().map(|path| (path.clone(), engine.clone())));
            })?;
        }
        done
    }
}

/// What is left of a container when its new one was taken away again.
fn left_of(object: &ContainerObject) -> String {
    let left = match &object.observed {
        Some(old) if old.running => "the old container runs again, under its own name",
        Some(_) => "the old container is as it was",
        None => "there was no container before and there is none now",
    };
    left.to_owned()
}

/// What an error means for the module: what was done before it and not undone stays, and every object says how far it got.
fn halted(
    error: ApplyError,
    begun: usize,
    decisions: &[(Decision, Detail)],
    back: &[usize],
    result: &mut ModuleResult,
) -> ApplyError {
    let done: Vec<String> = decisions[..begun.saturating_sub(1)]
        .iter()
        .enumerate()
        .filter(|(index, (decision, _))| {
            !matches!(decision.action, Action::Unchanged | Action::Removed) && !back.contains(index)
        })
        .map(|(_, (decision, _))| decision.facts.engine_name.clone())
        .collect();
    let stands = error.stands();
    (result.action, result.outcome) = (Action::Unspecified.into(), Outcome::Unspecified.into());
    for (index, object) in result.objects.iter_mut().enumerate() {
        let action = decisions[index].0.action;
        let is_done = if index + 1 == begun { stands } else { index < begun && !back.contains(&index) };
        if !is_done && action != Action::Unchanged {
            (object.action, object.outcome) = (Action::Unspecified.into(), Outcome::Unspecified.into());
        }
        if index + 1 == begun {
            object.detail = error.to_string();
            object.failure = error.failure().cloned();
        } else if back.contains(&index) && action != Action::Removed {
            let what = match action {
                _ if decisions[index].0.facts.kind == ObjectKind::Network => {
                    "it is as it was before: a container on it could not be replaced"
                }
                Action::Created => {
                    "it was removed again: one that is bound to it could not be made or replaced"
                }
                _ => "its old container is back: one that is bound to it could not be replaced",
            };
            what.clone_into(&mut object.detail);
            object.engine_id.clone_from(&decisions[index].0.facts.engine_id);
        } else if index >= begun && action != Action::Unchanged {
            "not reached: another part of the module failed before".clone_into(&mut object.detail);
        }
    }
    error.partly(done)
}

fn read_back_words(residue: usize, fresh: bool) -> String {
    match (residue, fresh) {
        (0, _) => "read back equal".to_owned(),
        (count, true) => format!("{count} fields read back differently (residue)"),
        (_, false) => "the changes read back equal".to_owned(),
    }
}

/// An error of a step before which nothing of this object was touched.
pub(super) fn step<T, E: Into<ApplyError>>(
    object: &str,
    step: &'static str,
    result: Result<T, E>,
) -> Result<T, ApplyError> {
    result.map_err(|error| ApplyError::Step {
        object: object.to_owned(),
        step,
        source: Box::new(error.into()),
        left: "it is as it was before".to_owned(),
        rolled_back: true,
    })
}
