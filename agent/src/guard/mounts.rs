//! Which mounts of a container are judged, and what is found behind each, before and after.

use std::collections::{BTreeMap, BTreeSet};

use plumbline::guard::{After, Before, Holds, Mounting, Place, judge};
use plumbline::proto::v1::{
    BindOptions, ContainerSpec, DataGuardVerdict, Mount, MountVerdict, VolumeOptions,
};
use serde_json::Value as Json;

use super::files::Seen;
use super::users::bound_path;
use super::{HostFiles, PlannedMove, Watched};
use crate::apply::{ApplyError, ContainerObject, Host};
use crate::container::{Mounted, Observed, is_generated_name};
use crate::engine::EngineReader;

/// What was found behind the mounts of one container.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guarded {
    pub(crate) verdicts: Vec<MountVerdict>,
    pub(crate) watched: Vec<Watched>,
    /// The data that is moved for it.
    pub(crate) moves: Vec<PlannedMove>,
    /// The host paths of all that shall be mounted, as far as they are known.
    pub(crate) paths: Vec<String>,
}

/// Looks at the mounts of the containers of one module.
pub(crate) struct Looker<'a> {
    pub(super) reader: &'a EngineReader,
    pub(super) files: &'a HostFiles,
    /// Where the engine keeps its files.
    pub(super) engine_root: &'a str,
    /// Why the host's files are not to be seen.
    pub(super) hidden: Option<String>,
    /// The bodies that will create the module's volumes that do not exist yet, by name.
    new_volumes: BTreeMap<String, Json>,
}

/// The mount as it shall be.
struct Desired {
    target: String,
    /// bind or volume.
    kind: String,
    after: After,
    /// Where it is on the host, if that is known.
    path: Option<String>,
    watched: Option<Watched>,
}

impl Desired {
    /// bind or volume, the source as declared, and the host path.
    fn place(&self) -> (&str, &str, Option<&str>) {
        let source = match &self.after {
            After::Mounted { source, .. } => source.as_str(),
            After::SameVolume | After::NotMounted { .. } => "",
        };
        (&self.kind, source, self.path.as_deref())
    }
}

impl<'a> Looker<'a> {
    pub(crate) async fn new(
        reader: &'a EngineReader,
        host: &'a Host,
        new_volumes: BTreeMap<String, Json>,
    ) -> Self {
        let hidden = host.files.is_not_the_host(&host.engine_root).await;
        Self { reader, files: &host.files, engine_root: &host.engine_root, hidden, new_volumes }
    }

    /// Looks at all mounts of a container that is to be made.
    pub(crate) async fn look(&self, key: &str, object: &ContainerObject) -> Result<Guarded, ApplyError> {
        let observed = object.observed.as_ref();
        let spec: ContainerSpec = object.desired.transcode_to().unwrap_or_default();
        let had: ContainerSpec =
            observed.and_then(|observed| observed.spec.transcode_to().ok()).unwrap_or_default();
        let mut guarded = Guarded::default();
        let mut all = Vec::new();
        for mount in &spec.mounts {
            if !matches!(mount.r#type(), "bind" | "volume") {
                continue;
            }
            let own = self.after(mount, observed).await?;
            let before = match (observed, &object.remembered) {
                (None, Some(known)) => self.remembered(&own, known).await?,
                _ => self.before(&own, observed).await?,
            };
            all.push((own, before));
        }
        for (own, before) in &all {
            let after = match (&own.after, before) {
                // It is the same by its name; that it can be seen may tell more, and only where both can.
                (After::Mounted { place, .. }, Before::Mounted { place: old, .. })
                    if is_same_volume(&own.target, &spec, observed, &had)
                        && *place != Place::Missing
                        && !matches!((place, old), (Place::Found { .. }, Place::Found { .. })) =>
                {
                    After::SameVolume
                }
                (after, _) => after.clone(),
            };
            let mounting = Mounting { target: own.target.clone(), before: before.clone(), after };
            let Some(mut verdict) = judge(key, &mounting) else { continue };
            let former = object.moved_from.get(&own.target);
            let planned = match former {
                Some(former) => {
                    self.move_to(former, own.place(), &object.settled, before, &mut verdict).await?
                }
                None => None,
            };
            let is_moved = planned.is_some();
            guarded.moves.extend(planned);
            guarded.paths.extend(own.path.clone());
            let is_in_use = matches!(verdict.verdict(), DataGuardVerdict::Same | DataGuardVerdict::Moved);
            let watched = own.watched.clone();
            guarded.watched.extend(watched.map(|watched| Watched {
                is_in_use: watched.is_in_use || is_in_use,
                is_moved,
                ..watched
            }));
            guarded.verdicts.push(verdict);
        }
        if let Some(observed) = observed {
            let desired: Vec<&Desired> = all.iter().map(|(own, _)| own).collect();
            guarded.verdicts.extend(self.removed(key, observed, &had, &desired).await);
        }
        Ok(guarded)
    }

