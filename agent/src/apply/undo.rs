//! Putting back what was before, from what the engine shows now: the same for an apply that failed and for one that was
//! cut off, and as often as it takes.

use serde_json::{Value as Json, json};

use super::ApplyError;
use super::data_moves::undo_move;
use super::network_undo::put_network_back;
use crate::container::{LABEL_CONTAINER, LABEL_INSTALLATION, LABEL_MODULE, made_volumes};
use crate::engine::{Engine, EngineError};
use crate::guard::HostFiles;
use crate::journal::{Change, DataMove, NetworkChange, Old};

const TRIES: u32 = 3;
const BETWEEN_TRIES: std::time::Duration = std::time::Duration::from_millis(100);

/// Whose containers they are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner<'a> {
    pub(super) installation: &'a str,
    pub(super) module: &'a str,
}

/// A change that was begun and not committed.
#[derive(Debug, Clone)]
pub(super) struct Begun {
    /// Its number in the journal.
    pub(super) number: usize,
    pub(super) change: Change,
    /// The id of the new container, if it is known to be made.
    pub(super) new: Option<String>,
    /// The old one's stop was announced by an agent that is no more, and nothing after it: the engine may be at it.
    pub(super) stopping: bool,
}

/// What else is put back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Others<'a> {
    /// The networks that were being made anew, each with whether what is there now shall stay.
    pub(super) networks: &'a [(NetworkChange, bool)],
    /// The host's files.
    pub(super) files: &'a HostFiles,
    /// The data that was being moved, in the order in which it was begun.
    pub(super) moves: &'a [DataMove],
    /// Data that stays where it was moved: nothing that had it before may be started.
    pub(super) kept: &'a [DataMove],
}

/// What came of putting back.
#[derive(Debug)]
pub(super) struct PutBack {
    /// Every old container has its name and its restart policy, and nothing new is left.
    pub(super) placed: Result<(), ApplyError>,
    /// Those that ran do so again.
    pub(super) started: Result<(), ApplyError>,
    /// The engine may still do something that was asked of it before: what is back now is to be looked at again.
    pub(super) owed: bool,
    /// What is kept of data whose move was undone, in words.
    pub(super) notes: Vec<String>,
}

/// What has been started while putting back, for those that live with it.
#[derive(Debug, Default)]
struct Restarted {
    owners: Vec<String>,
    guests: Vec<String>,
}

/// Puts every old container back under its name and starts those that ran, the owners of a namespace before their guests.
/// Every step is tried, whatever the others come to; the first error is returned. `begun` is in the order in which it was
/// begun.
///
/// It is done again where a step failed, and where a call that was given up has ended since: the engine may have made the
/// container, stopped the old one or given it another name after all was back.
pub(super) async fn put_all_back(
    engine: &Engine,
    owner: Owner<'_>,
    begun: &[Begun],
    others: Others<'_>,
) -> PutBack {
    let mut restarted = Restarted::default();
    let nothing_to_do = begun.is_empty() && others.networks.is_empty() && others.moves.is_empty();
    let (mut tries, mut notes) = (0, Vec::new());
    loop {
        tries += 1;
        // A call that ends in the middle may have changed what was looked at already.
        let owed = !nothing_to_do && engine.has_unanswered();
        let mut put_back = put_back_once(engine, owner, begun, others, &mut restarted).await;
        notes.append(&mut put_back.notes);
        let is_done = !owed && put_back.placed.is_ok() && put_back.started.is_ok();
        if is_done || tries == TRIES {
            notes.dedup();
            return PutBack { owed, notes, ..put_back };
        }
        if !engine.all_answered().await || !owed {
            tokio::time::sleep(BETWEEN_TRIES).await;
        }
    }
}

