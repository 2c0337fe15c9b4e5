//! The server's side: a listener comes in, verified connections go out.
//!
//! ```text
//! listener --accept--> one task per handshake (limited in number and time) --channel--> stream of SecureStream
//! ```
//!
//! The accept loop runs in a task of its own and never waits for a peer, so peers that stop half-way hinder
//! nobody until [`HandshakeLimits::concurrent`] of them stand there at once; then new ones wait in the kernel's
//! queue until a deadline frees a place. A place is held until the handshake is over and the connection handed
//! on, not for the connection's life. Whatever fails is logged and dropped; it never shows in the stream.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;
use tracing::{debug, warn};

use super::{Identity, PeerIdentity, TlsError, provider};

/// Connections that passed the handshake and wait to be served.
const READY_CONNECTIONS: usize = 64;
/// How long accepting rests when the system has no more to give (file descriptors, memory).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a refused peer has to read why.
const FAREWELL: Duration = Duration::from_millis(500);
/// How much a refused peer may still send meanwhile.
const FAREWELL_BYTES: u64 = 64 * 1024;

/// How many handshakes may run at once, and how long each may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandshakeLimits {
    /// Handshakes at once.
    pub concurrent: usize,
    /// From the accepted connection to the finished handshake, whether or not the peer sends anything.
    pub deadline: Duration,
}

impl Default for HandshakeLimits {
    fn default() -> Self {
        Self { concurrent: 256, deadline: Duration::from_secs(10) }
    }
}

/// The server's TLS rules: TLS 1.3, a client certificate of our authority, HTTP/2, no resumption (so that
/// every connection shows its certificate).
pub fn server_config(identity: &Identity) -> Result<Arc<ServerConfig>, TlsError> {
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&identity.roots), provider())
        .build()
        .map_err(|error| TlsError::Setup { reason: error.to_string() })?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| TlsError::Setup { reason: error.to_string() })?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(&identity.own))));
    config.alpn_protocols = vec![b"h2".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Accepts from `listener` until the stream is dropped, and yields the connections whose peer is verified.
///
/// Every handshake uses the configuration that `config` holds when it begins, so certificates can be
/// exchanged without a restart. The stream never yields an error; its item type is what tonic's
/// `serve_with_incoming` takes. Must be called within a Tokio runtime.
pub fn incoming(
    listener: TcpListener,
    config: watch::Receiver<Arc<ServerConfig>>,
    limits: HandshakeLimits,
) -> impl Stream<Item = io::Result<SecureStream>> + Send + Unpin + 'static {
    let (sender, receiver) = mpsc::channel(READY_CONNECTIONS);
    tokio::spawn(accept(listener, config, limits, sender));
    ReceiverStream::new(receiver)
}

type Sender = mpsc::Sender<io::Result<SecureStream>>;

/// Ends when the receiver is dropped; handshakes that still run then end with it.
async fn accept(
    listener: TcpListener,
    config: watch::Receiver<Arc<ServerConfig>>,
    limits: HandshakeLimits,
    sender: Sender,
) {
    let places = Arc::new(Semaphore::new(limits.concurrent));
    let mut handshakes = JoinSet::new();
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            () = sender.closed() => return,
            next = next => next,
        };
        let Ok(place) = place else { return };
        while handshakes.try_join_next().is_some() {}
        match accepted {
            Ok((stream, address)) => {
                let config = Arc::clone(&config.borrow());
                let sender = sender.clone();
                handshakes.spawn(async move {
                    if let Some(secure) = secure(stream, address, config, limits.deadline).await {
                        // Fails only if nobody serves any more.
                        drop(sender.send(Ok(secure)).await);
                    }
                    drop(place);
                });
            }
            // The peer is gone already: that says nothing about the listener.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
                ) => {}
            Err(error) => {
                warn!(%error, "cannot accept connections; trying again");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// One handshake; whatever fails is logged here.
async fn secure(
    stream: TcpStream,
    address: SocketAddr,
    config: Arc<ServerConfig>,
    deadline: Duration,
) -> Option<SecureStream> {
    if let Err(error) = stream.set_nodelay(true) {
        debug!(peer = %address, %error, "cannot set TCP_NODELAY");
    }
    let handshake = TlsAcceptor::from(config).accept(stream).into_fallible();
    let mut stream = match timeout(deadline, handshake).await {
        Ok(Ok(stream)) => stream,
        Ok(Err((error, stream))) => {
            log_refusal(address, &error);
            farewell(stream).await;
            return None;
        }
        Err(_) => {
            debug!(peer = %address, ?deadline, "peer did not finish the handshake in time");
            return None;
        }
    };
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    match certificate.map(PeerIdentity::from_certificate) {
        Some(Ok(identity)) => Some(SecureStream { stream, peer: PeerInfo { identity, address } }),
        Some(Err(error)) => {
            warn!(peer = %address, %error, "refused a peer: its certificate does not say who it is");
            drop(timeout(FAREWELL, stream.shutdown()).await);
            None
        }
        None => {
            // The verifier demands one; this is the second lock on the same door.
            warn!(peer = %address, "refused a peer without a certificate");
            None
        }
    }
}

/// Closes so that the peer can read the alert: closing with unread bytes would reset the connection.
async fn farewell(mut stream: TcpStream) {
    let parting = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(FAREWELL_BYTES), &mut tokio::io::sink()).await
    };
    // Whether the peer heard it or not, the connection is over.
    drop(timeout(FAREWELL, parting).await);
}

fn log_refusal(address: SocketAddr, error: &io::Error) {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    if let Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) = cause {
        warn!(peer = %address, %error, "refused a peer: no valid certificate of this installation");
    } else {
        debug!(peer = %address, %error, "handshake failed");
    }
}

/// Who is at the other end of a connection. In the extensions of every request that came over it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerInfo {
    /// Role and name, from the verified certificate.
    pub identity: PeerIdentity,
    /// Where it dials from. For logs only: it proves nothing.
    pub address: SocketAddr,
}

/// The peer that sent the request; none if it did not come through [`incoming`].
pub fn peer_of<T>(request: &tonic::Request<T>) -> Option<&PeerInfo> {
    request.extensions().get()
}

/// A connection whose peer is verified. Only [`incoming`] makes one.
#[derive(Debug)]
pub struct SecureStream {
    stream: TlsStream<TcpStream>,
    peer: PeerInfo,
}

impl SecureStream {
    /// Who is at the other end.
    pub fn peer(&self) -> &PeerInfo {
        &self.peer
    }
}

impl Connected for SecureStream {
    type ConnectInfo = PeerInfo;

    fn connect_info(&self) -> PeerInfo {
        self.peer.clone()
    }
}

impl AsyncRead for SecureStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for SecureStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
