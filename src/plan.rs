//! The decision: from what differs and what is allowed to what is done with every object of a module.
//!
//! Pure. The agent gathers [`Facts`] for every network, volume and container, in the order in which they are applied;
//! [`decide`] says what happens to each. If one would be refused, nothing of the module is touched.

use std::collections::BTreeSet;

use crate::catalogue::ApiVersion;
use crate::diff::LeafChange;
use crate::guard;
use crate::proto::v1::{
    Action, Consequence, DataGuardVerdict, MountVerdict, ObjectKind, Outcome, RefusalReason,
};
use crate::update_lock::UpdateLock;

pub use neighbours::Neighbours;

mod neighbours;

/// Whose an object is, as far as the engine and the agent's state tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It does not exist.
    Absent,
    /// It is this module's.
    Ours,
    /// It exists under the declared name and is somebody else's.
    Foreign,
    /// It is declared as external, and exists.
    External,
    /// It is declared as external, and does not exist.
    ExternalMissing,
    /// It is this module's, and the declaration no longer has it.
    LeftOver,
}

/// Whether the engine removes a container when it stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovesItself {
    /// It stays.
    No,
    /// It does, and it is not running: it was made and not started, or is paused. It can be started without a stop.
    Resting,
    /// It does, and runs: to be started again, it would be stopped first.
    Running,
}

/// What is known of one object.
#[derive(Debug, Clone)]
pub struct Facts {
    /// What it is.
    pub kind: ObjectKind,
    /// Its key in the module.
    pub key: String,
    /// Its name at the engine.
    pub engine_name: String,
    /// Its id at the engine; empty if it does not exist.
    pub engine_id: String,
    /// Whose it is.
    pub standing: Standing,
    /// What differs.
    pub changes: Vec<LeafChange>,
    /// How many changes the module says to ignore.
    pub ignored: u32,
    /// A container that should run and does not.
    pub down: bool,
    /// A container that the engine removes when it stops.
    pub removes_itself: RemovesItself,
    /// The image is not on the host, and the pull policy forbids to fetch it.
    pub image_missing: bool,
    /// Keys of the module's containers after whose recreation it must be recreated, too.
    pub bound_to: BTreeSet<String>,
    /// Keys of the module's containers in whose namespaces it lives: when they are started, it must be, too.
    pub lives_with: BTreeSet<String>,
    /// Keys of the module's networks that a container is on, or shall be: when one is made anew, so is the container.
    pub networks: BTreeSet<String>,
    /// What else on the host holds on to it.
    pub neighbours: Neighbours,
    /// The container holds its update lock.
    pub update_lock: Option<UpdateLock>,
    /// What stands behind its mounts, if it would be created or recreated ([`are_made`]).
    pub mounts: Vec<MountVerdict>,
    /// The engine's API version.
    pub api: ApiVersion,
}

/// What is done with one object.
#[derive(Debug, Clone)]
pub struct Decision {
    /// What is known of it.
    pub facts: Facts,
    /// What is done.
    pub action: Action,
    /// If refused, why.
    pub reason: RefusalReason,
}

impl Decision {
    /// The outcome that the action amounts to.
    pub fn outcome(&self) -> Outcome {
        outcome(self.action)
    }

