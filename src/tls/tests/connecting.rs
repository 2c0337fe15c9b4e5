//! Who gets through a handshake, who does not, and what the one who does not is told.

use std::convert::Infallible;
use std::task::{Context, Poll};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::codegen::http;
use tonic::transport::Channel;
use tower::ServiceExt;

use super::*;

const QUICK: Timeouts = Timeouts {
    connect: Duration::from_millis(500),
    keepalive_interval: Duration::from_secs(20),
    keepalive_timeout: Duration::from_secs(10),
};

/// Answers with the name of the peer that its handler sees.
#[derive(Clone)]
struct WhoAmI;

impl tonic::server::NamedService for WhoAmI {
    const NAME: &'static str = "test.WhoAmI";
}

impl tower::Service<http::Request<Body>> for WhoAmI {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (parts, body) = request.into_parts();
        let request = tonic::Request::from_parts(tonic::metadata::MetadataMap::new(), parts.extensions, body);
        let peer = peer_of(&request).map_or_else(|| "nobody".to_owned(), |peer| peer.identity.to_string());
        let answer = http::Response::builder().header("peer", peer).header("grpc-status", "0");
        std::future::ready(Ok(answer.body(Body::empty()).unwrap()))
    }
}

/// Runs a gRPC server with [`WhoAmI`]; gives its address.
async fn grpc_server(identity: &Identity) -> String {
    let Server { address, connections, config } = serve(identity, HandshakeLimits::default()).await;
    tokio::spawn(async move {
        let _config = config;
        tonic::transport::Server::builder().add_service(WhoAmI).serve_with_incoming(connections).await
    });
    address
}

async fn who_am_i(channel: Channel) -> Result<String, tonic::transport::Error> {
    let request = http::Request::post("/test.WhoAmI/Ask")
        .header("content-type", "application/grpc")
        .body(Body::empty())
        .unwrap();
    let response = tokio::time::timeout(PATIENCE, channel.oneshot(request)).await.expect("no answer")?;
    Ok(response.headers()["peer"].to_str().unwrap().to_owned())
}

/// A TLS client that is not ours: presents what it is given, and gives the connection after its handshake.
async fn foreign_client(
    address: &str,
    trust: &Identity,
    own: Option<Arc<CertifiedKey>>,
    version: &'static SupportedProtocolVersion,
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(Arc::clone(&trust.roots));
    let mut config = match own {
        Some(own) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own))),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::try_from(agent_host_name("web")).unwrap();
    let tcp = TcpStream::connect(address).await?;
    tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, tcp).await
}

/// Connects and waits for the server to close; gives what was said last.
async fn refused_client(
    address: &str,
    trust: &Identity,
    own: Option<Arc<CertifiedKey>>,
    version: &'static SupportedProtocolVersion,
) -> String {
    let attempt = async {
        let mut stream = foreign_client(address, trust, own, version).await?;
        stream.read_u8().await
    };
    tokio::time::timeout(PATIENCE, attempt)
        .await
        .expect("neither served nor refused")
        .unwrap_err()
        .to_string()
}

