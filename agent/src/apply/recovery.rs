//! Ending what an apply left when it was cut off: by a kill, a crash of the host, or an engine that went away.
//!
//! What was not committed is undone, what was committed is finished. Nothing here depends on how far the apply came: the
//! engine is asked, and every step may have been made already, also by a recovery that was cut off itself.

use std::collections::BTreeSet;
use std::fmt;

use plumbline::guard::{Holds, Place};
use serde_json::{Value as Json, json};

use super::ApplyError;
use super::data_moves::{settle_move, undo_move};
use super::gather::read_desired;
use super::network_undo::follow_networks;
use super::recreate::{ASIDE, spare_name};
use super::undo::{Begun, Others, Owner, has_run, put_all_back, remove, start_seen, there};
use super::update::restart_body;
use crate::container::{LABEL_CONTAINER, LABEL_INSTALLATION, LABEL_MODULE};
use crate::engine::Engine;
use crate::guard::{HostFiles, blocking};
use crate::journal::{DataMove, NetworkChange, Record, Step};
use crate::moving::{Move, MoveError, is_done};
use crate::state::{ContainerState, State};

/// What was done about a module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Containers that are back as they were, by their keys.
    pub undone: Vec<String>,
    /// Containers whose change was finished, by their keys.
    pub finished: Vec<String>,
    /// Why a container that is in its place does not run.
    pub down: Vec<String>,
    /// Where data is that was kept or left, in words.
    pub notes: Vec<String>,
}

impl fmt::Display for Recovered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an earlier apply was cut off")?;
        for (keys, what) in [(&self.undone, "as before"), (&self.finished, "as applied")] {
            if !keys.is_empty() {
                write!(formatter, "; {what}: {}", keys.join(", "))?;
            }
        }
        for why in &self.down {
            write!(formatter, "; one does not run: {why}")?;
        }
        for note in &self.notes {
            write!(formatter, "; {note}")?;
        }
        Ok(())
    }
}

/// A module's unfinished apply, as its journal tells it.
#[derive(Debug, Default)]
struct Unfinished {
    begun: Vec<Begun>,
    committed: Vec<(Begun, Option<ContainerState>)>,
    /// Networks of which nothing is committed.
    networks: Vec<NetworkChange>,
    /// Data of which nothing is committed, in the order in which it was begun.
    moves: Vec<DataMove>,
    /// Data that stays where it was moved.
    moved: Vec<DataMove>,
}

impl Unfinished {
    fn of(records: Vec<Record>) -> Self {
        let mut found = Self::default();
        for record in records {
            match record {
                Record::Begin(change) => {
                    let number = found.begun.len() + found.committed.len();
                    found.begun.push(Begun { number, change: *change, new: None, stopping: false });
                }
                Record::Made { change, id } => {
                    if let Some(one) = found.begun.iter_mut().find(|one| one.number == change) {
                        one.new = Some(id);
                    }
                }
                Record::Committed(these) => {
                    for (number, state) in these {
                        let Some(at) = found.begun.iter().position(|one| one.number == number) else {
                            continue;
                        };
                        found.committed.push((found.begun.remove(at), state));
                    }
                }
                Record::Network(change) => found.networks.push(*change),
                Record::Step { change, step } => {
                    if let Some(one) = found.begun.iter_mut().find(|one| one.number == change) {
                        one.stopping = step == Step::Stop;
                    }
                }
                Record::Move(begun) => {
                    found.moves.retain(|known| known.data.tag != begun.data.tag);
                    found.moves.push(*begun);
                }
            }
        }
        let stands = |number: &usize| found.committed.iter().any(|(one, _)| one.number == *number);
        found.networks.retain(|network| !network.changes.iter().any(stands));
        let moves = std::mem::take(&mut found.moves);
        (found.moved, found.moves) = moves.into_iter().partition(|begun| begun.changes.iter().any(stands));
        found
    }
}

