//! The client's side: an address comes in, a verified gRPC channel goes out.
//!
//! The connection is made here rather than by tonic, so that both sides obey the same TLS rules and every
//! failure has its own [`TlsError`].
//!
//! In TLS 1.3 a server judges the client's certificate after the client has finished its own handshake; a
//! refusal shows at the first read. [`connect`] therefore returns only after the server has said something
//! (an HTTP/2 server greets at once). [`connect_lazy`] cannot wait: there, failures to connect arrive as
//! UNAVAILABLE with the text of the [`TlsError`] as message, and [`cause_of`] finds the error itself; a
//! refused certificate is logged, but the HTTP/2 layer keeps at most its text, and a call that was already
//! under way may only say that the connection was closed.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use rustls::{AlertDescription, CertificateError, ClientConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;
use tracing::warn;

use super::{Identity, PeerIdentity, TlsError, provider};

/// How long a client waits for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For finding the host, connecting and the TLS handshake together; and again for the server's greeting.
    pub connect: Duration,
    /// How often a silent connection is probed, also while no call runs.
    pub keepalive_interval: Duration,
    /// How long a probe may stay unanswered before the connection counts as lost.
    pub keepalive_timeout: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            keepalive_interval: Duration::from_secs(20),
            keepalive_timeout: Duration::from_secs(10),
        }
    }
}

/// The client's TLS rules: TLS 1.3, our authority as the only root, our certificate, HTTP/2, no resumption.
pub fn client_config(identity: &Identity) -> Result<Arc<ClientConfig>, TlsError> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| TlsError::Setup { reason: error.to_string() })?
        .with_root_certificates(Arc::clone(&identity.roots))
        .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(&identity.own))));
    config.alpn_protocols = vec![b"h2".to_vec()];
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// Connects to `address` (`host:port`), verifies that it is `server_name`, and waits until the server has
/// accepted our certificate.
pub async fn connect(
    address: &str,
    server_name: &str,
    identity: &Identity,
    timeouts: &Timeouts,
) -> Result<Channel, TlsError> {
    let (sender, greeted) = oneshot::channel();
    let dialler = Dialler::new(address, server_name, identity, timeouts, Some(sender))?;
    let channel = endpoint(server_name, timeouts)?
        .connect_with_connector(service_fn(move |_| dialler.clone().dial()))
        .await
        .map_err(|error| {
            cause_of(&error).cloned().unwrap_or_else(|| TlsError::HandshakeFailed {
                address: address.to_owned(),
                reason: error.to_string(),
            })
        })?;
    match timeout(timeouts.connect, greeted).await {
        Ok(Ok(Ok(()))) => Ok(channel),
        Ok(Ok(Err(error))) => Err(error),
        Ok(Err(_)) => {
            Err(TlsError::ClosedEarly { address: address.to_owned(), own: identity.peer().clone() })
        }
        Err(_) => Err(TlsError::HandshakeTimeout { address: address.to_owned(), after: timeouts.connect }),
    }
}

/// A channel that connects when it is first used, and again after a loss. Must be called within a Tokio
/// runtime.
pub fn connect_lazy(
    address: &str,
    server_name: &str,
    identity: &Identity,
    timeouts: &Timeouts,
) -> Result<Channel, TlsError> {
    let dialler = Dialler::new(address, server_name, identity, timeouts, None)?;
    Ok(endpoint(server_name, timeouts)?
        .connect_with_connector_lazy(service_fn(move |_| dialler.clone().dial())))
}

/// The [`TlsError`] behind an error of tonic (`Status` or `transport::Error`), if there is one.
pub fn cause_of<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a TlsError> {
    std::iter::successors(Some(error), |error| error.source()).find_map(|error| {
        error
            .downcast_ref::<TlsError>()
            .or_else(|| error.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref::<TlsError>())
    })
}

