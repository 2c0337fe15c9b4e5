//! `AgentService`: from requests to the modules that do the work, and back.

use std::pin::Pin;
use std::sync::Arc;

use plumbline::catalogue::leaves;
use plumbline::proto::v1::agent_service_server::AgentService;
use plumbline::proto::v1::{
    AdoptRequest, AdoptResponse, ApplyRequest, ApplyResponse, GetNodeRequest, GetNodeResponse,
    ObserveRequest, ObserveResponse, PlanRequest, PlanResponse, RemoveRequest, RemoveResponse, WatchRequest,
    WatchResponse,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};

use crate::apply::{self, ApplyError, Host, observe_container, owner};
use crate::engine::Engine;
use crate::operations::Operations;
use crate::secrets::Secrets;
use crate::settings::Settings;
use crate::state::State;
use crate::take::{EngineDefaults, declaration, module_name};

/// Where engines read their settings from, unless told otherwise.
const ENGINE_SETTINGS: &str = "/etc/docker/daemon.json";

/// The agent as its callers see it.
#[derive(Debug)]
pub struct Agent {
    engine: Engine,
    state: Arc<State>,
    operations: Arc<Operations>,
    installation: String,
    settings: Settings,
    name: String,
}

impl Agent {
    /// An agent for one engine. `installation` and `name` are those of its certificate.
    pub fn new(
        engine: Engine,
        state: Arc<State>,
        installation: &str,
        settings: Settings,
        name: &str,
    ) -> Self {
        let operations = Operations::new(engine.clone(), state.clone(), installation, settings.clone());
        let (installation, name) = (installation.to_owned(), name.to_owned());
        Self { engine, state, operations: Arc::new(operations), installation, settings, name }
    }

    /// What is being applied; it outlives every call.
    pub fn operations(&self) -> Arc<Operations> {
        self.operations.clone()
    }

    async fn observe(&self, name: &str) -> Result<ObserveResponse, ApplyError> {
        let reader = self.engine.reader();
        let host = Host::ask(reader, &self.installation).await?;
        let observed = observe_container(reader, &host, name)
            .await?
            .ok_or_else(|| ApplyError::NoContainer { name: name.to_owned() })?;
        let image = reader.image(&observed.image_id).await?;
        let settings = tokio::fs::read(ENGINE_SETTINGS).await.ok();
        let settings = settings.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let defaults = EngineDefaults::read(&reader.info().await?, settings.as_ref());
        let key = module_name(&observed.name);
        let declaration = declaration(&observed, image.as_ref(), &defaults, &key, &key)?;
        let made_by = observed.owner.as_ref().map(|(installation, _, _)| installation.clone());
        let other_installation = made_by.filter(|installation| *installation != host.installation);
        let module = owner(&self.state, &host, &observed.id, observed.owner.as_ref());
        Ok(ObserveResponse {
            engine_id: observed.id.clone(),
            engine_name: observed.name.clone(),
            observed: observed.spec.transcode_to().ok(),
            declaration: Some(declaration),
            started_at: observed.started_at.clone(),
            running: observed.running,
            module: module.map(|(module, _)| module).unwrap_or_default(),
            other_installation: other_installation.unwrap_or_default(),
        })
    }
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn later(what: &str) -> Status {
    Status::unimplemented(format!("this version of the agent cannot {what} yet"))
}

#[tonic::async_trait]
impl AgentService for Agent {
    type ApplyStream = Answers<ApplyResponse>;
    type WatchStream = Answers<WatchResponse>;

    async fn apply(
        &self,
        request: Request<Streaming<ApplyRequest>>,
    ) -> Result<Response<Self::ApplyStream>, Status> {
        let (send, receive) = mpsc::channel(64);
        let operations = self.operations.clone();
        let mut requests = request.into_inner();
        tokio::spawn(async move {
            loop {
                let request = match requests.message().await {
                    Ok(Some(request)) => request,
                    Ok(None) => return,
                    Err(status) => {
                        // A request that cannot be understood. What was accepted before goes on; nobody may be left
                        // to hear this.
                        let _ = send.send(Err(status)).await;
                        return;
                    }
                };
                if request.operation_id.is_empty() {
                    let status = Status::invalid_argument("operation_id is empty: choose one for each apply");
                    let _ = send.send(Err(status)).await;
                    return;
                }
                let mut events = match operations.apply(request) {
                    Ok(events) => events,
                    Err(error) => {
                        let _ = send.send(Err(Status::already_exists(error.to_string()))).await;
                        return;
                    }
                };
                let send = send.clone();
                tokio::spawn(async move {
                    while let Some(event) = events.next().await {
                        if send.send(Ok(event)).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receive))))
    }

    async fn plan(&self, request: Request<PlanRequest>) -> Result<Response<PlanResponse>, Status> {
        let Self { engine, state, installation, settings, .. } = self;
        let plan =
            apply::plan(engine.reader(), state, installation, &settings.files, request.get_ref()).await;
        plan.map(Response::new).map_err(|error| {
            error.to_status(&request.get_ref().spec.as_ref().map(Secrets::of).unwrap_or_default())
        })
    }

    async fn observe(&self, request: Request<ObserveRequest>) -> Result<Response<ObserveResponse>, Status> {
        let observed = Self::observe(self, &request.get_ref().container).await;
        observed.map(Response::new).map_err(|error| error.to_status(&Secrets::default()))
    }

    async fn adopt(&self, request: Request<AdoptRequest>) -> Result<Response<AdoptResponse>, Status> {
        let request = request.into_inner();
        let module = request.spec.as_ref().map(|spec| spec.name().to_owned()).unwrap_or_default();
        let _turn = self.operations.turn(&module).await;
        let adopted = apply::adopt(self.engine.reader(), &self.state, &self.installation, &request).await;
        adopted
            .map(Response::new)
            .map_err(|error| error.to_status(&request.spec.as_ref().map(Secrets::of).unwrap_or_default()))
    }

    async fn remove(&self, request: Request<RemoveRequest>) -> Result<Response<RemoveResponse>, Status> {
        let removed = self.operations.remove(request.into_inner()).await;
        removed.map(Response::new).map_err(|error| error.to_status(&Secrets::default()))
    }

    async fn watch(&self, _request: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Err(later("watch for drift"))
    }

    async fn get_node(&self, _request: Request<GetNodeRequest>) -> Result<Response<GetNodeResponse>, Status> {
        let version = self
            .engine
            .ask_version()
            .await
            .map_err(|error| ApplyError::from(error).to_status(&Secrets::default()))?;
        Ok(Response::new(GetNodeResponse {
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            name: self.name.clone(),
            engine_version: version.engine,
            engine_api_version: version.api.to_string(),
            fields: leaves().iter().map(|leaf| leaf.to_wire(Some(version.api))).collect(),
            modules: self.state.modules(),
        }))
    }
}
