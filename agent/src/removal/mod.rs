//! Taking a module away: its containers and its own networks go, volumes stay unless somebody names them.
//!
//! ```text
//! look (engine, state) --> Found --decide--> steps --execute--> what went and what stays
//! ```
//!
//! As in an apply, [`look`] has no mutating call and [`decide`] is pure. What must always be true: if one thing is refused,
//! nothing is touched; no volume goes that was not named, or that anybody else uses; nothing external goes, ever.

mod contents;
mod decide;
mod execute;
mod look;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use plumbline::diff::SecretHasher;
use plumbline::manifest::is_module_name;
use plumbline::plan::{gravest, outcome};
use plumbline::proto::v1::{
    Action, ModuleResult, ObjectResult, Outcome, RefusalReason, RemoveRequest, RemoveResponse,
};

pub(crate) use self::contents::of_volume;
use self::decide::{Step, decide};
use crate::apply::{ApplyError, Host};
use crate::engine::Engine;
use crate::state::State;

/// Removes a module, or says what a removal would do. Whatever fails half-way stands in the answer.
pub async fn remove(
    engine: &Engine,
    state: &State,
    installation: &str,
    request: &RemoveRequest,
) -> Result<RemoveResponse, ApplyError> {
    let module = request.module.as_str();
    if !is_module_name(module) {
        return Err(ApplyError::Invalid(format!("`{module}` is not the name of a module")));
    }
    if !request.volumes.is_empty() && !request.plan_only && request.plan_token.is_empty() {
        return Err(ApplyError::VolumesNotShown);
    }
    let named: BTreeSet<String> = request.volumes.iter().cloned().collect();
    let reader = engine.reader();
    let host = Host::ask(reader, installation).await?;
    let known = (&state.memory(module), &*state.left_volumes(module));
    let found = look::look(reader, known, &host, module, &named).await?;
    let volumes = contents::of_all(reader, &host, &found.volumes).await;
    let mut steps = decide(&found, &named);
    let plan_token = token(module, &named, &steps, state.hasher());
    if request.plan_only {
        let result = Some(module_result(module, &steps));
        return Ok(RemoveResponse { result, volumes, plan_token, failure: None });
    }
    if !request.plan_token.is_empty() && request.plan_token != plan_token {
        for step in steps.iter_mut().filter(|step| step.action == Action::Removed) {
            step.refuse(
                RefusalReason::StalePlan,
                "the plan that the request names no longer holds: plan again",
            );
        }
    }
    let mut failure = None;
    if !steps.iter().any(|step| step.action == Action::Refused) {
        failure = execute::execute(engine, state, module, &found, &mut steps).await;
    }
    let mut result = module_result(module, &steps);
    if failure.is_some() {
        result.outcome = Outcome::Unspecified.into();
    }
    Ok(RemoveResponse { result: Some(result), volumes, plan_token: String::new(), failure })
}

/// Binds what goes, and which volumes were asked for.
fn token(module: &str, named: &BTreeSet<String>, steps: &[Step], hasher: &SecretHasher) -> String {
    let mut text = format!("remove {module} {named:?}");
    for step in steps {
        let _ = write!(text, " {:?}", (step.kind, &step.name, &step.id, step.action));
    }
    hasher.hash(&text)
}

fn module_result(module: &str, steps: &[Step]) -> ModuleResult {
    let action = gravest(steps.iter().map(|step| step.action));
    ModuleResult {
        notes: Vec::new(),
        module: module.to_owned(),
        revision: 0,
        outcome: outcome(action).into(),
        action: action.into(),
        objects: steps.iter().map(object_result).collect(),
    }
}

fn object_result(step: &Step) -> ObjectResult {
    ObjectResult {
        kind: step.kind.into(),
        key: step.key.clone(),
        engine_name: step.name.clone(),
        engine_id: step.id.clone(),
        diff: None,
        outcome: outcome(step.action).into(),
        action: step.action.into(),
        reason: step.reason.into(),
        detail: step.detail.clone(),
        residue: Vec::new(),
        mounts: Vec::new(),
        failure: None,
    }
}