fn endpoint(server_name: &str, timeouts: &Timeouts) -> Result<Endpoint, TlsError> {
    let setup = |reason: String| TlsError::Setup { reason };
    // "https" here would make tonic want to do TLS itself; the origin is what the server sees.
    let endpoint = Endpoint::from_shared(format!("http://{server_name}"))
        .map_err(|error| setup(format!("{server_name:?}: {error}")))?;
    let origin = format!("https://{server_name}")
        .parse()
        .map_err(|error| setup(format!("{server_name:?}: {error}")))?;
    Ok(endpoint
        .origin(origin)
        .http2_keep_alive_interval(timeouts.keepalive_interval)
        .keep_alive_timeout(timeouts.keepalive_timeout)
        .keep_alive_while_idle(true))
}

/// Takes the server's first word, once: whether our certificate was accepted.
type Greeted = Arc<Mutex<Option<oneshot::Sender<Result<(), TlsError>>>>>;

/// What is dialled, and as whom. The facts of every error.
#[derive(Debug, Clone)]
struct Target {
    address: String,
    server_name: String,
    own: PeerIdentity,
    installation: String,
}

#[derive(Clone)]
struct Dialler {
    target: Arc<Target>,
    name: ServerName<'static>,
    connector: TlsConnector,
    patience: Duration,
    greeted: Greeted,
}

impl Dialler {
    fn new(
        address: &str,
        server_name: &str,
        identity: &Identity,
        timeouts: &Timeouts,
        greeted: Option<oneshot::Sender<Result<(), TlsError>>>,
    ) -> Result<Self, TlsError> {
        let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        if port.is_none_or(|port| port == 0) {
            return Err(TlsError::InvalidAddress { address: address.to_owned() });
        }
        let name = ServerName::try_from(server_name.to_owned())
            .map_err(|error| TlsError::Setup { reason: format!("{server_name:?}: {error}") })?;
        Ok(Self {
            target: Arc::new(Target {
                address: address.to_owned(),
                server_name: server_name.to_owned(),
                own: identity.peer().clone(),
                installation: identity.installation().to_owned(),
            }),
            name,
            connector: TlsConnector::from(client_config(identity)?),
            patience: timeouts.connect,
            greeted: Arc::new(Mutex::new(greeted)),
        })
    }

    async fn dial(self) -> Result<TokioIo<Connection>, TlsError> {
        let Self { target, name, connector, patience, greeted } = self;
        let deadline = Instant::now() + patience;
        let address = || target.address.clone();
        let tcp = timeout_at(deadline, reach(&target.address))
            .await
            .map_err(|_| TlsError::ConnectTimeout { address: address(), after: patience })??;
        let stream = timeout_at(deadline, connector.connect(name, tcp))
            .await
            .map_err(|_| TlsError::HandshakeTimeout { address: address(), after: patience })?
            .map_err(|error| target.failed(&error))?;
        Ok(TokioIo::new(Connection { stream, greeting: Some(Greeting { target, greeted }) }))
    }
}

async fn reach(address: &str) -> Result<TcpStream, TlsError> {
    let found: Vec<_> = lookup_host(address)
        .await
        .map_err(|error| TlsError::Unresolved { address: address.to_owned(), reason: error.to_string() })?
        .collect();
    let stream = TcpStream::connect(found.as_slice()).await.map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => TlsError::ConnectionRefused { address: address.to_owned() },
        _ => TlsError::Unreachable { address: address.to_owned(), reason: error.to_string() },
    })?;
    stream
        .set_nodelay(true)
        .map_err(|error| TlsError::Unreachable { address: address.to_owned(), reason: error.to_string() })?;
    Ok(stream)
}

