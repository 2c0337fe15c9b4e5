//! The controller as a process: its options, and how it is put together.

use std::future::Future;
use std::path::{Path, PathBuf};

use plumbline::proto::v1::module_service_server::{ModuleServiceServer, SERVICE_NAME as MODULE_SERVICE};
use plumbline::proto::v1::node_service_server::{NodeServiceServer, SERVICE_NAME as NODE_SERVICE};
use plumbline::tls::{Identity, Role, TlsError};
use plumbline_agent::serve::{MESSAGE_LIMIT, ServeError, allow, listen, serve};
use tokio::net::TcpListener;
use tonic::service::Routes;

use crate::fleet::Fleet;
use crate::service::Controller;
use crate::store::{Store, StoreError};

/// Options of `plumb controller`.
#[derive(Debug, Clone, clap::Args)]
pub struct ControllerOptions {
    /// Address to listen on.
    #[arg(long, default_value = "0.0.0.0:7442", env = "PLUMBLINE_CONTROLLER_LISTEN")]
    pub listen: String,
    /// Where the controller keeps what it knows. One controller for each directory.
    #[arg(long, default_value = "/var/lib/plumbline-controller", env = "PLUMBLINE_CONTROLLER_DATA")]
    pub data_dir: PathBuf,
    /// The certificate authority's certificate.
    #[arg(long, env = "PLUMBLINE_CA")]
    pub ca: PathBuf,
    /// The controller's certificate, from `plumb ca issue controller NAME`.
    #[arg(long, env = "PLUMBLINE_CERT")]
    pub cert: PathBuf,
    /// The certificate's key.
    #[arg(long, env = "PLUMBLINE_KEY")]
    pub key: PathBuf,
}

/// A controller that could not be started, or broke down.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// The certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The certificate is of another role.
    #[error(
        "the certificate is for the {role} {name}, not for a controller: issue one with `plumb ca issue controller NAME`"
    )]
    Role {
        /// Its role.
        role: Role,
        /// Its name.
        name: String,
    },
    /// The data directory.
    #[error("the data directory {path} cannot be made: {source}")]
    Directory {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The server.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// Runs a controller until `shutdown` is ready.
pub async fn run(
    options: &ControllerOptions,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ControllerError> {
    let identity = Identity::load(&options.ca, &options.cert, &options.key)?;
    let listener = listen(&options.listen).await?;
    serve_controller(listener, &options.data_dir, &identity, shutdown).await
}

/// Runs a controller on a listener that is bound already.
pub async fn serve_controller(
    listener: TcpListener,
    data_dir: &Path,
    identity: &Identity,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ControllerError> {
    use std::os::unix::fs::DirBuilderExt as _;

    let peer = identity.peer();
    if peer.role != Role::Controller {
        return Err(ControllerError::Role { role: peer.role, name: peer.name.clone() });
    }
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(data_dir)
        .map_err(|source| ControllerError::Directory { path: data_dir.to_owned(), source })?;
    let store = Store::open(&data_dir.join("controller.db"))?;
    let controller = Controller::new(store, Fleet::new(identity.clone()));
    let modules = ModuleServiceServer::new(controller.clone())
        .max_decoding_message_size(MESSAGE_LIMIT)
        .max_encoding_message_size(MESSAGE_LIMIT);
    let nodes = NodeServiceServer::new(controller)
        .max_decoding_message_size(MESSAGE_LIMIT)
        .max_encoding_message_size(MESSAGE_LIMIT);
    let operators = &[Role::Operator];
    let routes = Routes::new(allow(modules, operators)).add_service(allow(nodes, operators));
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, name = peer.name, "the controller listens");
    }
    serve(routes, &[MODULE_SERVICE, NODE_SERVICE], listener, identity, shutdown).await?;
    Ok(())
}
