//! `ModuleService`.

use plumbline::proto::v1::module_service_server::ModuleService;
use plumbline::proto::v1::module_service_take_response::Answer as TakeAnswer;
use plumbline::proto::v1::node_plan::Answer as PlanAnswer;
use plumbline::proto::v1::{
    AdoptRequest, Failure, ModuleServiceBuildRequest, ModuleServiceBuildResponse, ModuleServiceGetRequest,
    ModuleServiceGetResponse, ModuleServiceListRequest, ModuleServiceListResponse,
    ModuleServiceListRevisionsRequest, ModuleServiceListRevisionsResponse, ModuleServicePlanRequest,
    ModuleServicePlanResponse, ModuleServicePushRequest, ModuleServicePushResponse,
    ModuleServiceRemoveRequest, ModuleServiceRemoveResponse, ModuleServiceRollbackRequest,
    ModuleServiceRollbackResponse, ModuleServiceSetPolicyRequest, ModuleServiceSetPolicyResponse,
    ModuleServiceTakeRequest, ModuleServiceTakeResponse, ModuleServiceWatchRequest,
    ModuleServiceWatchResponse, ModuleSpec, NodePlan, ObserveRequest, ObserveResponse, Outcome, PlanRequest,
    UpgradePolicy as WirePolicy,
};
use plumbline_agent::take::module_name;
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::rollout::Rollout;
use super::{Answers, Controller, build, caller, convert, later};
use crate::fleet::of_node;
use crate::store::{Apply, Module, Node, Revision, StoreError, UpgradePolicy};

impl Controller {
    pub(super) async fn known_module(&self, name: &str) -> Result<Module, Status> {
        let asked = name.to_owned();
        self.stored(move |store| store.module(&asked)?.ok_or(StoreError::UnknownModule { module: asked }))
            .await
    }

    async fn known_revision(&self, module: &str, number: u64) -> Result<Revision, Status> {
        let latest = self.known_module(module).await?.latest_revision;
        let asked = module.to_owned();
        self.stored(move |store| {
            let found = store.revision(&asked, (number != 0).then_some(number))?;
            found.ok_or(StoreError::UnknownRevision { module: asked, revision: number, latest })
        })
        .await
    }

    /// The nodes that are meant: those named, or the module's.
    async fn receivers(&self, module: &str, named: &[String]) -> Result<Vec<Node>, Status> {
        let names = if named.is_empty() {
            let asked = module.to_owned();
            self.stored(move |store| store.module(&asked))
                .await?
                .map(|module| module.nodes)
                .unwrap_or_default()
        } else {
            named.to_vec()
        };
        if names.is_empty() {
            return Err(Status::failed_precondition(format!(
                "module {module} has no nodes: name one with --node, or set them with `plumb policy {module} --node NODE`"
            )));
        }
        let mut nodes = Vec::new();
        for name in names {
            nodes.push(self.known_node(&name).await?);
        }
        Ok(nodes)
    }

    async fn plan_on(&self, node: &Node, request: PlanRequest) -> NodePlan {
        let planned = async {
            let mut client = self.fleet.client(node).await?;
            client.plan(request).await.map_err(|status| of_node(node, &status))
        };
        let answer = match planned.await {
            Ok(plan) => PlanAnswer::Plan(plan.into_inner()),
            Err(status) => PlanAnswer::Failure(Failure {
                code: status.code() as i32,
                message: status.message().to_owned(),
                reached: None,
                rolled_back: true,
            }),
        };
        NodePlan { node: node.name.clone(), answer: Some(answer) }
    }
}

#[tonic::async_trait]
impl ModuleService for Controller {
    type BuildStream = Answers<ModuleServiceBuildResponse>;
    type PushStream = Answers<ModuleServicePushResponse>;
    type WatchStream = Answers<ModuleServiceWatchResponse>;

    async fn build(
        &self,
        request: Request<ModuleServiceBuildRequest>,
    ) -> Result<Response<Self::BuildStream>, Status> {
        let by = caller(&request);
        let request = request.into_inner();
        build::check(&request.specs)?;
        let (send, receive) = mpsc::channel(64);
        let controller = self.clone();
        tokio::spawn(async move { controller.build_modules(request, by, send).await });
        Ok(Response::new(Box::pin(ReceiverStream::new(receive))))
    }

