//! What can go wrong between the agent and its engine.

use std::time::Duration;

use plumbline::catalogue::ApiVersion;

/// A call to the engine that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Nobody answers on the socket.
    #[error(
        "the Docker engine cannot be reached on {socket} ({reason}): check that dockerd runs and that this user may open the socket"
    )]
    Unreachable {
        /// The socket's path.
        socket: String,
        /// What the system says.
        reason: String,
    },
    /// The engine accepted the call and did not answer in time. Whether it took effect is not known.
    #[error(
        "the Docker engine did not answer {call} within {deadline:?}: check whether dockerd hangs or its host is overloaded"
    )]
    TimedOut {
        /// Method and path.
        call: String,
        /// The deadline.
        deadline: Duration,
    },
    /// The engine answered with an error.
    #[error("the Docker engine refused {call}: {message} (status {status})")]
    Refused {
        /// Method and path.
        call: String,
        /// The HTTP status.
        status: u16,
        /// The engine's message.
        message: String,
    },
    /// The answer is not what the API's documents say.
    #[error("the Docker engine answered {call} with something that is not understood: {reason}")]
    Malformed {
        /// Method and path.
        call: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The engine is older than this build works with.
    #[error(
        "the Docker engine speaks API {found}, Plumbline needs {needed} (engine 20.10) or newer: update the engine"
    )]
    TooOld {
        /// The engine's newest API version.
        found: ApiVersion,
        /// The oldest that works.
        needed: ApiVersion,
    },
    /// An image could not be pulled.
    #[error(
        "the image {image} cannot be pulled: {reason}; nothing was touched: check its name, whether this host reaches the \
         registry, and the credentials of the agent's user (~/.docker/config.json, or $DOCKER_CONFIG)"
    )]
    Pull {
        /// The reference.
        image: String,
        /// The registry's or the engine's words.
        reason: String,
    },
}

impl EngineError {
    /// The engine's status, if it answered with one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Whether the call took effect is not known: no answer came, or one that the engine gives for its own troubles.
    pub fn is_unclear(&self) -> bool {
        match self {
            Self::TimedOut { .. } | Self::Malformed { .. } => true,
            Self::Refused { status, .. } => *status >= 500,
            Self::Unreachable { .. } | Self::TooOld { .. } | Self::Pull { .. } => false,
        }
    }

    /// The object that the call was about does not exist.
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }
}
