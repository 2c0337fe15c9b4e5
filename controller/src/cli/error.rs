//! Why a command failed, in words that say what to check.

use std::path::PathBuf;

use plumbline::manifest::ManifestError;
use plumbline::tls::TlsError;
use plumbline_agent::pasted::PastedError;
use plumbline_agent::server::AgentError;
use tonic::{Code, Status};

use super::exit::Exit;
use crate::server::ControllerError;

/// A command that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    /// The command line asks for something that does not go together.
    #[error("{0}")]
    Usage(String),
    /// A manifest.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// What `docker inspect` printed.
    #[error(transparent)]
    Pasted(#[from] PastedError),
    /// Certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The controller cannot be reached.
    #[error(
        "the controller at {address} cannot be reached: {source}; check that `plumb controller` runs there and that the address (--controller) is right"
    )]
    Controller {
        /// Its address.
        address: String,
        /// Why.
        source: TlsError,
    },
    /// The connection to the controller broke while it answered.
    #[error(
        "the connection to the controller broke ({reason}): what was sent to hosts goes on there; check that `plumb controller` runs, and ask `plumb status` and `plumb plan` what came of it"
    )]
    Lost {
        /// What the transport says.
        reason: String,
    },
    /// The controller answered with an error.
    #[error("{}", .0.message())]
    Status(Status),
    /// The controller could not be started.
    #[error(transparent)]
    Serve(#[from] ControllerError),
    /// The agent could not be started.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// A file.
    #[error("{path} cannot be {action}: {source}")]
    File {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Somebody asked the command to end before it was done.
    #[error("interrupted: what was being applied was finished first; run it again to see what is left to do")]
    Interrupted,
    /// Another process works with the data directory.
    #[error(
        "another `plumb up` uses the data directory {0}: wait until it has ended, and run this one again"
    )]
    InUse(PathBuf),
    /// Nobody could be asked.
    #[error(
        "nothing was removed: there is no terminal to ask on; to remove {0} without being asked say --yes"
    )]
    NotConfirmed(String),
    /// A file that would be overwritten.
    #[error("{0} exists already: move it away, or name another with --write-to")]
    Exists(PathBuf),
}

impl From<Status> for CliError {
    fn from(status: Status) -> Self {
        if let Some(source) = plumbline::tls::cause_of(&status) {
            return Self::Controller { address: "the configured address".to_owned(), source: source.clone() };
        }
        // What the controller itself says has no source here.
        match std::error::Error::source(&status) {
            Some(_) => Self::Lost { reason: status.message().to_owned() },
            None => Self::Status(status),
        }
    }
}

impl CliError {
    /// What the process ends with.
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::NotConfirmed(_) => Exit::Refused,
            _ => Exit::Error,
        }
    }

    /// The gRPC code, for JSON.
    pub(super) fn code(&self) -> Option<Code> {
        match self {
            Self::Status(status) => Some(status.code()),
            Self::Controller { .. } | Self::Lost { .. } => Some(Code::Unavailable),
            _ => None,
        }
    }
}
