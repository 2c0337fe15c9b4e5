//! Whether the data of a mount is where `moved_from` says, and what moving it takes.

use std::collections::BTreeMap;

use plumbline::guard::{Before, FileIdentity, Place, not_to_be_moved, to_be_moved};
use plumbline::normal::clean_path;
use plumbline::proto::v1::{ContainerSpec, DataGuardVerdict, DataMove, MountVerdict, MoveWay};
use serde_json::Value as Json;

use super::HostFiles;
use super::mounts::{Looker, is_plain};
use crate::apply::ApplyError;
use crate::engine::Inspect;
use crate::moving::{Move, MoveError, Way, survey};

/// Where the data of a mount was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Former {
    /// A path of the host.
    Path(String),
    /// A volume, by its name at the engine.
    Volume(String),
}

impl Former {
    /// For people.
    fn name(&self) -> &str {
        match self {
            Self::Path(name) | Self::Volume(name) => name,
        }
    }
}

/// Where the data of a container's mounts was, by their targets. A volume is named by its key (also one that left the
/// declaration) or by its name at the engine.
pub(crate) async fn formers(
    reader: &impl Inspect,
    module: &str,
    volumes: &BTreeMap<String, String>,
    resolved: &ContainerSpec,
) -> Result<BTreeMap<String, Former>, ApplyError> {
    let mut formers = BTreeMap::new();
    for mount in &resolved.mounts {
        let Some(former) = &mount.moved_from else { continue };
        let former = if former.starts_with('/') {
            Former::Path(clean_path(former))
        } else if let Some(name) = volumes.get(former) {
            Former::Volume(name.clone())
        } else {
            let of_the_module = format!("{module}_{former}");
            let is_there = reader.volume(&of_the_module).await?.is_some();
            Former::Volume(if is_there { of_the_module } else { former.clone() })
        };
        formers.insert(clean_path(mount.target()), former);
    }
    Ok(formers)
}

/// Data that is moved before a container is put on it.
#[derive(Debug, Clone)]
pub struct PlannedMove {
    /// The mount's target.
    pub target: String,
    /// Where the data shall be, on the host. Of a volume that does not exist yet: where the engine will make it.
    pub to: String,
    /// For people: where it is, and where it goes.
    pub names: (String, String),
    /// The volume that it goes to, if that is one.
    pub volume: Option<String>,
    /// What it takes, as the plan saw it.
    pub data: Move,
}

/// Looks at a place again. The tree below it may be large.
pub(crate) async fn survey_again(files: &HostFiles, planned: &PlannedMove) -> Result<Move, MoveError> {
    let (from, to) = (planned.data.from.clone(), planned.to.clone());
    let (root, keep_place) = (files.root().to_owned(), planned.data.keep_place);
    blocking(move || survey(&root, &from, &to, keep_place)).await
}

/// Trees are as deep as people make them: more than as many levels as there may be open files. Only what is used of it is
/// taken.
const STACK: usize = 256 << 20;

/// Runs what waits for a file system, and goes down its trees.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, MoveError> + Send + 'static,
) -> Result<T, MoveError> {
    let (send, done) = tokio::sync::oneshot::channel();
    let run = move || drop(send.send(std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))));
    let thread = std::thread::Builder::new().name("moving".to_owned()).stack_size(STACK).spawn(run);
    if thread.is_err() {
        return Err(MoveError::NoThread);
    }
    match done.await {
        Ok(Ok(done)) => done,
        Ok(Err(fault)) => std::panic::resume_unwind(fault),
        Err(_) => Err(MoveError::NoThread),
    }
}