    async fn plan(
        &self,
        request: Request<ModuleServicePlanRequest>,
    ) -> Result<Response<ModuleServicePlanResponse>, Status> {
        let request = request.into_inner();
        let (spec, revision) = match request.spec.clone() {
            Some(spec) => {
                build::check(std::slice::from_ref(&spec))?;
                (spec, 0)
            }
            None => {
                let revision = self.known_revision(&request.module, request.revision).await?;
                (convert::spec(&revision)?, revision.number)
            }
        };
        let mut nodes = Vec::new();
        for node in self.receivers(spec.name(), &request.nodes).await? {
            let request = PlanRequest {
                spec: Some(spec.clone()),
                revision,
                recreate: request.recreate,
                accepted_data: request.accepted_data.clone(),
            };
            let controller = self.clone();
            nodes.push(tokio::spawn(async move { controller.plan_on(&node, request).await }));
        }
        let mut plans = Vec::new();
        for node in nodes {
            plans.push(
                node.await
                    .map_err(|error| Status::internal(format!("a fault in the controller: {error}")))?,
            );
        }
        Ok(Response::new(ModuleServicePlanResponse { nodes: plans }))
    }

    async fn push(
        &self,
        request: Request<ModuleServicePushRequest>,
    ) -> Result<Response<Self::PushStream>, Status> {
        let request = request.into_inner();
        let revision = self.known_revision(&request.module, request.revision).await?;
        let nodes = self.receivers(&request.module, &request.nodes).await?;
        for node in &nodes {
            let (module, node) = (request.module.clone(), node.name.clone());
            self.stored(move |store| store.place(&module, &node)).await?;
        }
        let rollout = Rollout {
            spec: convert::spec(&revision)?,
            revision: revision.number,
            recreate: request.recreate(),
            accepted_data: request.accepted_data,
        };
        let tokens = request.plan_tokens;
        let nodes = nodes.into_iter().map(|node| {
            let token = tokens.get(&node.name).cloned().unwrap_or_default();
            (node, token)
        });
        let nodes: Vec<_> = nodes.collect();
        let (relay, mut events) = mpsc::channel(64);
        let controller = self.clone();
        tokio::spawn(async move { controller.roll_out(&rollout, nodes, relay).await });
        Ok(Response::new(Box::pin(async_stream::stream! {
            while let Some(event) = events.recv().await {
                yield Ok(ModuleServicePushResponse { node_event: Some(event) });
            }
        })))
    }

    async fn take(
        &self,
        request: Request<ModuleServiceTakeRequest>,
    ) -> Result<Response<ModuleServiceTakeResponse>, Status> {
        let request = request.into_inner();
        let node = self.known_node(&request.node).await?;
        let mut client = self.fleet.client(&node).await?;
        let observe = ObserveRequest { container: request.container.clone() };
        let observed = client.observe(observe).await.map_err(|status| of_node(&node, &status))?.into_inner();
        let module =
            if request.module.is_empty() { module_name(&observed.engine_name) } else { request.module };
        let asked = module.clone();
        let known = self.stored(move |store| store.module(&asked)).await?;
        if known.is_none_or(|known| known.latest_revision == 0) {
            let declaration = declaration_as(observed, &module, &request.key);
            return Ok(Response::new(ModuleServiceTakeResponse {
                answer: Some(TakeAnswer::Declaration(declaration)),
            }));
        }
        let revision = self.known_revision(&module, 0).await?;
        let spec = convert::spec(&revision)?;
        let key = key_of(&spec, &request.key, &observed.engine_name)?;
        let adopt = AdoptRequest {
            container: observed.engine_id,
            spec: Some(spec),
            key,
            revision: revision.number,
            from_other_installation: request.from_other_installation,
        };
        let adopted = client.adopt(adopt).await.map_err(|status| of_node(&node, &status))?.into_inner();
        if adopted.adopted {
            // The module is applied there now, though nothing had to be done for it.
            let apply = Apply {
                operation_id: uuid::Uuid::new_v4().to_string(),
                module: module.clone(),
                revision: revision.number,
                node: node.name.clone(),
                outcome: Outcome::Applied.as_str_name().to_owned(),
                result: adopted.encode_to_vec(),
                finished_at: jiff::Timestamp::now(),
            };
            self.stored(move |store| {
                store.place(&module, &apply.node)?;
                store.record_apply(&apply)
            })
            .await?;
        }
        Ok(Response::new(ModuleServiceTakeResponse { answer: Some(TakeAnswer::Adopted(adopted)) }))
    }

    async fn get(
        &self,
        request: Request<ModuleServiceGetRequest>,
    ) -> Result<Response<ModuleServiceGetResponse>, Status> {
        let request = request.into_inner();
        let module = self.known_module(&request.module).await?;
        let name = request.module.clone();
        let applies = self.stored(move |store| store.applies(&name)).await?;
        let revision = match module.latest_revision {
            0 => None,
            _ => {
                Some(convert::revision(&self.known_revision(&request.module, request.revision).await?, true)?)
            }
        };
        Ok(Response::new(ModuleServiceGetResponse {
            module: Some(convert::module(module, &applies)),
            revision,
        }))
    }

    async fn list(
        &self,
        _request: Request<ModuleServiceListRequest>,
    ) -> Result<Response<ModuleServiceListResponse>, Status> {
        let modules = self
            .stored(|store| {
                let modules = store.modules()?;
                modules
                    .into_iter()
                    .map(|module| {
                        let applies = store.applies(&module.name)?;
                        Ok(convert::module(module, &applies))
                    })
                    .collect()
            })
            .await?;
        Ok(Response::new(ModuleServiceListResponse { modules }))
    }

