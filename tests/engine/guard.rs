//! The data guard: a container is put on the data that it had, or on none that anybody would miss; else somebody has to
//! say by name that it is meant.

use std::path::Path;

use plumbline::proto::v1::apply_response::Event;
use plumbline::proto::v1::{
    Action, ApplyRequest, DataGuardVerdict, ModuleResult, ModuleSpec, MountVerdict, RefusalReason,
};
use plumbline_agent::guard::HostFiles;
use serde_json::{Value as Json, json};

use crate::served::Served;
use crate::site::{Site, acceptances, changes, docker, hold, object, request};

/// A module of one container `c` with these mounts. Another edit needs a recreation, whatever the mounts are.
pub(crate) fn spec(site: &Site, mounts: &Json, edit: &str) -> ModuleSpec {
    site.holding(&json!({ "mounts": mounts, "labels": { "edit": edit } }))
}

/// The same with these volumes of the module.
pub(crate) fn with_volumes(site: &Site, volumes: &Json, mounts: &Json, edit: &str) -> ModuleSpec {
    let container = hold(&json!({ "mounts": mounts, "labels": { "edit": edit } }));
    site.module(json!({ "volumes": volumes, "containers": { "c": container } }))
}

pub(crate) fn bind(source: &str) -> Json {
    json!([format!("{source}:/data")])
}

/// A folder of the host with a file in it.
pub(crate) fn data(site: &Site, name: &str) -> String {
    let folder = site.host_folder(name);
    std::fs::write(Path::new(&folder).join("file"), name).expect("a file");
    folder
}

pub(crate) fn beside(folder: &str, name: &str) -> String {
    Path::new(folder).with_file_name(name).display().to_string()
}

pub(crate) fn verdicts(result: &ModuleResult) -> Vec<(String, DataGuardVerdict)> {
    object(result, "c").mounts.iter().map(|mount| (mount.target.clone(), mount.verdict())).collect()
}

/// The verdict on the only mount.
pub(crate) fn only(result: &ModuleResult) -> &MountVerdict {
    let [mount] = &object(result, "c").mounts[..] else { panic!("{:?}", object(result, "c").mounts) };
    mount
}

pub(crate) fn shown(site: &Site, path: &str) -> String {
    docker(&["exec", &format!("{}-c", site.name), "cat", path])
}

/// An apply that may recreate is refused with this verdict on the only mount, and touches nothing.
pub(crate) async fn is_refused(site: &Site, spec: &ModuleSpec, verdict: DataGuardVerdict) -> MountVerdict {
    let (before, mutations) = (site.identity("c").await, site.engine.mutations());
    let result = site.apply(spec, true).await;
    let refused = object(&result, "c");
    assert_eq!(
        (only(&result).verdict(), refused.reason()),
        (verdict, RefusalReason::DataGuard),
        "{refused:?}"
    );
    let option = format!("--accept-data c:{}={}", only(&result).target, plumbline::guard::word(verdict));
    assert!(refused.detail.contains(&option), "{}", refused.detail);
    assert!(only(&result).refused && only(&result).detail.contains(&option), "{:?}", only(&result));
    assert_eq!(site.engine.mutations(), mutations, "not one mutating call");
    assert_eq!(site.identity("c").await, before);
    only(&result).clone()
}

/// The incident: the declared path of a container's data changes.
#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_leads_to_other_data_is_refused_and_the_renamed_directory_is_not() {
    let site = Site::new("incident").await;
    let (old, other, empty) = (data(&site, "old"), data(&site, "other"), site.host_folder("empty"));
    let missing = beside(&old, "missing");
    site.apply(&spec(&site, &bind(&old), "1"), false).await;
    for (path, verdict) in [
        (&missing, DataGuardVerdict::Missing),
        (&empty, DataGuardVerdict::Empty),
        (&other, DataGuardVerdict::Different),
    ] {
        let changed = spec(&site, &bind(path), "1");
        let judged = is_refused(&site, &changed, verdict).await;
        assert_eq!((&judged.source_before, &judged.source_after), (&old, path));
        // The plan without permission says so before anybody allows anything, and the leaf says it, too.
        let plan = site.plan(&changed, false).await.result.expect("a result");
        assert_eq!(object(&plan, "c").reason(), RefusalReason::NeedsRecreation);
        assert_eq!(only(&plan).verdict(), verdict);
        let leaves = changes(object(&plan, "c"));
        assert!(leaves.iter().all(|change| change.data_guard() == verdict), "{leaves:?}");
    }
    assert!(!Path::new(&missing).exists(), "nothing is made on the host");

    let renamed = beside(&old, "renamed");
    std::fs::rename(&old, &renamed).expect("one file system");
    let moved = site.apply(&spec(&site, &bind(&renamed), "1"), true).await;
    assert_eq!(object(&moved, "c").action(), Action::Recreated);
    assert_eq!(only(&moved).verdict(), DataGuardVerdict::Moved);
    assert_eq!(shown(&site, "/data/file"), "old");
}