/// Ends a module's unfinished apply, if there is one. `None`: there is none. After an error it is still unfinished, and
/// may be tried again. `insist`: that a container does not come up is such an error; without, it is said, and whoever goes on
/// compares and starts it. A module whose old container can run no more would else take no apply at all.
pub async fn recover(
    engine: &Engine,
    state: &State,
    files: &HostFiles,
    (installation, module): (&str, &str),
    insist: bool,
) -> Result<Option<Recovered>, ApplyError> {
    let journal = state.journal();
    let Some(records) = journal.read(module)? else { return Ok(None) };
    // A record that is missing is no proof; an engine that does not answer, is not either.
    engine.ask_version().await?;
    let owner = Owner { installation, module };
    let Unfinished { begun, committed, networks, moves, moved } = Unfinished::of(records);
    let mut recovered = Recovered::default();
    let mut down = Vec::new();
    let mut seen_up = |started: Result<(), ApplyError>| match started {
        Err(error) if !insist && error.is_not_up() => {
            down.push(error.to_string());
            Ok(())
        }
        started => started,
    };
    for one in moved {
        let settled = settle_move(files, state, module, &one.data).await?;
        recovered.notes.extend(settled.map(|at| moved_words(&one.data, &at)));
    }
    for (one, remembered) in committed {
        seen_up(finish(engine, state, module, &one, remembered).await?)?;
        recovered.finished.push(one.change.key);
    }
    let (lost, begun) = partition(engine, begun, &moves).await?;
    // What runs on the data keeps it where it is.
    let is_kept = |one: &DataMove| lost.iter().any(|lost| one.changes.contains(&lost.number));
    let (kept, moves): (Vec<DataMove>, Vec<DataMove>) = moves.into_iter().partition(is_kept);
    // A new container is to run on it, or nothing was on it.
    let stays = |network: &NetworkChange| {
        network.changes.is_empty() || lost.iter().any(|one| network.changes.contains(&one.number))
    };
    let networks: Vec<(NetworkChange, bool)> = networks
        .into_iter()
        .map(|network| {
            let stays = stays(&network);
            (network, stays)
        })
        .collect();
    for one in &kept {
        recovered.notes.extend(keep_data(files, state, module, &one.data).await?);
    }
    for one in lost {
        seen_up(keep_new(engine, &one).await?)?;
        recovered.finished.push(one.change.key);
    }
    let put_back = put_all_back(
        engine,
        owner,
        &begun,
        Others { networks: &networks, files, moves: &moves, kept: &kept },
    )
    .await;
    recovered.notes.extend(put_back.notes);
    if let Err(error) = put_back.placed {
        // It is done again, and then there may be no more to be seen of it.
        remember(state, module, &recovered.notes)?;
        return Err(error);
    }
    seen_up(put_back.started)?;
    if insist && put_back.owed {
        return Err(ApplyError::Owed);
    }
    recovered.down = down;
    recovered.undone = begun.into_iter().map(|one| one.change.key).collect();
    remember(state, module, &[recovered.to_string()])?;
    journal.entry(module).end()?;
    Ok(Some(recovered))
}

/// Whoever asks for something next is told.
fn remember(state: &State, module: &str, notes: &[String]) -> Result<(), ApplyError> {
    if notes.is_empty() {
        return Ok(());
    }
    state.change(module, |module| {
        for note in notes {
            if !module.notes.contains(note) {
                module.notes.push(note.clone());
            }
        }
    })?;
    Ok(())
}

/// No old container is there to go back to. Data that was moved stays at its new place, and data that was not, where it was.
async fn keep_data(
    files: &HostFiles,
    state: &State,
    module: &str,
    data: &Move,
) -> Result<Option<String>, ApplyError> {
    let (root, this) = (files.root().to_owned(), data.clone());
    if blocking(move || is_done(&root, &this)).await? {
        let settled = settle_move(files, state, module, data).await?;
        return Ok(settled.map(|at| moved_words(data, &at)));
    }
    let kept = match undo_move(files, data).await {
        // Somebody moved it since: nothing is left to be done, and whoever asks next is told.
        Err(error @ MoveError::Lost { .. }) => return Ok(Some(error.to_string())),
        kept => kept?,
    };
    let words = format!("the data is at {} as it was: it was not moved to {}", data.from, data.to);
    Ok(Some(kept.map_or(words.clone(), |kept| format!("{words}; {kept}"))))
}

