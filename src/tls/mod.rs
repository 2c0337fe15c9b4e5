//! Mutual TLS: who may speak to whom, and how a peer proves who it is.
//!
//! One private certificate authority stands for one installation. It issues a certificate to every agent,
//! controller and operator; the certificate's URI `plumbline://<role>/<name>` is the identity, and nothing
//! else is: not the address, not the common name.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `authority` | the CA: made once, issues certificates |
//! | `peer` | role and name, and how they are read from a certificate |
//! | `identity` | what a process loads to prove who it is, checked before it is used |
//! | `accept` | the server's side: listener in, verified connections out |
//! | `connect` | the client's side: address in, gRPC channel out |
//! | `error` | what can go wrong, and what to do about it |
//!
//! Always true: TLS 1.3 only; both sides present a certificate; both verify against this installation's CA
//! and no other root; a connection whose peer has no identity never leaves this module. Server
//! certificates carry a fixed name ([`agent_host_name`], [`controller_host_name`]), so that a client
//! verifies whom it means, whatever address it dials.

mod accept;
mod authority;
mod connect;
mod error;
mod files;
mod identity;
mod peer;
#[cfg(test)]
mod tests;

pub use accept::{HandshakeLimits, PeerInfo, SecureStream, incoming, peer_of, server_config};
pub use authority::{Authority, Issued, IssuedPaths, installation_of};
pub use connect::{Timeouts, cause_of, client_config, connect, connect_lazy};
pub use error::TlsError;
pub use identity::Identity;
pub use peer::{PeerIdentity, Role, agent_host_name, controller_host_name};

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

/// The one source of cryptography. Named everywhere, so that no process-wide default is ever needed.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
