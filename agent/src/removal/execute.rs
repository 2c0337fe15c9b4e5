//! Doing what was decided: one thing after the other, and an account of how far it got.

use std::time::Duration;

use plumbline::proto::v1::{Action, Failure, ObjectKind};
use tokio::time::Instant;

use super::decide::{Found, FoundContainer, Step, Whose};
use crate::apply::{ApplyError, held, lock_paths};
use crate::engine::{Engine, EngineError};
use crate::state::{LeftVolume, State, StateError};

/// How long the engine may be busy with removing a container itself.
const REMOVAL: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(100);

/// Removes what is to be removed, and marks every step with what came of it. Nothing is brought back: what was removed
/// before an error is gone, and what comes after it is left.
pub(super) async fn execute(
    engine: &Engine,
    state: &State,
    module: &str,
    found: &Found,
    steps: &mut [Step],
) -> Option<Failure> {
    // Without their containers nothing else says whose they are.
    if let Err(error) = state.leave(module, left_volumes(found, |_| true)) {
        return Some(unsaved(error, true));
    }
    let planned: Vec<usize> =
        (0..steps.len()).filter(|index| steps[*index].action == Action::Removed).collect();
    for (position, index) in planned.iter().enumerate() {
        let step = &steps[*index];
        let done = match step.kind {
            ObjectKind::Container => match found.containers.iter().find(|one| one.id == step.id) {
                Some(container) => remove_container(engine, state, module, container).await,
                None => Ok(()),
            },
            ObjectKind::Network => gone(engine.remove_network(&step.id).await),
            ObjectKind::Volume => gone(engine.remove_volume(&step.name).await),
            ObjectKind::Unspecified => Ok(()),
        };
        match done {
            Ok(()) => tracing::info!(module, kind = ?step.kind, name = step.name, "removed"),
            Err(error) => return Some(halted(&error, steps, &planned, position)),
        }
    }
    let stays = |name: &str| {
        let mut volumes = steps.iter().filter(|step| step.kind == ObjectKind::Volume);
        volumes.any(|step| step.name == name && step.action != Action::Removed)
    };
    // What has labels is found by them.
    state.forget(module, left_volumes(found, stays)).err().map(|error| unsaved(error, false))
}

/// The module's anonymous volumes that stay.
fn left_volumes(found: &Found, stays: impl Fn(&str) -> bool) -> Vec<LeftVolume> {
    let anonymous = found.volumes.iter().filter(|volume| volume.whose == Whose::Anonymous);
    let left = anonymous.filter(|volume| stays(&volume.name)).map(|volume| LeftVolume {
        name: volume.name.clone(),
        container: volume.container.clone().unwrap_or_default(),
    });
    left.collect()
}

fn unsaved(error: StateError, rolled_back: bool) -> Failure {
    let error = ApplyError::from(error);
    Failure { code: error.code() as i32, message: error.to_string(), reached: None, rolled_back }
}

async fn remove_container(
    engine: &Engine,
    state: &State,
    module: &str,
    container: &FoundContainer,
) -> Result<(), ApplyError> {
    let paths = lock_paths(&state.module(module), &container.key, &container.id, None);
    if let Some(lock) = held(engine.reader(), &container.id, paths).await? {
        return Err(ApplyError::UpdateLocked { container: container.name.clone(), lock });
    }
    if !container.loses_volumes {
        gone(engine.stop(&container.id, container.grace).await)?;
    }
    let until = Instant::now() + REMOVAL;
    loop {
        match engine.remove_container(&container.id).await {
            // The engine is removing it by itself, because it was told so at its creation.
            Err(error) if error.status() == Some(409) && Instant::now() < until => {
                tokio::time::sleep(POLL).await;
            }
            removed => return gone(removed),
        }
    }
}

/// What is not there any more is removed.
fn gone(removed: Result<(), EngineError>) -> Result<(), ApplyError> {
    match removed {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

fn halted(error: &ApplyError, steps: &mut [Step], planned: &[usize], position: usize) -> Failure {
    let names = |indices: &[usize], steps: &[Step]| {
        let names: Vec<&str> = indices.iter().map(|index| steps[*index].name.as_str()).collect();
        if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
    };
    let message = format!(
        "{}: removal failed: {error}; removed before it: {}; not removed: {}; remove again when the cause is mended",
        steps[planned[position]].name,
        names(&planned[..position], steps),
        names(&planned[position..], steps),
    );
    for index in &planned[position + 1..] {
        steps[*index].action = Action::Unchanged;
        "not reached: it is as it was before".clone_into(&mut steps[*index].detail);
    }
    let failed = &mut steps[planned[position]];
    failed.action = Action::Unspecified;
    failed.detail = error.to_string();
    Failure { code: error.code() as i32, message, reached: None, rolled_back: position == 0 }
}