fn moved_words(data: &Move, settled: &str) -> String {
    format!("the data of {} is at {} now; {settled}", data.from, data.to)
}

/// A change that stands: it is remembered, the old one goes, the new container runs. The inner result is of the last alone.
async fn finish(
    engine: &Engine,
    state: &State,
    module: &str,
    one: &Begun,
    remembered: Option<ContainerState>,
) -> Result<Result<(), ApplyError>, ApplyError> {
    let new = remembered.as_ref().map(|state| state.id.clone());
    state.change(module, |module| module.committed(&one.change, remembered))?;
    let shown = match &new {
        Some(new) => there(engine, new).await?,
        None => None,
    };
    if new.is_some() && shown.is_none() {
        // Somebody took the new one away since. The old one may be all that there is.
        return Ok(Ok(()));
    }
    if let Some(old) = &one.change.old
        && new.as_ref() != Some(&old.id)
    {
        remove(engine, &old.id).await?;
    }
    let (Some(new), Some(shown)) = (new, shown) else { return Ok(Ok(())) };
    let never_again = shown["State"]["ExitCode"] == json!(0) && shown["State"]["Status"] == json!("exited");
    if shown["State"]["Running"] == json!(true) || never_again {
        return Ok(Ok(()));
    }
    Ok(start_seen(engine, &new).await)
}

/// Changes whose old container is gone, or never was, and those that can be undone. The journal may have lost the record
/// that one was committed.
///
/// Containers whose data is moved together stay together: as long as one of the old ones is there, all are undone, and the
/// data comes back to them.
async fn partition(
    engine: &Engine,
    begun: Vec<Begun>,
    moves: &[DataMove],
) -> Result<(Vec<Begun>, Vec<Begun>), ApplyError> {
    let (mut has_old, mut can_be_undone) = (Vec::new(), Vec::new());
    for one in &begun {
        let there = match &one.change.old {
            Some(old) => {
                let there = there(engine, &old.id).await?.is_some();
                has_old.extend(there.then_some(one.number));
                there
            }
            None => !was_started(engine, one).await?,
        };
        can_be_undone.extend(there.then_some(one.number));
    }
    let together = |number: usize| {
        let of = moves.iter().filter(|one| one.changes.contains(&number));
        of.flat_map(|one| &one.changes).any(|other| has_old.contains(other))
    };
    let (undoable, lost) = begun.into_iter().partition(|one| {
        can_be_undone.contains(&one.number) || one.change.old.is_none() && together(one.number)
    });
    Ok((lost, undoable))
}

/// A container that was new and has run may hold data: it stays, and the next apply compares it.
async fn was_started(engine: &Engine, one: &Begun) -> Result<bool, ApplyError> {
    let shown = there(engine, one.new.as_deref().unwrap_or(&one.change.name)).await?;
    Ok(shown.is_some_and(|shown| has_run(&shown)))
}

/// There is no old container to go back to: the new one gets its name, and runs. The inner result is of the last alone.
async fn keep_new(engine: &Engine, one: &Begun) -> Result<Result<(), ApplyError>, ApplyError> {
    let Some(new) = &one.new else { return Ok(Ok(())) };
    let Some(shown) = there(engine, new).await? else { return Ok(Ok(())) };
    if shown["Name"] != json!(format!("/{}", one.change.name)) {
        engine.rename(new, &one.change.name).await?;
    }
    if shown["State"]["Running"] == json!(true) {
        return Ok(Ok(()));
    }
    Ok(start_seen(engine, new).await)
}

