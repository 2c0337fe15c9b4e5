//! The workload's own veto: as long as its update lock, a file, exists, a container is neither replaced nor removed.
//!
//! It is looked at for the plan, and once more right before the container is stopped.

use std::collections::BTreeSet;

use plumbline::update_lock::UpdateLock;
use prost_reflect::DynamicMessage;

use super::ApplyError;
use super::execute::Executor;
use super::gather::read_desired;
use crate::container::Observed;
use crate::engine::{EngineError, Inspect, Presence};
use crate::state::ModuleState;

/// The paths of a container's update locks: the declared one, and the one that was declared when it was last applied, which
/// is the one that its process knows.
pub(crate) fn paths(
    remembered: &ModuleState,
    key: &str,
    id: &str,
    declared: Option<&DynamicMessage>,
) -> BTreeSet<String> {
    let known = remembered.containers.iter().filter(|(its_key, its)| *its_key == key || its.id == id);
    let desired = known.filter_map(|(_, container)| read_desired(&container.desired));
    declared.and_then(path_of).into_iter().chain(desired.filter_map(|desired| path_of(&desired))).collect()
}

fn path_of(spec: &DynamicMessage) -> Option<String> {
    let path = spec.get_field_by_name("update_lock")?.as_str()?.to_owned();
    (!path.is_empty()).then_some(path)
}

/// The lock that the container holds, or may hold, if it does.
pub(crate) async fn held(
    reader: &impl Inspect,
    id: &str,
    paths: BTreeSet<String>,
) -> Result<Option<UpdateLock>, EngineError> {
    for path in paths {
        match reader.file(id, &path).await? {
            Presence::Absent => {}
            Presence::Present => return Ok(Some(UpdateLock { path, seen: true })),
            Presence::Unknown => return Ok(Some(UpdateLock { path, seen: false })),
        }
    }
    Ok(None)
}

impl Executor<'_> {
    /// An error if the container holds its update lock now.
    pub(super) async fn check_update_lock(
        &self,
        observed: &Observed,
        key: &str,
        declared: Option<&DynamicMessage>,
    ) -> Result<(), ApplyError> {
        let paths = paths(&self.state.module(self.module), key, &observed.id, declared);
        match held(self.engine.reader(), &observed.id, paths).await? {
            Some(lock) => Err(ApplyError::UpdateLocked { container: observed.name.clone(), lock }),
            None => Ok(()),
        }
    }
}
