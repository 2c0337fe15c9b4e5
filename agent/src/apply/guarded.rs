//! The decision with the data guard in it, and the guard once more right before a start.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use plumbline::guard::{Place, accept};
use plumbline::plan::{Decision, Facts, Standing, are_made, decide};
use plumbline::proto::v1::{DataAcceptance, DataGuardVerdict, ModuleSpec, ObjectKind};
use serde_json::Value as Json;

use super::data_moves::settle_move;
use super::execute::Executor;
use super::{ApplyError, ContainerObject, Detail, Gathered, Host, left_behind, neighbours};
use crate::engine::EngineReader;
use crate::guard::Watched;
use crate::guard::{
    Guarded, Looker, PlannedMove, User, first_change, forbid, forbid_meeting, mark_shared, moves_meet, users,
};
use crate::moving::Move;

/// What a request allows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowed<'a> {
    /// Of the module with this name.
    module: &'a str,
    /// Containers may be recreated.
    pub(super) recreate: bool,
    /// What the data guard may accept.
    pub(super) data: &'a [DataAcceptance],
}

impl<'a> Allowed<'a> {
    /// What a request about this spec allows, if it makes sense.
    pub(super) fn of(
        spec: &'a ModuleSpec,
        recreate: bool,
        data: &'a [DataAcceptance],
    ) -> Result<Self, ApplyError> {
        for one in data {
            let named = format!("accepted_data for {}:{}", one.container, one.target);
            if !one.container.is_empty() && !spec.containers.contains_key(&one.container) {
                let keys: Vec<&str> = spec.containers.keys().map(String::as_str).collect();
                let keys = keys.join(", ");
                return Err(ApplyError::Invalid(format!(
                    "{named}: it has no such container (it has {keys})"
                )));
            }
            if one.verdict() == DataGuardVerdict::Unspecified {
                return Err(ApplyError::Allowed(format!("{named}: it names no verdict")));
            }
        }
        Ok(Self { module: spec.name(), recreate, data })
    }

    /// The same for the same permissions, in whatever order they are given.
    pub(super) fn text(&self) -> String {
        let mut data: Vec<_> =
            self.data.iter().map(|one| (&one.container, &one.target, one.verdict)).collect();
        data.sort();
        data.dedup();
        format!("{}{data:?}", self.recreate)
    }

    /// What is done with every object, those that the declaration has no longer among them. Who else uses what would be
    /// replaced, and what is behind the mounts of containers that would be made, is looked at first.
    pub(super) async fn decide(
        &self,
        reader: &EngineReader,
        host: &Host,
        mut objects: Vec<Gathered>,
    ) -> Result<(Vec<Decision>, Vec<Detail>), ApplyError> {
        let left = left_behind::gather(reader, host, self.module, &objects).await?;
        objects.extend(left);
        let (mut facts, mut details): (Vec<Facts>, Vec<Detail>) =
            objects.into_iter().map(|gathered| (gathered.facts, gathered.detail)).unzip();
        neighbours::look(reader, host, &mut facts).await?;
        let are_made = are_made(&facts);
        if are_made.contains(&true) {
            let looker = Looker::new(reader, host, new_volumes(&facts, &details)).await;
            let mut found: Vec<(usize, Guarded)> = Vec::new();
            for (index, _) in are_made.iter().enumerate().filter(|(_, is_made)| **is_made) {
                if let Detail::Container(object) = &details[index] {
                    found.push((index, looker.look(&facts[index].key, object).await?));
                }
            }
            mark_shared(&mut found.iter_mut().map(|(_, guarded)| guarded).collect::<Vec<_>>());
            let mut paths = BTreeMap::new();
            for (index, mut guarded) in found {
                accept(&mut guarded.verdicts, self.data);
                facts[index].mounts = guarded.verdicts;
                if let Detail::Container(object) = &mut details[index] {
                    object.watched = guarded.watched;
                    object.moves = guarded.moves;
                }
                paths.insert(index, guarded.paths);
            }
            share_moves(reader, host, &mut facts, &mut details, &paths).await?;
            self.say_unmatched(&mut facts);
        }
        Ok((decide(facts, self.recreate), details))
    }
}

impl Allowed<'_> {
    /// Whoever is refused hears of what was accepted for a mount that there is none of: it may be mistyped.
    fn say_unmatched(&self, facts: &mut [Facts]) {
        let is_known = |one: &DataAcceptance| {
            facts.iter().flat_map(|facts| &facts.mounts).any(|mount| {
                mount.target == one.target && (one.container.is_empty() || one.container == mount.container)
            })
        };
        let unknown: Vec<&str> =
            self.data.iter().filter(|one| !is_known(one)).map(|one| one.target.as_str()).collect();
        if unknown.is_empty() {
            return;
        }
        let words = format!("; --accept-data names {}, where no mount is judged", unknown.join(", "));
        for mount in facts.iter_mut().flat_map(|facts| &mut facts.mounts).filter(|mount| mount.refused) {
            mount.detail.push_str(&words);
        }
    }
}

