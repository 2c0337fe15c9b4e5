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
        removes_itself: RemovesItself::No,
        image_missing: false,
        bound_to: BTreeSet::new(),
        lives_with: BTreeSet::new(),
        networks: BTreeSet::new(),
        neighbours: Neighbours::default(),
        update_lock: None,
        mounts: Vec::new(),
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
        (Standing::Ours, &[InPlace, Recreate][..], false, Action::Refused, RefusalReason::NeedsRecreation),
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
        detail.starts_with("this engine speaks API 1.41 and cannot hold containers.a.dns (needs API 1.45):")
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
fn a_container_that_removes_itself_is_never_recreated() {
    let mut container = facts("a", Standing::Ours, &[Consequence::Recreate]);
    container.removes_itself = RemovesItself::Running;
    assert_eq!(decide(vec![container], true)[0].reason, RefusalReason::AutoRemove);
}

#[test]
fn a_container_is_not_put_on_a_mount_that_nobody_accepts() {
    let mount = MountVerdict { refused: true, ..MountVerdict::default() };
    for (standing, changes, recreate, reason) in [
        (Standing::Absent, &[][..], false, RefusalReason::DataGuard),
        (Standing::Ours, &[Consequence::Recreate][..], true, RefusalReason::DataGuard),
        (Standing::Ours, &[Consequence::Recreate][..], false, RefusalReason::NeedsRecreation),
    ] {
        let mut container = facts("a", standing, changes);
        assert_eq!(are_made(std::slice::from_ref(&container)), [true]);
        container.mounts.push(mount.clone());
        let other = facts("b", Standing::Absent, &[]);
        let decisions = decide(vec![container, other], recreate);
        assert_eq!(
            actions(&decisions),
            [(Action::Refused, reason), (Action::Refused, RefusalReason::Module)]
        );
    }
    assert_eq!(are_made(&[facts("a", Standing::Ours, &[Consequence::InPlace])]), [false]);
}

