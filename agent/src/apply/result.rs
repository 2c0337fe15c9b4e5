//! Decisions as a result on the wire.

use plumbline::diff::{LeafChange, SecretHasher, to_wire};
use plumbline::plan::{Decision, Facts, gravest, outcome};
use plumbline::proto::v1::{
    Change, DataGuardVerdict, Diff, ModuleResult, ModuleSpec, MountVerdict, ObjectResult,
};

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
        notes: Vec::new(),
    }
}

fn object_result(decision: &Decision, hasher: &SecretHasher) -> ObjectResult {
    let facts = &decision.facts;
    let on_wire = |change| Change { data_guard: verdict(facts, change).into(), ..to_wire(change, hasher) };
    ObjectResult {
        kind: facts.kind.into(),
        key: facts.key.clone(),
        engine_name: facts.engine_name.clone(),
        engine_id: facts.engine_id.clone(),
        diff: Some(Diff { changes: facts.changes.iter().map(on_wire).collect(), ignored: facts.ignored }),
        outcome: decision.outcome().into(),
        action: decision.action.into(),
        reason: decision.reason.into(),
        detail: decision.detail(),
        residue: Vec::new(),
        mounts: facts.mounts.clone(),
        failure: None,
    }
}

/// For a leaf of a mount (`containers.web.mounts[/data].source`): what stands behind it.
fn verdict(facts: &Facts, change: &LeafChange) -> DataGuardVerdict {
    let target = (change.path.field_at(2) == Some("mounts")).then(|| change.path.key_at(3)).flatten();
    let judged = facts.mounts.iter().find(|mount| Some(mount.target.as_str()) == target);
    judged.map(MountVerdict::verdict).unwrap_or_default()
}
