//! Data that is moved between the stop of the old containers and the making of the new ones.
//!
//! Every container that has the data is stopped before, and all that take part are committed together: the old ones can run
//! only on the data where it was. The journal has the move before anything is done of it. What a failure leaves is undone when
//! the new containers are gone and before the old ones are started.

use std::time::{Duration, SystemTime};

use plumbline::guard::bytes_in_words;
use plumbline::plan::Decision;
use plumbline::proto::v1::{Action, Phase};

use super::recreate::{Failed, spare_name};
use super::transaction::{Open, Transaction};
use super::{ApplyError, ContainerObject, Detail};
use crate::container::Observed;
use crate::engine::EngineReader;
use crate::guard::{HostFiles, PlannedMove, blocking, overlaps, survey_again, users};
use crate::journal::{DataMove, Record};
use crate::moving::{
    Discarded, Event, Move, MoveError, Way, carry_out, discard, placed, prepare, settle, undo,
};
use crate::state::{KeptData, ModuleState, State};

/// How long the original of a copy is kept after the move was committed.
const RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);

/// How many pieces of progress there are at most.
const PIECES: u64 = 50;

/// A move that is not committed yet.
#[derive(Debug, Clone)]
pub(super) struct OpenMove {
    /// The objects that take part, by their index.
    pub(super) indices: Vec<usize>,
    pub(super) begun: DataMove,
    names: (String, String),
}

/// The containers that take part in moves: they are made on the data, or have it now.
fn participants(decisions: &[(Decision, Detail)]) -> Vec<usize> {
    let takes_part = |(decision, detail): &(Decision, Detail)| match detail {
        Detail::Container(object) => {
            matches!(decision.action, Action::Created | Action::Recreated)
                && (!object.moves.is_empty() || object.has_moving_data)
        }
        _ => false,
    };
    (0..decisions.len()).filter(|index| takes_part(&decisions[*index])).collect()
}

impl<'a> Transaction<'a> {
    /// Moves the data of all containers, once. Their networks and volumes are there by now.
    pub(super) async fn move_data(&mut self) -> Result<(), ApplyError> {
        if self.data_moved {
            return Ok(());
        }
        self.data_moved = true;
        let mut indices = participants(self.decisions);
        let mut planned: Vec<&'a PlannedMove> = Vec::new();
        for object in indices.iter().filter_map(|index| self.object(*index)) {
            for one in &object.moves {
                if !planned.iter().any(|other| other.data.from == one.data.from) {
                    planned.push(one);
                }
            }
        }
        if planned.is_empty() {
            return Ok(());
        }
        // They are stopped already.
        indices.extend(self.leaving_with_data(&planned));
        match self.try_to_move(&indices, &planned).await {
            Ok(()) => Ok(()),
            Err((step, source)) => {
                let name = planned[0].names.0.clone();
                let left = "the data is where it was, and the containers are as they were".to_owned();
                Err(self.undone(&name, step, source, left).await)
            }
        }
    }

    /// Containers that leave the declaration and have the data.
    fn leaving_with_data(&self, planned: &[&PlannedMove]) -> Vec<usize> {
        let has = |observed: &Observed| {
            let mut sources = observed.mounted.values().map(|mounted| mounted.source.as_str());
            sources.any(|source| planned.iter().any(|one| overlaps(source, &one.data.from)))
        };
        let leaves = |index: &usize| match &self.decisions[*index] {
            (decision, Detail::LeftOver(observed)) => decision.action == Action::Removed && has(observed),
            _ => false,
        };
        (0..self.decisions.len()).filter(leaves).collect()
    }