impl Target {
    /// What an error of the TLS stream means.
    fn failed(&self, error: &io::Error) -> TlsError {
        let address = self.address.clone();
        let Some(cause) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) else {
            return TlsError::HandshakeFailed { address, reason: error.to_string() };
        };
        match cause {
            rustls::Error::InvalidCertificate(problem) => self.bad_server(problem),
            rustls::Error::InvalidMessage(_) => TlsError::NotTls { address },
            rustls::Error::AlertReceived(alert) if about_certificate(*alert) => {
                TlsError::OurCertificateRefused {
                    address,
                    own: self.own.clone(),
                    alert: format!("{alert:?}"),
                }
            }
            other => TlsError::HandshakeFailed { address, reason: other.to_string() },
        }
    }

    fn bad_server(&self, problem: &CertificateError) -> TlsError {
        let address = self.address.clone();
        match problem {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                TlsError::ServerOfAnotherAuthority { address, installation: self.installation.clone() }
            }
            CertificateError::NotValidForName => TlsError::ServerNameMismatch {
                address,
                expected: self.server_name.clone(),
                presented: Vec::new(),
            },
            CertificateError::NotValidForNameContext { presented, .. } => TlsError::ServerNameMismatch {
                address,
                expected: self.server_name.clone(),
                presented: presented.clone(),
            },
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => TlsError::ServerCertificateExpired { address },
            other => TlsError::HandshakeFailed { address, reason: format!("{other:?}") },
        }
    }
}

fn about_certificate(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::NoCertificate
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateRequired
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            | AlertDescription::DecryptError
    )
}

/// Stands for the time between our handshake and the server's first word.
struct Greeting {
    target: Arc<Target>,
    greeted: Greeted,
}

impl Greeting {
    /// Tells whoever waits; false if nobody does.
    fn tell(&self, word: Result<(), TlsError>) -> bool {
        let waiting = self.greeted.lock().unwrap_or_else(PoisonError::into_inner).take();
        waiting.is_some_and(|sender| sender.send(word).is_ok())
    }

    /// The error that the HTTP/2 layer gets to see.
    fn refuse(&self, error: &io::Error) -> io::Error {
        let meaning = match self.target.failed(error) {
            // Neither an alert nor anything else was said.
            TlsError::HandshakeFailed { .. }
                if error.get_ref().is_none_or(|inner| !inner.is::<rustls::Error>()) =>
            {
                self.closed()
            }
            other => other,
        };
        if !self.tell(Err(meaning.clone())) {
            warn!(error = %meaning, "connection refused after the handshake");
        }
        io::Error::new(error.kind(), meaning)
    }

    fn closed(&self) -> TlsError {
        TlsError::ClosedEarly { address: self.target.address.clone(), own: self.target.own.clone() }
    }
}

impl Drop for Greeting {
    /// A connection that was given up before the server's first word; does nothing if that was told.
    fn drop(&mut self) {
        self.tell(Err(self.closed()));
    }
}

/// A client's TLS connection that knows what an error before the server's first word means.
struct Connection {
    stream: TlsStream<TcpStream>,
    greeting: Option<Greeting>,
}

impl Connection {
    /// A failed write before the first word: the reason may lie unread in our receive buffer.
    fn write_failed(&mut self, context: &mut Context<'_>, error: io::Error) -> io::Error {
        let Some(greeting) = self.greeting.take() else { return error };
        let mut space = [0; 1];
        match Pin::new(&mut self.stream).poll_read(context, &mut ReadBuf::new(&mut space)) {
            Poll::Ready(Err(reason)) => greeting.refuse(&reason),
            Poll::Ready(Ok(())) | Poll::Pending => greeting.refuse(&error),
        }
    }

    fn written<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        polled.map_err(|error| self.write_failed(context, error))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, space) = (buffer.filled().len(), buffer.remaining());
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if polled.is_pending() || space == 0 {
            return polled;
        }
        let Some(greeting) = self.greeting.take() else { return polled };
        polled.map(|read| match read {
            Ok(()) if buffer.filled().len() > before => {
                greeting.tell(Ok(()));
                Ok(())
            }
            Ok(()) => Err(greeting.refuse(&io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(greeting.refuse(&error)),
        })
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.written(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