    /// What a declared mount will show.
    async fn after(&self, mount: &Mount, observed: Option<&Observed>) -> Result<Desired, ApplyError> {
        let target = mount.target().to_owned();
        let mut source = mount.source().to_owned();
        let is_bind = mount.r#type() == "bind";
        let (path, place) = if is_bind {
            (Some(source.clone()), self.on_host(&source).await)
        } else {
            if source.is_empty()
                && let Some(carried) = observed.and_then(|observed| observed.anonymous_volumes.get(&target))
            {
                source.clone_from(carried);
            }
            self.volume(&source, subpath(mount)).await?
        };
        let watched =
            path.clone().filter(|_| !matches!(place, Place::Unseen { .. } | Place::New)).map(|path| {
                Watched {
                    target: target.clone(),
                    path,
                    planned: place.clone(),
                    is_in_use: !is_bind,
                    is_moved: false,
                }
            });
        let is_made = mount.bind.as_ref().is_some_and(BindOptions::create_host_path);
        let place = if place == Place::Missing && is_made { Place::New } else { place };
        let kind = mount.r#type().to_owned();
        Ok(Desired { target, kind, after: After::Mounted { source, place }, path, watched })
    }

    /// It does not exist yet, and the engine will make it as a directory of its own.
    pub(super) fn is_new_plain_volume(&self, name: &str) -> bool {
        self.new_volumes.get(name).is_some_and(|create| is_plain(&create["Driver"], &create["DriverOpts"]))
    }

    async fn on_host(&self, path: &str) -> Place {
        match &self.hidden {
            Some(why) => Place::Unseen { why: why.clone(), exists: false },
            None => self.files.place(path).await,
        }
    }

    /// Where a volume is on the host, and what is there.
    async fn volume(&self, name: &str, subpath: &str) -> Result<(Option<String>, Place), ApplyError> {
        if name.is_empty() {
            return Ok((None, Place::New));
        }
        let found = self.reader.volume(name).await?;
        let created = self.new_volumes.get(name);
        let (driver, options) = match (&found, created) {
            (Some(found), _) => (&found["Driver"], &found["Options"]),
            (None, Some(create)) => (&create["Driver"], &create["DriverOpts"]),
            (None, None) => return Ok((None, Place::New)),
        };
        let is_plain = is_plain(driver, options);
        let driver = driver.as_str().unwrap_or("local");
        let bound = bound_path(options);
        let root = match (driver, &found) {
            ("local", _) if bound.is_some() => bound.unwrap_or_default(),
            ("local", None) if is_plain => return Ok((None, Place::New)),
            ("local", Some(found)) if is_plain => found["Mountpoint"].as_str().unwrap_or_default(),
            _ => {
                let why = format!("what volume {name} holds is its driver's, and not to be seen on the host");
                return Ok((None, Place::Unseen { why, exists: true }));
            }
        };
        let path = if subpath.is_empty() { root.to_owned() } else { format!("{root}/{subpath}") };
        let place = match self.on_host(&path).await {
            Place::Unseen { why, .. } => Place::Unseen { why, exists: true },
            place => place,
        };
        Ok((Some(path), place))
    }

