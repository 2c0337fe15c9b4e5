//! The controller's connections: one channel and one apply stream to every agent, dialled when needed.
//!
//! The agent owns the work; a stream only watches it. So when a stream breaks, the same operation is asked for again, and
//! what was relayed already is skipped.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plumbline::proto::v1::agent_service_client::AgentServiceClient;
use plumbline::proto::v1::apply_response::Event;
use plumbline::proto::v1::{ApplyRequest, ApplyResponse};
use plumbline::tls::{Identity, Timeouts, agent_host_name, connect};
use plumbline_agent::serve::MESSAGE_LIMIT;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use crate::store::Node;

/// How long an agent may be silent while it is asked for something.
const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    keepalive_interval: Duration::from_secs(5),
    keepalive_timeout: Duration::from_secs(5),
};

/// How often an operation is asked for again after its stream broke.
const ATTEMPTS: u32 = 5;

type Client = AgentServiceClient<Channel>;
type Waiting = Arc<Mutex<HashMap<String, mpsc::Sender<Result<ApplyResponse, Status>>>>>;

/// Connections to all agents.
#[derive(Debug, Clone)]
pub struct Fleet {
    identity: Identity,
    /// A lock for each node, so that one that does not answer keeps nobody else waiting.
    links: Arc<Mutex<HashMap<String, Slot>>>,
}

type Slot = Arc<tokio::sync::Mutex<Option<Link>>>;

/// The connection to one agent.
#[derive(Debug, Clone)]
struct Link {
    address: String,
    client: Client,
    requests: mpsc::Sender<ApplyRequest>,
    waiting: Waiting,
}

/// The events of one operation, each as the agent sent it; an error ends them.
pub type Events = Pin<Box<dyn Stream<Item = Result<ApplyResponse, Status>> + Send>>;

impl Fleet {
    /// No connections yet.
    pub fn new(identity: Identity) -> Self {
        Self { identity, links: Arc::default() }
    }

    /// A client of the node's agent.
    pub async fn client(&self, node: &Node) -> Result<Client, Status> {
        Ok(self.link(node).await?.client)
    }

    async fn link(&self, node: &Node) -> Result<Link, Status> {
        let slot = self.slot(&node.name);
        let mut known = slot.lock().await;
        if let Some(link) = known.as_ref()
            && link.address == node.address
            && !link.requests.is_closed()
        {
            return Ok(link.clone());
        }
        *known = None;
        let mut client = self.dial(node).await?;
        let (requests, receive) = mpsc::channel(64);
        let answers = client
            .apply(ReceiverStream::new(receive))
            .await
            .map_err(|status| of_node(node, &status))?
            .into_inner();
        let waiting: Waiting = Arc::default();
        let link = Link { address: node.address.clone(), client, requests, waiting: waiting.clone() };
        tokio::spawn(dispatch(answers, waiting));
        *known = Some(link.clone());
        Ok(link)
    }

    fn slot(&self, node: &str) -> Slot {
        self.links.lock().unwrap_or_else(PoisonError::into_inner).entry(node.to_owned()).or_default().clone()
    }

    async fn dial(&self, node: &Node) -> Result<Client, Status> {
        let name = agent_host_name(&node.name);
        let channel = connect(&node.address, &name, &self.identity, &TIMEOUTS).await.map_err(|error| {
            Status::unavailable(format!("the agent of node {} at {}: {error}", node.name, node.address))
        })?;
        Ok(AgentServiceClient::new(channel)
            .max_decoding_message_size(MESSAGE_LIMIT)
            .max_encoding_message_size(MESSAGE_LIMIT))
    }

    /// Drops the connection, so that the next call dials anew.
    pub async fn forget(&self, node: &str) {
        *self.slot(node).lock().await = None;
    }