    fn object(&self, index: usize) -> Option<&'a ContainerObject> {
        match &self.decisions[index].1 {
            Detail::Container(object) => Some(object),
            _ => None,
        }
    }

    async fn try_to_move(&mut self, indices: &[usize], planned: &[&'a PlannedMove]) -> Result<(), Failed> {
        let executor = self.executor;
        let olds: Vec<(usize, &'a ContainerObject, &'a Observed)> = indices
            .iter()
            .filter_map(|index| self.object(*index).map(|object| (*index, object)))
            .filter_map(|(index, object)| Some((index, object, object.observed.as_ref()?)))
            .collect();
        // All that can be known before is, for what follows stops them all.
        for one in planned {
            self.is_as_planned(one).await.map_err(|error| ("data guard", error))?;
            self.nobody_else_has(one, indices).await.map_err(|error| ("data guard", error))?;
        }
        for (index, object, old) in &olds {
            let key = &self.decisions[*index].0.facts.key;
            executor.guard_before_move(object).await.map_err(|error| ("data guard", error))?;
            let unlocked = executor.check_update_lock(old, key, Some(&object.declared)).await;
            unlocked.map_err(|error| ("stop of a container that has the data", error))?;
        }
        for index in indices {
            if self.open.iter().any(|open| open.index == *index) {
                continue;
            }
            let name = &self.decisions[*index].0.facts.engine_name;
            let old = self.object(*index).and_then(|object| object.observed.as_ref());
            let spare = if old.is_some() { spare_name(name) } else { name.clone() };
            self.begin(*index, Some(spare), old).map_err(|error| ("the journal", error))?;
        }
        for (index, _, old) in olds.iter().rev() {
            self.stop_down(*index, old, "its data is moved").await?;
        }
        for one in planned {
            self.move_one(indices, one).await?;
        }
        Ok(())
    }

    /// Nothing changed since the plan, as far as that can be seen without counting again.
    async fn is_as_planned(&self, planned: &PlannedMove) -> Result<Move, ApplyError> {
        let now = self.survey(planned).await?;
        let is_same =
            (now.way, now.file, &now.from) == (planned.data.way, planned.data.file, &planned.data.from);
        if is_same || planned.volume.is_some() && now.file == planned.data.file {
            return Ok(now);
        }
        let change = format!("what is to be moved from {} to {}", planned.names.0, planned.names.1);
        Err(ApplyError::DataChanged { target: planned.target.clone(), change })
    }

    /// No container came to have the data that does not take part in its move, nor leaves in the same apply.
    async fn nobody_else_has(&self, planned: &PlannedMove, indices: &[usize]) -> Result<(), ApplyError> {
        let is_known = |id: &str| {
            let mut known =
                self.decisions.iter().enumerate().filter_map(|(index, (_, detail))| match detail {
                    Detail::Container(object) if indices.contains(&index) => object.observed.as_ref(),
                    Detail::LeftOver(observed) => Some(observed),
                    _ => None,
                });
            known.any(|observed| observed.id == id)
        };
        let mut names = Vec::new();
        for user in users(self.executor.engine).await? {
            if !is_known(&user.id) && user.is_in_the_way(&self.executor.host.files, planned).await {
                names.push(user.name);
            }
        }
        if names.is_empty() {
            return Ok(());
        }
        let object = format!("data at {}, or the place where it goes,", planned.data.from);
        Err(ApplyError::InUse { object, users: names.join(", ") })
    }

    async fn survey(&self, planned: &PlannedMove) -> Result<Move, ApplyError> {
        let mut planned = planned.clone();
        if let Some(volume) = &planned.volume
            && let Some(found) = self.executor.engine.volume(volume).await?
        {
            planned.to = found["Mountpoint"].as_str().unwrap_or(&planned.to).to_owned();
        }
        Ok(survey_again(&self.executor.host.files, &planned).await?)
    }

    async fn move_one(&mut self, indices: &[usize], planned: &PlannedMove) -> Result<(), Failed> {
        let failed = |error| ("moving its data", error);
        let files = &self.executor.host.files;
        let data = self.is_as_planned(planned).await.map_err(failed)?;
        self.nobody_else_has(planned, indices).await.map_err(failed)?;
        let changes = self.open.iter().filter(|open| indices.contains(&open.index));
        let changes = changes.map(|open| open.begun.number).collect();
        let begun = DataMove { changes, data: data.clone() };
        self.note_move(&begun)?;
        self.moves.push(OpenMove { indices: indices.to_vec(), begun, names: planned.names.clone() });
        let at = self.moves.len() - 1;
        let prepared = {
            let (root, data) = (files.root().to_owned(), data.clone());
            blocking(move || prepare(&root, &data)).await.map_err(|error| failed(error.into()))?
        };
        if prepared != data {
            self.moves[at].begun.data = prepared.clone();
            let begun = self.moves[at].begun.clone();
            self.note_move(&begun)?;
        }
        self.carry_out(planned, prepared.clone()).await.map_err(failed)?;
        if prepared.way == Way::Copy {
            let this = prepared.clone();
            let done = blocking(move || Ok(placed(this))).await;
            self.moves[at].begun.data = done.map_err(|error| failed(error.into()))?;
            let begun = self.moves[at].begun.clone();
            self.note_move(&begun)?;
        }
        let place = files.place(&prepared.to).await;
        self.executor.arrived(&prepared.to, place);
        let how = match prepared.way {
            Way::Rename => "renamed".to_owned(),
            Way::Copy => format!("{} copied and compared", bytes_in_words(prepared.bytes)),
        };
        let detail = format!("from {}: {how}", planned.names.0);
        self.executor.report.progress(Phase::Moved, &planned.names.1, &detail);
        Ok(())
    }

    fn note_move(&self, begun: &DataMove) -> Result<(), Failed> {
        let record = Record::Move(Box::new(begun.clone()));
        self.entry.write(&record).map_err(|error| ("the journal", error.into()))
    }

    /// The work is on a thread of its own; what it says arrives here.
    async fn carry_out(&self, planned: &PlannedMove, data: Move) -> Result<(), ApplyError> {
        let report = self.executor.report;
        let (say, mut said) = tokio::sync::mpsc::unbounded_channel();
        let root = self.executor.host.files.root().to_owned();
        let work = blocking(move || {
            let last = std::cell::Cell::new(u64::MAX);
            carry_out(&root, &data, &|event| {
                if let Event::Bytes(done, total) = event {
                    let piece = done.saturating_mul(PIECES) / total.max(1);
                    if last.replace(piece) != piece {
                        let _ = say.send((done, total));
                    }
                }
                Ok(())
            })
        });
        report.moving(&planned.names.1, 0, planned.data.bytes * 2);
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                Some((done, total)) = said.recv() => report.moving(&planned.names.1, done, total),
                done = &mut work => return Ok(done?),
            }
        }
    }

    /// Both take part in moves: there is no way back for one alone.
    pub(super) fn move_together(&self, one: usize, other: usize) -> bool {
        self.moves.iter().any(|open| open.indices.contains(&one) && open.indices.contains(&other))
    }

    /// These changes are committed, and so are the moves of their data.
    pub(super) async fn moves_stand(&mut self, these: &[Open]) -> Result<(), ApplyError> {
        let stands =
            |open: &OpenMove| open.indices.iter().any(|index| these.iter().any(|one| one.index == *index));
        let (standing, open) = std::mem::take(&mut self.moves).into_iter().partition(stands);
        self.moves = open;
        let standing: Vec<OpenMove> = standing;
        for one in standing {
            let (from, to) = &one.names;
            let kept = self.executor.settle(&one.begun.data).await?;
            let words = match kept {
                None => format!("the data of {from} is at {to} now"),
                Some(kept) => format!("the data of {from} is at {to} now; {kept}"),
            };
            for index in one.indices {
                self.said.push((index, words.clone()));
            }
        }
        Ok(())
    }
}