/// The modules of this installation of which a container waits aside: their apply was cut off.
pub async fn cut_off(engine: &Engine, installation: &str) -> Result<BTreeSet<String>, ApplyError> {
    let mut modules = BTreeSet::new();
    for id in engine.containers_with(&[(LABEL_INSTALLATION, installation)]).await? {
        let shown = engine.container(&id).await?.unwrap_or_default();
        if shown["Name"].as_str().is_some_and(|name| name.contains(ASIDE)) {
            modules.extend(shown["Config"]["Labels"][LABEL_MODULE].as_str().map(str::to_owned));
        }
    }
    Ok(modules)
}

/// Its data may have been moved to where a new container has it when the apply was cut off. What was a path is gone then,
/// and some engines make an empty directory there; of a volume an empty directory is left.
async fn check_sources(files: &HostFiles, shown: &Json, news: &[&Json]) -> Result<(), ApplyError> {
    let mounts = |shown: &Json| shown["Mounts"].as_array().cloned().unwrap_or_default();
    let source = |mount: &Json| mount["Source"].as_str().unwrap_or_default().to_owned();
    for mount in mounts(shown).iter().filter(|mount| mount["Type"] == "bind" || mount["Type"] == "volume") {
        let path = source(mount);
        let place = files.place(&path).await;
        if !matches!(place, Place::Missing | Place::Found { holds: Holds::Nothing, .. }) {
            continue;
        }
        for new in news.iter().flat_map(|new| mounts(new)) {
            let to = source(&new);
            let has_data = matches!(files.place(&to).await, Place::Found { holds: Holds::Data, .. });
            if new["Destination"] == mount["Destination"] && to != path && has_data {
                let name = shown["Name"].as_str().unwrap_or_default().trim_start_matches('/').to_owned();
                return Err(ApplyError::MovedAway { name, from: path, to });
            }
        }
        if mount["Type"] == "bind" && place == Place::Missing {
            return Err(ApplyError::MissingSource { path });
        }
    }
    Ok(())
}

/// Where the journal is lost: containers of a module that wait aside, stopped, while nothing runs in their place, get
/// their names back and run. Nothing is removed. Returns their names.
pub async fn recover_by_labels(
    engine: &Engine,
    state: &State,
    files: &HostFiles,
    (installation, module): (&str, &str),
) -> Result<Vec<String>, ApplyError> {
    let mut back = Vec::new();
    let labels = [(LABEL_INSTALLATION, installation), (LABEL_MODULE, module)];
    let mut all = Vec::new();
    for id in engine.containers_with(&labels).await? {
        all.extend(engine.container(&id).await?);
    }
    for shown in &all {
        let id = shown["Id"].as_str().unwrap_or_default();
        let aside = shown["Name"].as_str().unwrap_or_default().trim_start_matches('/');
        let Some((name, _)) = aside.split_once(ASIDE) else { continue };
        let key = shown["Config"]["Labels"][LABEL_CONTAINER].as_str().unwrap_or_default();
        if shown["State"]["Running"] == json!(true) {
            continue;
        }
        let is_other =
            |other: &&Json| other["Id"] != shown["Id"] && other["Config"]["Labels"][LABEL_CONTAINER] == key;
        let others: Vec<&Json> = all.iter().filter(is_other).collect();
        check_sources(files, shown, &others).await?;
        if let Some(in_place) =
            engine.container(name).await?.filter(|found| found["Name"] == json!(format!("/{name}")))
        {
            let labels = &in_place["Config"]["Labels"];
            let is_new = labels[LABEL_MODULE] == module && labels[LABEL_CONTAINER] == key;
            if in_place["State"]["Running"] == json!(true) || !is_new {
                continue;
            }
            engine.rename(in_place["Id"].as_str().unwrap_or_default(), &spare_name(name)).await?;
        }
        engine.rename(id, name).await?;
        let remembered = state.module(module).containers.get(key).and_then(|one| read_desired(&one.desired));
        if let Some(desired) = remembered {
            engine.update(id, &restart_body(&desired)).await?;
        }
        follow_networks(engine, id).await?;
        start_seen(engine, id).await?;
        back.push(name.to_owned());
    }
    Ok(back)
}