    /// Has the agent apply, and relays what it says, to the end.
    pub fn apply(&self, node: Node, request: ApplyRequest) -> Events {
        let fleet = self.clone();
        Box::pin(async_stream::stream! {
            let mut relayed = 0_usize;
            let mut attempt = 0;
            loop {
                attempt += 1;
                // The shared stream first. What breaks it may be another operation's request, so then one of its own.
                let events = if attempt == 1 {
                    fleet.over_shared_stream(&node, &request).await
                } else {
                    fleet.over_own_stream(&node, &request).await
                };
                let broken = match events {
                    Ok(mut events) => {
                        let mut seen = 0;
                        loop {
                            match events.next().await {
                                Some(Ok(event)) => {
                                    seen += 1;
                                    if seen <= relayed {
                                        continue;
                                    }
                                    relayed += 1;
                                    let last = matches!(event.event, Some(Event::Result(_) | Event::Failure(_)));
                                    yield Ok(event);
                                    if last {
                                        return;
                                    }
                                }
                                Some(Err(status)) => break status,
                                None => break Status::unavailable("the agent ended the stream before the result"),
                            }
                        }
                    }
                    Err(status) => status,
                };
                let may_pass = matches!(broken.code(), Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal);
                let shared_stream_fault = attempt == 1 && (relayed > 0 || broken.code() == Code::InvalidArgument);
                if attempt >= ATTEMPTS || !(shared_stream_fault || (may_pass && relayed > 0)) {
                    yield Err(of_node(&node, &broken));
                    return;
                }
                fleet.forget(&node.name).await;
                tokio::time::sleep(Duration::from_millis(200) * attempt).await;
            }
        })
    }

    async fn over_shared_stream(&self, node: &Node, request: &ApplyRequest) -> Result<Events, Status> {
        let link = self.link(node).await?;
        let (send, receive) = mpsc::channel(64);
        link.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(request.operation_id.clone(), send);
        if link.requests.send(request.clone()).await.is_err() {
            return Err(Status::unavailable("the stream to the agent is closed"));
        }
        Ok(Box::pin(ReceiverStream::new(receive)))
    }

    async fn over_own_stream(&self, node: &Node, request: &ApplyRequest) -> Result<Events, Status> {
        let mut client = self.dial(node).await?;
        // The request stream stays open as long as the answers are read.
        let requests = tokio_stream::once(request.clone()).chain(tokio_stream::pending());
        Ok(Box::pin(client.apply(requests).await?.into_inner()))
    }
}

/// Hands every event to the one who waits for its operation. When the stream ends, all who wait are told.
async fn dispatch(mut answers: Streaming<ApplyResponse>, waiting: Waiting) {
    let end = loop {
        match answers.message().await {
            Ok(Some(event)) => {
                let last = matches!(event.event, Some(Event::Result(_) | Event::Failure(_)));
                let receiver = {
                    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
                    if last {
                        waiting.remove(&event.operation_id)
                    } else {
                        waiting.get(&event.operation_id).cloned()
                    }
                };
                if let Some(receiver) = receiver {
                    // One who left does not hinder the others.
                    let _ = receiver.send(Ok(event)).await;
                }
            }
            Ok(None) => break Status::unavailable("the agent ended the stream"),
            Err(status) => break status,
        }
    };
    let left: Vec<_> = waiting.lock().unwrap_or_else(PoisonError::into_inner).drain().collect();
    for (_, receiver) in left {
        let _ = receiver.send(Err(end.clone())).await;
    }
}

/// The status, details included, with the node's name in front: the caller may have asked several.
pub fn of_node(node: &Node, status: &Status) -> Status {
    // What the agent itself says has no source here.
    if let Some(source) = std::error::Error::source(status) {
        return Status::unavailable(format!(
            "the connection to the agent of node {} at {} broke ({}): check that the agent runs and that its host is not \
             overloaded, and the network between",
            node.name,
            node.address,
            std::iter::successors(Some(source), |error| error.source()).last().unwrap_or(source)
        ));
    }
    let message = status.message();
    let message = if message.contains(&format!("node {}", node.name)) {
        message.to_owned()
    } else {
        format!("node {}: {message}", node.name)
    };
    Status::with_details(status.code(), message, prost::bytes::Bytes::copy_from_slice(status.details()))
}
