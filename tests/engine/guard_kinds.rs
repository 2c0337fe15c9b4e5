//! The data guard on all that can stand behind a mount: paths, links, files, other file systems, volumes, and nothing.

use std::path::Path;

use plumbline::proto::v1::{Action, DataGuardVerdict};
use serde_json::{Value as Json, json};

use crate::guard::{beside, bind, data, is_refused, only, shown, spec, verdicts, with_volumes};
use crate::site::{Site, docker, hold, object};

#[tokio::test(flavor = "multi_thread")]
async fn symbolic_links_are_followed_on_the_host_and_in_the_container() {
    let site = Site::new("links").await;
    let (real, other) = (data(&site, "real"), data(&site, "other"));
    let link = beside(&real, "link");
    std::os::unix::fs::symlink(&real, &link).expect("a link");
    site.apply(&spec(&site, &bind(&link), "1"), false).await;
    let result = site.apply(&spec(&site, &bind(&real), "1"), true).await;
    assert_eq!(
        (object(&result, "c").action(), only(&result).verdict()),
        (Action::Recreated, DataGuardVerdict::Same)
    );
    let result = site.apply(&spec(&site, &bind(&link), "1"), true).await;
    assert_eq!(only(&result).verdict(), DataGuardVerdict::Same);
    std::fs::remove_file(&link).expect("it is there");
    std::os::unix::fs::symlink(&other, &link).expect("a link");
    is_refused(&site, &spec(&site, &bind(&link), "2"), DataGuardVerdict::Different).await;

    // In the image a link leads to another path of the container, which the host has, too.
    let (maker, image) = (format!("{}-maker", site.name), format!("{}:linked", site.name));
    docker(&["run", "--name", &maker, "plumbline/sample:1", "ln", "-s", "/etc/linked", "/linked"]);
    docker(&["commit", &maker, &image]);
    let linked = |edit: &str| {
        let mounts = json!([format!("{real}:/linked")]);
        let settings =
            json!({ "image": image, "mounts": mounts, "labels": { "edit": edit }, "pull_policy": "never" });
        site.module(json!({ "containers": { "c": hold(&settings) } }))
    };
    let result = site.apply(&linked("1"), true).await;
    assert_eq!(object(&result, "c").action(), Action::Recreated, "the same data at another target");
    assert_eq!(shown(&site, "/etc/linked/file"), "real");
    let result = site.apply(&linked("2"), true).await;
    assert_eq!(
        (object(&result, "c").action(), only(&result).verdict()),
        (Action::Recreated, DataGuardVerdict::Same)
    );
    docker(&["rm", "-f", &format!("{}-c", site.name)]);
    docker(&["rm", "-f", &maker]);
    docker(&["rmi", &image]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_on_another_file_system_is_different_data() {
    use std::os::unix::fs::MetadataExt as _;
    let site = Site::new("otherfs").await;
    let old = data(&site, "old");
    let memory = tempfile::tempdir_in("/dev/shm").expect("a memory file system, as on every host");
    let copy = memory.path().join("copy");
    std::fs::create_dir(&copy).expect("a folder");
    std::fs::copy(Path::new(&old).join("file"), copy.join("file")).expect("a copy");
    let device = |path: &Path| std::fs::metadata(path).expect("it is there").dev();
    assert_ne!(device(&copy), device(Path::new(&old)));
    site.apply(&spec(&site, &bind(&old), "1"), false).await;
    let changed = spec(&site, &bind(&copy.display().to_string()), "1");
    is_refused(&site, &changed, DataGuardVerdict::Different).await;
    let result = site.apply_accepting(&changed, &["/data=different"]).await;
    assert_eq!(object(&result, "c").action(), Action::Recreated);
    docker(&["rm", "-f", &format!("{}-c", site.name)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_replaced_by_a_rename_is_not_what_the_container_has() {
    let site = Site::new("stale").await;
    let folder = site.host_folder("etc");
    let (file, new) = (format!("{folder}/app.conf"), format!("{folder}/app.conf.new"));
    let mounts = json!([format!("{file}:/app.conf")]);
    std::fs::write(&file, "old").expect("a file");
    site.apply(&spec(&site, &mounts, "1"), false).await;
    std::fs::write(&new, "new").expect("a file");
    std::fs::rename(&new, &file).expect("one file system");
    let process = site.inspect("c").await["State"]["Pid"].clone();
    let mountinfo = std::fs::read_to_string(format!("/proc/{process}/mountinfo")).expect("it runs");
    assert!(mountinfo.lines().any(|line| line.contains("app.conf//deleted")), "{mountinfo}");
    let judged = is_refused(&site, &spec(&site, &mounts, "2"), DataGuardVerdict::Different).await;
    assert!(judged.detail.contains("replaced or removed since"), "{}", judged.detail);
    assert_eq!(shown(&site, "/app.conf"), "old");
    site.apply_accepting(&spec(&site, &mounts, "2"), &["/app.conf=different"]).await;
    assert_eq!(shown(&site, "/app.conf"), "new");
    // Written in place it is the same file.
    std::fs::write(&file, "newer").expect("a file");
    let result = site.apply(&spec(&site, &mounts, "3"), true).await;
    assert_eq!(
        (object(&result, "c").action(), only(&result).verdict()),
        (Action::Recreated, DataGuardVerdict::Same)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_container_is_judged_by_its_paths() {
    let site = Site::new("stopped").await;
    let (old, empty) = (data(&site, "old"), site.host_folder("empty"));
    site.apply(&spec(&site, &bind(&old), "1"), false).await;
    docker(&["stop", "-t", "0", &format!("{}-c", site.name)]);
    is_refused(&site, &spec(&site, &bind(&empty), "1"), DataGuardVerdict::Empty).await;
    let renamed = beside(&old, "renamed");
    std::fs::rename(&old, &renamed).expect("one file system");
    let judged = is_refused(&site, &spec(&site, &bind(&renamed), "1"), DataGuardVerdict::Unknown).await;
    assert!(judged.detail.contains("does not run"), "{}", judged.detail);
    std::fs::rename(&renamed, &old).expect("one file system");
    let result = site.apply(&spec(&site, &bind(&old), "2"), true).await;
    assert_eq!(
        (object(&result, "c").action(), only(&result).verdict()),
        (Action::Recreated, DataGuardVerdict::Same)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_that_goes_is_named_if_something_becomes_invisible() {
    let site = Site::new("gone").await;
    let (full, empty) = (data(&site, "full"), site.host_folder("empty"));
    let mounts = json!([format!("{full}:/data"), format!("{empty}:/empty")]);
    site.apply(&spec(&site, &mounts, "1"), false).await;
    // H31: the declaration lost its mounts. The empty one is not missed.
    let bare = spec(&site, &json!([]), "1");
    let judged = is_refused(&site, &bare, DataGuardVerdict::Removed).await;
    assert_eq!((judged.source_before.as_str(), judged.source_after.as_str()), (full.as_str(), ""));
    // H02: the same data at another target.
    let moved = site.apply(&spec(&site, &json!([format!("{full}:/other")]), "1"), true).await;
    assert_eq!(object(&moved, "c").action(), Action::Recreated);
    let expected = [("/other", DataGuardVerdict::FirstUse), ("/data", DataGuardVerdict::Moved)];
    assert_eq!(verdicts(&moved), expected.map(|(target, verdict)| (target.to_owned(), verdict)));
    // One mount instead of the one above it: the same directory is seen at the same place.
    std::fs::create_dir(Path::new(&full).join("sub")).expect("a folder");
    std::fs::write(Path::new(&full).join("sub/file"), "sub").expect("a file");
    let nested = json!([format!("{full}:/other"), format!("{full}/sub:/other/sub")]);
    let split = site.apply(&spec(&site, &nested, "1"), true).await;
    assert_eq!(object(&split, "c").action(), Action::Recreated);
    let joined = site.apply(&spec(&site, &json!([format!("{full}:/other")]), "1"), true).await;
    assert_eq!(object(&joined, "c").action(), Action::Recreated);
    let removed = site.apply_accepting(&bare, &["/other=removed"]).await;
    assert_eq!(object(&removed, "c").action(), Action::Recreated);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_over_what_the_container_wrote_itself_is_no_first_use() {
    let site = Site::new("covers").await;
    let (full, empty) = (data(&site, "full"), site.host_folder("empty"));
    site.apply(&spec(&site, &json!([]), "1"), false).await;
    // Nothing was written there.
    let plan = site.plan(&spec(&site, &bind(&empty), "1"), true).await.result.expect("a result");
    assert_eq!(only(&plan).verdict(), DataGuardVerdict::FirstUse);
    docker(&["exec", &format!("{}-c", site.name), "mkdir", "/data"]);
    let plan = site.plan(&spec(&site, &bind(&empty), "1"), true).await.result.expect("a result");
    assert_eq!(only(&plan).verdict(), DataGuardVerdict::FirstUse);
    docker(&["exec", &format!("{}-c", site.name), "touch", "/data/own"]);
    is_refused(&site, &spec(&site, &bind(&empty), "1"), DataGuardVerdict::Empty).await;
    is_refused(&site, &spec(&site, &bind(&full), "1"), DataGuardVerdict::Different).await;
    is_refused(&site, &spec(&site, &json!(["/data"]), "1"), DataGuardVerdict::Empty).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_are_compared_like_paths() {
    let site = Site::new("volumes").await;
    let volumes = json!({ "one": {}, "two": {} });
    let spec = |mounts: &Json, edit: &str| with_volumes(&site, &volumes, mounts, edit);
    let (one, two) = (json!(["one:/data"]), json!(["two:/data"]));
    let created = site.apply(&spec(&one, "1"), false).await;
    assert_eq!(only(&created).verdict(), DataGuardVerdict::FirstUse);
    docker(&["exec", &format!("{}-c", site.name), "touch", "/data/file"]);
    let same = site.apply(&spec(&one, "2"), true).await;
    assert_eq!(
        (object(&same, "c").action(), only(&same).verdict()),
        (Action::Recreated, DataGuardVerdict::Same)
    );
    // Both exist; the other was never used.
    is_refused(&site, &spec(&two, "2"), DataGuardVerdict::Empty).await;
    is_refused(&site, &spec(&json!(["/data"]), "2"), DataGuardVerdict::Empty).await;
    is_refused(&site, &spec(&bind(&data(&site, "folder")), "2"), DataGuardVerdict::Different).await;
    // One that is yet to be made.
    let renamed =
        with_volumes(&site, &json!({ "one": {}, "two": {}, "new": {} }), &json!(["new:/data"]), "2");
    is_refused(&site, &renamed, DataGuardVerdict::Empty).await;
    // The volume's own directory, by its path.
    let volume =
        site.engine.volume(&format!("{}_one", site.name)).await.expect("it answers").expect("it is there");
    let path = volume["Mountpoint"].as_str().expect("a path");
    let by_path = site.apply(&spec(&bind(path), "2"), true).await;
    assert_eq!(
        (object(&by_path, "c").action(), only(&by_path).verdict()),
        (Action::Recreated, DataGuardVerdict::Same)
    );
    let accepted = site.apply_accepting(&spec(&two, "2"), &["/data=empty"]).await;
    assert_eq!(object(&accepted, "c").action(), Action::Recreated);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_anonymous_volume_is_the_same_as_long_as_it_is_carried_over() {
    let site = Site::new("anonguard").await;
    let anonymous = json!(["/data"]);
    site.apply(&spec(&site, &anonymous, "1"), false).await;
    docker(&["exec", &format!("{}-c", site.name), "touch", "/data/file"]);
    for edit in ["2", "3"] {
        let same = site.apply(&spec(&site, &anonymous, edit), true).await;
        assert_eq!(
            (object(&same, "c").action(), only(&same).verdict()),
            (Action::Recreated, DataGuardVerdict::Same)
        );
    }
    let named = with_volumes(&site, &json!({ "named": {} }), &json!(["named:/data"]), "3");
    is_refused(&site, &named, DataGuardVerdict::Empty).await;
    let generated = site.inspect("c").await["Mounts"][0]["Name"].clone();
    let volumes = json!({ "kept": { "external": true, "name": generated } });
    let kept = site.apply(&with_volumes(&site, &volumes, &json!(["kept:/data"]), "4"), true).await;
    assert_eq!(
        (object(&kept, "c").action(), only(&kept).verdict()),
        (Action::Recreated, DataGuardVerdict::Same)
    );
}
