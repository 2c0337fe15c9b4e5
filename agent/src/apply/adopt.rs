//! Making a container ours by comparison, without touching it.

use std::collections::BTreeSet;

use plumbline::plan::{Decision, Standing, decide};
use plumbline::proto::v1::{Action, ModuleSpec};
use plumbline::proto::v1::{AdoptRequest, AdoptResponse, ObjectKind};

use super::gather::{One, gather_container, names};
use super::run::valid;
use super::{ApplyError, Detail, Host, module_result, observe_container};
use crate::container::resolve;
use crate::engine::EngineReader;
use crate::state::{ContainerState, State};

/// Compares the container with its declaration; equal: it is remembered as the module's. The engine handle has no
/// mutating call.
pub async fn adopt(
    reader: &EngineReader,
    state: &State,
    installation: &str,
    request: &AdoptRequest,
) -> Result<AdoptResponse, ApplyError> {
    let spec = valid(request.spec.as_ref())?;
    let key = request.key.as_str();
    let container = spec.containers.get(key).ok_or_else(|| {
        let keys: Vec<&str> = spec.containers.keys().map(String::as_str).collect();
        ApplyError::Invalid(format!("it has no container `{key}` (it has {})", keys.join(", ")))
    })?;
    let host = Host::ask(reader, installation).await?;
    let observed = observe_container(reader, &host, &request.container)
        .await?
        .ok_or_else(|| ApplyError::NoContainer { name: request.container.clone() })?;
    if let Some((installation, module, _)) = &observed.owner
        && *installation != host.installation
        && !request.from_other_installation
    {
        let (installation, module) = (installation.clone(), module.clone());
        return Err(ApplyError::OtherInstallation { name: observed.name, installation, module });
    }
    if let Some(owner) = owner(state, &host, &observed.id, observed.owner.as_ref())
        && owner != (spec.name().to_owned(), key.to_owned())
    {
        return Err(ApplyError::OwnedElsewhere { name: observed.name, module: owner.0, key: owner.1 });
    }
    let names = names(reader, spec).await?;
    let resolved = resolve(key, container, &names);
    let id = observed.id.clone();
    let one = One { spec, names: &names, key, resolved, observed: Some(observed), leaving: &BTreeSet::new() };
    let mut gathered = gather_container(reader, &state.memory(spec.name()), &host, one).await?;
    // Its name is a field like any other here, not a sign of whose it is.
    gathered.facts.standing = Standing::Ours;
    gathered.facts.down = false;
    let equal = gathered.facts.changes.is_empty();
    if equal && let Detail::Container(object) = &gathered.detail {
        let desired = serde_json::to_value(&object.desired).unwrap_or_default();
        state.change(spec.name(), |module| {
            let adopted = ContainerState { id, desired, ..ContainerState::default() };
            module.containers.insert(key.to_owned(), adopted);
        })?;
    }
    let mut decision = decide(vec![gathered.facts], false).remove(0);
    if !equal {
        decision.action = Action::Refused;
    }
    Ok(AdoptResponse { adopted: equal, result: result(spec, request.revision, decision, state) })
}

fn result(
    spec: &ModuleSpec,
    revision: u64,
    decision: Decision,
    state: &State,
) -> Option<plumbline::proto::v1::ObjectResult> {
    debug_assert_eq!(decision.facts.kind, ObjectKind::Container);
    let mut object = module_result(spec, revision, &[decision], state.hasher()).objects.pop()?;
    if object.action() == Action::Refused {
        object.detail =
            "the container differs from its declaration, so it was not adopted and not touched: edit the manifest until \
             they are equal, adopt, and then change it"
                .to_owned();
    }
    Some(object)
}

/// The module and key a container belongs to in this installation.
pub fn owner(
    state: &State,
    host: &Host,
    id: &str,
    labels: Option<&(String, String, String)>,
) -> Option<(String, String)> {
    state.owner(id).or_else(|| {
        let (installation, module, key) = labels?;
        (*installation == host.installation).then(|| (module.clone(), key.clone()))
    })
}