fn key_of(issued: &Issued, folder: &Path) -> Arc<CertifiedKey> {
    let paths = issued.write(folder, true).unwrap();
    let certificate = CertificateDer::from_pem_file(&paths.certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(&paths.key).unwrap();
    let signer = provider().key_provider.load_private_key(key).unwrap();
    Arc::new(CertifiedKey::new(vec![certificate], signer))
}

async fn dial(address: &str, identity: &Identity) -> Result<Channel, TlsError> {
    connect(address, &agent_host_name("web"), identity, &QUICK).await
}

#[tokio::test]
async fn a_good_client_is_served_and_the_handler_knows_who_it_is() {
    let world = World::new();
    let address = grpc_server(&world.agent()).await;
    let channel = dial(&address, &world.controller()).await.unwrap();
    assert_eq!(who_am_i(channel).await.unwrap(), "controller main");
    let lazy =
        connect_lazy(&address, &agent_host_name("web"), &world.identity(Role::Operator, "ann"), &QUICK);
    assert_eq!(who_am_i(lazy.unwrap()).await.unwrap(), "operator ann");
}

#[tokio::test]
async fn whoever_has_no_valid_certificate_never_reaches_the_stream() {
    let (world, other) = (World::new(), World::new());
    let agent = world.agent();
    let mut server = serve(&agent, HandshakeLimits::default()).await;
    let address = server.address.clone();
    let own = world.controller().own;

    let tls13 = &rustls::version::TLS13;
    let said = refused_client(&address, &agent, None, tls13).await;
    assert!(said.contains("CertificateRequired"), "no certificate: {said}");
    let said = refused_client(&address, &agent, Some(other.controller().own), tls13).await;
    assert!(said.contains("UnknownCA") || said.contains("DecryptError"), "other authority: {said}");
    let said = refused_client(&address, &agent, Some(key_of(&world.expired(), world.path())), tls13).await;
    assert!(said.contains("CertificateExpired"), "expired: {said}");
    let said = refused_client(&address, &agent, Some(own), &rustls::version::TLS12).await;
    assert!(said.contains("ProtocolVersion"), "TLS 1.2: {said}");

    let mut plain = TcpStream::connect(&address).await.unwrap();
    plain.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(PATIENCE, plain.read_to_end(&mut answer)).await.expect("left open").unwrap();
    assert!(answer.len() < 16, "plain text got an answer: {answer:?}");

    server.expect_nobody().await;
    let good = tokio::spawn(async move { dial(&address, &world.controller()).await });
    assert_eq!(server.next().await.peer().identity.role, Role::Controller);
    drop(good);
}

#[tokio::test]
async fn a_certificate_of_ours_that_names_nobody_never_reaches_the_stream() {
    let world = World::new();
    let agent = world.agent();
    let mut server = serve(&agent, HandshakeLimits::default()).await;
    let key = rcgen::KeyPair::generate().unwrap();
    let ca_key = std::fs::read_to_string(world.path().join("ca.key")).unwrap();
    let ca = std::str::from_utf8(agent.ca_pem()).unwrap();
    let issuer = rcgen::Issuer::from_ca_cert_pem(ca, rcgen::KeyPair::from_pem(&ca_key).unwrap()).unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["web.example".to_owned()]).unwrap();
    let certificate = certificate.signed_by(&key, &issuer).unwrap();
    let signer = provider()
        .key_provider
        .load_private_key(PrivateKeyDer::try_from(key.serialize_der()).unwrap())
        .unwrap();
    let own = Arc::new(CertifiedKey::new(vec![certificate.der().clone()], signer));
    refused_client(&server.address, &agent, Some(own), &rustls::version::TLS13).await;
    server.expect_nobody().await;
}

#[tokio::test]
async fn a_hundred_peers_that_stop_in_the_handshake_hinder_nobody() {
    let world = World::new();
    let address = grpc_server(&world.agent()).await;
    let mut stuck = Vec::new();
    for number in 0..100 {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        if number % 2 == 0 {
            // The head of a ClientHello that never comes.
            stream.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
        }
        stuck.push(stream);
    }
    let begin = std::time::Instant::now();
    let channel = dial(&address, &world.controller()).await.unwrap();
    assert_eq!(who_am_i(channel).await.unwrap(), "controller main");
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_peer_that_says_nothing_loses_its_place_at_the_deadline() {
    let world = World::new();
    let limits = HandshakeLimits { concurrent: 1, deadline: Duration::from_millis(200) };
    let mut server = serve(&world.agent(), limits).await;
    let mut silent = TcpStream::connect(&server.address).await.unwrap();
    let (address, controller) = (server.address.clone(), world.controller());
    let _good = tokio::spawn(async move {
        let timeouts = Timeouts { connect: PATIENCE, ..QUICK };
        connect(&address, &agent_host_name("web"), &controller, &timeouts).await
    });
    server.next().await;
    let closed = tokio::time::timeout(PATIENCE, silent.read(&mut [0; 1])).await.expect("left open");
    assert!(matches!(closed, Ok(0) | Err(_)));
}

#[tokio::test]
async fn a_place_is_held_for_the_handshake_not_for_the_connection() {
    let world = World::new();
    let agent = world.agent();
    let mut server = serve(&agent, HandshakeLimits { concurrent: 1, ..HandshakeLimits::default() }).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        let (address, agent, own) = (server.address.clone(), agent.clone(), world.controller().own);
        let client: JoinHandle<_> = tokio::spawn(async move {
            foreign_client(&address, &agent, Some(own), &rustls::version::TLS13).await
        });
        held.push((server.next().await, client.await.unwrap().unwrap()));
    }
}

