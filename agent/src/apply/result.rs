//! Decisions as a result on the wire.

use plumbline::diff::{SecretHasher, to_wire};
use plumbline::plan::{Decision, gravest, outcome};
use plumbline::proto::v1::{Diff, ModuleResult, ModuleSpec, ObjectResult};

/// The result that these decisions amount to.
pub fn module_result(
    spec: &ModuleSpec,
    revision: u64,
    decisions: &[Decision],
    hasher: &SecretHasher,
) -> ModuleResult {
    let action = gravest(decisions.iter().map(|decision| decision.action));
    ModuleResult {
        module: spec.name().to_owned(),
        revision,
        outcome: outcome(action).into(),
        action: action.into(),
        objects: decisions.iter().map(|decision| object_result(decision, hasher)).collect(),
    }
}

fn object_result(decision: &Decision, hasher: &SecretHasher) -> ObjectResult {
    let facts = &decision.facts;
    ObjectResult {
        kind: facts.kind.into(),
        key: facts.key.clone(),
        engine_name: facts.engine_name.clone(),
        engine_id: facts.engine_id.clone(),
        diff: Some(Diff {
            changes: facts.changes.iter().map(|change| to_wire(change, hasher)).collect(),
            ignored: facts.ignored,
        }),
        outcome: decision.outcome().into(),
        action: decision.action.into(),
        reason: decision.reason.into(),
        detail: decision.detail(),
        residue: Vec::new(),
    }
}
