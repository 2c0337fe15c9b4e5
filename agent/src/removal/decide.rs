//! The decision: what goes, what stays, and what is refused. Pure.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use plumbline::plan::Neighbours;
use plumbline::proto::v1::{Action, ObjectKind, RefusalReason};
use plumbline::update_lock::UpdateLock;

/// Everything that a module has on a host, each kind in the order of removal.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) containers: Vec<FoundContainer>,
    pub(super) networks: Vec<FoundNetwork>,
    pub(super) volumes: Vec<FoundVolume>,
}

/// A container of the module.
#[derive(Debug)]
pub(super) struct FoundContainer {
    pub(super) key: String,
    pub(super) name: String,
    pub(super) id: String,
    /// How long it may take to stop, if it says so.
    pub(super) grace: Option<Duration>,
    /// Stopped, the engine would remove it, and volumes with it.
    pub(super) loses_volumes: bool,
    pub(super) update_lock: Option<UpdateLock>,
    /// Who else would break, or is to be known of.
    pub(super) neighbours: Neighbours,
}

/// A network that the module's containers are, or were, attached to.
#[derive(Debug)]
pub(super) struct FoundNetwork {
    pub(super) key: String,
    pub(super) name: String,
    pub(super) id: String,
    /// It was made for the module.
    pub(super) is_own: bool,
    /// Who else is attached.
    pub(super) others: Vec<String>,
}

/// A volume that the module's containers use or used, or one that the request names.
#[derive(Debug)]
pub(super) struct FoundVolume {
    /// Its key in the module, or its name.
    pub(super) key: String,
    pub(super) name: String,
    /// When it was made: another one of the same name is another one.
    pub(super) created: String,
    pub(super) whose: Whose,
    /// The key of the module's container that has it, or had it.
    pub(super) container: Option<String>,
    /// Who else uses it.
    pub(super) others: Vec<String>,
}

/// Whose a volume is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// It was made for the module.
    Own,
    /// The engine made it for a container of the module, which may be gone.
    Anonymous,
    /// It is not the module's, or nothing says so any more.
    NotOurs,
    /// There is none of this name, which the request gave.
    Nobodys,
}

/// What is done with one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) kind: ObjectKind,
    pub(super) key: String,
    pub(super) name: String,
    pub(super) id: String,
    /// Removed, unchanged (it stays), or refused.
    pub(super) action: Action,
    pub(super) reason: RefusalReason,
    pub(super) detail: String,
}

impl Step {
    pub(super) fn refuse(&mut self, reason: RefusalReason, detail: &str) {
        (self.action, self.reason) = (Action::Refused, reason);
        detail.clone_into(&mut self.detail);
    }
}

/// What is done with everything: containers, then networks, then volumes. `named`: the volumes that go, too.
pub(super) fn decide(found: &Found, named: &BTreeSet<String>) -> Vec<Step> {
    let mut steps: Vec<Step> = found.containers.iter().map(container).collect();
    steps.extend(found.networks.iter().map(network));
    let own = |key: &str| found.volumes.iter().find(|one| one.whose == Whose::Own && one.key == key);
    steps.extend(found.volumes.iter().map(|one| {
        let mut step = volume(one, named.contains(&one.name));
        let is_mistaken = matches!(one.whose, Whose::NotOurs | Whose::Nobodys);
        let Some(meant) = own(&one.name).filter(|_| is_mistaken) else { return step };
        // One that is gone already, or is on another node, keeps nobody from the rest; a mistaken name does.
        if one.whose == Whose::Nobodys {
            step.refuse(RefusalReason::Missing, &format!("there is no volume {}", one.name));
        }
        if step.action == Action::Refused {
            let _ = write!(step.detail, "; did you mean --volume {}?", meant.name);
        }
        step
    }));
    if steps.iter().any(|step| step.action == Action::Refused) {
        for step in steps.iter_mut().filter(|step| step.action == Action::Removed) {
            step.refuse(RefusalReason::Module, "another part of the module was refused; nothing was touched");
        }
    }
    steps
}

fn container(found: &FoundContainer) -> Step {
    let FoundContainer { key, name, id, grace: _, loses_volumes, update_lock, neighbours } = found;
    let mut remarks = neighbours.to_be_known.clone();
    if *loses_volumes {
        let killed =
            "killed at once: if it were stopped, the engine would remove its anonymous volumes with it";
        remarks.push(killed.to_owned());
    }
    let mut step = step(ObjectKind::Container, key, name, id, Action::Removed, &remarks.join("; "));
    if !neighbours.in_the_way.is_empty() {
        step.refuse(RefusalReason::InUse, &neighbours.refusal(ObjectKind::Container, name));
    }
    if let Some(lock) = update_lock {
        step.refuse(RefusalReason::UpdateLocked, &lock.refusal(name));
    }
    step
}

fn network(found: &FoundNetwork) -> Step {
    let FoundNetwork { key, name, id, is_own, others } = found;
    let (action, detail) = match (is_own, others.as_slice()) {
        (false, _) => (Action::Unchanged, "it is not this module's".to_owned()),
        (true, []) => (Action::Removed, String::new()),
        (true, others) => (Action::Unchanged, format!("still attached: {}", others.join(", "))),
    };
    step(ObjectKind::Network, key, name, id, action, &detail)
}

