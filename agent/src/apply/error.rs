//! Why an apply failed, and what it means for the caller.

use plumbline::engine_form::FormError;
use plumbline::order::Circle;
use plumbline::proto::v1::ContainerFailure;
use plumbline::update_lock::UpdateLock;
use tonic::Code;
use tonic_types::{ErrorDetails, StatusExt as _};

use super::NotUp;
use crate::engine::EngineError;
use crate::moving::MoveError;
use crate::secrets::Secrets;
use crate::state::StateError;

/// The step at which only the agent's memory failed.
const REMEMBERING: &str = "remembering";

/// An apply, plan or adoption that did not come to a result.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The engine's answer.
    #[error(transparent)]
    Form(#[from] FormError),
    /// The agent's state.
    #[error(transparent)]
    State(#[from] StateError),
    /// Data cannot be moved.
    #[error(transparent)]
    Move(#[from] MoveError),
    /// The spec.
    #[error(transparent)]
    Circle(#[from] Circle),
    /// Another agent of this installation has the engine.
    #[error(
        "another agent of this installation already works with the engine {engine}: {by}; two would undo each other's work: \
         stop that one first (nothing was touched)"
    )]
    EngineTaken {
        /// The engine's id.
        engine: String,
        /// Who has it.
        by: String,
    },
    /// The spec is not valid.
    #[error("the module is not valid: {0}")]
    Invalid(String),
    /// What the request allows makes no sense.
    #[error("{0}")]
    Allowed(String),
    /// A newer revision was applied already.
    #[error(
        "revision {asked} is older than revision {last}, which was applied already; nothing was touched: push the newest, or edit the manifest back and build it, which makes a newer one"
    )]
    OlderRevision {
        /// The request's.
        asked: u64,
        /// The last one applied.
        last: u64,
    },
    /// What shall be mounted is not there.
    #[error(
        "the bind source path does not exist: {path} (as this agent sees the host); make it, or mend the declaration"
    )]
    MissingSource {
        /// The host path.
        path: String,
    },
    /// An old container would run without its data.
    #[error(
        "{name} is not started: its data is not at {from} any more but at {to}, where an apply that was cut off had moved it, and the agent's journal of that is lost; move the data back to {from} (or, to keep it where it is, remove {name}), then apply again"
    )]
    MovedAway {
        /// The container.
        name: String,
        /// Where it has its data, on the host.
        from: String,
        /// Where the new container has it.
        to: String,
    },
    /// Behind a mount stands something else than what was decided on.
    #[error("behind the mount {target} stands something else than in the plan: {change}; plan again")]
    DataChanged {
        /// The mount's target.
        target: String,
        /// What changed.
        change: String,
    },
    /// There is no such container.
    #[error("there is no container {name} on this host: see `docker ps -a`")]
    NoContainer {
        /// Its name or id.
        name: String,
    },
    /// Another installation made the container.
    #[error(
        "the container {name} belongs to module {module} of another installation of Plumbline ({installation}): two would \
         fight over it; if that one is gone for good, take it with --from-other-installation"
    )]
    OtherInstallation {
        /// The container.
        name: String,
        /// The other installation.
        installation: String,
        /// Its module.
        module: String,
    },
    /// The container is another module's.
    #[error("the container {name} is already container {key} of module {module}")]
    OwnedElsewhere {
        /// The container.
        name: String,
        /// Its module.
        module: String,
        /// Its key.
        key: String,
    },
    /// Volumes go only after somebody was shown what they hold.
    #[error(
        "volumes go only after a plan has shown what they hold: ask with plan_only first, and send the plan_token of its answer"
    )]
    VolumesNotShown,
    /// Somebody uses it since the plan was made.
    #[error("{users} came to use the {object} meanwhile; plan again")]
    InUse {
        /// The object.
        object: String,
        /// Who.
        users: String,
    },
    /// The container asks to be left alone.
    #[error("{}", .lock.refusal(.container))]
    UpdateLocked {
        /// Its name.
        container: String,
        /// The file.
        lock: UpdateLock,
    },
    /// A step failed.
    #[error("{object}: {step} failed: {source}; {left}")]
    Step {
        /// The container, network or volume.
        object: String,
        /// What was tried.
        step: &'static str,
        /// Why it failed.
        source: Box<ApplyError>,
        /// In which state the host was left.
        left: String,
        /// What was before is back.
        rolled_back: bool,
    },
    /// A step failed after other objects of the module were changed.
    #[error("{source}; what was done before it stays: {}", .done.join(", "))]
    Partly {
        /// Why it failed.
        source: Box<ApplyError>,
        /// The names of what was changed.
        done: Vec<String>,
    },
    /// A container that is known to work did not run when it was started again.
    #[error("it did not stay up (exit code {exit_code}{}); {}", .error.as_ref().map(|error| format!(", {error}")).unwrap_or_default(), last_words(.lines))]
    NotUp {
        /// Of the process.
        exit_code: i64,
        /// The engine's words.
        error: Option<String>,
        /// What the container wrote.
        lines: String,
    },
    /// A started container did not come through its window.
    #[error("{0}")]
    Window(NotUp),
    /// It is about a container of which more is known.
    #[error("{source}")]
    OfContainer {
        /// What failed.
        source: Box<ApplyError>,
        /// How the container ended.
        failure: Box<ContainerFailure>,
    },
    /// The engine said yes to a change in place, and inspect does not show it.
    #[error(
        "the engine accepted the change and inspect does not show it: {}; from now on it counts as one that needs a \
         recreation: allow that with --recreate", .0.join(", ")
    )]
    NotInPlace(Vec<String>),
    /// The engine may still do what it was asked for before.
    #[error("the engine has not ended a call that was given up, and may still do it")]
    Owed,
    /// The engine said yes and did not do it.
    #[error("the engine accepted it and inspect does not show it: {0}")]
    NotDone(String),
}

