//! One agent for one engine.
//!
//! Two agents of one installation on the same engine would both take its containers for theirs. So an agent claims the
//! engine, by the id that the engine says of itself, before it changes anything there, and one that finds it claimed refuses to
//! start. The claim is a Unix socket in the kernel's abstract name space (unix(7)): it is gone with the process that
//! holds it, however that ends, and the kernel tells which process that is. It is seen by agents in the same network
//! namespace: those on the host, and those in containers that use the host's network.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use crate::apply::ApplyError;
use crate::engine::EngineReader;

/// An engine that is this agent's. It ends when this is dropped.
#[derive(Debug)]
pub struct Claim(
    #[allow(dead_code, reason = "the socket's name is taken as long as it is open")] UnixListener,
);

impl Claim {
    /// Claims the engine for an agent of this installation. An error says that another has it, or that the engine does not
    /// answer.
    pub async fn take(engine: &EngineReader, installation: &str) -> Result<Self, ApplyError> {
        let info = engine.info().await?;
        let id = info["ID"].as_str().unwrap_or_default();
        let refused = |by| ApplyError::EngineTaken { engine: id.to_owned(), by };
        let address = address(id, installation).map_err(|error| refused(error.to_string()))?;
        match UnixListener::bind_addr(&address) {
            Ok(listener) => Ok(Self(listener)),
            Err(error) => Err(refused(holder(&address).unwrap_or_else(|| error.to_string()))),
        }
    }
}

/// Engines' ids have many forms, and a name at most 107 bytes.
fn address(id: &str, installation: &str) -> std::io::Result<SocketAddr> {
    let digest = ring::digest::digest(&ring::digest::SHA256, format!("{installation} {id}").as_bytes());
    SocketAddr::from_abstract_name(format!(
        "plumbline-agent/{}",
        data_encoding::HEXLOWER.encode(digest.as_ref())
    ))
}

/// The process that has it, if the kernel tells.
fn holder(address: &SocketAddr) -> Option<String> {
    let stream = UnixStream::connect_addr(address).ok()?;
    stream.set_nonblocking(true).ok()?;
    let process = tokio::net::UnixStream::from_std(stream).ok()?.peer_cred().ok()?.pid()?;
    Some(format!("the process {process}"))
}
