//! `moved_from`: one apply brings the data to its new place, or leaves everything as it was.

use std::path::{Path, PathBuf};

use plumbline::proto::v1::apply_response::Event;
use plumbline::proto::v1::{Action, DataGuardVerdict, ModuleSpec, MountVerdict, MoveWay, RefusalReason};
use serde_json::{Value as Json, json};

use crate::guard::{beside, data, only, shown};
use crate::served::Served;
use crate::site::{Site, docker, hold, object};
use crate::tree::{Manifest, make, manifest};

/// A folder of a file system in memory, which is another one than that of the tests' folders.
fn elsewhere() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").expect("a folder on another file system")
}

fn inside(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

fn moving(site: &Site, from: &str, to: &str) -> ModuleSpec {
    site.holding(
        &json!({ "mounts": [{ "type": "bind", "source": to, "target": "/data", "moved_from": from }] }),
    )
}

fn plain(site: &Site, at: &str) -> ModuleSpec {
    site.holding(&json!({ "mounts": [{ "type": "bind", "source": at, "target": "/data" }] }))
}

/// What was kept beside a place, under a name that says why.
fn kept_beside(place: &str, why: &str) -> Vec<PathBuf> {
    let place = Path::new(place);
    let start = format!("{}.plumbline-{why}-", place.file_name().expect("a name").to_string_lossy());
    let beside = std::fs::read_dir(place.parent().expect("a parent")).expect("listed");
    let found = beside.map(|entry| entry.expect("listed"));
    found
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&start))
        .map(|entry| entry.path())
        .collect()
}

/// What is in the originals that were kept beside a place.
fn kept(place: &str) -> Vec<Manifest> {
    kept_beside(place, "moved").iter().map(|path| manifest(path)).collect()
}

/// Copies whose move was undone after somebody had written there.
fn undone(place: &str) -> Vec<PathBuf> {
    kept_beside(place, "undone")
}

async fn plan(site: &Site, spec: &ModuleSpec) -> MountVerdict {
    only(&site.plan(spec, true).await.result.expect("a result")).clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn within_a_file_system_the_directory_is_renamed() {
    let site = Site::new("moverename").await;
    let (old, new) = (data(&site, "old"), beside(&data(&site, "other"), "new"));
    make(Path::new(&old), 100);
    site.apply(&plain(&site, &old), false).await;
    let before = manifest(Path::new(&old));
    let spec = moving(&site, &old, &new);

    let judged = plan(&site, &spec).await;
    assert_eq!((judged.verdict(), judged.refused), (DataGuardVerdict::ToBeMoved, false), "{judged:?}");
    assert_eq!(judged.data_move.expect("what it takes").way(), MoveWay::Rename);
    assert!(!Path::new(&new).exists(), "a plan moves nothing");
    // Without permission nothing is moved either.
    let identity = site.identity("c").await;
    let refused = site.apply(&spec, false).await;
    assert_eq!(object(&refused, "c").reason(), RefusalReason::NeedsRecreation);
    assert_eq!((site.identity("c").await, Path::new(&new).exists()), (identity, false));

    let moved = site.apply(&spec, true).await;
    assert_eq!(object(&moved, "c").action(), Action::Recreated);
    assert!(object(&moved, "c").detail.contains(&new), "{}", object(&moved, "c").detail);
    assert_eq!(shown(&site, "/data/file"), "old");
    assert!(!Path::new(&old).exists());
    assert_eq!(manifest(Path::new(&new)), before);
    // The word may stay in the declaration: there is nothing left to be done.
    let again = site.apply(&spec, true).await;
    assert_eq!(object(&again, "c").action(), Action::Unchanged);
    // And a later recreation finds the data where it is.
    let mut edited = spec.clone();
    edited.containers.get_mut("c").expect("c").labels.insert("edit".to_owned(), "1".to_owned());
    let edited = site.apply(&edited, true).await;
    assert_eq!(only(&edited).verdict(), DataGuardVerdict::Same);
}

#[tokio::test(flavor = "multi_thread")]
async fn to_another_file_system_it_is_copied_and_the_original_is_kept() {
    let site = Site::new("movecopy").await;
    let (old, disk) = (data(&site, "old"), elsewhere());
    make(Path::new(&old), 200);
    let new = inside(&disk, "new");
    site.apply(&plain(&site, &old), false).await;
    let before = manifest(Path::new(&old));
    let spec = moving(&site, &old, &new);
    let judged = plan(&site, &spec).await.data_move.expect("what it takes");
    assert_eq!(judged.way(), MoveWay::Copy);
    assert!(judged.bytes > 10_000 && judged.entries > 200, "{judged:?}");
    let moved = site.apply(&spec, true).await;
    assert_eq!(object(&moved, "c").action(), Action::Recreated);
    assert!(object(&moved, "c").detail.contains("the original is kept at"), "{}", object(&moved, "c").detail);
    assert_eq!(shown(&site, "/data/file"), "old");
    assert_eq!(manifest(Path::new(&new)), before);
    assert!(!Path::new(&old).exists(), "nothing takes it for live data");
    assert_eq!(kept(&old), [before]);
    let again = site.apply(&spec, true).await;
    assert_eq!(object(&again, "c").action(), Action::Unchanged);
    // The original is deleted after its time, not before.
    let module = site.state.module(&site.name);
    assert_eq!(module.kept.len(), 1);
    let until = module.kept[0].until.expect("its time ends");
    assert!(until > std::time::SystemTime::now() + std::time::Duration::from_secs(6 * 24 * 3600));
}

/// A directory where nothing is yet may be the mount point of a new disk, or somebody made it before.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_directory_is_filled() {
    let site = Site::new("moveempty").await;
    let (old, disk) = (data(&site, "old"), elsewhere());
    site.apply(&plain(&site, &old), false).await;
    for new in [inside(&disk, "new"), site.host_folder("new")] {
        std::fs::create_dir_all(&new).expect("a folder");
        let from = text_of_mount(&site).await;
        let before = manifest(Path::new(&from));
        let moved = site.apply(&moving(&site, &from, &new), true).await;
        assert_eq!(object(&moved, "c").action(), Action::Recreated);
        assert_eq!(manifest(Path::new(&new)), before);
        assert_eq!(shown(&site, "/data/file"), "old");
    }
}