fn volume(found: &FoundVolume, is_named: bool) -> Step {
    let FoundVolume { key, name, created, whose, container, others } = found;
    let id = format!("{name}@{created}");
    let of = |action, detail: &str| step(ObjectKind::Volume, key, name, &id, action, detail);
    let users = if others.is_empty() { String::new() } else { format!("; used by {}", others.join(", ")) };
    match (whose, is_named) {
        (Whose::Nobodys, _) => of(Action::Unchanged, "there is no such volume"),
        (Whose::Own | Whose::Anonymous, false) => {
            // A name that the engine made up tells nobody what it is.
            let whose_data = container.as_ref().filter(|_| *whose == Whose::Anonymous);
            let whose_data =
                whose_data.map(|key| format!("data of the container {key}; ")).unwrap_or_default();
            of(Action::Unchanged, &format!("{whose_data}it goes only with --volume {name}{users}"))
        }
        (Whose::NotOurs, false) => of(Action::Unchanged, &format!("it is not this module's{users}")),
        (Whose::NotOurs, true) => {
            let mut step = of(Action::Refused, "");
            let detail = format!(
                "nothing says that the volume {name} is this module's{users}: if it shall go, remove it with `docker volume rm`"
            );
            step.refuse(RefusalReason::NotOurs, &detail);
            step
        }
        (Whose::Own | Whose::Anonymous, true) if !others.is_empty() => {
            let mut step = of(Action::Refused, "");
            let detail = format!(
                "the volume {name} is used by {}: remove that first, or do not name the volume",
                others.join(", ")
            );
            step.refuse(RefusalReason::InUse, &detail);
            step
        }
        (Whose::Own | Whose::Anonymous, true) => of(Action::Removed, "with all that it holds"),
    }
}

fn step(kind: ObjectKind, key: &str, name: &str, id: &str, action: Action, detail: &str) -> Step {
    Step {
        kind,
        key: key.to_owned(),
        name: name.to_owned(),
        id: id.to_owned(),
        action,
        reason: RefusalReason::Unspecified,
        detail: detail.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_volume(whose: Whose, others: &[&str]) -> FoundVolume {
        let others = others.iter().map(|&other| other.to_owned()).collect();
        let (key, name, created) = ("v".to_owned(), "m_v".to_owned(), String::new());
        FoundVolume { key, name, created, whose, container: None, others }
    }

    fn one_network(is_own: bool, others: &[&str]) -> FoundNetwork {
        let others = others.iter().map(|&other| other.to_owned()).collect();
        FoundNetwork { key: "n".to_owned(), name: "m_n".to_owned(), id: String::new(), is_own, others }
    }

    fn one_container(locked: bool) -> FoundContainer {
        let update_lock = locked.then(|| UpdateLock { path: "/lock".to_owned(), seen: true });
        let (key, name, id) = ("c".to_owned(), "m-c".to_owned(), String::new());
        let neighbours = Neighbours::default();
        FoundContainer { key, name, id, grace: None, loses_volumes: false, update_lock, neighbours }
    }

    #[test]
    fn a_volume_goes_only_if_it_is_named_and_the_modules_and_nobody_else_uses_it() {
        let none = RefusalReason::Unspecified;
        for (whose, others, named, action, reason) in [
            (Whose::Own, &[][..], false, Action::Unchanged, none),
            (Whose::Own, &[][..], true, Action::Removed, none),
            (Whose::Anonymous, &[][..], false, Action::Unchanged, none),
            (Whose::Anonymous, &[][..], true, Action::Removed, none),
            (Whose::Own, &["other"][..], false, Action::Unchanged, none),
            (Whose::Own, &["other"][..], true, Action::Refused, RefusalReason::InUse),
            (Whose::Anonymous, &["other"][..], true, Action::Refused, RefusalReason::InUse),
            (Whose::NotOurs, &[][..], false, Action::Unchanged, none),
            (Whose::NotOurs, &[][..], true, Action::Refused, RefusalReason::NotOurs),
            (Whose::Nobodys, &[][..], true, Action::Unchanged, none),
        ] {
            let step = volume(&one_volume(whose, others), named);
            assert_eq!((step.action, step.reason), (action, reason), "{whose:?} {others:?} {named}");
            assert!(others.iter().all(|other| step.detail.contains(other)), "{}", step.detail);
        }
    }

    #[test]
    fn a_network_goes_only_if_it_is_the_modules_and_nobody_else_is_attached() {
        for (is_own, others, action) in [
            (true, &[][..], Action::Removed),
            (true, &["other"][..], Action::Unchanged),
            (false, &[][..], Action::Unchanged),
        ] {
            assert_eq!(network(&one_network(is_own, others)).action, action, "{is_own} {others:?}");
        }
    }

    #[test]
    fn one_refusal_keeps_everything() {
        let mut found = Found {
            containers: vec![one_container(false), one_container(true)],
            networks: vec![one_network(true, &[])],
            volumes: vec![one_volume(Whose::Own, &[])],
        };
        let actions = |found: &Found| -> Vec<(Action, RefusalReason)> {
            let steps = decide(found, &BTreeSet::new());
            steps.iter().map(|step| (step.action, step.reason)).collect()
        };
        assert_eq!(
            actions(&found),
            [
                (Action::Refused, RefusalReason::Module),
                (Action::Refused, RefusalReason::UpdateLocked),
                (Action::Refused, RefusalReason::Module),
                (Action::Unchanged, RefusalReason::Unspecified),
            ]
        );
        found.containers.pop();
        assert_eq!(actions(&found)[..2], [(Action::Removed, RefusalReason::Unspecified); 2]);
    }
}
