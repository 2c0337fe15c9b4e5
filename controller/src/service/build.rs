//! Build: first say what will happen, then register, then send where the policy says so.

use std::collections::BTreeSet;

use plumbline::proto::v1::module_service_build_response::Event;
use plumbline::proto::v1::{
    BuildAnnouncement, BuildIntent, BuildRegistered, ModuleServiceBuildRequest, ModuleServiceBuildResponse,
    ModuleSpec,
};
use prost::Message as _;
use tokio::sync::mpsc;
use tonic::Status;

use super::rollout::Rollout;
use super::{Controller, convert};
use crate::store::{Module, UpgradePolicy};

type Sender = mpsc::Sender<Result<ModuleServiceBuildResponse, Status>>;

/// Every spec of a request must be valid before the first is registered.
pub(super) fn check(specs: &[ModuleSpec]) -> Result<(), Status> {
    let mut names = BTreeSet::new();
    for spec in specs {
        plumbline::manifest::validate(spec).map_err(|violations| {
            let texts: Vec<String> = violations.iter().take(20).map(ToString::to_string).collect();
            Status::invalid_argument(format!(
                "module {}: {}; nothing was registered",
                spec.name(),
                texts.join("; ")
            ))
        })?;
        if !names.insert(spec.name()) {
            return Err(Status::invalid_argument(format!(
                "module {} is there twice; nothing was registered: name each module once",
                spec.name()
            )));
        }
    }
    if specs.is_empty() {
        return Err(Status::invalid_argument("the request has no modules"));
    }
    Ok(())
}

impl Controller {
    /// The whole build. Once it is announced it goes on whether somebody listens or not.
    pub(super) async fn build_modules(&self, request: ModuleServiceBuildRequest, by: String, send: Sender) {
        if let Err(status) = self.try_build(request, by, &send).await {
            let _ = send.send(Err(status)).await;
        }
    }

    async fn try_build(
        &self,
        request: ModuleServiceBuildRequest,
        by: String,
        send: &Sender,
    ) -> Result<(), Status> {
        let mut modules = Vec::new();
        for spec in &request.specs {
            let name = spec.name().to_owned();
            let known = self.stored(move |store| store.module(&name)).await?;
            modules.push(known.unwrap_or_else(|| Module {
                name: spec.name().to_owned(),
                upgrade_policy: UpgradePolicy::Record,
                nodes: Vec::new(),
                latest_revision: 0,
            }));
        }
        let will_be_sent = |module: &Module| {
            module.upgrade_policy == UpgradePolicy::RollOut
                && !request.register_only
                && !module.nodes.is_empty()
        };
        let intents = modules.iter().map(|module| BuildIntent {
            module: module.name.clone(),
            upgrade_policy: convert::policy(module.upgrade_policy).into(),
            will_be_sent: will_be_sent(module),
            receivers: if will_be_sent(module) { module.nodes.clone() } else { Vec::new() },
        });
        event(send, Event::Announcement(BuildAnnouncement { intents: intents.collect() })).await;

        let encoded: Vec<(String, Vec<u8>)> =
            request.specs.iter().map(|spec| (spec.name().to_owned(), spec.encode_to_vec())).collect();
        let registered = self.stored(move |store| store.register_all(&encoded, &by)).await?;
        for (module, registered) in modules.iter().zip(&registered) {
            let registered = BuildRegistered {
                module: module.name.clone(),
                revision: registered.revision,
                unchanged: !registered.is_new,
            };
            event(send, Event::Registered(registered)).await;
        }

        for ((spec, module), registered) in request.specs.iter().zip(&modules).zip(&registered) {
            if !will_be_sent(module) {
                continue;
            }
            let mut nodes = Vec::new();
            for name in &module.nodes {
                nodes.push((self.known_node(name).await?, String::new()));
            }
            let rollout = Rollout {
                spec: spec.clone(),
                revision: registered.revision,
                recreate: request.recreate(),
                accepted_data: Vec::new(),
            };
            let (relay, mut events) = mpsc::channel(64);
            let send = send.clone();
            let relaying = tokio::spawn(async move {
                while let Some(node_event) = events.recv().await {
                    event(&send, Event::NodeEvent(node_event)).await;
                }
            });
            self.roll_out(&rollout, nodes, relay).await;
            let _ = relaying.await;
        }
        Ok(())
    }
}

async fn event(send: &Sender, event: Event) {
    // Nobody may be left to listen; the build goes on.
    let _ = send.send(Ok(ModuleServiceBuildResponse { event: Some(event) })).await;
}
