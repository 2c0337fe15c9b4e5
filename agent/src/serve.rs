//! Serving gRPC over mutual TLS: the same for agent and controller. There is no plaintext listener anywhere.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use plumbline::proto::DESCRIPTORS;
use plumbline::tls::{HandshakeLimits, Identity, Role, TlsError, incoming, peer_of, server_config};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::service::interceptor::InterceptedService;
use tonic::service::{Interceptor, Routes};
use tonic::{Request, Status};
use tonic_health::pb::health_server;
use tonic_reflection::pb::v1::server_reflection_server as v1_reflection;
use tonic_reflection::pb::v1alpha::server_reflection_server as v1alpha_reflection;

/// The largest message that is received or sent: results travel in messages, and a module may be large.
pub const MESSAGE_LIMIT: usize = 32 * 1024 * 1024;

/// The services that every server has beside its own.
const BESIDE: [&str; 3] =
    [health_server::SERVICE_NAME, v1_reflection::SERVICE_NAME, v1alpha_reflection::SERVICE_NAME];

/// How long calls may go on when the server is asked to end.
const GRACE: Duration = Duration::from_secs(2);

/// A server that could not be started, or broke down.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The identity cannot serve.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {address}: {source}; is another one running, or is the address not this host's?"
    )]
    Listen {
        /// The address.
        address: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The descriptors cannot be shown.
    #[error("server reflection cannot be set up: {0}")]
    Reflection(String),
    /// The transport broke.
    #[error("the server broke down: {0}")]
    Transport(#[from] tonic::transport::Error),
}

/// Binds a listener.
pub async fn listen(address: &str) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| ServeError::Listen { address: address.to_owned(), source })
}

/// Serves these routes, with health and reflection (v1, and v1alpha for older clients), until `shutdown` is ready.
/// Calls that are under way then have a short time to end; what an agent applies is not a call, and goes on.
pub async fn serve(
    routes: Routes,
    services: &[&str],
    listener: TcpListener,
    identity: &Identity,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let (reporter, health) = tonic_health::server::health_reporter();
    for service in services {
        reporter.set_service_status(service, tonic_health::ServingStatus::Serving).await;
    }
    let reflection = || {
        let described = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET);
        // What is listed is what is served here; the descriptors know the services of the other side, too.
        services.iter().chain(&BESIDE).fold(described, |builder, name| builder.with_service_name(*name))
    };
    let failed = |error: tonic_reflection::server::Error| ServeError::Reflection(error.to_string());
    let routes = routes
        .add_service(health)
        .add_service(reflection().build_v1().map_err(failed)?)
        .add_service(reflection().build_v1alpha().map_err(failed)?);

    let shutdown = shutdown.shared();
    // Streams that a peer keeps open would hold the server for ever.
    let overdue = {
        let shutdown = shutdown.clone();
        async move {
            shutdown.await;
            tokio::time::sleep(GRACE).await;
        }
    };
    // The configuration may be swapped for one with a renewed certificate; the sender lives as long as the server.
    let (_swap, config): (watch::Sender<Arc<_>>, _) = watch::channel(server_config(identity)?);
    let connections = incoming(listener, config, HandshakeLimits::default());
    let server = tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(Duration::from_secs(20)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
        .add_routes(routes)
        .serve_with_incoming_shutdown(connections, shutdown);
    tokio::select! {
        done = server => Ok(done?),
        () = overdue => Ok(()),
    }
}

/// Lets only peers with one of these roles through to a service.
pub fn allow<S>(service: S, roles: &'static [Role]) -> InterceptedService<S, RoleCheck> {
    InterceptedService::new(service, RoleCheck(roles))
}

/// The roles that may call a service.
#[derive(Debug, Clone, Copy)]
pub struct RoleCheck(&'static [Role]);

impl Interceptor for RoleCheck {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        match peer_of(&request) {
            Some(peer) if self.0.contains(&peer.identity.role) => Ok(request),
            Some(peer) => {
                let roles: Vec<String> = self.0.iter().map(ToString::to_string).collect();
                Err(Status::permission_denied(format!(
                    "a certificate of the role {} may not call this service: it is for the role {}",
                    peer.identity.role,
                    roles.join(" or ")
                )))
            }
            None => Err(Status::unauthenticated("the connection has no verified certificate")),
        }
    }
}