    /// If refused, why and what to do, in a sentence.
    pub fn detail(&self) -> String {
        let name = &self.facts.engine_name;
        match self.reason {
            RefusalReason::Unspecified => self.remark(),
            RefusalReason::NeedsRecreation if self.facts.kind == ObjectKind::Network => {
                "the change needs a new network, and new containers on it; allow it with --recreate"
                    .to_owned()
            }
            RefusalReason::NeedsRecreation => {
                "the change needs a new container; allow it with --recreate".to_owned()
            }
            RefusalReason::Unsupported => self.unsupported(),
            RefusalReason::NotOurs => match self.facts.kind {
                ObjectKind::Container => format!(
                    "a container named {name} exists and is not this module's: adopt it with `plumb take`, or rename one of them"
                ),
                kind => format!(
                    "a {} named {name} exists and is not this module's: declare it with `external: true`, or rename one of them",
                    noun(kind)
                ),
            },
            RefusalReason::Module => "another part of the module was refused; nothing was touched".to_owned(),
            RefusalReason::NeedsRemoval => {
                format!("{name} left the declaration and would be removed; allow it with --recreate")
            }
            RefusalReason::WouldLoseData => self.facts.neighbours.loss(name),
            RefusalReason::Missing if self.facts.image_missing => {
                "its image is not on the host, and pull_policy is never: load the image, or let it be pulled"
                    .to_owned()
            }
            RefusalReason::Missing => {
                format!(
                    "the external {} {name} does not exist: create it, or take `external` out",
                    noun(self.facts.kind)
                )
            }
            RefusalReason::AutoRemove => format!(
                "the engine removes {name} as soon as it stops, so there would be no way back: remove it by hand, then apply"
            ),
            RefusalReason::DataGuard => self.bad_mounts(),
            RefusalReason::StalePlan => "the plan no longer holds: plan again".to_owned(),
            RefusalReason::UpdateLocked => {
                self.facts.update_lock.as_ref().map(|lock| lock.refusal(name)).unwrap_or_default()
            }
            RefusalReason::InUse => self.facts.neighbours.refusal(self.facts.kind, name),
        }
    }

    /// What is to be known of an object that is not refused.
    fn remark(&self) -> String {
        let Facts { kind, standing, engine_name, neighbours, .. } = &self.facts;
        match (self.action, standing, kind) {
            (Action::Unchanged, Standing::LeftOver, ObjectKind::Volume) => {
                neighbours.kept_volume(engine_name)
            }
            (Action::Unchanged, Standing::LeftOver, ObjectKind::Network) => neighbours.kept_network(),
            (Action::Recreated | Action::Removed, _, _) => neighbours.to_be_known.join("; "),
            _ => String::new(),
        }
    }

    /// The mounts that are refused, with what it takes to accept them.
    fn bad_mounts(&self) -> String {
        let refused = self.facts.mounts.iter().filter(|mount| mount.refused);
        let (mut found, mut options) = (Vec::new(), Vec::new());
        for mount in refused {
            found.push(format!("{} ({})", mount.target, guard::word(mount.verdict())));
            let is_there = match mount.verdict() {
                DataGuardVerdict::ToBeMoved => false,
                // Nothing can be mounted.
                DataGuardVerdict::Missing => !mount.source_before.is_empty(),
                _ => true,
            };
            if is_there {
                options.push(format!("--accept-data {}", guard::acceptance(mount)));
            }
        }
        if options.is_empty() {
            return format!(
                "these mounts cannot be made: {}; they say why, and what to do",
                found.join(", ")
            );
        }
        format!(
            "behind these mounts does not stand what the container has: {}; mend them, or if it is meant: {}",
            found.join(", "),
            options.join(" ")
        )
    }

    /// What this engine cannot hold, since which API version engines can, and which one this engine speaks.
    fn unsupported(&self) -> String {
        let unsupported =
            self.facts.changes.iter().filter(|change| change.consequence == Consequence::Unsupported);
        let needs: Vec<String> =
            unsupported.map(|change| format!("{} (needs API {})", change.path, change.needs_api)).collect();
        format!(
            "this engine speaks API {} and cannot hold {}: use an engine that can, or take it out of the declaration",
            self.facts.api,
            needs.join(", ")
        )
    }
}

fn noun(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Network => "network",
        ObjectKind::Volume => "volume",
        ObjectKind::Container | ObjectKind::Unspecified => "container",
    }
}

