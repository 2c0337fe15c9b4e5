//! Moves on real file systems: the one that the tests' folders are on, and one in memory (`/dev/shm`).

use std::cell::Cell;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::io::Errno;

use super::tree::{Manifest, make, manifest};
use super::*;

const ROOT: &str = "/";

struct Places {
    from: PathBuf,
    to: PathBuf,
    _folders: [tempfile::TempDir; 2],
    mounted: bool,
}

impl Places {
    /// Two places; `across`: on two file systems.
    fn new(across: bool) -> Self {
        let here = tempfile::tempdir().expect("a folder");
        let there = if across { tempfile::tempdir_in("/dev/shm") } else { tempfile::tempdir() };
        let there = there.expect("a folder on another file system");
        let device = |folder: &tempfile::TempDir| folder.path().metadata().expect("it is there").dev();
        assert_eq!(across, device(&here) != device(&there), "/dev/shm is a file system of its own");
        let (from, to) = (here.path().join("old place"), there.path().join("new place"));
        std::fs::create_dir(&from).expect("a folder");
        Self { from, to, _folders: [here, there], mounted: false }
    }

    fn filled(across: bool) -> Self {
        let places = Self::new(across);
        make(&places.from, 60);
        places
    }

    /// The destination is a mount point of a file system of its own.
    fn with_disk() -> Self {
        let mut places = Self::filled(false);
        std::fs::create_dir(&places.to).expect("a folder");
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64m,mode=0750", "none"])
            .arg(&places.to)
            .status();
        assert!(done.expect("mount runs").success(), "a file system can be mounted (as root)");
        std::fs::create_dir(places.to.join("lost+found")).expect("a folder");
        places.mounted = true;
        places
    }

    fn survey(&self) -> Result<Move, MoveError> {
        survey(Path::new(ROOT), &text(&self.from), &text(&self.to), false)
    }

    /// What is at both places, and beside them.
    fn all(&self) -> (Manifest, Manifest) {
        (contents(self.from.parent().expect("a parent")), contents(self.to.parent().expect("a parent")))
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").arg(&self.to).status();
        }
    }
}

/// Times of directories that only hold the places are of no interest.
fn contents(folder: &Path) -> Manifest {
    let mut found = manifest(folder);
    found.remove(b"".as_slice());
    found
}