    /// What a container had that somebody removed: it is to find its data again. Which directory that was at its path nothing
    /// tells; that it was another path, or a volume that is gone, does.
    async fn remembered(&self, own: &Desired, known: &ContainerSpec) -> Result<Before, ApplyError> {
        let is_it = |mount: &&Mount| mount.target() == own.target && !mount.source().is_empty();
        let Some(mount) = known.mounts.iter().find(is_it) else { return Ok(Before::NoContainer) };
        let source = mount.source().to_owned();
        let (kind, declared, path) = own.place();
        let place = match mount.r#type() {
            "bind" if kind == "bind" && declared == source => return Ok(Before::NoContainer),
            "bind" => self.on_host(&source).await,
            "volume" => match self.volume(&source, subpath(mount)).await? {
                (_, Place::New) => Place::Missing,
                (of_it, _) if kind == "volume" && declared == source && of_it.as_deref() == path => {
                    return Ok(Before::NoContainer);
                }
                (_, place) => place,
            },
            _ => return Ok(Before::NoContainer),
        };
        Ok(Before::Mounted { source, path_gone: place == Place::Missing, place, stale: false })
    }

    /// What the container has at this target now.
    async fn before(&self, own: &Desired, observed: Option<&Observed>) -> Result<Before, ApplyError> {
        let Some(observed) = observed else { return Ok(Before::NoContainer) };
        let target = own.target.as_str();
        if let Some(mounted) = observed.mounted.get(target) {
            return Ok(if mounted.keeps_data() {
                self.mounted(observed, target, mounted, "").await
            } else {
                Before::Bare
            });
        }
        if let Some((outer, mounted)) = enclosing(observed, target) {
            if !mounted.keeps_data() {
                return Ok(Before::Bare);
            }
            let before = self.mounted(observed, target, mounted, &target[outer.len()..]).await;
            return Ok(match before {
                Before::Mounted {
                    place: Place::Missing | Place::Found { holds: Holds::Nothing, .. },
                    ..
                } => Before::Bare,
                before => before,
            });
        }
        let is_file = match &own.path {
            Some(path) => self.files.is_file(path).await,
            None => false,
        };
        let changes = self.reader.changes(&observed.id).await?;
        Ok(if has_own_data(&changes, target, is_file, observed) { Before::OwnData } else { Before::Bare })
    }

    /// What the container sees at a target. `rest`: what the target has beyond the mount's own. One that does not run sees
    /// nothing: what it would see is at the path that inspect shows.
    async fn mounted(&self, observed: &Observed, target: &str, mounted: &Mounted, rest: &str) -> Before {
        let path = format!("{}{rest}", mounted.source);
        let on_host = if mounted.source.is_empty() {
            let why = format!("the engine shows no path of {}", mounted.name());
            Place::Unseen { why, exists: true }
        } else {
            self.on_host(&path).await
        };
        let seen = match &self.hidden {
            Some(why) => Seen::unseen(why.clone()),
            None if observed.pid != 0 => self.files.place_in(&observed.id, observed.pid, target).await,
            None => Seen::only(on_host.clone()),
        };
        Before::Mounted {
            source: format!("{}{rest}", mounted.name()),
            place: seen.place,
            path_gone: on_host == Place::Missing,
            stale: seen.is_unlinked,
        }
    }

    /// The container's own mounts that are not declared any more. What it has from another container is that one's.
    async fn removed(
        &self,
        key: &str,
        observed: &Observed,
        had: &ContainerSpec,
        desired: &[&Desired],
    ) -> Vec<MountVerdict> {
        let mut verdicts = Vec::new();
        let kept: BTreeSet<&str> = desired.iter().map(|own| own.target.as_str()).collect();
        for target in had.mounts.iter().map(Mount::target).filter(|target| !kept.contains(target)) {
            let Some(mounted) = observed.mounted.get(target).filter(|mounted| mounted.keeps_data()) else {
                continue;
            };
            let before = self.mounted(observed, target, mounted, "").await;
            let elsewhere = match &before {
                Before::Mounted { place, .. } => self.elsewhere(target, place, desired).await,
                _ => None,
            };
            let (target, after) = (target.to_owned(), After::NotMounted { elsewhere });
            verdicts.extend(judge(key, &Mounting { target, before, after }));
        }
        verdicts
    }

    /// The target at which a file that is no longer mounted at its own will be seen all the same.
    async fn elsewhere(&self, target: &str, place: &Place, desired: &[&Desired]) -> Option<String> {
        let Place::Found { file, .. } = place else { return None };
        let is_it = |place: &Place| matches!(place, Place::Found { file: other, .. } if other == file);
        for own in desired {
            if let After::Mounted { place, .. } = &own.after
                && is_it(place)
            {
                return Some(own.target.clone());
            }
            if let (Some(path), Some(rest)) = (&own.path, below(target, &own.target))
                && is_it(&self.on_host(&format!("{path}{rest}")).await)
            {
                return Some(target.to_owned());
            }
        }
        None
    }
}