/// What is done with every object, in the order given. `recreate`: containers may be recreated, and removed if they
/// left the declaration.
pub fn decide(mut objects: Vec<Facts>, recreate: bool) -> Vec<Decision> {
    take_down_guests(&mut objects);
    let chosen = decide_each(&objects, recreate);
    let is_refused = chosen.iter().any(|(action, _)| *action == Action::Refused);
    let of_the_module = |(action, reason)| match action {
        Action::Refused | Action::Unchanged => (action, reason),
        _ if is_refused => (Action::Refused, RefusalReason::Module),
        _ => (action, reason),
    };
    let decided = objects.into_iter().zip(chosen.into_iter().map(of_the_module));
    decided.map(|(facts, (action, reason))| Decision { facts, action, reason }).collect()
}

/// Who lives in a namespace of a container that will be started has none until it is started again itself.
fn take_down_guests(objects: &mut [Facts]) {
    let mut down: BTreeSet<String> = BTreeSet::new();
    for facts in objects.iter_mut().filter(|facts| facts.standing == Standing::Ours) {
        facts.down |= facts.lives_with.iter().any(|key| down.contains(key));
        if facts.down {
            down.insert(facts.key.clone());
        }
    }
}

/// Which of the objects are containers that are created, or recreated once that is allowed: those that will be put on
/// mounts.
pub fn are_made(objects: &[Facts]) -> Vec<bool> {
    let is_made = |(facts, (action, _)): (&Facts, (Action, RefusalReason))| {
        facts.kind == ObjectKind::Container && matches!(action, Action::Created | Action::Recreated)
    };
    objects.iter().zip(decide_each(objects, true)).map(is_made).collect()
}

/// Which of the objects would be replaced or taken away once that is allowed: who else holds on to them matters.
pub fn are_replaced(objects: &[Facts]) -> Vec<bool> {
    let decided = decide_each(objects, true).into_iter();
    decided.map(|(action, _)| matches!(action, Action::Recreated | Action::Removed)).collect()
}

/// What would be done with every object if it did not depend on the others of the module being possible, too.
fn decide_each(objects: &[Facts], recreate: bool) -> Vec<(Action, RefusalReason)> {
    let mut decided = Vec::with_capacity(objects.len());
    let (mut replaced, mut networks) = (BTreeSet::<&str>::new(), BTreeSet::<&str>::new());
    for facts in objects {
        let follows = facts.bound_to.iter().any(|key| replaced.contains(key.as_str()))
            || facts.networks.iter().any(|key| networks.contains(key.as_str()));
        let (mut action, mut reason) = decide_one(facts, recreate, follows);
        let is_made = matches!(action, Action::Created | Action::Recreated);
        let is_replaced = action == Action::Recreated || reason == RefusalReason::NeedsRecreation;
        match facts.kind {
            // Nothing is on a network yet that there was not.
            ObjectKind::Network if is_replaced => drop(networks.insert(&facts.key)),
            ObjectKind::Container if is_made || is_replaced => drop(replaced.insert(&facts.key)),
            _ => {}
        }
        if is_made && facts.mounts.iter().any(|mount| mount.refused) {
            (action, reason) = (Action::Refused, RefusalReason::DataGuard);
        }
        decided.push((action, reason));
    }
    decided
}

fn decide_one(facts: &Facts, recreate: bool, follows: bool) -> (Action, RefusalReason) {
    let refused = |reason| (Action::Refused, reason);
    let done = |action| (action, RefusalReason::Unspecified);
    let has = |consequence| facts.changes.iter().any(|change| change.consequence == consequence);
    match facts.standing {
        Standing::ExternalMissing => refused(RefusalReason::Missing),
        Standing::External => done(Action::Unchanged),
        Standing::Foreign => refused(RefusalReason::NotOurs),
        Standing::LeftOver => left_over(facts, recreate),
        Standing::Absent | Standing::Ours if has(Consequence::Unsupported) => {
            refused(RefusalReason::Unsupported)
        }
        Standing::Absent if facts.image_missing => refused(RefusalReason::Missing),
        Standing::Absent => done(Action::Created),
        Standing::Ours if facts.kind != ObjectKind::Container => changed(facts, recreate),
        Standing::Ours if has(Consequence::Recreate) || follows => replaced(facts, recreate),
        // Out of a namespace that ended it comes only by a stop, and would be gone.
        Standing::Ours if facts.down && facts.removes_itself == RemovesItself::Running => {
            refused(RefusalReason::AutoRemove)
        }
        Standing::Ours if !facts.changes.is_empty() => done(Action::Updated),
        Standing::Ours if facts.down => done(Action::Started),
        Standing::Ours => done(Action::Unchanged),
    }
}