async fn text_of_mount(site: &Site) -> String {
    let shown = site.inspect("c").await;
    shown["Mounts"][0]["Source"].as_str().expect("a source").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn from_a_volume_to_a_path_and_back() {
    let site = Site::new("movevolume").await;
    let (path, across) = (beside(&data(&site, "other"), "new"), elsewhere());
    let in_volume = |from: Option<&str>| {
        let mut mount = json!({ "type": "volume", "source": "store", "target": "/data" });
        if let Some(from) = from {
            mount["moved_from"] = json!(from);
        }
        let container = hold(&json!({ "mounts": [mount] }));
        site.module(json!({ "volumes": { "store": {} }, "containers": { "c": container } }))
    };
    site.apply(&in_volume(None), false).await;
    docker(&["exec", &format!("{}-c", site.name), "sh", "-c", "echo kept > /data/file; chown 7:8 /data"]);
    for place in [path, inside(&across, "new")] {
        // By the key that left the declaration.
        let out = site.apply(&moving(&site, "store", &place), true).await;
        assert_eq!(object(&out, "c").action(), Action::Recreated, "{out:?}");
        assert_eq!(shown(&site, "/data/file"), "kept");
        assert_eq!(std::fs::read_to_string(Path::new(&place).join("file")).expect("read"), "kept\n");
        // What a copy left in the volume is in the way of the way back, and of nothing else.
        let volume = docker(&["volume", "inspect", "-f", "{{.Mountpoint}}", &format!("{}_store", site.name)]);
        if Path::new(&volume).join("file").exists() {
            let refused = site.apply(&in_volume(Some(&place)), true).await;
            assert_eq!(only(&refused).verdict(), DataGuardVerdict::Different);
            assert!(only(&refused).detail.contains("both"), "{}", only(&refused).detail);
            for entry in std::fs::read_dir(&volume).expect("listed") {
                let path = entry.expect("listed").path();
                let done =
                    if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
                done.expect("removed");
            }
        }
        let back = site.apply(&in_volume(Some(&place)), true).await;
        assert_eq!(object(&back, "c").action(), Action::Recreated, "{back:?}");
        assert_eq!(shown(&site, "/data/file"), "kept");
        assert_eq!(docker(&["exec", &format!("{}-c", site.name), "stat", "-c", "%u:%g", "/data"]), "7:8");
        assert!(!Path::new(&place).exists());
    }
}

/// Also to a volume that the same apply makes.
#[tokio::test(flavor = "multi_thread")]
async fn to_a_new_volume() {
    let site = Site::new("movenewvolume").await;
    let old = data(&site, "old");
    site.apply(&plain(&site, &old), false).await;
    let mount = json!({ "type": "volume", "source": "store", "target": "/data", "moved_from": old });
    let container = hold(&json!({ "mounts": [mount] }));
    let spec = site.module(json!({ "volumes": { "store": {} }, "containers": { "c": container } }));
    assert_eq!(plan(&site, &spec).await.verdict(), DataGuardVerdict::ToBeMoved);
    let moved = site.apply(&spec, true).await;
    assert_eq!(object(&moved, "c").action(), Action::Recreated);
    assert_eq!(shown(&site, "/data/file"), "old");
    assert!(!Path::new(&old).exists());
}

/// The word may stay in the declaration, also where the container is made anew: the move is over.
#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_is_over_is_not_asked_for_again() {
    let site = Site::new("moveover").await;
    let across = elsewhere();
    let volumes = |mount: Json| {
        let container = hold(&json!({ "mounts": [mount] }));
        site.module(json!({ "volumes": { "one": {}, "two": {} }, "containers": { "c": container } }))
    };
    let store = |source: &str| json!({ "type": "volume", "source": source, "target": "/data" });
    let with = |mount: Json, from: &str| {
        let mut mount = mount;
        mount["moved_from"] = json!(from);
        volumes(mount)
    };
    let place = inside(&across, "new");
    let bind = json!({ "type": "bind", "source": place, "target": "/data" });
    site.apply(&volumes(store("one")), false).await;
    let name = format!("{}-c", site.name);
    docker(&["exec", &name, "sh", "-c", "echo kept > /data/file"]);
    // By a rename, which leaves an empty volume, and by a copy, which leaves the original in the volume.
    for spec in [with(store("two"), "one"), with(bind, "two")] {
        let moved = site.apply(&spec, true).await;
        assert_eq!(object(&moved, "c").action(), Action::Recreated, "{moved:?}");
        docker(&["rm", "-f", &name]);
        let again = site.apply(&spec, false).await;
        assert_eq!(object(&again, "c").action(), Action::Created, "{again:?}");
        assert_eq!(shown(&site, "/data/file"), "kept");
    }
}