#[test]
fn a_guest_is_put_on_its_mounts_again_when_its_owner_is_recreated() {
    let mut guest = facts("b", Standing::Ours, &[]);
    guest.bound_to = BTreeSet::from(["a".to_owned()]);
    assert_eq!(are_made(&[facts("a", Standing::Ours, &[Consequence::Recreate]), guest]), [true, true]);
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
fn who_lives_with_a_container_that_is_started_is_started_again() {
    let mut owner = facts("a", Standing::Ours, &[]);
    owner.down = true;
    let mut guest = facts("b", Standing::Ours, &[]);
    guest.lives_with = BTreeSet::from(["a".to_owned()]);
    let mut its_guest = facts("c", Standing::Ours, &[Consequence::InPlace]);
    its_guest.lives_with = BTreeSet::from(["b".to_owned()]);
    let stranger = facts("d", Standing::Ours, &[]);
    let decisions = decide(vec![owner, guest, its_guest, stranger], false);
    let actions: Vec<Action> = decisions.iter().map(|decision| decision.action).collect();
    assert_eq!(actions, [Action::Started, Action::Started, Action::Updated, Action::Unchanged]);
    assert!(decisions[2].facts.down, "it is started after the update");
}

fn of_kind(kind: ObjectKind, key: &str, standing: Standing, changes: &[Consequence]) -> Facts {
    Facts { kind, ..facts(key, standing, changes) }
}

fn on_network(key: &str, standing: Standing) -> Facts {
    Facts { networks: BTreeSet::from(["n".to_owned()]), ..facts(key, standing, &[]) }
}

#[test]
fn a_changed_network_is_made_anew_with_all_containers_on_it_and_with_no_others() {
    use Action::{Created, Recreated, Refused, Unchanged};
    let network = of_kind(ObjectKind::Network, "n", Standing::Ours, &[Consequence::Recreate]);
    let mut guest = facts("guest", Standing::Ours, &[]);
    guest.bound_to = BTreeSet::from(["a".to_owned()]);
    let objects = vec![
        network,
        on_network("a", Standing::Ours),
        guest,
        on_network("new", Standing::Absent),
        // A container may have the key of a network.
        facts("n", Standing::Ours, &[]),
    ];
    let (none, needs) = (RefusalReason::Unspecified, RefusalReason::NeedsRecreation);
    assert_eq!(
        actions(&decide(objects.clone(), true)),
        [(Recreated, none), (Recreated, none), (Recreated, none), (Created, none), (Unchanged, none)]
    );
    let refused = decide(objects.clone(), false);
    assert_eq!(actions(&refused)[..3], [(Refused, needs); 3]);
    assert!(refused[0].detail().contains("--recreate"));

    let mut used = objects.clone();
    used[0].neighbours.in_the_way = vec!["stranger".to_owned()];
    let refused = decide(used, true);
    assert_eq!(refused[0].reason, RefusalReason::InUse);
    assert!(refused[0].detail().contains("stranger"), "{}", refused[0].detail());
    assert_eq!(refused[1].action, Unchanged, "what is not made anew takes nobody with it");

    let mut removing = objects;
    removing[1].removes_itself = RemovesItself::Running;
    assert_eq!(decide(removing, true)[1].reason, RefusalReason::AutoRemove);
}

#[test]
fn a_changed_volume_is_refused_with_what_it_holds() {
    let mut volume = of_kind(ObjectKind::Volume, "v", Standing::Ours, &[Consequence::Recreate]);
    volume.neighbours.holds = "3 files".to_owned();
    for recreate in [false, true] {
        let refused = decide(vec![volume.clone()], recreate);
        assert_eq!(refused[0].reason, RefusalReason::WouldLoseData);
        assert!(refused[0].detail().contains("3 files"), "{}", refused[0].detail());
    }
}

#[test]
fn networks_and_volumes_that_left_the_declaration_refuse_nothing() {
    use Action::{Removed, Unchanged};
    for (kind, recreate, used, action, says) in [
        (ObjectKind::Network, true, false, Removed, ""),
        (ObjectKind::Network, false, false, Unchanged, "--recreate"),
        (ObjectKind::Network, true, true, Unchanged, "stranger"),
        (ObjectKind::Volume, true, false, Unchanged, "docker volume rm m-x"),
        (ObjectKind::Volume, false, true, Unchanged, "stranger"),
    ] {
        let mut left = of_kind(kind, "x", Standing::LeftOver, &[]);
        left.neighbours.in_the_way.extend(used.then(|| "stranger".to_owned()));
        let decisions = decide(vec![left, facts("a", Standing::Ours, &[])], recreate);
        let none = RefusalReason::Unspecified;
        assert_eq!(actions(&decisions), [(action, none), (Unchanged, none)], "{kind:?} {recreate} {used}");
        assert!(decisions[0].detail().contains(says), "{}", decisions[0].detail());
    }
}

#[test]
fn who_others_live_with_is_neither_replaced_nor_removed() {
    for (standing, changes) in [(Standing::Ours, &[Consequence::Recreate][..]), (Standing::LeftOver, &[][..])]
    {
        let mut container = facts("a", standing, changes);
        container.neighbours.in_the_way = vec!["x lives in its network namespace".to_owned()];
        let refused = decide(vec![container], true);
        assert_eq!(refused[0].reason, RefusalReason::InUse);
        assert!(refused[0].detail().contains("x lives in"), "{}", refused[0].detail());
    }
    let mut container = facts("a", Standing::Ours, &[Consequence::Recreate]);
    container.neighbours.to_be_known = vec!["x took its volumes".to_owned()];
    let allowed = decide(vec![container], true);
    assert_eq!((allowed[0].action, allowed[0].detail().as_str()), (Action::Recreated, "x took its volumes"));
}

#[test]
fn a_container_that_removes_itself_is_not_stopped_to_be_started() {
    let guest = |removes_itself| Facts {
        removes_itself,
        lives_with: BTreeSet::from(["a".to_owned()]),
        ..facts("b", Standing::Ours, &[])
    };
    let owner = Facts { down: true, ..facts("a", Standing::Ours, &[]) };
    for (removes_itself, action) in [
        (RemovesItself::Running, Action::Refused),
        (RemovesItself::No, Action::Started),
        // It was made and never started: nothing is stopped.
        (RemovesItself::Resting, Action::Started),
    ] {
        let decisions = decide(vec![owner.clone(), guest(removes_itself)], true);
        assert_eq!(decisions[1].action, action, "{removes_itself:?}");
    }
}
