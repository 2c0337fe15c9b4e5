//! `NodeService`.

use plumbline::proto::v1::node_service_server::NodeService;
use plumbline::proto::v1::{
    GetNodeRequest, GetNodeResponse, Node as WireNode, NodeServiceDrainRequest, NodeServiceDrainResponse,
    NodeServiceEnrolRequest, NodeServiceEnrolResponse, NodeServiceGetRequest, NodeServiceGetResponse,
    NodeServiceListRequest, NodeServiceListResponse, NodeServiceRevokeRequest, NodeServiceRevokeResponse,
    NodeServiceSetLabelsRequest, NodeServiceSetLabelsResponse, Reachability,
};
use tonic::{Request, Response, Status};
use tonic_types::StatusExt as _;

use super::{Controller, convert, later};
use crate::fleet::of_node;
use crate::store::{Node, Store};

impl Controller {
    /// The node with its state, and what its agent says if it answers.
    async fn look_at(&self, node: &Node) -> (WireNode, Option<GetNodeResponse>) {
        let mut shown = convert::node(node);
        let asked = async {
            let mut client = match self.fleet.client(node).await {
                Ok(client) => client,
                Err(status) => return Err((Reachability::AgentUnreachable, status)),
            };
            client.get_node(GetNodeRequest {}).await.map_err(|status| {
                // An agent that answers says in its details that it is the engine which does not.
                let details = status.get_error_details();
                let of_engine = details.error_info().is_some_and(|info| info.reason.starts_with("ENGINE_"));
                let reachability =
                    if of_engine { Reachability::EngineDown } else { Reachability::AgentUnreachable };
                (reachability, of_node(node, &status))
            })
        };
        match asked.await {
            Ok(answer) => {
                let answer = answer.into_inner();
                shown.set_reachability(Reachability::Ready);
                shown.agent_version.clone_from(&answer.agent_version);
                shown.engine_version.clone_from(&answer.engine_version);
                shown.engine_api_version.clone_from(&answer.engine_api_version);
                (shown, Some(answer))
            }
            Err((reachability, status)) => {
                shown.set_reachability(reachability);
                status.message().clone_into(&mut shown.detail);
                if reachability == Reachability::AgentUnreachable {
                    self.fleet.forget(&node.name).await;
                }
                (shown, None)
            }
        }
    }
}

#[tonic::async_trait]
impl NodeService for Controller {
    async fn enrol(
        &self,
        request: Request<NodeServiceEnrolRequest>,
    ) -> Result<Response<NodeServiceEnrolResponse>, Status> {
        let request = request.into_inner();
        if !plumbline::manifest::is_module_name(&request.name) {
            return Err(Status::invalid_argument(format!(
                "`{}` is not the name of a node: lower-case letters, digits and hyphens, as in its agent's certificate",
                request.name
            )));
        }
        let port = request.address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        if port.is_none_or(|port| port == 0) {
            return Err(Status::invalid_argument(format!(
                "`{}` is not an address: write host:port, where the agent listens (its default port is 7443)",
                request.address
            )));
        }
        let (name, address) = (request.name.clone(), request.address);
        self.stored(move |store| store.add_node(&name, &address)).await?;
        let (node, _) = self.look_at(&self.known_node(&request.name).await?).await;
        Ok(Response::new(NodeServiceEnrolResponse { node: Some(node) }))
    }

    async fn list(
        &self,
        _request: Request<NodeServiceListRequest>,
    ) -> Result<Response<NodeServiceListResponse>, Status> {
        let nodes = self.stored(Store::nodes).await?;
        let looks = nodes.into_iter().map(|node| {
            let controller = self.clone();
            tokio::spawn(async move { controller.look_at(&node).await.0 })
        });
        let mut shown = Vec::new();
        for look in looks.collect::<Vec<_>>() {
            shown.push(
                look.await
                    .map_err(|error| Status::internal(format!("a fault in the controller: {error}")))?,
            );
        }
        Ok(Response::new(NodeServiceListResponse { nodes: shown }))
    }

    async fn get(
        &self,
        request: Request<NodeServiceGetRequest>,
    ) -> Result<Response<NodeServiceGetResponse>, Status> {
        let node = self.known_node(&request.into_inner().name).await?;
        let (node, agent) = self.look_at(&node).await;
        Ok(Response::new(NodeServiceGetResponse { node: Some(node), agent }))
    }

    async fn revoke(
        &self,
        _request: Request<NodeServiceRevokeRequest>,
    ) -> Result<Response<NodeServiceRevokeResponse>, Status> {
        Err(later("revoke a node"))
    }

    async fn set_labels(
        &self,
        request: Request<NodeServiceSetLabelsRequest>,
    ) -> Result<Response<NodeServiceSetLabelsResponse>, Status> {
        let request = request.into_inner();
        let (name, labels) = (request.name.clone(), request.labels);
        self.stored(move |store| store.set_labels(&name, &labels)).await?;
        let node = convert::node(&self.known_node(&request.name).await?);
        Ok(Response::new(NodeServiceSetLabelsResponse { node: Some(node) }))
    }

    async fn drain(
        &self,
        _request: Request<NodeServiceDrainRequest>,
    ) -> Result<Response<NodeServiceDrainResponse>, Status> {
        Err(later("drain a node"))
    }
}