/// Each is judged as if it were alone, and the second would not find what was planned.
#[tokio::test(flavor = "multi_thread")]
async fn moves_that_meet_are_not_made_in_one_apply() {
    let site = Site::new("movemeet").await;
    let old = data(&site, "old");
    std::fs::create_dir(Path::new(&old).join("sub")).expect("a folder");
    std::fs::write(Path::new(&old).join("sub/file"), "inner").expect("written");
    let mount = |source: &str, target: &str| json!({ "type": "bind", "source": source, "target": target });
    let inner = format!("{old}/sub");
    site.apply(
        &site.holding(&json!({ "mounts": [mount(&old, "/data"), mount(&inner, "/data/sub")] })),
        false,
    )
    .await;
    let (mut outer, mut sub) =
        (mount(&beside(&old, "new"), "/data"), mount(&beside(&old, "newsub"), "/data/sub"));
    (outer["moved_from"], sub["moved_from"]) = (json!(old), json!(inner));
    let identity = site.identity("c").await;
    let refused = site.apply(&site.holding(&json!({ "mounts": [outer, sub] })), true).await;
    let details: Vec<&str> = object(&refused, "c").mounts.iter().map(|one| one.detail.as_str()).collect();
    assert!(details.iter().all(|detail| detail.contains("move them by hand")), "{details:?}");
    assert_eq!(site.identity("c").await, identity);
}