/// A volume of the engine's own that is nothing but a directory.
pub(super) fn is_plain(driver: &Json, options: &Json) -> bool {
    driver.as_str().unwrap_or("local") == "local" && options.as_object().is_none_or(serde_json::Map::is_empty)
}

/// The declared volume is, by name and directory in it, the one that is mounted there now.
fn is_same_volume(
    target: &str,
    spec: &ContainerSpec,
    observed: Option<&Observed>,
    had: &ContainerSpec,
) -> bool {
    let at = |spec: &'_ ContainerSpec| {
        spec.mounts.iter().find(|mount| mount.target() == target && mount.r#type() == "volume").cloned()
    };
    let Some((new, mounted)) = at(spec).zip(observed.and_then(|observed| observed.mounted.get(target)))
    else {
        return false;
    };
    let old = at(had);
    let is_named = match new.source() {
        "" => is_generated_name(&mounted.volume),
        name => name == mounted.volume,
    };
    is_named && subpath(&new) == old.as_ref().map(subpath).unwrap_or_default()
}

fn subpath(mount: &Mount) -> &str {
    mount.volume.as_ref().map(VolumeOptions::subpath).unwrap_or_default()
}

/// What a path has beyond another that encloses it, as `/sub` of `/data/sub` in `/data`.
fn below<'a>(path: &'a str, outer: &str) -> Option<&'a str> {
    path.strip_prefix(outer.trim_end_matches('/')).filter(|rest| rest.starts_with('/'))
}

/// The innermost mount that encloses a target.
fn enclosing<'a>(observed: &'a Observed, target: &str) -> Option<(&'a String, &'a Mounted)> {
    let around = observed.mounted.iter().filter(|(outer, _)| below(target, outer).is_some());
    around.max_by_key(|(outer, _)| outer.len())
}

/// The container added or changed files of its image at or below the target. The directories that the engine makes for
/// mounts do not count.
fn has_own_data(changes: &Json, target: &str, is_file: bool, observed: &Observed) -> bool {
    const DELETED: u64 = 2;
    changes.as_array().into_iter().flatten().any(|change| {
        let path = change["Path"].as_str().unwrap_or_default();
        let is_for_a_mount =
            observed.mounted.keys().any(|mounted| mounted == path || below(mounted, path).is_some());
        let is_there = below(path, target).is_some() || (is_file && path == target);
        is_there && !is_for_a_mount && change["Kind"].as_u64() != Some(DELETED)
    })
}