    async fn set_policy(
        &self,
        request: Request<ModuleServiceSetPolicyRequest>,
    ) -> Result<Response<ModuleServiceSetPolicyResponse>, Status> {
        let request = request.into_inner();
        if !plumbline::manifest::is_module_name(&request.module) {
            return Err(Status::invalid_argument(format!(
                "`{}` is not the name of a module: lower-case letters, digits and hyphens",
                request.module
            )));
        }
        let name = request.module.clone();
        let before = self.stored(move |store| store.module(&name)).await?;
        let policy = match request.upgrade_policy() {
            WirePolicy::Record => UpgradePolicy::Record,
            WirePolicy::RollOut => UpgradePolicy::RollOut,
            WirePolicy::Unspecified => before.map(|before| before.upgrade_policy).unwrap_or_default(),
        };
        let nodes = request.replace_nodes.then_some(request.nodes);
        let name = request.module.clone();
        self.stored(move |store| store.set_policy(&name, policy, nodes.as_deref())).await?;
        let module = self.known_module(&request.module).await?;
        Ok(Response::new(ModuleServiceSetPolicyResponse { module: Some(convert::module(module, &[])) }))
    }

    async fn list_revisions(
        &self,
        request: Request<ModuleServiceListRevisionsRequest>,
    ) -> Result<Response<ModuleServiceListRevisionsResponse>, Status> {
        let name = request.into_inner().module;
        self.known_module(&name).await?;
        let revisions = self.stored(move |store| store.revisions(&name)).await?;
        let revisions = revisions.iter().rev().map(|revision| convert::revision(revision, false));
        Ok(Response::new(ModuleServiceListRevisionsResponse {
            revisions: revisions.collect::<Result<_, _>>()?,
        }))
    }

    async fn rollback(
        &self,
        request: Request<ModuleServiceRollbackRequest>,
    ) -> Result<Response<ModuleServiceRollbackResponse>, Status> {
        let by = caller(&request);
        let request = request.into_inner();
        if request.revision == 0 {
            return Err(Status::invalid_argument(
                "name the revision to go back to: see `plumb revisions MODULE`",
            ));
        }
        let old = self.known_revision(&request.module, request.revision).await?;
        let (module, spec) = (old.module, old.spec);
        self.stored(move |store| store.register(&module, &spec, &by)).await?;
        let new = self.known_revision(&request.module, 0).await?;
        Ok(Response::new(ModuleServiceRollbackResponse { revision: Some(convert::revision(&new, true)?) }))
    }

    async fn remove(
        &self,
        request: Request<ModuleServiceRemoveRequest>,
    ) -> Result<Response<ModuleServiceRemoveResponse>, Status> {
        // In a task of its own: what is removed is remembered, also when nobody waits for the answer any more.
        let removal = tokio::spawn(self.clone().remove_module(request.into_inner()));
        let removed =
            removal.await.map_err(|error| Status::internal(format!("a fault in the controller: {error}")))?;
        removed.map(Response::new)
    }

    async fn watch(
        &self,
        _request: Request<ModuleServiceWatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Err(later("watch for drift"))
    }
}

/// The declaration of what runs, as a module of this name. The container keeps its name at the engine.
fn declaration_as(observed: ObserveResponse, module: &str, key: &str) -> ModuleSpec {
    let mut spec = observed.declaration.unwrap_or_default();
    spec.name = Some(module.to_owned());
    spec.containers = std::mem::take(&mut spec.containers)
        .into_iter()
        .map(|(own, mut container)| {
            let key = if key.is_empty() { own } else { key.to_owned() };
            let default = format!("{module}-{key}");
            container.container_name =
                (observed.engine_name != default).then(|| observed.engine_name.clone());
            (key, container)
        })
        .collect();
    spec
}

/// The key of the container that is meant: the one named, the module's only one, or the one whose name fits.
fn key_of(spec: &ModuleSpec, named: &str, engine_name: &str) -> Result<String, Status> {
    if !named.is_empty() {
        return Ok(named.to_owned());
    }
    let by_name = spec.containers.iter().find(|(key, container)| {
        container.container_name.clone().unwrap_or_else(|| format!("{}-{key}", spec.name())) == engine_name
    });
    let only = spec.containers.iter().next().filter(|_| spec.containers.len() == 1);
    by_name.or(only).map(|(key, _)| key.clone()).ok_or_else(|| {
        let keys: Vec<&str> = spec.containers.keys().map(String::as_str).collect();
        Status::invalid_argument(format!(
            "module {} has the containers {}: say which one {engine_name} is, with --as MODULE/KEY",
            spec.name(),
            keys.join(", ")
        ))
    })
}
