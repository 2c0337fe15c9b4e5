//! Removing a module from nodes, and remembering that it is gone.

use std::collections::BTreeSet;

use plumbline::proto::v1::node_removal::Answer;
use plumbline::proto::v1::{
    Failure, ModuleResult, ModuleServiceRemoveRequest, ModuleServiceRemoveResponse, NodeRemoval, Outcome,
    RemoveRequest,
};
use prost::Message as _;
use tonic::Status;

use super::convert::{REMOVED, is_removal, last_of_each_node};
use super::{Controller, convert};
use crate::fleet::of_node;
use crate::store::{Apply, Module, Node};

impl Controller {
    /// Has every agent that is meant remove the module. From where it was removed it is not placed any more, so that no later
    /// build sends it there unasked.
    pub(super) async fn remove_module(
        self,
        request: ModuleServiceRemoveRequest,
    ) -> Result<ModuleServiceRemoveResponse, Status> {
        let module = self.known_module(&request.module).await?;
        let asked = module.name.clone();
        let applies = self.stored(move |store| store.applies(&asked)).await?;
        let names: BTreeSet<String> = if request.nodes.is_empty() {
            let once = applies.iter().map(|apply| apply.node.clone());
            module.nodes.iter().cloned().chain(once).collect()
        } else {
            request.nodes.iter().cloned().collect()
        };
        let mut nodes = Vec::new();
        for name in names {
            nodes.push(self.known_node(&name).await?);
        }
        let removals = nodes.into_iter().map(|node| {
            let agents = RemoveRequest {
                module: module.name.clone(),
                volumes: request.volumes.clone(),
                plan_only: request.plan_only,
                plan_token: request.plan_tokens.get(&node.name).cloned().unwrap_or_default(),
            };
            let (controller, module, applies) = (self.clone(), module.clone(), applies.clone());
            tokio::spawn(async move { controller.remove_from(&node, &module, &applies, agents).await })
        });
        let mut removed = Vec::new();
        for removal in removals.collect::<Vec<_>>() {
            let removal = removal.await;
            removed.push(
                removal.map_err(|error| Status::internal(format!("a fault in the controller: {error}")))?,
            );
        }
        let mut forgotten = false;
        if request.forget && !request.plan_only {
            forgotten = self.forget_if_gone(&module.name).await?;
        }
        Ok(ModuleServiceRemoveResponse { nodes: removed, forgotten })
    }

    async fn remove_from(
        &self,
        node: &Node,
        module: &Module,
        applies: &[Apply],
        request: RemoveRequest,
    ) -> NodeRemoval {
        let plan_only = request.plan_only;
        let asked = async {
            let mut client = self.fleet.client(node).await?;
            let removed = client.remove(request).await.map_err(|status| of_node(node, &status))?.into_inner();
            let outcome = removed.result.as_ref().map(ModuleResult::outcome).unwrap_or_default();
            if !plan_only && removed.failure.is_none() && outcome == Outcome::Applied {
                self.remember_removal(node, module, applies, removed.encode_to_vec()).await?;
            }
            Ok::<_, Status>(removed)
        };
        let answer = match asked.await {
            Ok(removed) => Answer::Removed(removed),
            Err(status) => Answer::Failure(Failure {
                code: status.code() as i32,
                message: status.message().to_owned(),
                reached: None,
                rolled_back: plan_only,
            }),
        };
        NodeRemoval { node: node.name.clone(), answer: Some(answer) }
    }

    async fn remember_removal(
        &self,
        node: &Node,
        module: &Module,
        applies: &[Apply],
        result: Vec<u8>,
    ) -> Result<(), Status> {
        let last = applies.iter().rev().find(|apply| apply.node == node.name);
        let removal = Apply {
            operation_id: uuid::Uuid::new_v4().to_string(),
            module: module.name.clone(),
            revision: last.map_or(module.latest_revision, |last| last.revision),
            node: node.name.clone(),
            outcome: REMOVED.to_owned(),
            result,
            finished_at: jiff::Timestamp::now(),
        };
        // Once removed, it is removed: that there was nothing to do is no news. Nor is it where it never was.
        let is_news = module.nodes.contains(&node.name) || last.is_some_and(|last| !is_removal(last));
        self.stored(move |store| {
            store.unplace(&removal.module, &removal.node)?;
            if is_news && removal.revision > 0 { store.record_apply(&removal) } else { Ok(()) }
        })
        .await
    }

    /// Forgets the module, if it is on no node any more.
    async fn forget_if_gone(&self, module: &str) -> Result<bool, Status> {
        let asked = module.to_owned();
        self.stored(move |store| {
            let nodes = store.module(&asked)?.map(|module| module.nodes).unwrap_or_default();
            let applies = store.applies(&asked)?;
            let is_gone =
                nodes.is_empty() && last_of_each_node(&applies).into_iter().all(convert::is_removal);
            if is_gone {
                store.forget(&asked)?;
            }
            Ok(is_gone)
        })
        .await
    }
}
