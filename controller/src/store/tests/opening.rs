//! The file itself: reopened, locked, private, migrated, refused, and read after a crash.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rusqlite::Connection;

use super::Place;
use crate::store::{Store, StoreError, UpgradePolicy, schema};

/// Tells the child of the kill test where its store is.
const CHILD: &str = "PLUMBLINE_TEST_STORE";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn version(connection: &Connection) -> i64 {
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

#[test]
fn a_reopened_store_has_everything() {
    let place = Place::new();
    let store = place.open();
    store.add_node("n1", "n1:1").unwrap();
    store.register("forge", b"one", "ann").unwrap();
    store.set_policy("forge", UpgradePolicy::RollOut, Some(&["n1".to_owned()])).unwrap();
    store.record_apply(&super::apply("op", "n1", "applied")).unwrap();
    let all = |store: &Store| {
        let lists = (store.modules().unwrap(), store.nodes().unwrap());
        (lists, store.revisions("forge").unwrap(), store.applies("forge").unwrap())
    };
    let before = all(&store);
    drop(store);
    assert_eq!(all(&place.open()), before);
}

#[test]
fn the_settings_that_durability_needs_are_in_force() {
    let place = Place::new();
    let store = place.open();
    let setting = |name: &str| -> String {
        let read = |connection: &Connection| {
            let value: rusqlite::types::Value =
                connection.pragma_query_value(None, name, |row| row.get(0))?;
            Ok(format!("{value:?}"))
        };
        store.read(read).unwrap()
    };
    assert_eq!(setting("journal_mode"), r#"Text("wal")"#);
    assert_eq!(setting("synchronous"), "Integer(2)");
    assert_eq!(setting("foreign_keys"), "Integer(1)");
    assert_eq!(setting("busy_timeout"), "Integer(5000)");
    assert_eq!(setting("integrity_check"), r#"Text("ok")"#);
    assert!(rusqlite::version_number() >= 3_051_003);
}

#[test]
fn every_file_of_the_store_is_its_owners_alone() {
    let place = Place::new();
    drop(place.open());
    fs::set_permissions(place.file(), fs::Permissions::from_mode(0o664)).unwrap();
    let store = place.open();
    store.register("forge", b"one", "ann").unwrap();
    let mut names = vec![];
    for entry in fs::read_dir(place.folder.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(mode(&entry.path()), 0o600, "{}", entry.path().display());
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    assert_eq!(names, ["plumbline.db", "plumbline.db-shm", "plumbline.db-wal", "plumbline.db.lock"]);
}

#[test]
fn a_second_controller_is_told_who_has_the_store() {
    let place = Place::new();
    let store = place.open();
    let clone = store.clone();
    drop(store);
    let link = place.folder.path().join("link.db");
    symlink(place.file(), &link).unwrap();
    for path in [place.file(), link] {
        let refused = Store::open(&path).unwrap_err();
        assert!(
            matches!(refused, StoreError::Locked { holder: Some(pid), .. } if pid == std::process::id()),
            "{refused}"
        );
        assert!(refused.to_string().contains("in use by process"), "{refused}");
    }
    clone.register("forge", b"one", "ann").unwrap();
    drop(clone);
    assert_eq!(place.open().modules().unwrap().len(), 1);
}

#[test]
fn a_file_that_is_no_store_is_refused_and_left_as_it_is() {
    let place = Place::new();
    for text in ["hello", &"not a database, but long enough to be one. ".repeat(100)] {
        fs::write(place.file(), text).unwrap();
        fs::set_permissions(place.file(), fs::Permissions::from_mode(0o644)).unwrap();
        let refused = Store::open(&place.file()).unwrap_err();
        assert!(matches!(refused, StoreError::NotADatabase { .. }), "{refused}");
        assert_eq!(fs::read_to_string(place.file()).unwrap(), text);
        assert_eq!(mode(&place.file()), 0o644);
    }
    fs::remove_file(place.file()).unwrap();
    Connection::open(place.file()).unwrap().execute_batch("CREATE TABLE songs (title TEXT)").unwrap();
    let before = fs::read(place.file()).unwrap();
    let refused = Store::open(&place.file()).unwrap_err();
    assert!(matches!(refused, StoreError::ForeignDatabase { .. }), "{refused}");
    assert_eq!(fs::read(place.file()).unwrap(), before);
}

#[test]
fn a_place_where_no_file_can_be_is_named() {
    let place = Place::new();
    fs::create_dir(place.file()).unwrap();
    for path in [place.folder.path().join("missing/plumbline.db"), place.file()] {
        let refused = Store::open(&path).unwrap_err();
        assert!(matches!(refused, StoreError::Io { .. }), "{refused}");
        assert!(refused.to_string().contains(path.to_str().unwrap()), "{refused}");
    }
}

#[test]
fn a_newer_schema_is_refused_and_left_as_it_is() {
    let place = Place::new();
    drop(place.open());
    let known = schema::MIGRATIONS.len();
    Connection::open(place.file())
        .unwrap()
        .execute_batch(&format!("PRAGMA user_version = {}", known + 1))
        .unwrap();
    let before = fs::read(place.file()).unwrap();
    let refused = Store::open(&place.file()).unwrap_err();
    assert!(
        matches!(refused, StoreError::NewerSchema { found, known: k, .. } if found == known + 1 && k == known),
        "{refused}"
    );
    assert!(refused.to_string().contains("update plumb"), "{refused}");
    assert_eq!(fs::read(place.file()).unwrap(), before);
}

#[test]
fn migrations_run_once_in_order_and_all_or_none() {
    let place = Place::new();
    let path = &place.file();
    let mut connection = Connection::open(path).unwrap();
    let first = "CREATE TABLE t (a TEXT) STRICT; INSERT INTO t VALUES ('kept')";
    let second = "ALTER TABLE t ADD COLUMN b TEXT NOT NULL DEFAULT 'new'";
    let found = schema::check(&connection, path, &[first]).unwrap();
    schema::migrate(&mut connection, path, found, &[first]).unwrap();
    assert_eq!(version(&connection), 1);

    let failed = schema::migrate(&mut connection, path, 1, &[first, second, "CREATE NONSENSE"]).unwrap_err();
    assert!(matches!(failed, StoreError::Migration { from: 1, to: 3, .. }), "{failed}");
    assert_eq!(version(&connection), 1);
    assert!(connection.prepare("SELECT b FROM t").is_err(), "the second migration is undone too");

    for _ in 0..2 {
        let found = schema::check(&connection, path, &[first, second]).unwrap();
        schema::migrate(&mut connection, path, found, &[first, second]).unwrap();
    }
    assert_eq!(version(&connection), 2);
    let row: (String, String) =
        connection.query_row("SELECT a, b FROM t", [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(row, ("kept".to_owned(), "new".to_owned()));
    let newer = schema::check(&connection, path, &[first]).unwrap_err();
    assert!(matches!(newer, StoreError::NewerSchema { found: 2, known: 1, .. }), "{newer}");
}

#[test]
fn what_was_answered_is_there_after_a_crash_and_a_torn_write_is_not() {
    let place = Place::new();
    let store = place.open();
    store.register("forge", b"one", "ann").unwrap();
    store.register("forge", b"two", "ann").unwrap();
    // The files as a crash would leave them: never closed, the last page of the log half written.
    let crashed = Place::new();
    fs::copy(place.file(), crashed.file()).unwrap();
    let log = |place: &Place| place.folder.path().join("plumbline.db-wal");
    let whole = fs::read(log(&place)).unwrap();
    fs::write(log(&crashed), &whole).unwrap();
    assert_eq!(crashed.open().revisions("forge").unwrap(), store.revisions("forge").unwrap());

    let torn = Place::new();
    fs::copy(place.file(), torn.file()).unwrap();
    fs::write(log(&torn), &whole[..whole.len() - 100]).unwrap();
    let reopened = torn.open();
    assert_eq!(reopened.revisions("forge").unwrap(), store.revisions("forge").unwrap()[..1]);
    assert_eq!(reopened.register("forge", b"two", "ann").unwrap(), super::registered(2, true));
}

#[test]
fn a_killed_controller_has_lost_nothing_that_it_answered() {
    let place = Place::new();
    let module = module_path!().split_once("::").unwrap().1;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", &format!("{module}::child_that_registers_until_killed")])
        .env(CHILD, place.file())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // Kept until the kill: with its reader gone the child would end by itself.
    let mut answers =
        lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("answered ")?.parse::<u64>().ok());
    assert_eq!(answers.nth(19), Some(20));
    let refused = Store::open(&place.file()).unwrap_err();
    assert!(
        matches!(refused, StoreError::Locked { holder: Some(pid), .. } if pid == child.id()),
        "{refused}"
    );
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(9), "{status}");
    let answered = answers.last().unwrap_or(20);
    let store = place.open();
    assert!(store.module("forge").unwrap().unwrap().latest_revision >= answered);
    let last = store.revision("forge", Some(answered)).unwrap().unwrap();
    assert_eq!(last.spec, answered.to_string().as_bytes());
}

/// Not a test of its own: the process that the one above kills. Without its variable it does nothing.
#[test]
fn child_that_registers_until_killed() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let store = Store::open(Path::new(&path)).unwrap();
    println!();
    for number in 1_u64..10_000 {
        let registered = store.register("forge", number.to_string().as_bytes(), "ann").unwrap();
        println!("answered {}", registered.revision);
    }
}