/// Data that is moved is moved under everybody who has it. Containers of the module that are made anew in the same apply,
/// and leave the old place, are stopped before; for any other container the move is refused.
async fn share_moves(
    reader: &EngineReader,
    host: &Host,
    facts: &mut [Facts],
    details: &mut [Detail],
    paths: &BTreeMap<usize, Vec<String>>,
) -> Result<(), ApplyError> {
    let of = |detail: &Detail| match detail {
        Detail::Container(object) => object.moves.clone(),
        _ => Vec::new(),
    };
    let moves: Vec<(usize, PlannedMove)> = details
        .iter()
        .enumerate()
        .flat_map(|(index, detail)| of(detail).into_iter().map(move |one| (index, one)))
        .collect();
    if moves.is_empty() {
        return Ok(());
    }
    for (index, planned) in &moves {
        if let Some((_, other)) = moves.iter().find(|(_, other)| moves_meet(planned, other)) {
            forbid_meeting(&mut facts[*index].mounts, planned, other);
        }
    }
    let users = users(reader).await?;
    for (index, planned) in moves {
        let mut others: Vec<User> = Vec::new();
        for user in &users {
            let own = facts.iter().position(|facts| facts.engine_id == user.id);
            // One that removes itself is not stopped before.
            let is_stopped =
                |detail: &Detail| matches!(detail, Detail::LeftOver(old) if !old.removes_itself());
            let is_leaving = own.is_some_and(|own| is_stopped(&details[own]));
            if is_leaving || !user.is_in_the_way(&host.files, &planned).await {
                continue;
            }
            let leaves = match own.and_then(|own| paths.get(&own)) {
                Some(paths) => !host.files.any_meets(paths, &planned.data.from).await,
                None => false,
            };
            match own {
                Some(own) if leaves => {
                    if let Detail::Container(object) = &mut details[own] {
                        object.has_moving_data = true;
                    }
                }
                _ => others.push(user.clone()),
            }
        }
        if !others.is_empty() {
            forbid(&host.files, &mut facts[index].mounts, &planned, &others).await;
        }
    }
    Ok(())
}

/// The bodies that create the volumes that do not exist yet, by name.
fn new_volumes(facts: &[Facts], details: &[Detail]) -> BTreeMap<String, Json> {
    let new = |(facts, detail): (&Facts, &Detail)| match detail {
        Detail::Simple { create, .. }
            if facts.kind == ObjectKind::Volume && facts.standing == Standing::Absent =>
        {
            Some((facts.engine_name.clone(), create.clone()))
        }
        _ => None,
    };
    facts.iter().zip(details).filter_map(new).collect()
}

impl Executor<'_> {
    /// Behind every mount still stands what the plan saw there.
    pub(super) async fn guard_again(&self, object: &ContainerObject) -> Result<(), ApplyError> {
        self.guard_with(&object.watched).await
    }

    /// The same before data is moved, for the mounts to which none is.
    pub(super) async fn guard_before_move(&self, object: &ContainerObject) -> Result<(), ApplyError> {
        let stays = object.watched.iter().filter(|watched| !watched.is_moved());
        self.guard_with(&stays.cloned().collect::<Vec<_>>()).await
    }

    async fn guard_with(&self, watched: &[Watched]) -> Result<(), ApplyError> {
        let arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match first_change(&self.host.files, watched, &arrived).await {
            None => Ok(()),
            Some((target, change)) => Err(ApplyError::DataChanged { target, change }),
        }
    }

    /// Data was moved to this place.
    pub(super) fn arrived(&self, path: &str, place: Place) {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), place);
    }

    /// A move of data is committed: its original is kept for a while. Where, in words; none: there is none.
    pub(super) async fn settle(&self, data: &Move) -> Result<Option<String>, ApplyError> {
        settle_move(&self.host.files, self.state, self.module, data).await
    }

    /// Starts a new container, if behind its mounts still stands what the plan saw there.
    pub(super) async fn bring_up_guarded(
        &self,
        name: &str,
        id: &str,
        object: &ContainerObject,
    ) -> Result<(), ApplyError> {
        self.guard_again(object).await?;
        self.bring_up(name, id, object).await
    }
}