fn contents_of(manifest: &Manifest) -> Manifest {
    let mut contents = manifest.clone();
    contents.remove(b"".as_slice());
    contents
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn go(this: &Move) -> Result<Move, MoveError> {
    let this = prepare(Path::new(ROOT), this)?;
    carry_out(Path::new(ROOT), &this, &|_| Ok(()))?;
    Ok(placed(this))
}

#[test]
fn within_a_file_system_it_is_renamed() {
    let places = Places::filled(false);
    let (before, inode) = (manifest(&places.from), places.from.metadata().expect("there").ino());
    let this = go(&places.survey().expect("it can be moved")).expect("it is moved");
    assert_eq!((this.way, this.bytes), (Way::Rename, 0));
    assert_eq!(manifest(&places.to), before);
    assert_eq!(places.to.metadata().expect("there").ino(), inode);
    assert!(!places.from.exists());
    assert_eq!(settle(Path::new(ROOT), &this).expect("settled"), None);
}

#[test]
fn to_another_file_system_everything_comes_along_and_the_original_is_kept() {
    let places = Places::filled(true);
    let before = manifest(&places.from);
    let this = places.survey().expect("it can be moved");
    assert_eq!(this.way, Way::Copy);
    assert!(this.bytes > 10_000 && this.bytes < 1 << 20, "holes do not count: {}", this.bytes);
    let this = go(&this).expect("it is moved");
    assert_eq!(manifest(&places.to), before);
    assert_eq!(manifest(&places.from), before);
    let kept = settle(Path::new(ROOT), &this).expect("settled").expect("there is an original");
    assert_eq!(settle(Path::new(ROOT), &this).expect("once more"), Some(kept.clone()));
    assert!(!places.from.exists());
    assert_eq!(manifest(Path::new(&kept)), before);
    assert_eq!(discard(Path::new(ROOT), &this, &kept).expect("discarded"), Discarded::Gone);
    assert_eq!(discard(Path::new(ROOT), &this, &kept).expect("once more"), Discarded::Gone);
    assert_eq!(places.all().0, Manifest::new());
    assert_eq!(manifest(&places.to), before);
}

/// Somebody still wrote there, or works with it: then it is not a second copy of what was moved.
#[test]
fn an_original_that_was_changed_since_stays() {
    type Change = fn(&Path);
    let changes: [(Change, &str); 4] = [
        (|kept| std::fs::write(kept.join("plain"), "later").expect("written"), "plain"),
        (|kept| std::fs::write(kept.join("new"), "later").expect("written"), ""),
        (|kept| std::fs::remove_file(kept.join("plain")).expect("removed"), ""),
        (|kept| std::os::unix::fs::chown(kept.join("plain"), Some(7), None).expect("an owner"), "plain"),
    ];
    for (change, changed) in changes {
        let places = Places::new(true);
        std::fs::write(places.from.join("plain"), "as it was").expect("written");
        std::thread::sleep(TICK);
        let this = go(&places.survey().expect("it can be moved")).expect("it is moved");
        let kept = settle(Path::new(ROOT), &this).expect("settled").expect("it is kept");
        change(Path::new(&kept));
        let before = manifest(Path::new(&kept));
        let stays = discard(Path::new(ROOT), &this, &kept).expect("looked at");
        let changed = Path::new(&kept).join(changed).display().to_string();
        assert_eq!(stays, Discarded::Stays { changed: changed.trim_end_matches('/').to_owned() });
        assert_eq!(manifest(Path::new(&kept)), before);
    }
}

/// Without the copy the original is all that there is.
#[test]
fn an_original_stays_as_long_as_its_copy_is_not_at_the_new_place() {
    let places = Places::filled(true);
    let this = go(&places.survey().expect("it can be moved")).expect("it is moved");
    let kept = settle(Path::new(ROOT), &this).expect("settled").expect("it is kept");
    let before = manifest(Path::new(&kept));
    std::fs::remove_dir_all(&places.to).expect("removed");
    for make in [false, true] {
        if make {
            std::fs::create_dir(&places.to).expect("a folder");
        }
        let stays = discard(Path::new(ROOT), &this, &kept).expect("looked at");
        assert_eq!(stays, Discarded::Stays { changed: text(&places.to) });
        assert_eq!(manifest(Path::new(&kept)), before);
    }
}

/// What a check of the file system found, or somebody called so.
#[test]
fn what_is_in_lost_and_found_is_data() {
    let places = Places::new(true);
    std::fs::create_dir(places.from.join("lost+found")).expect("a folder");
    std::fs::write(places.from.join("lost+found/#12"), "found").expect("written");
    let before = manifest(&places.from);
    go(&places.survey().expect("it can be moved")).expect("it is moved");
    assert_eq!(manifest(&places.to), before);
}

#[test]
fn a_deep_tree_is_moved() {
    let places = Places::new(true);
    // Too deep for the stack that threads have otherwise, and not for 1,024 open files.
    let deepest = (0..450).fold(places.from.clone(), |folder, _| folder.join("d"));
    std::fs::create_dir_all(&deepest).expect("folders");
    std::fs::write(deepest.join("file"), "deep").expect("written");
    let before = manifest(&places.from);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let this = places.survey().expect("it can be moved");
    runtime.block_on(crate::guard::blocking(move || go(&this))).expect("it is moved");
    assert_eq!(manifest(&places.to), before);
}

/// Backups are often made of hard links, and the original's other names stay where they are.
#[test]
fn a_file_with_a_name_outside_is_moved_too() {
    let places = Places::new(true);
    for name in ["one", "two"] {
        std::fs::write(places.from.join(name), name).expect("written");
        std::fs::hard_link(places.from.join(name), places.from.with_file_name(name)).expect("linked");
    }
    std::fs::hard_link(places.from.join("one"), places.from.join("one again")).expect("linked");
    go(&places.survey().expect("it can be moved")).expect("it is moved");
    let inode = |name: &str| places.to.join(name).metadata().expect("it is there").ino();
    assert_eq!(inode("one"), inode("one again"));
    assert_ne!(inode("one"), inode("two"));
    assert_eq!(std::fs::read_to_string(places.to.join("two")).expect("read"), "two");
}

#[test]
fn onto_a_mount_point_the_file_system_there_is_filled() {
    let places = Places::with_disk();
    let before = manifest(&places.from);
    let this = go(&places.survey().expect("it can be moved")).expect("it is moved");
    assert_eq!(this.way, Way::Copy);
    assert_eq!(
        contents(&places.to).len(),
        before.len(),
        "the staging directory, which tells whose copy it is"
    );
    settle(Path::new(ROOT), &this).expect("settled");
    assert_eq!(contents(&places.to), contents_of(&before));
    assert_eq!(places.to.metadata().expect("there").mode() & 0o7777, 0o755);
}

#[test]
fn a_volume_keeps_an_empty_directory() {
    for across in [false, true] {
        let places = Places::filled(across);
        let before = manifest(&places.from);
        let mode = places.from.metadata().expect("there").mode();
        let this =
            survey(Path::new(ROOT), &text(&places.from), &text(&places.to), true).expect("it can be moved");
        let this = go(&this).expect("it is moved");
        assert_eq!(manifest(&places.to), before);
        let kept = settle(Path::new(ROOT), &this).expect("settled");
        assert_eq!(places.from.metadata().expect("it stays").mode(), mode);
        if across {
            assert_eq!(kept, Some(text(&places.from)));
            let stays = discard(Path::new(ROOT), &this, &text(&places.from)).expect("nothing is done");
            assert!(matches!(stays, Discarded::Stays { .. }), "{stays:?}");
            assert_eq!(manifest(&places.from), before, "an original that stayed is not deleted");
        } else {
            assert_eq!(manifest(&places.from).len(), 1);
            undo(Path::new(ROOT), &this, &|_| Ok(())).expect("undone");
            assert_eq!(manifest(&places.from), before);
            assert!(!places.to.exists());
        }
    }
}

type Make = fn() -> Places;

/// Every kind of move is stopped at every event, undone, and undone again; the undoing is stopped at every event, too.
#[test]
fn stopped_anywhere_it_can_be_undone() {
    let stop_at = |count: usize| {
        let left = Cell::new(count);
        move |event: Event| {
            if left.get() == 0 {
                return Err(MoveError::Io {
                    action: "done",
                    path: format!("{event:?}"),
                    source: Errno::INTR,
                });
            }
            left.set(left.get() - 1);
            Ok(())
        }
    };
    let with_empty = || {
        let places = Places::filled(true);
        std::fs::create_dir(&places.to).expect("a folder");
        std::os::unix::fs::chown(&places.to, Some(77), Some(88)).expect("an owner");
        places
    };
    let kinds: [(Make, usize); 5] = [
        (|| Places::filled(false), 1),
        (
            || {
                let places = Places::filled(false);
                std::fs::create_dir(&places.to).expect("a folder");
                places
            },
            1,
        ),
        (|| Places::filled(true), 7),
        (with_empty, 7),
        (Places::with_disk, 7),
    ];
    for (number, (new, pace)) in kinds.into_iter().enumerate() {
        let places = new();
        let before = places.all();
        let (mut count, mut ended) = (0, false);
        while !ended {
            let surveyed = places.survey().expect("it can be moved");
            let this = prepare(Path::new(ROOT), &surveyed).expect("prepared");
            ended = carry_out(Path::new(ROOT), &this, &stop_at(count)).is_ok();
            // Not always is it written down that it ended.
            let this = if ended && count % 2 == 0 { placed(this) } else { this };
            for steps in 0.. {
                if undo(Path::new(ROOT), &this, &stop_at(steps)).is_ok() {
                    break;
                }
            }
            assert!(places.all() == before, "kind {number}, stopped at {count}");
            undo(Path::new(ROOT), &this, &|_| Ok(())).expect("once more is no error");
            assert!(places.all() == before, "kind {number}, stopped at {count}, undone twice");
            count += pace;
        }
        assert!(count > 1, "there was something to stop");
        // Cut off before it was written down that the staging directory was made.
        let surveyed = places.survey().expect("it can be moved");
        prepare(Path::new(ROOT), &surveyed).expect("prepared");
        undo(Path::new(ROOT), &surveyed, &|_| Ok(())).expect("undone");
        assert!(places.all() == before, "kind {number}");
        go(&surveyed).expect("it can be moved after all");
    }
}

/// A new container may have served from the copy for days when its move is undone after all.
#[test]
fn what_was_written_to_a_copy_is_kept_when_it_is_undone() {
    type Change = fn(&Path);
    let changes: [Change; 4] = [
        |to| {
            std::fs::write(to.join("order"), "42").expect("written");
            std::os::unix::fs::chown(to, Some(7), None).expect("an owner");
        },
        |to| std::fs::write(to.join("order"), "42").expect("written"),
        |to| std::fs::write(to.join("plain"), "42").expect("written"),
        |to| std::fs::write(to.join("inner/order"), "42").expect("written"),
    ];
    let with_empty = || {
        let places = Places::new(true);
        std::fs::create_dir(&places.to).expect("a folder");
        places
    };
    let kinds: [(Make, bool); 3] =
        [(|| Places::new(true), true), (with_empty, true), (Places::with_disk, false)];
    for (new, is_aside) in kinds {
        for (change, is_noted) in changes.iter().flat_map(|change| [(change, true), (change, false)]) {
            // On a disk of its own only what is new is told from a copy before it is written down that this is whole.
            let places = new();
            std::fs::create_dir_all(places.from.join("inner")).expect("a folder");
            std::fs::write(places.from.join("plain"), "as it was").expect("written");
            let before = places.all();
            let mut this = go(&places.survey().expect("it can be moved")).expect("it is moved");
            if !is_noted {
                this.placed = None;
            }
            change(&places.to);
            let stays = undo(Path::new(ROOT), &this, &|_| Ok(())).expect("undone");
            if !is_noted && !is_aside && !places.to.join("order").exists() {
                continue;
            }
            let stays = PathBuf::from(stays.expect("it says where that is"));
            assert!(manifest(&stays).len() > 1, "{}", stays.display());
            let all = ["order", "plain", "inner/order"].map(|name| std::fs::read_to_string(stays.join(name)));
            assert!(all.iter().flatten().any(|text| text == "42"), "{all:?}");
            assert_eq!(places.all().0, before.0, "the original is as it was");
            if is_aside {
                assert_ne!(stays, places.to);
                std::fs::remove_dir_all(&stays).expect("removed");
                assert!(places.all() == before, "nothing else is left");
            } else {
                assert_eq!(stays, places.to);
            }
        }
    }
}

/// A file of somebody else on the disk that the data goes to is not of the move.
#[test]
fn what_is_strange_on_a_disk_stays_there() {
    let places = Places::with_disk();
    let before = places.all();
    let this = prepare(Path::new(ROOT), &places.survey().expect("it can be moved")).expect("prepared");
    let name = manifest(&places.from).into_keys().rfind(|name| !name.is_empty() && !name.contains(&b'/'));
    let name = String::from_utf8(name.expect("it has files")).expect("a name");
    let stray = places.to.join(&name);
    std::fs::write(&stray, "mine").expect("written");
    carry_out(Path::new(ROOT), &this, &|_| Ok(())).expect_err("it is in the way");
    let stays = undo(Path::new(ROOT), &this, &|_| Ok(())).expect("undone");
    assert_eq!(stays, Some(text(&places.to)));
    assert_eq!(std::fs::read_to_string(&stray).expect("read"), "mine");
    std::fs::remove_file(&stray).expect("removed");
    assert!(places.all().0 == before.0, "the original is as it was");
    assert_eq!(contents(&places.to).len(), contents(&Places::with_disk().to).len(), "no copy is left");
}

/// Whatever keeps an original from its other name: the data is moved all the same.
#[test]
fn an_original_that_cannot_be_renamed_stays_where_it_is() {
    let mut places = Places::new(true);
    let long = places.from.with_file_name("é".repeat(120));
    std::fs::rename(&places.from, &long).expect("renamed");
    places.from = long;
    places.to = places.to.with_file_name("è".repeat(120));
    let this = go(&places.survey().expect("it can be moved")).expect("it is moved");
    let kept = settle(Path::new(ROOT), &this).expect("settled").expect("it is kept");
    assert!(kept.contains("é.plumbline-moved-") && Path::new(&kept).exists(), "{kept}");

    let places = Places::filled(true);
    let this = go(&places.survey().expect("it can be moved")).expect("it is moved");
    let parent = places.from.parent().expect("a parent");
    let mount = |arguments: &[&str]| {
        let done = Command::new("mount").args(arguments).arg(parent).status();
        assert!(done.expect("mount runs").success(), "root is needed to mount");
    };
    mount(&["--bind", &text(parent)]);
    mount(&["-o", "remount,bind,ro"]);
    let kept = settle(Path::new(ROOT), &this);
    let done = Command::new("umount").arg(parent).status();
    assert!(done.expect("umount runs").success());
    assert_eq!(kept.expect("settled"), Some(text(&places.from)));
}

#[test]
fn what_cannot_be_moved_is_refused_with_the_reason() {
    let said = |places: &Places| places.survey().expect_err("it is refused").to_string();
    let places = Places::filled(true);
    std::fs::create_dir(&places.to).expect("a folder");
    std::fs::write(places.to.join("file"), "").expect("written");
    assert!(said(&places).contains("both") && said(&places).contains("hold data"));
    assert!(matches!(places.survey(), Err(MoveError::BothHoldData { .. })));
    std::fs::remove_dir_all(&places.from).expect("removed");
    std::fs::create_dir(&places.from).expect("a folder");
    assert!(matches!(places.survey(), Err(MoveError::NothingThere { .. })), "all that there is, is there");

    let mut places = Places::new(false);
    places.from = places.from.join("gone");
    assert!(matches!(places.survey(), Err(MoveError::NothingThere { .. })));
    places.from = places.from.join("deeper/gone");
    assert!(matches!(places.survey(), Err(MoveError::NothingThere { .. })));

    let mut places = Places::new(false);
    places.to = places.to.join("no/parent");
    assert!(said(&places).contains("make it"));
    places.to = places.from.join("inside");
    assert!(matches!(places.survey(), Err(MoveError::Inside { .. })));
    let link = places.from.with_file_name("link");
    std::os::unix::fs::symlink(&places.from, &link).expect("a link");
    places.to = link.join("inside");
    assert!(matches!(places.survey(), Err(MoveError::Inside { .. })), "also through a link");
    (places.from, places.to) = (link, places.from.with_file_name("other"));
    assert!(said(&places).contains("symbolic link"));
    std::fs::write(&places.to, "").expect("written");
    places.from = places.from.with_file_name("old place");
    assert!(matches!(places.survey(), Err(MoveError::NoDirectory { .. })));
}

#[test]
fn a_disk_that_is_too_small_is_refused_before_anything_is_done() {
    let places = Places::with_disk();
    std::fs::write(places.from.join("large"), vec![1; 70 << 20]).expect("written");
    let error = places.survey().expect_err("it does not fit").to_string();
    assert!(error.contains("MiB") && error.contains("make room there"), "{error}");
}

#[test]
fn a_mount_inside_is_refused() {
    let mut places = Places::with_disk();
    // What is mounted is what would be moved now, with its parent.
    places.from = places.to.parent().expect("a parent").to_owned();
    let there = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let error = survey(Path::new(ROOT), &text(&places.from), &text(&there.path().join("new")), false);
    assert!(matches!(error, Err(MoveError::MountInside { .. })), "{error:?}");
}

/// Whoever still writes is noticed, and the copy is not taken.
#[test]
fn an_original_that_changes_meanwhile_is_noticed() {
    let places = Places::filled(true);
    let this = prepare(Path::new(ROOT), &places.survey().expect("it can be moved")).expect("prepared");
    let flushed = Cell::new(false);
    let error = carry_out(Path::new(ROOT), &this, &|event| {
        if event == Event::Step("flush") && !flushed.replace(true) {
            std::fs::write(places.from.join("nothing"), "something").expect("written");
        }
        Ok(())
    });
    assert!(matches!(&error, Err(MoveError::Differs { path }) if path.ends_with("/nothing")), "{error:?}");
    undo(Path::new(ROOT), &this, &|_| Ok(())).expect("undone");
    assert!(!places.to.exists());
    assert_eq!(std::fs::read_to_string(places.from.join("nothing")).expect("read"), "something");
}

/// What somebody else put there meanwhile is neither overwritten nor removed.
#[test]
fn what_is_not_of_this_move_is_left_alone() {
    for across in [false, true] {
        let places = Places::filled(across);
        let before = manifest(&places.from);
        let this = prepare(Path::new(ROOT), &places.survey().expect("it can be moved")).expect("prepared");
        std::fs::create_dir(&places.to).expect("a folder");
        std::fs::write(places.to.join("strangers"), "data").expect("written");
        let error = carry_out(Path::new(ROOT), &this, &|_| Ok(()));
        assert!(matches!(error, Err(MoveError::InTheWay { .. })), "{error:?}");
        undo(Path::new(ROOT), &this, &|_| Ok(())).expect("undone");
        assert_eq!(manifest(&places.from), before);
        assert_eq!(std::fs::read_to_string(places.to.join("strangers")).expect("it is there"), "data");
    }
    // Without the original nothing is removed.
    let places = Places::filled(true);
    let this = go(&places.survey().expect("it can be moved")).expect("it is moved");
    std::fs::rename(&places.from, places.from.with_file_name("elsewhere")).expect("renamed");
    let copied = manifest(&places.to);
    assert!(matches!(undo(Path::new(ROOT), &this, &|_| Ok(())), Err(MoveError::Lost { .. })));
    assert_eq!(manifest(&places.to), copied);
}