fn last_words(lines: &str) -> String {
    if lines.is_empty() { "it wrote nothing".to_owned() } else { format!("its last lines: {lines}") }
}

impl ApplyError {
    /// The gRPC code.
    pub fn code(&self) -> Code {
        match self {
            Self::Engine(EngineError::Unreachable { .. }) => Code::Unavailable,
            Self::Engine(EngineError::TimedOut { .. }) | Self::Owed => Code::DeadlineExceeded,
            Self::Engine(error) if error.is_not_found() => Code::NotFound,
            Self::NoContainer { .. } => Code::NotFound,
            Self::Engine(EngineError::Refused { status: 400, .. })
            | Self::Invalid(_)
            | Self::Allowed(_)
            | Self::Circle(_)
            | Self::VolumesNotShown => Code::InvalidArgument,
            Self::Engine(
                EngineError::Refused { .. } | EngineError::TooOld { .. } | EngineError::Pull { .. },
            )
            | Self::OlderRevision { .. }
            | Self::EngineTaken { .. }
            | Self::OwnedElsewhere { .. }
            | Self::OtherInstallation { .. }
            | Self::MissingSource { .. }
            | Self::MovedAway { .. }
            | Self::UpdateLocked { .. }
            | Self::InUse { .. }
            | Self::DataChanged { .. }
            | Self::Move(_)
            | Self::NotUp { .. }
            | Self::Window(_)
            | Self::NotInPlace(_)
            | Self::NotDone(_) => Code::FailedPrecondition,
            Self::Engine(EngineError::Malformed { .. }) | Self::Form(_) | Self::State(_) => Code::Internal,
            Self::Step { source, .. } | Self::Partly { source, .. } | Self::OfContainer { source, .. } => {
                source.code()
            }
        }
    }

    /// What was done to this object stands, and the agent's memory does not know it.
    pub(super) fn unremembered(object: &str, error: StateError) -> Self {
        Self::Step {
            object: object.to_owned(),
            step: REMEMBERING,
            source: Box::new(error.into()),
            left: "what was applied stands: plan again when the agent's data directory can be written"
                .to_owned(),
            rolled_back: false,
        }
    }

    /// What was to be done is done all the same.
    pub(super) fn stands(&self) -> bool {
        matches!(self, Self::Step { step: REMEMBERING, .. })
    }