/// A container that has to be made anew.
fn replaced(facts: &Facts, recreate: bool) -> (Action, RefusalReason) {
    let reason = if facts.removes_itself != RemovesItself::No {
        RefusalReason::AutoRemove
    } else if !recreate {
        RefusalReason::NeedsRecreation
    } else if facts.image_missing {
        RefusalReason::Missing
    } else if facts.update_lock.is_some() {
        RefusalReason::UpdateLocked
    } else if !facts.neighbours.in_the_way.is_empty() {
        RefusalReason::InUse
    } else {
        return (Action::Recreated, RefusalReason::Unspecified);
    };
    (Action::Refused, reason)
}

/// A network or volume of the module. A network holds nothing and can be made anew; a volume never is.
fn changed(facts: &Facts, recreate: bool) -> (Action, RefusalReason) {
    let reason = if facts.changes.is_empty() {
        return (Action::Unchanged, RefusalReason::Unspecified);
    } else if facts.kind == ObjectKind::Volume {
        RefusalReason::WouldLoseData
    } else if !recreate {
        RefusalReason::NeedsRecreation
    } else if !facts.neighbours.in_the_way.is_empty() {
        RefusalReason::InUse
    } else {
        return (Action::Recreated, RefusalReason::Unspecified);
    };
    (Action::Refused, reason)
}

/// What the declaration has no longer. Networks and volumes that stay are no reason to refuse: they do no harm, and a module
/// that is as declared has to stay so.
fn left_over(facts: &Facts, recreate: bool) -> (Action, RefusalReason) {
    let is_used = !facts.neighbours.in_the_way.is_empty();
    let reason = match facts.kind {
        ObjectKind::Volume => return (Action::Unchanged, RefusalReason::Unspecified),
        ObjectKind::Network if is_used || !recreate => {
            return (Action::Unchanged, RefusalReason::Unspecified);
        }
        ObjectKind::Network => return (Action::Removed, RefusalReason::Unspecified),
        ObjectKind::Container | ObjectKind::Unspecified if !recreate => RefusalReason::NeedsRemoval,
        _ if facts.update_lock.is_some() => RefusalReason::UpdateLocked,
        _ if is_used => RefusalReason::InUse,
        _ => return (Action::Removed, RefusalReason::Unspecified),
    };
    (Action::Refused, reason)
}

/// The outcome that an action amounts to.
pub fn outcome(action: Action) -> Outcome {
    match action {
        Action::Unspecified => Outcome::Unspecified,
        Action::Unchanged | Action::Created | Action::Updated | Action::Removed | Action::Started => {
            Outcome::Applied
        }
        Action::Recreated => Outcome::Recreated,
        Action::Refused => Outcome::RefusedNeedsRecreation,
    }
}

/// The gravest of some actions: refused, recreated, removed, created, updated, started, unchanged.
pub fn gravest(actions: impl Iterator<Item = Action>) -> Action {
    let weight = |action: &Action| match action {
        Action::Unspecified => 0,
        Action::Unchanged => 1,
        Action::Started => 2,
        Action::Updated => 3,
        Action::Created => 4,
        Action::Removed => 5,
        Action::Recreated => 6,
        Action::Refused => 7,
    };
    actions.max_by_key(weight).unwrap_or(Action::Unchanged)
}

#[cfg(test)]
mod tests;