/// The original of a committed move is kept, and it is remembered until when. Says so.
pub(super) async fn settle_move(
    files: &HostFiles,
    state: &State,
    module: &str,
    data: &Move,
) -> Result<Option<String>, ApplyError> {
    let (root, this) = (files.root().to_owned(), data.clone());
    let Some(at) = blocking(move || settle(&root, &this)).await? else { return Ok(None) };
    let stays = at == data.from;
    let until = (!stays).then(|| SystemTime::now() + RETENTION);
    let kept = KeptData { data: data.clone(), at: at.clone(), until };
    state.change(module, |module: &mut ModuleState| {
        if !module.kept.iter().any(|other| other.at == kept.at) {
            module.kept.push(kept);
        }
    })?;
    if stays {
        return Ok(Some(format!("the original stays at {at}: remove it when it is not needed any more")));
    }
    let days = RETENTION.as_secs() / (24 * 3600);
    Ok(Some(format!("the original is kept at {at} for {days} days")))
}

/// Deletes the originals whose time is over, and that nobody has changed or mounted since.
pub(crate) async fn discard_kept(
    reader: &EngineReader,
    files: &HostFiles,
    state: &State,
    module: &str,
) -> Result<(), ApplyError> {
    let now = SystemTime::now();
    let is_over = |kept: &KeptData| kept.until.is_some_and(|until| until <= now);
    for kept in state.module(module).kept.into_iter().filter(is_over) {
        for user in users(reader).await? {
            if user.has(files, &kept.at).await {
                let object = format!("original of moved data at {}", kept.at);
                return Err(ApplyError::InUse { object, users: user.name });
            }
        }
        let (root, this) = (files.root().to_owned(), kept.clone());
        match blocking(move || discard(&root, &this.data, &this.at)).await? {
            Discarded::Gone => {
                tracing::info!(module, path = kept.at, "the original of moved data is deleted");
            }
            Discarded::Stays { changed } => tracing::warn!(
                module,
                path = kept.at,
                changed,
                "the original of moved data, or its copy, is not what it was after the move: it stays; remove it when it is not needed any more"
            ),
        }
        state.change(module, |module| module.kept.retain(|other| *other != kept))?;
    }
    Ok(())
}

/// Undoes a move that is not committed. Where that is what was written to the copy, in words; none: nothing was.
pub(super) async fn undo_move(files: &HostFiles, data: &Move) -> Result<Option<String>, MoveError> {
    let (root, this) = (files.root().to_owned(), data.clone());
    let stays = blocking(move || undo(&root, &this, &|_| Ok(()))).await?;
    Ok(stays.map(|at| format!("what was written to the copy at {} stays, at {at}", data.to)))
}
