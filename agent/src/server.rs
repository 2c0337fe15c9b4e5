//! An agent as a process: its options, and how it is put together.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plumbline::proto::v1::agent_service_server::{AgentServiceServer, SERVICE_NAME};
use plumbline::tls::{Identity, Role, TlsError};
use tokio::net::TcpListener;
use tonic::service::Routes;

use crate::apply::ApplyError;
use crate::engine::Engine;
use crate::guard::HostFiles;
use crate::serve::{MESSAGE_LIMIT, ServeError, allow, listen, serve};
use crate::service::Agent;
use crate::settings::{MonitorOption, Settings};
use crate::state::{State, StateError};

/// Options of `plumb-agent` and `plumb agent`.
#[derive(Debug, Clone, clap::Args)]
pub struct AgentOptions {
    /// Address to listen on.
    #[arg(long, default_value = "0.0.0.0:7443", env = "PLUMBLINE_AGENT_LISTEN")]
    pub listen: String,
    /// The engine's Unix socket.
    #[arg(long, default_value = "/var/run/docker.sock", env = "PLUMBLINE_ENGINE")]
    pub engine: PathBuf,
    /// How long the engine may take for a call, in seconds; a stop that much longer than the container's own grace period.
    /// Longer, where its disk is slow: what it has not done by then counts as failed, and is undone.
    #[arg(
        long,
        default_value_t = 60,
        env = "PLUMBLINE_ENGINE_DEADLINE",
        value_name = "SECONDS",
        value_parser = clap::value_parser!(u64).range(1..=3600)
    )]
    pub engine_deadline: u64,
    /// Where the host's root is mounted, with all that is mounted in it. For an agent in a container (`docker run -v
    /// /:/host:ro --cap-add SYS_PTRACE`): the data guard looks there for what stands behind mounts.
    #[arg(long, default_value = "/", env = "PLUMBLINE_HOST_ROOT", value_name = "PATH")]
    pub host_root: PathBuf,
    /// How long started containers are watched.
    #[command(flatten)]
    pub monitor: MonitorOption,
    /// Where the agent keeps what it knows. One agent for each directory.
    #[arg(long, default_value = "/var/lib/plumbline-agent", env = "PLUMBLINE_AGENT_DATA")]
    pub data_dir: PathBuf,
    /// The certificate authority's certificate.
    #[arg(long, env = "PLUMBLINE_CA")]
    pub ca: PathBuf,
    /// This agent's certificate, from `plumb ca issue agent NAME`.
    #[arg(long, env = "PLUMBLINE_CERT")]
    pub cert: PathBuf,
    /// The certificate's key.
    #[arg(long, env = "PLUMBLINE_KEY")]
    pub key: PathBuf,
}

/// An agent that could not be started, or broke down.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The certificate is of another role.
    #[error(
        "the certificate is for the {role} {name}, not for an agent: issue one with `plumb ca issue agent NAME`"
    )]
    Role {
        /// Its role.
        role: Role,
        /// Its name.
        name: String,
    },
    /// What the agent keeps.
    #[error(transparent)]
    State(#[from] StateError),
    /// Another agent has the engine.
    #[error(transparent)]
    Claim(ApplyError),
    /// The server.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// Runs an agent until `shutdown` is ready.
pub async fn run(options: &AgentOptions, shutdown: impl Future<Output = ()>) -> Result<(), AgentError> {
    let identity = Identity::load(&options.ca, &options.cert, &options.key)?;
    let listener = listen(&options.listen).await?;
    let settings = Settings { files: HostFiles::below(&options.host_root), monitor: options.monitor.monitor };
    let engine = Engine::new(&options.engine).deadline(Duration::from_secs(options.engine_deadline));
    serve_agent(listener, engine, settings, &options.data_dir, &identity, shutdown).await
}

/// Runs an agent on a listener that is bound already.
pub async fn serve_agent(
    listener: TcpListener,
    engine: Engine,
    settings: Settings,
    data_dir: &Path,
    identity: &Identity,
    shutdown: impl Future<Output = ()>,
) -> Result<(), AgentError> {
    let peer = identity.peer();
    if peer.role != Role::Agent {
        return Err(AgentError::Role { role: peer.role, name: peer.name.clone() });
    }
    let state = Arc::new(State::open(data_dir)?);
    match engine.version().await {
        Ok(version) => tracing::info!(engine = version.engine, api = %version.api, "the engine answers"),
        // It may come later; every call says so until then.
        Err(error) => tracing::warn!(%error, "the engine does not answer yet"),
    }
    let agent = Agent::new(engine, state, identity.installation(), settings, &peer.name);
    let operations = agent.operations();
    // Where the engine does not answer yet, it is claimed before the first change.
    if let Err(taken @ ApplyError::EngineTaken { .. }) = operations.claim().await {
        return Err(AgentError::Claim(taken));
    }
    operations.recover_all();
    let service = AgentServiceServer::new(agent)
        .max_decoding_message_size(MESSAGE_LIMIT)
        .max_encoding_message_size(MESSAGE_LIMIT);
    let routes = Routes::new(allow(service, &[Role::Controller, Role::Operator]));
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, name = peer.name, "the agent listens");
    }
    serve(routes, &[SERVICE_NAME], listener, identity, shutdown).await?;
    // An agent that ends does not leave a container half-way.
    operations.idle().await;
    Ok(())
}

/// Ready when the process is asked to end.
pub async fn asked_to_end() {
    let terminate = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminate => {}
    }
}