async fn put_back_once(
    engine: &Engine,
    owner: Owner<'_>,
    begun: &[Begun],
    others: Others<'_>,
    restarted: &mut Restarted,
) -> PutBack {
    let mut placed: Result<(), ApplyError> = Ok(());
    let mut notes = Vec::new();
    // Containers that must not be started, for their data is not where they have it.
    let mut apart: Vec<usize> = others.kept.iter().flat_map(|one| one.changes.iter().copied()).collect();
    // Those of which the new one may run: never two over the same data.
    let mut beside = Vec::new();
    for one in begun.iter().rev() {
        let put = put_back(engine, owner, one).await;
        if put.is_err() {
            apart.push(one.number);
            if !nothing_new_runs(engine, owner, one).await {
                beside.push(one.number);
            }
        }
        placed = placed.and(put);
    }
    for one in others.moves.iter().rev() {
        // What runs on the data holds it where it is.
        let is_free = !one.changes.iter().any(|number| apart.contains(number));
        let undone = if is_free { undo_move(others.files, &one.data).await } else { Ok(None) };
        if !is_free || undone.is_err() {
            apart.extend(&one.changes);
        }
        match undone {
            Ok(note) => notes.extend(note),
            Err(error) => placed = placed.and(Err(error.into())),
        }
    }
    // New containers are gone from them, old ones are not started yet.
    for (change, keep) in others.networks.iter().rev() {
        placed = placed.and(put_network_back(engine, change, *keep).await);
    }
    let mut started: Result<(), ApplyError> = Ok(());
    let moving =
        |number: &usize| others.moves.iter().chain(others.kept).any(|one| one.changes.contains(number));
    let must_wait = |one: &Begun| moving(&one.number) && apart.contains(&one.number);
    let may_start = |one: &&Begun| !(beside.contains(&one.number) || must_wait(one));
    for old in begun.iter().filter(may_start).filter_map(|one| one.change.old.as_ref()) {
        match start_again(engine, old).await {
            Ok(true) => restarted.owners.push(old.id.clone()),
            Ok(false) => {}
            Err(error) => started = started.and(Err(error)),
        }
    }
    // They live in a namespace that ended when its owner was stopped.
    let owners = begun
        .iter()
        .filter(|one| one.change.old.as_ref().is_some_and(|old| restarted.owners.contains(&old.id)));
    for guest in owners.flat_map(|one| &one.change.guests) {
        if restarted.owners.contains(guest) || restarted.guests.contains(guest) {
            continue;
        }
        match restart(engine, guest).await {
            Ok(()) => restarted.guests.push(guest.clone()),
            Err(error) => started = started.and(Err(error)),
        }
    }
    PutBack { placed, started, owed: false, notes }
}

/// Takes the new container away and gives the old one its name and its restart policy; not yet started.
async fn put_back(engine: &Engine, owner: Owner<'_>, begun: &Begun) -> Result<(), ApplyError> {
    let mut done: Result<(), ApplyError> = Ok(());
    let old = begun.change.old.as_ref();
    let shown = match old {
        Some(old) => there(engine, &old.id).await?,
        None => None,
    };
    if old.is_some() && shown.is_none() {
        // Whatever is there is all that there is.
        return Err(ApplyError::NotDone(format!("the container {} is gone", begun.change.name)));
    }
    for new in find_new(engine, owner, begun).await? {
        done = done.and(unmake(engine, id_of(&new)).await);
    }
    let (Some(old), Some(shown)) = (old, shown) else { return done };
    if begun.stopping && shown["State"]["Running"] == json!(true) {
        // Whoever asked for it is no more, and the engine goes on with it: it ends the container when the grace period is
        // over. Asked again, it answers when the container has ended.
        done = done.and(engine.stop(&old.id, None).await.map_err(ApplyError::from));
    }
    if shown["Name"] != json!(format!("/{}", old.name)) {
        done = done.and(engine.rename(&old.id, &old.name).await.map_err(ApplyError::from));
    }
    if !old.removes_itself && !has_policy(&shown, &old.restart) {
        done = done.and(engine.update(&old.id, &old.restart).await.map_err(ApplyError::from));
    }
    done
}

/// A container. That it does not exist is believed when the engine has said so twice: much is decided by it.
pub(super) async fn there(engine: &Engine, id: &str) -> Result<Option<Json>, EngineError> {
    if let Some(shown) = engine.container(id).await? {
        return Ok(Some(shown));
    }
    tokio::time::sleep(BETWEEN_TRIES).await;
    engine.container(id).await
}

/// It is certain that no container which was made for this change runs.
async fn nothing_new_runs(engine: &Engine, owner: Owner<'_>, begun: &Begun) -> bool {
    let found = find_new(engine, owner, begun).await;
    found.is_ok_and(|found| {
        found.iter().all(|new| matches!(new["State"]["Status"].as_str(), Some("created" | "exited" | "dead")))
    })
}

