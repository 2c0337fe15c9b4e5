//! The decision: from what differs and what is allowed to what is done with every object of a module.
//!
//! Pure. The agent gathers [`Facts`] for every network, volume and container, in the order in which they are applied;
//! [`decide`] says what happens to each. If one would be refused, nothing of the module is touched.

use std::collections::BTreeSet;

use crate::catalogue::ApiVersion;
use crate::diff::LeafChange;
use crate::proto::v1::{Action, Consequence, ObjectKind, Outcome, RefusalReason};
use crate::update_lock::UpdateLock;

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
    pub removes_itself: bool,
    /// The image is not on the host, and the pull policy forbids to fetch it.
    pub image_missing: bool,
    /// Keys of the module's containers after whose recreation it must be recreated, too.
    pub bound_to: BTreeSet<String>,
    /// The container holds its update lock.
    pub update_lock: Option<UpdateLock>,
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
            RefusalReason::Unspecified => String::new(),
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
            RefusalReason::WouldLoseData => format!(
                "the {} {name} differs from its declaration and is never recreated: undo the edit, or declare one under a new key",
                noun(self.facts.kind)
            ),
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
            RefusalReason::DataGuard => {
                "what stands behind a mount is not what the running container has".to_owned()
            }
            RefusalReason::StalePlan => "the plan no longer holds: plan again".to_owned(),
            RefusalReason::UpdateLocked => {
                self.facts.update_lock.as_ref().map(|lock| lock.refusal(name)).unwrap_or_default()
            }
            RefusalReason::InUse => format!("another container uses the {} {name}", noun(self.facts.kind)),
        }
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
pub fn decide(objects: Vec<Facts>, recreate: bool) -> Vec<Decision> {
    let mut decisions: Vec<Decision> = Vec::with_capacity(objects.len());
    let mut replaced: BTreeSet<String> = BTreeSet::new();
    for facts in objects {
        let follows = facts.bound_to.iter().any(|key| replaced.contains(key));
        let (action, reason) = decide_one(&facts, recreate, follows);
        let by_recreation = action == Action::Recreated || reason == RefusalReason::NeedsRecreation;
        if facts.kind == ObjectKind::Container && (by_recreation || action == Action::Created) {
            replaced.insert(facts.key.clone());
        }
        decisions.push(Decision { facts, action, reason });
    }
    if decisions.iter().any(|decision| decision.action == Action::Refused) {
        for decision in &mut decisions {
            if !matches!(decision.action, Action::Refused | Action::Unchanged) {
                decision.action = Action::Refused;
                decision.reason = RefusalReason::Module;
            }
        }
    }
    decisions
}