/// The new container does not come up: the data is back where it was, and the old one runs on it.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_brings_the_data_back() {
    let site = Site::new("moveback").await;
    let (old, disk) = (data(&site, "old"), elsewhere());
    make(Path::new(&old), 100);
    site.apply(&plain(&site, &old), false).await;
    let (id, before) = (site.identity("c").await.0, manifest(Path::new(&old)));
    for (new, settings) in [
        (beside(&old, "new"), json!({ "entrypoint": ["/nonexistent"] })),
        (inside(&disk, "new"), json!({ "entrypoint": ["/nonexistent"] })),
        // It comes up, writes to the data, and dies.
        (
            inside(&disk, "new"),
            json!({ "entrypoint": ["/bin/sh", "-c", "echo new > /data/written; exit 3"] }),
        ),
    ] {
        let mut settings = settings;
        settings["mounts"] = json!([{ "type": "bind", "source": new, "target": "/data", "moved_from": old }]);
        let error = site.fails(&site.holding(&settings)).await;
        assert!(error.rolled_back(), "{error}");
        assert_eq!(site.identity("c").await.0, id);
        assert_eq!(shown(&site, "/data/file"), "old");
        assert_eq!(manifest(Path::new(&old)), before);
        assert!(!Path::new(&new).exists(), "nothing is left at {new}");
        // What it wrote is not deleted with the copy.
        let written = undone(&new);
        let wrote = settings["entrypoint"][2].as_str().is_some_and(|line| line.contains("written"));
        assert_eq!(written.len(), usize::from(wrote), "{written:?}");
        for kept in written {
            assert!(error.to_string().contains(&kept.display().to_string()), "{error}");
            assert_eq!(std::fs::read_to_string(kept.join("written")).expect("read"), "new\n");
        }
        assert_eq!(site.containers(), [format!("{}-c", site.name)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_both_places_hold_and_what_is_not_the_containers_is_not_moved() {
    let site = Site::new("moveboth").await;
    let (old, other) = (data(&site, "old"), data(&site, "other"));
    site.apply(&plain(&site, &old), false).await;
    let refused = |from: String, to: String, verdict: DataGuardVerdict, words: &'static str| {
        let site = &site;
        async move {
            let (before, mutations) = (site.identity("c").await, site.engine.mutations());
            let result = site.apply(&moving(site, &from, &to), true).await;
            let judged = only(&result);
            assert_eq!((judged.verdict(), judged.refused), (verdict, true), "{judged:?}");
            assert!(judged.detail.contains(words), "{}", judged.detail);
            assert_eq!((site.identity("c").await, site.engine.mutations()), (before, mutations));
        }
    };
    refused(old.clone(), other.clone(), DataGuardVerdict::Different, "both").await;
    refused(other.clone(), beside(&old, "new"), DataGuardVerdict::Missing, "is not what is at").await;
    refused(beside(&old, "gone"), beside(&old, "new"), DataGuardVerdict::Missing, "does not exist").await;
    refused(old.clone(), beside(&old, "no/parent"), DataGuardVerdict::Missing, "make it").await;
    // What is accepted by name is the place as it is: nothing is moved.
    let accepted = site.apply_accepting(&moving(&site, &old, &other), &["/data=different"]).await;
    assert_eq!(object(&accepted, "c").action(), Action::Recreated);
    assert_eq!(shown(&site, "/data/file"), "other");
    assert!(Path::new(&old).join("file").exists());
}

/// Whoever gets a mount of the data after the plan would lose sight of it.
#[tokio::test(flavor = "multi_thread")]
async fn who_comes_to_use_the_data_meanwhile_keeps_it_where_it_is() {
    let host = Served::new("movemeanwhile").await;
    let site = &host.site;
    let (old, new) = (data(site, "old"), beside(&data(site, "other"), "new"));
    host.apply(&plain(site, &old), false).await;
    let before = site.identity("c").await.0;
    let stranger = format!("{}-stranger", site.name);
    host.engine.hold("/stop");
    let apply = host.request("move", &moving(site, &old, &new), true);
    let come = async {
        host.engine.held().await;
        docker(&["run", "-d", "--name", &stranger, "-v", &format!("{old}:/x"), "plumbline/sample:1", "hold"]);
        host.engine.release();
    };
    let (mut events, ()) = tokio::join!(host.events(apply), come);
    let Some(Event::Failure(failure)) = events.pop().and_then(|last| last.event) else {
        panic!("{events:?}")
    };
    assert!(failure.message.contains(&stranger) && failure.rolled_back, "{}", failure.message);
    assert!(failure.message.contains(&old), "{}", failure.message);
    assert_eq!(site.identity("c").await.0, before);
    assert_eq!((shown(site, "/data/file"), Path::new(&new).exists()), ("old".to_owned(), false));
    docker(&["rm", "-f", "-v", &stranger]);
    host.apply(&moving(site, &old, &new), true).await;
    assert_eq!(shown(site, "/data/file"), "old");
}

/// Containers of the module that move along are stopped before; for others nothing is moved.
#[tokio::test(flavor = "multi_thread")]
async fn data_that_others_have_moves_with_them_or_not_at_all() {
    let site = Site::new("moveshared").await;
    let (old, new) = (data(&site, "old"), beside(&data(&site, "other"), "new"));
    let pair = |c: Json, d: Json| {
        let with = |mount: Json| hold(&json!({ "mounts": [mount], "stop_grace_period": "1s" }));
        site.module(json!({ "containers": { "c": with(c), "d": with(d) } }))
    };
    let at = |place: &str| json!({ "type": "bind", "source": place, "target": "/data" });
    let moved = |place: &str, from: &str| json!({ "type": "bind", "source": place, "target": "/data", "moved_from": from });
    site.apply(&pair(at(&old), at(&old)), false).await;
    let before = (site.identity("c").await, site.identity("d").await);
    // One stays on the old place.
    let refused = site.apply(&pair(moved(&new, &old), at(&old)), true).await;
    assert_eq!(object(&refused, "c").reason(), RefusalReason::DataGuard);
    let judged = &object(&refused, "c").mounts[0];
    assert!(judged.detail.contains(&format!("{}-d", site.name)), "{}", judged.detail);
    // Not even if somebody accepts it.
    let refused = site.apply_accepting(&pair(moved(&new, &old), at(&old)), &["/data=to_be_moved"]).await;
    assert_eq!(object(&refused, "c").reason(), RefusalReason::DataGuard);
    assert_eq!((site.identity("c").await, site.identity("d").await), before);
    // A stranger has a part of it.
    let stranger = format!("{}-stranger", site.name);
    let part = format!("{old}/file:/file");
    docker(&["run", "-d", "--name", &stranger, "-v", &part, "plumbline/sample:1", "sleep", "600"]);
    let refused = site.apply(&pair(moved(&new, &old), moved(&new, &old)), true).await;
    assert!(object(&refused, "c").mounts[0].detail.contains(&stranger), "{refused:?}");
    docker(&["rm", "-f", &stranger]);
    // A part of it by another name: through a link, and through a volume that is made of the path.
    std::fs::create_dir(Path::new(&old).join("part")).expect("a folder");
    let (link, volume) = (beside(&old, "link"), format!("{}_part", site.name));
    std::os::unix::fs::symlink(&old, &link).expect("a link");
    let device = format!("device={old}/part");
    docker(&["volume", "create", "-o", "type=none", "-o", "o=bind", "-o", &device, &volume]);
    for source in [format!("{link}/part"), volume.clone()] {
        docker(&[
            "run",
            "-d",
            "--name",
            &stranger,
            "-v",
            &format!("{source}:/part"),
            "plumbline/sample:1",
            "hold",
        ]);
        let refused = site.apply(&pair(moved(&new, &old), moved(&new, &old)), true).await;
        assert!(object(&refused, "c").mounts[0].detail.contains(&stranger), "{source}: {refused:?}");
        docker(&["rm", "-f", &stranger]);
    }
    docker(&["volume", "rm", &volume]);
    // The same within the module: it would go on writing to the old place.
    let refused = site.apply(&pair(moved(&new, &old), at(&format!("{link}/part"))), true).await;
    assert_eq!(object(&refused, "c").reason(), RefusalReason::DataGuard, "{refused:?}");
    // The place where it goes is somebody's.
    std::fs::create_dir(&new).expect("a folder");
    docker(&["run", "-d", "--name", &stranger, "-v", &format!("{new}:/x"), "plumbline/sample:1", "hold"]);
    let refused = site.apply(&pair(moved(&new, &old), moved(&new, &old)), true).await;
    assert!(object(&refused, "c").mounts[0].detail.contains(&stranger), "{refused:?}");
    docker(&["rm", "-f", &stranger]);
    std::fs::remove_dir(&new).expect("removed");
    // A stranger that has nothing but memory mounted has no part of it.
    docker(&[
        "run",
        "-d",
        "--name",
        &stranger,
        "--mount",
        "type=tmpfs,target=/run",
        "plumbline/sample:1",
        "sleep",
        "600",
    ]);
    // One of two fails: both are back on the old place.
    let mut failing = pair(moved(&new, &old), moved(&new, &old));
    failing.containers.get_mut("d").expect("d").entrypoint =
        Some(plumbline::proto::v1::StringList { values: vec!["/nonexistent".to_owned()] });
    let error = site.fails(&failing).await;
    assert!(error.rolled_back(), "{error}");
    assert_eq!((site.identity("c").await.0, site.identity("d").await.0), (before.0.0, before.1.0));
    assert!(Path::new(&old).join("file").exists() && !Path::new(&new).exists());
    // Both go.
    let both = site.apply(&pair(moved(&new, &old), moved(&new, &old)), true).await;
    assert_eq!(
        (object(&both, "c").action(), object(&both, "d").action()),
        (Action::Recreated, Action::Recreated)
    );
    for key in ["c", "d"] {
        assert_eq!(docker(&["exec", &format!("{}-{key}", site.name), "cat", "/data/file"]), "old");
    }
    assert!(!Path::new(&old).exists());
    docker(&["rm", "-f", &stranger]);
}