    /// The same after other objects of the module were changed.
    #[must_use]
    pub(super) fn partly(self, more: Vec<String>) -> Self {
        match self {
            error if more.is_empty() => error,
            Self::Partly { source, mut done } => {
                done.extend(more);
                Self::Partly { source, done }
            }
            error => Self::Partly { source: Box::new(error), done: more },
        }
    }

    /// The engine answered, and a container does not come up: trying again may be of no use.
    pub(super) fn is_not_up(&self) -> bool {
        matches!(self, Self::NotUp { .. } | Self::Engine(EngineError::Refused { .. }))
    }

    /// What was before is back, or nothing was touched at all.
    pub fn rolled_back(&self) -> bool {
        match self {
            Self::Step { rolled_back, .. } => *rolled_back,
            Self::Partly { .. } | Self::NotInPlace(_) | Self::NotDone(_) | Self::Owed => false,
            _ => true,
        }
    }

    /// How the container ended that did not come up, if that is why it failed.
    pub fn failure(&self) -> Option<&ContainerFailure> {
        match self {
            Self::OfContainer { failure, .. } => Some(failure),
            Self::Step { source, .. } | Self::Partly { source, .. } => source.failure(),
            _ => None,
        }
    }

    /// The paths that the engine did not change in place although it said so, if that is why it failed.
    pub fn not_in_place(&self) -> Option<&[String]> {
        match self {
            Self::NotInPlace(paths) => Some(paths),
            Self::Step { source, .. } | Self::Partly { source, .. } => source.not_in_place(),
            _ => None,
        }
    }

    /// The status that answers an RPC, without the secrets of the module it is about. Details stay short: long ones arrive
    /// as an empty error.
    pub fn to_status(&self, secrets: &Secrets) -> tonic::Status {
        let message: String = secrets.mask(&self.to_string()).chars().take(3000).collect();
        let facts = [("rolled_back".to_owned(), self.rolled_back().to_string())];
        let details = ErrorDetails::with_error_info(self.reason(), "plumbline.v1", facts);
        tonic::Status::with_error_details(self.code(), message, details)
    }

    /// The error in one word, for programs (`google.rpc.ErrorInfo.reason`).
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Engine(EngineError::Unreachable { .. }) => "ENGINE_UNREACHABLE",
            Self::Engine(EngineError::TimedOut { .. }) | Self::Owed => "ENGINE_TIMED_OUT",
            Self::Engine(EngineError::Refused { .. }) => "ENGINE_REFUSED",
            Self::Engine(EngineError::TooOld { .. }) => "ENGINE_TOO_OLD",
            Self::Engine(EngineError::Pull { .. }) => "IMAGE_NOT_PULLED",
            Self::Engine(EngineError::Malformed { .. }) | Self::Form(_) => "ENGINE_NOT_UNDERSTOOD",
            Self::State(_) => "AGENT_STATE",
            Self::Circle(_) | Self::Invalid(_) => "INVALID_MODULE",
            Self::Allowed(_) => "INVALID_REQUEST",
            Self::OlderRevision { .. } => "OLDER_REVISION",
            Self::MissingSource { .. } => "MISSING_BIND_SOURCE",
            Self::MovedAway { .. } => "DATA_MOVED_AWAY",
            Self::VolumesNotShown => "VOLUMES_NOT_SHOWN",
            Self::UpdateLocked { .. } => "UPDATE_LOCKED",
            Self::InUse { .. } => "IN_USE",
            Self::DataChanged { .. } => "DATA_CHANGED",
            Self::Move(_) => "DATA_NOT_MOVED",
            Self::NoContainer { .. } => "NO_SUCH_CONTAINER",
            Self::EngineTaken { .. } => "ENGINE_TAKEN",
            Self::OwnedElsewhere { .. } => "OWNED_ELSEWHERE",
            Self::OtherInstallation { .. } => "OTHER_INSTALLATION",
            Self::Step { source, .. } | Self::Partly { source, .. } | Self::OfContainer { source, .. } => {
                source.reason()
            }
            Self::NotUp { .. } => "DID_NOT_STAY_UP",
            Self::Window(not_up) => not_up.reason(),
            Self::NotInPlace(_) | Self::NotDone(_) => "NOT_READ_BACK",
        }
    }
}