impl Looker<'_> {
    /// Where the data of a mount shall be: the host path, the name for people, and the volume.
    fn destination(
        &self,
        kind: &str,
        source: &str,
        path: Option<&str>,
    ) -> Result<(String, Option<String>), String> {
        match (kind, path) {
            (_, Some(path)) => Ok((path.to_owned(), (kind == "volume").then(|| source.to_owned()))),
            // The engine will make it here.
            ("volume", None) if self.is_new_plain_volume(source) => {
                Ok((format!("{}/volumes/{source}", self.engine_root), Some(source.to_owned())))
            }
            _ => Err(format!("where {source} is on the host is not to be seen")),
        }
    }

    /// Judges a mount that says where its data was. `None`: there is nothing to be moved.
    pub(super) async fn move_to(
        &self,
        former: &Former,
        mount: (&str, &str, Option<&str>),
        settled: &[Move],
        before: &Before,
        judged: &mut MountVerdict,
    ) -> Result<Option<PlannedMove>, ApplyError> {
        if matches!(judged.verdict(), DataGuardVerdict::Same | DataGuardVerdict::Moved) {
            return Ok(None);
        }
        let planned = match self.plan_move(former, mount, &judged.target).await? {
            Ok(planned) => planned,
            // The data was moved long ago, or there never was any.
            Err(MoveProblem::NothingThere) => return Ok(None),
            // What it left there is the original of data that it moved.
            Err(MoveProblem::BothHoldData { from, .. })
                if settled.iter().any(|one| one.from == from && Some(one.to.as_str()) == mount.2) =>
            {
                return Ok(None);
            }
            Err(MoveProblem::BothHoldData { why, .. }) => {
                if judged.verdict() == DataGuardVerdict::FirstUse {
                    judged.set_verdict(DataGuardVerdict::Different);
                }
                not_to_be_moved(judged, &why);
                return Ok(None);
            }
            Err(MoveProblem::Other(why)) => {
                not_to_be_moved(judged, &why);
                return Ok(None);
            }
        };
        if let Err(why) = is_the_containers(before, &planned) {
            not_to_be_moved(judged, &why);
            return Ok(None);
        }
        to_be_moved(judged, on_wire(&planned));
        Ok(Some(planned))
    }

    async fn plan_move(
        &self,
        former: &Former,
        (kind, source, path): (&str, &str, Option<&str>),
        target: &str,
    ) -> Result<Result<PlannedMove, MoveProblem>, ApplyError> {
        if let Some(why) = &self.hidden {
            return Ok(Err(MoveProblem::Other(why.clone())));
        }
        let (from, keep_place) = match former {
            Former::Path(path) => (path.clone(), false),
            Former::Volume(name) => match self.reader.volume(name).await? {
                None => return Ok(Err(MoveProblem::NothingThere)),
                Some(found) => match plain_path(&found) {
                    Some(path) => (path, true),
                    None => {
                        let why = format!(
                            "what volume {name} holds is its driver's, and not to be seen on the host"
                        );
                        return Ok(Err(MoveProblem::Other(why)));
                    }
                },
            },
        };
        let (to, volume) = match self.destination(kind, source, path) {
            Ok(found) => found,
            Err(why) => return Ok(Err(MoveProblem::Other(why))),
        };
        let (root, place) = (self.files.root().to_owned(), to.clone());
        let surveyed = blocking(move || survey(&root, &from, &place, keep_place)).await;
        Ok(surveyed.map_err(MoveProblem::from).map(|data| PlannedMove {
            target: target.to_owned(),
            to,
            names: (former.name().to_owned(), source.to_owned()),
            volume,
            data,
        }))
    }
}

/// Why nothing is moved.
enum MoveProblem {
    NothingThere,
    BothHoldData { from: String, why: String },
    Other(String),
}

impl From<MoveError> for MoveProblem {
    fn from(error: MoveError) -> Self {
        match &error {
            MoveError::NothingThere { .. } => Self::NothingThere,
            MoveError::BothHoldData { from, .. } => {
                Self::BothHoldData { from: from.clone(), why: error.to_string() }
            }
            _ => Self::Other(error.to_string()),
        }
    }
}

/// Only what the container has is moved for it.
fn is_the_containers(before: &Before, planned: &PlannedMove) -> Result<(), String> {
    let from = &planned.names.0;
    match before {
        Before::NoContainer | Before::Bare => Ok(()),
        Before::OwnData => Err("the container keeps files of its own at the target".to_owned()),
        Before::Mounted { place: Place::Found { file, .. }, .. } if is_same(*file, &planned.data) => Ok(()),
        Before::Mounted { source, place: Place::Found { .. }, .. } => {
            Err(format!("the container has {source}, and that is not what is at {from}"))
        }
        Before::Mounted { source, .. } => Err(format!(
            "the container has {source}, and whether that is what is at {from} is not to be seen"
        )),
    }
}

fn is_same(file: FileIdentity, data: &Move) -> bool {
    (file.device, file.inode) == (data.file.device, data.file.inode)
}

fn on_wire(planned: &PlannedMove) -> DataMove {
    let way = match planned.data.way {
        Way::Rename => MoveWay::Rename,
        Way::Copy => MoveWay::Copy,
    };
    DataMove {
        from: planned.names.0.clone(),
        to: planned.names.1.clone(),
        way: way.into(),
        bytes: planned.data.bytes,
        entries: planned.data.entries,
    }
}

/// Where a volume of the engine's own is, that is nothing but a directory.
fn plain_path(found: &Json) -> Option<String> {
    let path = found["Mountpoint"].as_str().filter(|path| path.starts_with('/'))?;
    is_plain(&found["Driver"], &found["Options"]).then(|| path.to_owned())
}
