//! The store's promises, each on a real file. `opening` has those about the file itself.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread;

use jiff::Timestamp;
use tempfile::TempDir;

use super::{Added, Apply, Module, Registered, Store, StoreError, UpgradePolicy};

mod opening;

/// A folder of its own, and the store in it.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("plumbline.db")
    }

    fn open(&self) -> Store {
        Store::open(&self.file()).unwrap()
    }
}

fn registered(revision: u64, is_new: bool) -> Registered {
    Registered { revision, is_new }
}

fn apply(operation_id: &str, node: &str, outcome: &str) -> Apply {
    Apply {
        operation_id: operation_id.to_owned(),
        module: "forge".to_owned(),
        revision: 1,
        node: node.to_owned(),
        outcome: outcome.to_owned(),
        result: vec![0, 159, 146, 150],
        finished_at: Timestamp::now(),
    }
}

#[test]
fn revisions_are_counted_from_one_and_the_latest_bytes_again_make_none() {
    let place = Place::new();
    let store = place.open();
    let before = Timestamp::now();
    assert_eq!(store.register("forge", b"one", "ann").unwrap(), registered(1, true));
    assert_eq!(store.register("forge", b"one", "bob").unwrap(), registered(1, false));
    assert_eq!(store.register("forge", b"two", "bob").unwrap(), registered(2, true));
    assert_eq!(store.register("forge", b"one", "ann").unwrap(), registered(3, true));
    assert_eq!(store.register("other", b"", "ann").unwrap(), registered(1, true));

    let all = store.revisions("forge").unwrap();
    assert_eq!(all.iter().map(|revision| revision.number).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!((all[1].spec.as_slice(), all[1].registered_by.as_str()), (&b"two"[..], "bob"));
    assert!(all[0].registered_at >= before && all[0].registered_at <= Timestamp::now());
    assert_eq!(store.revision("forge", None).unwrap().as_ref(), Some(&all[2]));
    assert_eq!(store.revision("forge", Some(2)).unwrap().as_ref(), Some(&all[1]));
    for missing in [0, 4, u64::MAX] {
        assert_eq!(store.revision("forge", Some(missing)).unwrap(), None);
    }
    assert_eq!(store.revision("nothing", None).unwrap(), None);
    assert_eq!(store.revisions("nothing").unwrap(), []);
    assert_eq!(store.revision("other", None).unwrap().unwrap().spec, b"");
}

#[test]
fn a_module_registers_only_until_told_otherwise() {
    let place = Place::new();
    let store = place.open();
    assert_eq!(store.module("forge").unwrap(), None);
    store.register("forge", b"one", "ann").unwrap();
    assert_eq!(store.module("forge").unwrap().unwrap().upgrade_policy, UpgradePolicy::Record);
    store.set_policy("forge", UpgradePolicy::RollOut, None).unwrap();
    store.register("forge", b"two", "ann").unwrap();
    let expected = Module {
        name: "forge".to_owned(),
        upgrade_policy: UpgradePolicy::RollOut,
        nodes: vec![],
        latest_revision: 2,
    };
    assert_eq!(store.module("forge").unwrap(), Some(expected));
}

#[test]
fn a_policy_can_be_there_before_the_first_build_and_survives_it() {
    let place = Place::new();
    let store = place.open();
    store.add_node("n1", "n1:7443").unwrap();
    store.set_policy("forge", UpgradePolicy::RollOut, Some(&["n1".to_owned()])).unwrap();
    assert_eq!(store.module("forge").unwrap().unwrap().latest_revision, 0);
    store.register("forge", b"one", "ann").unwrap();
    let module = store.module("forge").unwrap().unwrap();
    assert_eq!((module.upgrade_policy, module.latest_revision), (UpgradePolicy::RollOut, 1));
    assert_eq!(module.nodes, ["n1"]);
}

#[test]
fn placement_is_sorted_grows_by_place_and_is_replaced_by_set_policy() {
    let place = Place::new();
    let store = place.open();
    for node in ["n3", "n1", "n2"] {
        store.add_node(node, "somewhere:1").unwrap();
    }
    store.register("forge", b"one", "ann").unwrap();
    store.register("dns", b"one", "ann").unwrap();
    for node in ["n3", "n1", "n3"] {
        store.place("forge", node).unwrap();
    }
    let nodes = |name: &str| store.module(name).unwrap().unwrap().nodes;
    assert_eq!(nodes("forge"), ["n1", "n3"]);
    assert_eq!(nodes("dns"), [""; 0]);
    store.set_policy("forge", UpgradePolicy::Record, None).unwrap();
    assert_eq!(nodes("forge"), ["n1", "n3"]);
    let twice = ["n2".to_owned(), "n2".to_owned()];
    store.set_policy("forge", UpgradePolicy::Record, Some(&twice)).unwrap();
    assert_eq!(nodes("forge"), ["n2"]);
    let all = store.modules().unwrap();
    assert_eq!(all.iter().map(|module| module.name.as_str()).collect::<Vec<_>>(), ["dns", "forge"]);
    store.set_policy("forge", UpgradePolicy::Record, Some(&[])).unwrap();
    assert_eq!(nodes("forge"), [""; 0]);
}

#[test]
fn an_unknown_name_is_refused_with_the_command_that_makes_it_known() {
    let place = Place::new();
    let store = place.open();
    store.add_node("n1", "n1:1").unwrap();
    let unknown = store.place("forge", "n1").unwrap_err();
    assert!(matches!(&unknown, StoreError::UnknownModule { module } if module == "forge"));
    assert!(unknown.to_string().contains("`plumb build`"), "{unknown}");

    let nodes = ["n1".to_owned(), "n9".to_owned()];
    let unknown = store.set_policy("forge", UpgradePolicy::RollOut, Some(&nodes)).unwrap_err();
    assert!(matches!(&unknown, StoreError::UnknownNode { node } if node == "n9"));
    assert!(unknown.to_string().contains("`plumb node add`"), "{unknown}");
    assert_eq!(store.module("forge").unwrap(), None, "a refused policy leaves nothing behind");
    assert!(matches!(store.set_labels("n9", &BTreeMap::new()), Err(StoreError::UnknownNode { .. })));
}

#[test]
fn registering_several_is_all_or_nothing() {
    let place = Place::new();
    let store = place.open();
    store.register("a", b"one", "ann").unwrap();
    let both = [("a".to_owned(), b"one".to_vec()), ("b".to_owned(), b"one".to_vec())];
    let answers = store.register_all(&both, "ann").unwrap();
    assert_eq!(answers, [registered(1, false), registered(1, true)]);
    assert_eq!(store.register_all::<&str, &[u8]>(&[], "ann").unwrap(), []);

    // A failure at the last of three: the disk's, played by a trigger.
    store
        .write(|transaction| {
            Ok(transaction.execute_batch(
                "CREATE TRIGGER fail BEFORE INSERT ON revision WHEN new.module = 'c'
                 BEGIN SELECT raise(ABORT, 'no room'); END",
            )?)
        })
        .unwrap();
    let failed = store.register_all(&[("a", "two"), ("b", "two"), ("c", "one")], "ann").unwrap_err();
    assert!(failed.to_string().contains("no room"), "{failed}");
    let failed = store.register_all(&[("a", "two"), ("b", "two"), ("a", "three")], "ann").unwrap_err();
    assert!(matches!(&failed, StoreError::DuplicateModule { module } if module == "a"));
    let all = store.modules().unwrap();
    let latest = all.iter().map(|module| (module.name.as_str(), module.latest_revision)).collect::<Vec<_>>();
    assert_eq!(latest, [("a", 1), ("b", 1)]);
}

#[test]
fn adding_a_node_says_what_it_changed() {
    let place = Place::new();
    let store = place.open();
    assert_eq!(store.add_node("n2", "n2:1").unwrap(), Added::New);
    assert_eq!(store.add_node("n1", "n1:1").unwrap(), Added::New);
    let labels = BTreeMap::from([("rack".to_owned(), "7".to_owned()), ("zone".to_owned(), String::new())]);
    store.set_labels("n1", &BTreeMap::from([("old".to_owned(), "1".to_owned())])).unwrap();
    store.set_labels("n1", &labels).unwrap();
    let before = store.node("n1").unwrap().unwrap();
    assert_eq!(store.add_node("n1", "n1:1").unwrap(), Added::Same);
    assert_eq!(store.node("n1").unwrap().unwrap(), before);
    assert_eq!(store.add_node("n1", "n1:2").unwrap(), Added::Changed { before: "n1:1".to_owned() });
    let after = store.node("n1").unwrap().unwrap();
    assert_eq!((after.address.as_str(), &after.labels, after.added_at), ("n1:2", &labels, before.added_at));
    assert_eq!(store.node("n9").unwrap(), None);
    let all = store.nodes().unwrap();
    assert_eq!(all.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["n1", "n2"]);
}

#[test]
fn the_last_apply_is_the_last_recorded_whatever_the_clock_says() {
    let place = Place::new();
    let store = place.open();
    store.register("forge", b"one", "ann").unwrap();
    store.add_node("n1", "n1:1").unwrap();
    store.add_node("n2", "n2:1").unwrap();
    assert_eq!(store.last_apply("forge", "n1").unwrap(), None);
    assert_eq!(store.applies("forge").unwrap(), []);
    let first = apply("op-1", "n1", "refused");
    let second = Apply { finished_at: Timestamp::UNIX_EPOCH, ..apply("op-2", "n1", "recreated") };
    let other = apply("op-1", "n2", "applied");
    for each in [&first, &second, &other] {
        store.record_apply(each).unwrap();
    }
    assert_eq!(store.last_apply("forge", "n1").unwrap().as_ref(), Some(&second));
    assert_eq!(store.last_apply("forge", "n2").unwrap().as_ref(), Some(&other));

    let again = Apply { outcome: "applied".to_owned(), ..first };
    store.record_apply(&again).unwrap();
    assert_eq!(store.applies("forge").unwrap(), [again, second, other]);
}

#[test]
fn a_forgotten_module_leaves_nothing_and_others_keep_everything() {
    let place = Place::new();
    let store = place.open();
    store.add_node("web-1", "web-1:7443").unwrap();
    for module in ["forge", "other"] {
        store.register(module, b"one", "ann").unwrap();
        store.place(module, "web-1").unwrap();
        store
            .record_apply(&Apply { module: module.to_owned(), ..apply(module, "web-1", "applied") })
            .unwrap();
    }
    store.unplace("forge", "web-1").unwrap();
    store.unplace("forge", "web-1").unwrap();
    assert_eq!(store.module("forge").unwrap().map(|module| module.nodes), Some(vec![]));
    store.forget("forge").unwrap();
    store.forget("forge").unwrap();
    assert_eq!(store.module("forge").unwrap(), None);
    assert_eq!((store.revisions("forge").unwrap(), store.applies("forge").unwrap()), (vec![], vec![]));
    assert_eq!(store.register("forge", b"two", "ann").unwrap(), registered(1, true), "counted anew");
    let other = store.module("other").unwrap().unwrap();
    assert_eq!((other.nodes, other.latest_revision), (vec!["web-1".to_owned()], 1));
    assert_eq!(store.applies("other").unwrap().len(), 1);
}

#[test]
fn an_apply_of_something_unknown_is_not_recorded() {
    let place = Place::new();
    let store = place.open();
    let refused = |apply: &Apply| store.record_apply(apply).unwrap_err();
    assert!(matches!(refused(&apply("op", "n1", "applied")), StoreError::UnknownModule { .. }));
    store.register("forge", b"one", "ann").unwrap();
    assert!(matches!(refused(&apply("op", "n1", "applied")), StoreError::UnknownNode { .. }));
    store.add_node("n1", "n1:1").unwrap();
    for revision in [0, 2, u64::MAX] {
        let unknown = refused(&Apply { revision, ..apply("op", "n1", "applied") });
        assert!(matches!(unknown, StoreError::UnknownRevision { latest: 1, .. }), "{unknown}");
    }
    assert_eq!(store.applies("forge").unwrap(), []);
}

#[test]
fn threads_that_share_a_store_lose_nothing() {
    let place = Place::new();
    let store = place.open();
    thread::scope(|scope| {
        for worker in 0..4 {
            let store = store.clone();
            scope.spawn(move || {
                for round in 0..10 {
                    let spec = format!("{worker}/{round}");
                    assert!(store.register("forge", spec.as_bytes(), "ann").unwrap().is_new);
                    assert!(store.modules().unwrap().len() == 1);
                }
            });
        }
    });
    let all = store.revisions("forge").unwrap();
    assert_eq!(all.iter().map(|each| each.number).collect::<Vec<_>>(), (1..=40).collect::<Vec<_>>());
}

#[test]
fn a_panic_in_one_caller_leaves_the_store_usable_and_unchanged() {
    let place = Place::new();
    let store = place.open();
    let other = store.clone();
    let panicked = thread::spawn(move || {
        other.write::<()>(|transaction| {
            transaction.execute("INSERT INTO module VALUES ('ghost', 'record')", [])?;
            panic!("a fault of the caller")
        })
    });
    assert!(panicked.join().is_err());
    assert_eq!(store.modules().unwrap(), []);
    assert_eq!(store.register("forge", b"one", "ann").unwrap(), registered(1, true));
}

#[test]
fn what_a_spec_or_a_result_holds_is_not_in_its_debug_text() {
    let place = Place::new();
    let store = place.open();
    store.register("forge", b"hunter2", "ann").unwrap();
    let text = format!("{:?}", store.revision("forge", None).unwrap().unwrap());
    assert!(text.contains("spec: 7 bytes"), "{text}");
    let text = format!("{:?}", Apply { result: b"hunter2".to_vec(), ..apply("op", "n1", "applied") });
    assert!(text.contains("result: 7 bytes") && text.contains("op"), "{text}");
}

#[test]
fn a_store_can_be_handed_to_any_thread() {
    fn shared<T: Clone + Send + Sync + 'static>() {}
    shared::<Store>();
}
