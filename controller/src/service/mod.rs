//! The controller as its callers see it: `ModuleService` and `NodeService`.
//!
//! Requests are checked, the store is asked, agents are asked through the [`Fleet`], and what they say is relayed as it
//! is. Nothing is decided here that an agent decides.

mod build;
mod convert;
mod modules;
mod nodes;
mod removal;
mod rollout;

use std::pin::Pin;

use plumbline::tls::peer_of;
use tokio_stream::Stream;
use tonic::{Request, Status};

use crate::fleet::Fleet;
use crate::store::{Node, Store, StoreError};

/// What both services work with.
#[derive(Debug, Clone)]
pub struct Controller {
    store: Store,
    fleet: Fleet,
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Controller {
    /// A controller with this memory and these connections.
    pub fn new(store: Store, fleet: Fleet) -> Self {
        Self { store, fleet }
    }

    /// Asks the store, off the threads that serve.
    async fn stored<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Status> {
        let store = self.store.clone();
        tokio::task::spawn_blocking(move || ask(&store))
            .await
            .map_err(|error| Status::internal(format!("a fault in the controller: {error}")))?
            .map_err(|error| store_status(&error))
    }

    async fn known_node(&self, name: &str) -> Result<Node, Status> {
        let asked = name.to_owned();
        self.stored(move |store| store.node(&asked)?.ok_or(StoreError::UnknownNode { node: asked })).await
    }
}

fn store_status(error: &StoreError) -> Status {
    let message = error.to_string();
    match error {
        StoreError::UnknownModule { .. }
        | StoreError::UnknownRevision { .. }
        | StoreError::UnknownNode { .. } => Status::not_found(message),
        StoreError::DuplicateModule { .. } => Status::invalid_argument(message),
        _ => Status::internal(message),
    }
}

fn later(what: &str) -> Status {
    Status::unimplemented(format!("this version of the controller cannot {what} yet"))
}

/// Who asks, from the certificate.
fn caller<T>(request: &Request<T>) -> String {
    peer_of(request).map(|peer| peer.identity.to_string()).unwrap_or_default()
}