#[tokio::test]
async fn dropping_the_stream_closes_the_listener() {
    let world = World::new();
    let Server { address, connections, config: _config } =
        serve(&world.agent(), HandshakeLimits::default()).await;
    drop(connections);
    let closed = async {
        while TcpStream::connect(&address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, closed).await.expect("still listening");
}

#[tokio::test]
async fn an_exchanged_certificate_is_used_from_the_next_connection_on() {
    let world = World::new();
    let (address, config) = {
        let Server { address, connections, config } = serve(&world.agent(), HandshakeLimits::default()).await;
        tokio::spawn(
            tonic::transport::Server::builder().add_service(WhoAmI).serve_with_incoming(connections),
        );
        (address, config)
    };
    let controller = world.controller();
    dial(&address, &controller).await.unwrap();
    config.send(server_config(&world.identity(Role::Agent, "db")).unwrap()).unwrap();
    let error = dial(&address, &controller).await.unwrap_err();
    assert!(matches!(error, TlsError::ServerNameMismatch { .. }), "{error}");
    connect(&address, &agent_host_name("db"), &controller, &QUICK).await.unwrap();
}

#[tokio::test]
async fn every_reason_for_not_connecting_has_its_own_error() {
    let (world, other) = (World::new(), World::new());
    let (agent, controller) = (world.agent(), world.controller());
    let address = grpc_server(&agent).await;

    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    let error = dial(&closed, &controller).await.unwrap_err();
    assert_eq!(error, TlsError::ConnectionRefused { address: closed });

    let error = dial("no such host:1", &controller).await.unwrap_err();
    assert!(matches!(error, TlsError::Unresolved { .. }), "{error}");

    for bad in ["localhost", "localhost:", "localhost:99999", "::", ""] {
        let error = dial(bad, &controller).await.unwrap_err();
        assert!(matches!(error, TlsError::InvalidAddress { .. }), "{bad}: {error}");
    }

    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let error = dial(&silent.local_addr().unwrap().to_string(), &controller).await.unwrap_err();
    assert!(matches!(error, TlsError::HandshakeTimeout { .. }), "{error}");

    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let plain_address = plain.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (mut stream, _) = plain.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        stream.read(&mut [0; 4096]).await
    });
    let error = dial(&plain_address, &controller).await.unwrap_err();
    assert_eq!(error, TlsError::NotTls { address: plain_address });

    let error = dial(&address, &other.controller()).await.unwrap_err();
    let installation = other.authority.installation();
    assert_eq!(error, TlsError::ServerOfAnotherAuthority { address: address.clone(), installation });

    let error = connect(&address, &agent_host_name("db"), &controller, &QUICK).await.unwrap_err();
    let TlsError::ServerNameMismatch { expected, presented, .. } = &error else { panic!("{error}") };
    assert_eq!(expected, "db.agent.plumbline");
    assert!(presented.iter().any(|name| name.contains("web.agent.plumbline")), "{presented:?}");

    let error = dial(&address, &mixed(&controller, &other.controller())).await.unwrap_err();
    assert!(matches!(error, TlsError::OurCertificateRefused { .. }), "{error}");
}

#[tokio::test]
async fn a_lazy_channel_says_why_it_cannot_connect() {
    let (world, other) = (World::new(), World::new());
    let address = grpc_server(&world.agent()).await;
    let lazy = connect_lazy(&address, &agent_host_name("web"), &other.controller(), &QUICK).unwrap();
    let status = tonic::Status::from_error(Box::new(who_am_i(lazy).await.unwrap_err()));
    assert_eq!(status.code(), tonic::Code::Unavailable);
    assert!(status.message().contains("another authority"), "{status:?}");
    assert!(matches!(cause_of(&status), Some(TlsError::ServerOfAnotherAuthority { .. })), "{status:?}");
}

#[tokio::test]
async fn a_lazy_channel_whose_certificate_is_refused_gets_an_error_not_silence() {
    let (world, other) = (World::new(), World::new());
    let address = grpc_server(&world.agent()).await;
    let stranger = mixed(&world.controller(), &other.controller());
    let lazy = connect_lazy(&address, &agent_host_name("web"), &stranger, &QUICK).unwrap();
    let status = tonic::Status::from_error(Box::new(who_am_i(lazy).await.unwrap_err()));
    // Which of the two depends on whether the call or the refusal came first.
    match cause_of(&status) {
        Some(TlsError::OurCertificateRefused { .. }) | None => {}
        Some(other) => panic!("{other}"),
    }
}
