//! What the module promises, over real sockets on loopback. The harness makes an authority, identities and
//! a server in a line each.

mod connecting;
mod issuing;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tempfile::TempDir;
use time::OffsetDateTime;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_stream::{Stream, StreamExt};

use super::*;

const DAY: Duration = Duration::from_hours(24);
/// No test waits longer than this for anything.
const PATIENCE: Duration = Duration::from_secs(5);

struct World {
    folder: TempDir,
    authority: Authority,
}

impl World {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let authority = Authority::init(folder.path(), "test").unwrap();
        Self { folder, authority }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn identity(&self, role: Role, name: &str) -> Identity {
        let paths = self.authority.issue(role, name, &[], DAY).unwrap().write(self.path(), true).unwrap();
        Identity::load(&paths.ca, &paths.certificate, &paths.key).unwrap()
    }

    fn agent(&self) -> Identity {
        self.identity(Role::Agent, "web")
    }

    fn controller(&self) -> Identity {
        self.identity(Role::Controller, "main")
    }

    /// An issue whose time is over. `Identity::load` would not take it.
    fn expired(&self) -> Issued {
        let now = OffsetDateTime::now_utc();
        let identity = PeerIdentity::new(Role::Operator, "late").unwrap();
        let (begin, end) = (now - time::Duration::hours(2), now - time::Duration::hours(1));
        self.authority.issue_between(identity, &[], begin, end).unwrap()
    }
}

/// Trusts as `trust` does, and presents what `own` has.
fn mixed(trust: &Identity, own: &Identity) -> Identity {
    Identity { own: Arc::clone(&own.own), ..trust.clone() }
}

struct Server<S> {
    address: String,
    connections: S,
    config: watch::Sender<Arc<ServerConfig>>,
}

async fn serve(
    identity: &Identity,
    limits: HandshakeLimits,
) -> Server<impl Stream<Item = std::io::Result<SecureStream>> + Send + Unpin + 'static> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (config, receiver) = watch::channel(server_config(identity).unwrap());
    Server { address, connections: incoming(listener, receiver, limits), config }
}

impl<S: Stream<Item = std::io::Result<SecureStream>> + Unpin> Server<S> {
    /// The next connection that reaches the stream.
    async fn next(&mut self) -> SecureStream {
        tokio::time::timeout(PATIENCE, self.connections.next()).await.expect("nobody came").unwrap().unwrap()
    }

    async fn expect_nobody(&mut self) {
        let wait = tokio::time::timeout(Duration::from_millis(300), self.connections.next());
        assert!(wait.await.is_err(), "somebody came");
    }
}