/// A declaration that stayed while its path was given to another directory: the running container has the old one still.
#[tokio::test(flavor = "multi_thread")]
async fn another_directory_under_the_same_path_is_noticed_when_the_container_is_recreated() {
    let site = Site::new("swapped").await;
    let folder = data(&site, "data");
    site.apply(&spec(&site, &bind(&folder), "1"), false).await;
    std::fs::rename(&folder, beside(&folder, "aside")).expect("one file system");
    is_refused(&site, &spec(&site, &bind(&folder), "2"), DataGuardVerdict::Missing).await;
    std::fs::create_dir(&folder).expect("a folder");
    is_refused(&site, &spec(&site, &bind(&folder), "2"), DataGuardVerdict::Empty).await;
    std::fs::write(Path::new(&folder).join("file"), "blank").expect("a file");
    is_refused(&site, &spec(&site, &bind(&folder), "2"), DataGuardVerdict::Different).await;
    // Nothing is recreated: nothing is judged.
    let unchanged = site.apply(&spec(&site, &bind(&folder), "1"), true).await;
    assert_eq!(object(&unchanged, "c").action(), Action::Unchanged);
    assert_eq!(verdicts(&unchanged), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_accepted_by_name_is_done_and_what_is_found_otherwise_is_not() {
    let site = Site::new("accepted").await;
    let (old, empty) = (data(&site, "old"), site.host_folder("empty"));
    site.apply(&spec(&site, &bind(&old), "1"), false).await;
    let changed = spec(&site, &bind(&empty), "1");
    let mutations = site.engine.mutations();
    for wrong in [&["/data=different"][..], &["/other=empty"], &["/data=empty", "/data=missing"]] {
        let result = site.apply_accepting(&changed, wrong).await;
        assert_eq!(object(&result, "c").reason(), RefusalReason::DataGuard, "{wrong:?}");
    }
    let of_another = ApplyRequest {
        accepted_data: acceptances(&["/data=empty"])
            .into_iter()
            .map(|one| plumbline::proto::v1::DataAcceptance { container: "d".to_owned(), ..one })
            .collect(),
        ..request(&changed, &[])
    };
    let error = site.apply_request(&of_another).await.error.expect("there is no such container");
    assert!(error.to_string().contains("no such container (it has c)"), "{error}");
    assert_eq!(site.engine.mutations(), mutations);

    let result = site.apply_accepting(&changed, &["/data=empty"]).await;
    assert_eq!(object(&result, "c").action(), Action::Recreated);
    assert!(only(&result).accepted && !only(&result).refused);
    assert_eq!(docker(&["exec", &format!("{}-c", site.name), "ls", "/data"]), "");
    let again = site.apply_accepting(&changed, &["/data=empty"]).await;
    assert_eq!(object(&again, "c").action(), Action::Unchanged);
    // On the same directory an acceptance of another is a mistake.
    let result = site.apply_accepting(&spec(&site, &bind(&empty), "2"), &["/data=empty"]).await;
    assert_eq!(object(&result, "c").reason(), RefusalReason::DataGuard);
    assert_eq!(only(&result).verdict(), DataGuardVerdict::Same);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_binds_what_was_found_and_what_was_accepted() {
    let site = Site::new("bound").await;
    let (old, other) = (data(&site, "old"), data(&site, "other"));
    site.apply(&spec(&site, &bind(&old), "1"), false).await;
    let changed = spec(&site, &bind(&other), "1");
    let accepted = ["/data=different"];
    let plan = site.plan_accepting(&changed, true, &accepted).await;
    assert_eq!(object(&plan.result.clone().expect("a result"), "c").action(), Action::Recreated);
    let by_plan = |accepted: &[&str]| ApplyRequest {
        plan_token: plan.plan_token.clone(),
        ..request(&changed, accepted)
    };
    let without = site.apply_request(&by_plan(&[])).await.result.expect("a result");
    assert_eq!(object(&without, "c").reason(), RefusalReason::StalePlan);
    let file = Path::new(&other).join("file");
    std::fs::remove_file(&file).expect("it is there");
    let emptied = site.apply_request(&by_plan(&accepted)).await.result.expect("a result");
    assert_eq!(object(&emptied, "c").reason(), RefusalReason::StalePlan);
    std::fs::write(&file, "other").expect("a file");
    let result = site.apply_request(&by_plan(&accepted)).await.result.expect("a result");
    assert_eq!(object(&result, "c").action(), Action::Recreated);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_there_was_not_is_put_on_what_is_there() {
    let site = Site::new("firstuse").await;
    let (full, empty) = (data(&site, "full"), site.host_folder("empty"));
    let missing = beside(&full, "missing");
    let mutations = site.engine.mutations();
    let refused = site.apply(&spec(&site, &bind(&missing), "1"), false).await;
    assert_eq!(object(&refused, "c").reason(), RefusalReason::DataGuard);
    assert_eq!((only(&refused).verdict(), site.engine.mutations()), (DataGuardVerdict::Missing, mutations));
    let mounts = json!([format!("{full}:/full"), format!("{empty}:/empty"), "/anonymous"]);
    let created = site.apply(&spec(&site, &mounts, "1"), false).await;
    assert_eq!(object(&created, "c").action(), Action::Created);
    let first = |target: &str| (target.to_owned(), DataGuardVerdict::FirstUse);
    let mut all = verdicts(&created);
    all.sort();
    assert_eq!(all, [first("/anonymous"), first("/empty"), first("/full")]);
}

/// As an agent in a container that was not given the host's root.
#[tokio::test(flavor = "multi_thread")]
async fn where_the_agent_cannot_see_the_host_it_says_so_and_refuses() {
    let mut site = Site::new("unseen").await;
    let (full, nowhere) = (data(&site, "full"), site.host_folder("nowhere"));
    site.files = HostFiles::below(Path::new(&nowhere));
    let first = site.apply(&spec(&site, &bind(&full), "1"), false).await;
    assert_eq!(object(&first, "c").reason(), RefusalReason::DataGuard);
    assert_eq!(only(&first).verdict(), DataGuardVerdict::Unknown);
    assert!(only(&first).detail.contains("--host-root"), "{}", only(&first).detail);
    assert_eq!(site.containers(), [] as [&str; 0]);
    let accepted = site.apply_accepting(&spec(&site, &bind(&full), "1"), &["/data=unknown"]).await;
    assert_eq!(object(&accepted, "c").action(), Action::Created);
    is_refused(&site, &spec(&site, &bind(&full), "2"), DataGuardVerdict::Unknown).await;
    // What the engine itself knows needs no seeing: one name is one volume.
    let volumes = |site: &Site, edit: &str| {
        with_volumes(site, &json!({ "v": {} }), &json!(["v:/v", format!("{full}:/data"), "/own"]), edit)
    };
    site.apply_accepting(&volumes(&site, "2"), &["/data=unknown"]).await;
    let again = site.apply_accepting(&volumes(&site, "3"), &["/data=unknown"]).await;
    assert_eq!(object(&again, "c").action(), Action::Recreated);
    let mut all = verdicts(&again);
    all.sort();
    let same = |target: &str| (target.to_owned(), DataGuardVerdict::Same);
    assert_eq!(all, [("/data".to_owned(), DataGuardVerdict::Unknown), same("/own"), same("/v")]);
    // With the host's root at another place it is seen there.
    let root = site.host_folder("root");
    std::os::unix::fs::symlink("/", Path::new(&root).join("host")).expect("a link");
    site.files = HostFiles::below(&Path::new(&root).join("host"));
    let seen = site.apply(&volumes(&site, "4"), true).await;
    assert_eq!(object(&seen, "c").action(), Action::Recreated);
    assert!(
        verdicts(&seen).iter().all(|(_, verdict)| *verdict == DataGuardVerdict::Same),
        "{:?}",
        verdicts(&seen)
    );
}

/// One part of the module is refused: the others are not touched either, and say what stands behind their mounts.
#[tokio::test(flavor = "multi_thread")]
async fn one_mount_that_is_refused_refuses_the_module() {
    let site = Site::new("whole").await;
    let (full, missing) = (data(&site, "full"), format!("{}/missing", site.host_folder("root")));
    let spec = site.module(json!({ "volumes": { "v": {} }, "containers": {
        "a": hold(&json!({ "mounts": bind(&full) })), "c": hold(&json!({ "mounts": [format!("{missing}:/x"), "v:/v"] }))
    } }));
    let mutations = site.engine.mutations();
    let result = site.apply(&spec, true).await;
    assert_eq!(object(&result, "a").reason(), RefusalReason::Module);
    assert_eq!(object(&result, "a").mounts[0].verdict(), DataGuardVerdict::FirstUse);
    assert_eq!(object(&result, "c").reason(), RefusalReason::DataGuard);
    assert_eq!((site.containers().len(), site.engine.mutations()), (0, mutations));
}

/// The path is given to another directory after the plan, before the engine's call with this in its text.
async fn is_noticed_before(test: &str, call: &str) {
    let host = Served::new(test).await;
    let site = &host.site;
    let (old, new) = (data(site, "old"), data(site, "new"));
    host.apply(&spec(site, &bind(&old), "1"), false).await;
    let before = site.identity("c").await.0;
    let names = site.containers();
    let apply = ApplyRequest {
        accepted_data: acceptances(&["/data=different"]),
        ..host.request("change", &spec(site, &bind(&new), "1"), true)
    };
    host.engine.hold(call);
    let swap = async {
        host.engine.held().await;
        std::fs::rename(&new, beside(&new, "aside")).expect("one file system");
        std::fs::create_dir(&new).expect("a folder");
        host.engine.release();
    };
    let (mut events, ()) = tokio::join!(host.events(apply), swap);
    let Some(Event::Failure(failure)) = events.pop().and_then(|last| last.event) else {
        panic!("{events:?}")
    };
    assert!(failure.message.contains("something else than in the plan"), "{}", failure.message);
    assert!(failure.message.contains(&new) && failure.rolled_back, "{}", failure.message);
    assert_eq!((site.identity("c").await.0, site.containers()), (before, names));
    assert_eq!(site.inspect("c").await["State"]["Running"], true);
    assert_eq!(shown(site, "/data/file"), "old");
    let stopped = host.engine.take_mutations().iter().any(|call| call.ends_with("/stop"));
    assert_eq!(stopped, call == "/stop", "the old container is stopped only if nothing changed until then");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_before_the_old_container_is_stopped_leaves_it_running() {
    is_noticed_before("beforestop", "POST /containers/create").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_before_the_new_container_is_started_brings_the_old_one_back() {
    is_noticed_before("beforestart", "/stop").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_before_a_first_container_is_started_leaves_none() {
    let host = Served::new("beforefirst").await;
    let folder = data(&host.site, "data");
    let spec = spec(&host.site, &bind(&folder), "1");
    host.engine.hold("POST /containers/create");
    let empty = async {
        host.engine.held().await;
        std::fs::remove_file(Path::new(&folder).join("file")).expect("it is there");
        host.engine.release();
    };
    let (failure, ()) = tokio::join!(host.fails(&spec), empty);
    assert!(failure.message.contains("holds nothing any more"), "{}", failure.message);
    assert_eq!(host.site.containers(), [] as [&str; 0]);
}

/// The first of two that share a directory fills it before the second is started: that is no change of the plan.
#[tokio::test(flavor = "multi_thread")]
async fn containers_that_share_an_empty_directory_can_be_created_together() {
    let site = Site::new("share").await;
    let folder = site.host_folder("shared");
    let writes = json!({
        "image": "plumbline/sample:1", "entrypoint": ["/bin/sh", "-c"], "mounts": bind(&folder),
        "command": ["touch /data/file; exec sleep 1000"], "stop_signal": "SIGKILL"
    });
    let reads = hold(&json!({ "mounts": bind(&folder), "depends_on": ["a"] }));
    let result = site.apply(&site.module(json!({ "containers": { "a": writes, "c": reads } })), false).await;
    assert!(result.objects.iter().all(|object| object.action() == Action::Created), "{result:?}");
    assert_eq!(docker(&["exec", &format!("{}-c", site.name), "ls", "/data"]), "file");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_in_a_container_sees_through_the_mounted_root() {
    let host = Served::contained("inside", true).await;
    let site = &host.site;
    let (old, empty) = (data(site, "old"), site.host_folder("empty"));
    let (link, missing) = (beside(&old, "link"), beside(&old, "missing"));
    std::os::unix::fs::symlink(&old, &link).expect("a link");
    let created = host.apply(&spec(site, &bind(&link), "1"), false).await;
    assert_eq!(only(&created).verdict(), DataGuardVerdict::FirstUse);
    for (path, verdict) in [
        (&missing, DataGuardVerdict::Missing),
        (&empty, DataGuardVerdict::Empty),
        (&old, DataGuardVerdict::Same),
    ] {
        let planned = host.plan(&spec(site, &bind(path), "1")).await;
        assert_eq!(only(&planned).verdict(), verdict, "{:?}", only(&planned));
    }
    let renamed = beside(&old, "renamed");
    std::fs::rename(&old, &renamed).expect("one file system");
    let moved = host.apply(&spec(site, &bind(&renamed), "1"), true).await;
    assert_eq!(
        (object(&moved, "c").action(), only(&moved).verdict()),
        (Action::Recreated, DataGuardVerdict::Moved)
    );
    assert_eq!(shown(site, "/data/file"), "old");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_in_a_container_without_the_root_knows_that_it_does_not_see_the_host() {
    let host = Served::contained("blind", false).await;
    let folder = data(&host.site, "data");
    let refused = host.apply(&spec(&host.site, &bind(&folder), "1"), true).await;
    assert_eq!(object(&refused, "c").reason(), RefusalReason::DataGuard);
    assert_eq!(only(&refused).verdict(), DataGuardVerdict::Unknown);
    assert!(only(&refused).detail.contains("--host-root"), "{}", only(&refused).detail);
}

/// Somebody removed the container, and with it all that showed what it had: the agent remembers.
#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_was_removed_by_hand_is_not_made_on_other_data() {
    let host = Served::new("guardgone").await;
    let site = &host.site;
    let (old, empty) = (data(site, "old"), site.host_folder("empty"));
    let name = format!("{}-c", site.name);
    let of = |mounts: Json| {
        let container = hold(&json!({ "mounts": mounts }));
        site.module(json!({ "volumes": { "v": {} }, "containers": { "c": container } }))
    };
    host.apply(&of(bind(&old)), false).await;
    docker(&["rm", "-f", &name]);
    let refused = host.apply(&of(bind(&empty)), false).await;
    assert_eq!(only(&refused).verdict(), DataGuardVerdict::Empty, "{refused:?}");
    assert!(site.containers().is_empty(), "nothing was made");
    // Where it was it finds its data.
    host.apply(&of(bind(&old)), false).await;
    assert_eq!(shown(site, "/data/file"), "old");
    docker(&["rm", "-f", &name]);
    host.apply_accepting(&of(bind(&empty)), &["/data=empty"]).await;

    // A volume that went with it is not made anew without a word.
    let volume = json!([{ "type": "volume", "source": "v", "target": "/data" }]);
    host.apply_accepting(&of(volume.clone()), &["/data=empty"]).await;
    docker(&["rm", "-f", &name]);
    host.apply(&of(volume.clone()), false).await;
    docker(&["rm", "-f", &name]);
    docker(&["volume", "rm", &format!("{}_v", site.name)]);
    let refused = host.apply(&of(volume.clone()), false).await;
    assert_eq!(only(&refused).verdict(), DataGuardVerdict::Empty, "{refused:?}");
    host.apply_accepting(&of(volume), &["/data=empty"]).await;
    assert_eq!(site.containers(), [name]);
}
