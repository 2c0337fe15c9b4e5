//! The store's types as they travel.

use std::collections::BTreeMap;

use plumbline::proto::v1::{
    Module, ModuleApply, ModuleSpec, Node, Outcome, Revision, UpgradePolicy as WirePolicy,
};
use prost::Message as _;
use tonic::Status;

use crate::store::{self, UpgradePolicy};

/// The outcome under which a removal is recorded among the applies.
pub(super) const REMOVED: &str = "removed";

pub(super) fn policy(policy: UpgradePolicy) -> WirePolicy {
    match policy {
        UpgradePolicy::Record => WirePolicy::Record,
        UpgradePolicy::RollOut => WirePolicy::RollOut,
    }
}

pub(super) fn timestamp(time: jiff::Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: time.as_second(), nanos: time.subsec_nanosecond() }
}

pub(super) fn module(module: store::Module, applies: &[store::Apply]) -> Module {
    let mut last: Vec<&store::Apply> = last_of_each_node(applies);
    last.retain(|apply| module.nodes.contains(&apply.node) || is_removal(apply));
    Module {
        applies: last.into_iter().map(apply).collect(),
        name: module.name,
        upgrade_policy: policy(module.upgrade_policy).into(),
        nodes: module.nodes,
        latest_revision: module.latest_revision,
    }
}

/// What was recorded last of every node, by node.
pub(super) fn last_of_each_node(applies: &[store::Apply]) -> Vec<&store::Apply> {
    let by_node: BTreeMap<&str, &store::Apply> =
        applies.iter().map(|apply| (apply.node.as_str(), apply)).collect();
    by_node.into_values().collect()
}

/// It was no apply: the module was removed there.
pub(super) fn is_removal(apply: &store::Apply) -> bool {
    apply.outcome == REMOVED
}

fn apply(apply: &store::Apply) -> ModuleApply {
    ModuleApply {
        node: apply.node.clone(),
        revision: apply.revision,
        operation_id: apply.operation_id.clone(),
        outcome: Outcome::from_str_name(&apply.outcome).unwrap_or_default().into(),
        finished_at: Some(timestamp(apply.finished_at)),
        removed: is_removal(apply),
    }
}

pub(super) fn spec(revision: &store::Revision) -> Result<ModuleSpec, Status> {
    ModuleSpec::decode(revision.spec.as_slice()).map_err(|error| {
        Status::data_loss(format!(
            "revision {} of {} cannot be read: {error}",
            revision.number, revision.module
        ))
    })
}

pub(super) fn revision(revision: &store::Revision, with_spec: bool) -> Result<Revision, Status> {
    Ok(Revision {
        number: revision.number,
        spec: if with_spec { Some(spec(revision)?) } else { None },
        registered_at: Some(timestamp(revision.registered_at)),
        registered_by: revision.registered_by.clone(),
    })
}

pub(super) fn node(node: &store::Node) -> Node {
    Node {
        name: node.name.clone(),
        address: node.address.clone(),
        labels: node.labels.clone(),
        added_at: Some(timestamp(node.added_at)),
        ..Node::default()
    }
}
