//! Sending one revision to nodes, and relaying what their agents say.

use plumbline::proto::v1::apply_response::Event;
use plumbline::proto::v1::{
    ApplyRequest, ApplyResponse, DataAcceptance, Failure, ModuleSpec, NodeEvent, RecreatePolicy,
};
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tonic::Status;

use super::Controller;
use crate::store::{Apply, Node};

/// What is sent to every node.
#[derive(Debug, Clone)]
pub(super) struct Rollout {
    pub(super) spec: ModuleSpec,
    pub(super) revision: u64,
    pub(super) recreate: RecreatePolicy,
    pub(super) accepted_data: Vec<DataAcceptance>,
}

impl Controller {
    /// Sends a revision to all nodes at once, hands every event to `relay`, and remembers what came of it. An agent that
    /// cannot be reached gives a failure of its own; the others go on. It runs to its end whether somebody listens or not.
    pub(super) async fn roll_out(
        &self,
        rollout: &Rollout,
        nodes: Vec<(Node, String)>,
        relay: mpsc::Sender<NodeEvent>,
    ) {
        let all = nodes.into_iter().map(|(node, plan_token)| {
            let (controller, rollout, relay) = (self.clone(), rollout.clone(), relay.clone());
            tokio::spawn(async move { controller.roll_out_to(&rollout, node, plan_token, &relay).await })
        });
        for one in all.collect::<Vec<_>>() {
            if let Err(error) = one.await {
                tracing::error!(%error, "a fault in the controller while rolling out");
            }
        }
    }

    async fn roll_out_to(
        &self,
        rollout: &Rollout,
        node: Node,
        plan_token: String,
        relay: &mpsc::Sender<NodeEvent>,
    ) {
        let module = rollout.spec.name().to_owned();
        let request = ApplyRequest {
            operation_id: uuid::Uuid::new_v4().to_string(),
            spec: Some(rollout.spec.clone()),
            revision: rollout.revision,
            recreate: rollout.recreate.into(),
            plan_token,
            accepted_data: rollout.accepted_data.clone(),
        };
        let operation_id = request.operation_id.clone();
        let mut events = self.fleet.apply(node.clone(), request);
        let mut last = None;
        while let Some(event) = events.next().await {
            let event = event.unwrap_or_else(|status| failure(&operation_id, &status));
            last = Some(event.clone());
            let event = NodeEvent { node: node.name.clone(), module: module.clone(), event: Some(event) };
            let _ = relay.send(event).await;
        }
        if let Some(record) = record(&module, rollout.revision, &node.name, &operation_id, last)
            && let Err(status) = self.stored(move |store| store.record_apply(&record)).await
        {
            tracing::error!(module, node = node.name, %status, "what came of an apply could not be remembered");
        }
    }
}

fn failure(operation_id: &str, status: &Status) -> ApplyResponse {
    let failure = Failure {
        code: status.code() as i32,
        message: status.message().to_owned(),
        reached: None,
        rolled_back: false,
    };
    ApplyResponse { operation_id: operation_id.to_owned(), event: Some(Event::Failure(failure)) }
}

fn record(
    module: &str,
    revision: u64,
    node: &str,
    operation_id: &str,
    last: Option<ApplyResponse>,
) -> Option<Apply> {
    let (outcome, result) = match last?.event? {
        Event::Result(result) => (result.outcome().as_str_name().to_owned(), result.encode_to_vec()),
        Event::Failure(failure) => ("failed".to_owned(), failure.encode_to_vec()),
        Event::Progress(_) => return None,
    };
    Some(Apply {
        operation_id: operation_id.to_owned(),
        module: module.to_owned(),
        revision,
        node: node.to_owned(),
        outcome,
        result,
        finished_at: jiff::Timestamp::now(),
    })
}