fn decide_one(facts: &Facts, recreate: bool, follows: bool) -> (Action, RefusalReason) {
    let refused = |reason| (Action::Refused, reason);
    let done = |action| (action, RefusalReason::Unspecified);
    let has = |consequence| facts.changes.iter().any(|change| change.consequence == consequence);
    match facts.standing {
        Standing::ExternalMissing => refused(RefusalReason::Missing),
        Standing::External => done(Action::Unchanged),
        Standing::Foreign => refused(RefusalReason::NotOurs),
        Standing::LeftOver if !recreate => refused(RefusalReason::NeedsRemoval),
        Standing::LeftOver if facts.update_lock.is_some() => refused(RefusalReason::UpdateLocked),
        Standing::LeftOver => done(Action::Removed),
        Standing::Absent | Standing::Ours if has(Consequence::Unsupported) => {
            refused(RefusalReason::Unsupported)
        }
        Standing::Absent if facts.image_missing => refused(RefusalReason::Missing),
        Standing::Absent => done(Action::Created),
        Standing::Ours if facts.kind != ObjectKind::Container => {
            if facts.changes.is_empty() {
                done(Action::Unchanged)
            } else {
                refused(RefusalReason::WouldLoseData)
            }
        }
        Standing::Ours if has(Consequence::Recreate) || follows => {
            if facts.removes_itself {
                refused(RefusalReason::AutoRemove)
            } else if !recreate {
                refused(RefusalReason::NeedsRecreation)
            } else if facts.image_missing {
                refused(RefusalReason::Missing)
            } else if facts.update_lock.is_some() {
                refused(RefusalReason::UpdateLocked)
            } else {
                done(Action::Recreated)
            }
        }
        Standing::Ours if !facts.changes.is_empty() => done(Action::Updated),
        Standing::Ours if facts.down => done(Action::Started),
        Standing::Ours => done(Action::Unchanged),
    }
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
mod tests {
    use super::*;
    use crate::catalogue::{Path, container_descriptor, rule};
    use crate::proto::v1::Cause;

    fn change(consequence: Consequence) -> LeafChange {
        let field = container_descriptor().get_field_by_name("dns").expect("a field");
        let path = Path::default().field("containers").key("a").field("dns");
        LeafChange {
            path,
            rule: rule(&field),
            before: None,
            after: None,
            consequence,
            needs_api: String::new(),
            cause: Cause::Declared,
        }
    }

    fn facts(key: &str, standing: Standing, changes: &[Consequence]) -> Facts {
        Facts {
            kind: ObjectKind::Container,
            key: key.to_owned(),
            engine_name: format!("m-{key}"),
            engine_id: String::new(),
            standing,
            changes: changes.iter().map(|consequence| change(*consequence)).collect(),
            ignored: 0,
            down: false,
            removes_itself: false,
            image_missing: false,
            bound_to: BTreeSet::new(),
            update_lock: None,
            api: ApiVersion::OLDEST,
        }
    }

    fn actions(decisions: &[Decision]) -> Vec<(Action, RefusalReason)> {
        decisions.iter().map(|decision| (decision.action, decision.reason)).collect()
    }

    #[test]
    fn each_standing_leads_to_its_action() {
        use Consequence::{InPlace, Recreate, Unsupported};
        let none = RefusalReason::Unspecified;
        for (standing, changes, recreate, action, reason) in [
            (Standing::Absent, &[InPlace][..], false, Action::Created, none),
            (Standing::Absent, &[Unsupported][..], true, Action::Refused, RefusalReason::Unsupported),
            (Standing::Ours, &[][..], false, Action::Unchanged, none),
            (Standing::Ours, &[InPlace][..], false, Action::Updated, none),
            (
                Standing::Ours,
                &[InPlace, Recreate][..],
                false,
                Action::Refused,
                RefusalReason::NeedsRecreation,
            ),
            (Standing::Ours, &[InPlace, Recreate][..], true, Action::Recreated, none),
            (Standing::Foreign, &[][..], true, Action::Refused, RefusalReason::NotOurs),
            (Standing::LeftOver, &[][..], false, Action::Refused, RefusalReason::NeedsRemoval),
            (Standing::LeftOver, &[][..], true, Action::Removed, none),
            (Standing::ExternalMissing, &[][..], true, Action::Refused, RefusalReason::Missing),
        ] {
            let decisions = decide(vec![facts("a", standing, changes)], recreate);
            assert_eq!(actions(&decisions), [(action, reason)], "{standing:?} {changes:?} {recreate}");
        }
    }

    #[test]
    fn a_field_that_the_engine_cannot_hold_is_named_with_both_versions() {
        let mut container = facts("a", Standing::Absent, &[Consequence::Recreate, Consequence::Unsupported]);
        container.changes[1].needs_api = "1.45".to_owned();
        let detail = decide(vec![container], true)[0].detail();
        assert!(
            detail.starts_with(
                "this engine speaks API 1.41 and cannot hold containers.a.dns (needs API 1.45):"
            )
        );
    }

    #[test]
    fn one_refusal_refuses_the_module() {
        let objects = vec![
            facts("a", Standing::Absent, &[]),
            facts("b", Standing::Ours, &[Consequence::Recreate]),
            facts("c", Standing::Ours, &[]),
        ];
        assert_eq!(
            actions(&decide(objects, false)),
            [
                (Action::Refused, RefusalReason::Module),
                (Action::Refused, RefusalReason::NeedsRecreation),
                (Action::Unchanged, RefusalReason::Unspecified),
            ]
        );
    }

    #[test]
    fn who_lives_in_a_recreated_namespace_is_recreated_after_it() {
        let mut guest = facts("b", Standing::Ours, &[]);
        guest.bound_to = BTreeSet::from(["a".to_owned()]);
        let host = facts("a", Standing::Ours, &[Consequence::Recreate]);
        let allowed = decide(vec![host.clone(), guest.clone()], true);
        assert_eq!(allowed[1].action, Action::Recreated);
        let refused = decide(vec![host, guest], false);
        assert_eq!(refused[1].reason, RefusalReason::NeedsRecreation);
    }

    #[test]
    fn who_holds_its_update_lock_is_neither_recreated_nor_removed_but_changed_in_place() {
        use Consequence::{InPlace, Recreate};
        for (standing, changes, recreate, action, reason) in [
            (Standing::Ours, &[Recreate][..], true, Action::Refused, RefusalReason::UpdateLocked),
            (Standing::Ours, &[Recreate][..], false, Action::Refused, RefusalReason::NeedsRecreation),
            (Standing::LeftOver, &[][..], true, Action::Refused, RefusalReason::UpdateLocked),
            (Standing::Ours, &[InPlace][..], true, Action::Updated, RefusalReason::Unspecified),
            (Standing::Ours, &[][..], true, Action::Unchanged, RefusalReason::Unspecified),
        ] {
            let mut container = facts("a", standing, changes);
            container.update_lock = Some(UpdateLock { path: "/run/lock".to_owned(), seen: true });
            let decisions = decide(vec![container], recreate);
            assert_eq!(actions(&decisions), [(action, reason)], "{standing:?} {changes:?} {recreate}");
            if reason == RefusalReason::UpdateLocked {
                let detail = decisions[0].detail();
                assert!(detail.contains("m-a") && detail.contains("/run/lock"), "{detail}");
            }
        }
    }

    #[test]
    fn a_container_that_removes_itself_is_never_recreated() {
        let mut container = facts("a", Standing::Ours, &[Consequence::Recreate]);
        container.removes_itself = true;
        assert_eq!(decide(vec![container], true)[0].reason, RefusalReason::AutoRemove);
    }
}