/// What was made for this change: by its id, or, where that was never heard or written down, what has one of its names and
/// this container's labels.
async fn find_new(engine: &Engine, owner: Owner<'_>, begun: &Begun) -> Result<Vec<Json>, EngineError> {
    let Some(spare) = &begun.change.spare else { return Ok(Vec::new()) };
    let old = begun.change.old.as_ref().map(|old| old.id.as_str());
    let mut found: Vec<Json> = Vec::new();
    for name in begun.new.iter().chain([spare, &begun.change.name]) {
        let Some(shown) = engine.container(name).await? else { continue };
        let labels = &shown["Config"]["Labels"];
        let is_ours = labels[LABEL_INSTALLATION] == owner.installation
            && labels[LABEL_MODULE] == owner.module
            && labels[LABEL_CONTAINER] == begun.change.key.as_str();
        let id = id_of(&shown);
        let is_known = begun.new.as_deref() == Some(id);
        // Where none was seen before, one that has run was there all the same: what was made here is started only when its
        // id is known.
        let may_be_older = old.is_none() && !is_known && has_run(&shown);
        let is_named = shown["Name"] == json!(format!("/{name}")) || is_known;
        if is_ours
            && is_named
            && !may_be_older
            && old != Some(id)
            && !found.iter().any(|known| id_of(known) == id)
        {
            found.push(shown);
        }
    }
    Ok(found)
}

/// The container was started, ever.
pub(super) fn has_run(shown: &Json) -> bool {
    !shown["State"]["StartedAt"].as_str().unwrap_or_default().starts_with("0001")
}

fn id_of(shown: &Json) -> &str {
    shown["Id"].as_str().unwrap_or_default()
}

fn has_policy(shown: &Json, restart: &Json) -> bool {
    let shown = &shown["HostConfig"]["RestartPolicy"];
    let wanted = &restart["RestartPolicy"];
    let name =
        |policy: &Json| policy["Name"].as_str().filter(|name| !name.is_empty()).unwrap_or("no").to_owned();
    let count = |policy: &Json| policy["MaximumRetryCount"].as_i64().unwrap_or_default();
    (name(shown), count(shown)) == (name(wanted), count(wanted))
}

/// Starts a container that ran, if it does not. True: it was started.
async fn start_again(engine: &Engine, old: &Old) -> Result<bool, ApplyError> {
    if !old.running {
        return Ok(false);
    }
    let shown = engine.container(&old.id).await?.unwrap_or_default();
    if shown["State"]["Running"] == json!(true) {
        return Ok(false);
    }
    start_seen(engine, &old.id).await?;
    Ok(true)
}

async fn restart(engine: &Engine, id: &str) -> Result<(), ApplyError> {
    let Some(shown) = engine.container(id).await? else { return Ok(()) };
    if shown["State"]["Running"] == json!(true) {
        engine.stop(id, None).await?;
    }
    start_seen(engine, id).await
}

/// Starts a container that is known to work, and looks once whether it runs: the engine's word alone is none.
pub(super) async fn start_seen(engine: &Engine, id: &str) -> Result<(), ApplyError> {
    engine.start(id).await?;
    let inspect = engine.container(id).await?.unwrap_or_default();
    let state = &inspect["State"];
    let exit_code = state["ExitCode"].as_i64().unwrap_or_default();
    if state["Running"] == json!(true) || exit_code == 0 && state["Status"] == "exited" {
        return Ok(());
    }
    let error = state["Error"].as_str().filter(|error| !error.is_empty()).map(str::to_owned);
    Err(ApplyError::NotUp { exit_code, error, lines: engine.last_lines(id, 10).await.unwrap_or_default() })
}

/// Removes a container that was made a moment ago, and the volumes that the engine made with it, which hold nothing but
/// the image's files. A volume that anybody named stays, whatever its name looks like.
pub(super) async fn unmake(engine: &Engine, id: &str) -> Result<(), ApplyError> {
    let shown = engine.container(id).await?.unwrap_or_default();
    remove(engine, id).await?;
    for volume in made_volumes(&shown) {
        let _ = engine.remove_volume(&volume).await;
    }
    Ok(())
}

/// Removes a container and none of its volumes, and looks whether it is gone: the engine's word alone is none. It does not
/// give up at once: one that stays is in the way of the next apply.
pub(super) async fn remove(engine: &Engine, id: &str) -> Result<(), ApplyError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let removed = engine.remove_container(id).await;
        // It may have removed itself, or an unheard call did it.
        let gone = match (engine.container(id).await, removed) {
            (Ok(None), _) => return Ok(()),
            (Err(error), _) | (_, Err(error)) => Err(ApplyError::from(error)),
            (Ok(Some(_)), Ok(())) => Err(ApplyError::NotDone(format!("removal of the container {id}"))),
        };
        if let Err(error) = &gone
            && tries < TRIES
        {
            tracing::warn!(container = id, %error, "a container could not be removed yet");
            tokio::time::sleep(BETWEEN_TRIES).await;
        } else {
            return gone;
        }
    }
}
