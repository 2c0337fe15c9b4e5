//! Containers of others that depend on one that is to be replaced or taken away; and those that remove themselves.
//!
//! What becomes of each kind is in `agent/src/apply/neighbours.rs`; here it is tried.

use plumbline::proto::v1::{Action, RefusalReason};
use plumbline_agent::removal;
use serde_json::json;

use crate::site::{Site, docker, docker_says, hold, object};

/// Another container with these options, that holds.
fn run(name: &str, options: &[&str]) {
    let mut command = vec!["run", "-d", "--name", name];
    command.extend(options);
    command.extend(["plumbline/sample:1", "hold"]);
    docker(&command);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_lives_with_a_container_keeps_it_from_being_replaced_until_it_is_stopped() {
    let site = Site::new("dependants").await;
    let spec = |edit: &str| site.holding(&json!({ "ipc": "shareable", "labels": { "edit": edit } }));
    site.apply(&spec("0"), false).await;
    let (owner, guest) = (format!("{}-c", site.name), format!("{}-guest", site.name));
    let of = format!("container:{owner}");
    for (number, (option, value, words)) in [
        ("--network", &of, "network namespace"),
        ("--ipc", &of, "IPC namespace"),
        ("--pid", &of, "PID namespace"),
        ("--link", &format!("{owner}:x"), "linked"),
    ]
    .into_iter()
    .enumerate()
    {
        let edited = spec(&(number + 1).to_string());
        run(&guest, &[option, value]);
        let (before, mutations) = (site.identity("c").await, site.engine.mutations());
        let refused = site.apply(&edited, true).await;
        let shown = object(&refused, "c");
        assert_eq!(shown.reason(), RefusalReason::InUse, "{option}");
        assert!(shown.detail.contains(&guest) && shown.detail.contains(words), "{}", shown.detail);
        assert_eq!((site.identity("c").await, site.engine.mutations()), (before, mutations), "{option}");

        docker(&["stop", "-t", "1", &guest]);
        let applied = site.apply(&edited, true).await;
        let shown = object(&applied, "c");
        assert_eq!(shown.action(), Action::Recreated, "{option}");
        assert!(shown.detail.contains("cannot start again"), "{}", shown.detail);
        // That is true.
        docker_says(&["start", &guest]);
        assert_eq!(docker(&["inspect", "--format", "{{.State.Running}}", &guest]), "false", "{option}");
        docker(&["rm", "-f", &guest]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_took_volumes_or_names_it_on_a_network_works_on() {
    let site = Site::new("goeson").await;
    let spec = |edit: &str| {
        site.module(json!({
            "networks": { "lan": {} },
            "containers": { "c": hold(&json!({ "labels": { "edit": edit }, "mounts": ["/own"], "networks": { "lan": {} } })) }
        }))
    };
    site.apply(&spec("1"), false).await;
    let (owner, lan) = (format!("{}-c", site.name), format!("{}_lan", site.name));
    let (taker, linked) = (format!("{}-taker", site.name), format!("{}-linked", site.name));
    run(&taker, &["--volumes-from", &owner]);
    run(&linked, &["--network", &lan, "--link", &format!("{owner}:x")]);
    docker(&["exec", &owner, "sh", "-c", "echo shared > /own/file"]);
    let applied = site.apply(&spec("2"), true).await;
    assert_eq!(object(&applied, "c").action(), Action::Recreated);
    assert!(object(&applied, "c").detail.contains(&taker), "{}", object(&applied, "c").detail);
    for name in [&taker, &linked] {
        docker(&["restart", "-t", "1", name]);
        assert_eq!(docker(&["inspect", "--format", "{{.State.Running}}", name]), "true");
    }
    assert_eq!(docker(&["exec", &taker, "cat", "/own/file"]), "shared");
    docker(&["exec", &linked, "ping", "-c1", "-W2", "x"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dependant_of_another_module_is_named_with_its_module() {
    let site = Site::new("modules").await;
    let spec = |edit: &str| site.holding(&json!({ "labels": { "edit": edit } }));
    site.apply(&spec("1"), false).await;
    let mut other = site.module(json!({ "containers": { "guest": hold(&json!({
        "container_name": format!("{}-theirs", site.name), "network_mode": format!("container:{}-c", site.name)
    })) } }));
    other.name = Some(format!("{}-other", site.name));
    site.apply(&other, false).await;
    let refused = site.apply(&spec("2"), true).await;
    let detail = &object(&refused, "c").detail;
    assert!(detail.contains(&format!("container guest of module {}-other", site.name)), "{detail}");

    // What left the declaration, and a module that is removed, are no different.
    let without = site.module(json!({ "containers": { "else": hold(&json!({})) } }));
    let refused = site.apply(&without, true).await;
    assert_eq!(object(&refused, "c").reason(), RefusalReason::InUse);
    let request = plumbline::proto::v1::RemoveRequest { module: site.name.clone(), ..Default::default() };
    let mutations = site.engine.mutations();
    let removal = removal::remove(&site.engine, &site.state, &site.installation, &request).await;
    let removal = removal.expect("an answer").result.expect("a result");
    assert_eq!(object(&removal, "c").reason(), RefusalReason::InUse);
    assert_eq!(site.engine.mutations(), mutations);

    // The remedy works: it is stopped, the owner replaced, and its own module makes it anew.
    docker(&["stop", "-t", "1", &format!("{}-theirs", site.name)]);
    assert_eq!(object(&site.apply(&spec("2"), true).await, "c").action(), Action::Recreated);
    assert_eq!(object(&site.apply(&other, true).await, "guest").action(), Action::Recreated);
    let theirs = site.inspect_name(&format!("{}-theirs", site.name)).await;
    let owner = site.identity("c").await.0;
    assert_eq!(theirs["HostConfig"]["NetworkMode"], json!(format!("container:{owner}")));
    assert_eq!(theirs["State"]["Running"], json!(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_removes_itself_keeps_its_owner_from_being_replaced_or_started() {
    let site = Site::new("guestremoves").await;
    let spec = |edit: &str| {
        site.module(json!({ "containers": {
            "a": hold(&json!({ "labels": { "edit": edit } })),
            "guest": hold(&json!({ "network_mode": "container:a", "auto_remove": true }))
        } }))
    };
    site.apply(&spec("1"), false).await;
    let before = (site.identity("a").await, site.identity("guest").await);
    let mutations = site.engine.mutations();
    let refused = site.apply(&spec("2"), true).await;
    assert_eq!(object(&refused, "guest").reason(), RefusalReason::AutoRemove);
    assert_eq!(object(&refused, "a").reason(), RefusalReason::Module);
    assert_eq!(site.engine.mutations(), mutations);
    assert_eq!((site.identity("a").await, site.identity("guest").await), before);

    // Its owner is down. Started again it would be only after a stop, and be gone.
    docker(&["stop", "-t", "1", &format!("{}-a", site.name)]);
    let mutations = site.engine.mutations();
    let refused = site.apply(&spec("1"), true).await;
    assert_eq!(object(&refused, "guest").reason(), RefusalReason::AutoRemove);
    assert_eq!(site.engine.mutations(), mutations);
    assert_eq!(site.identity("guest").await.0, before.1.0);
}

/// It is taken away only when all the rest stands, and never stopped before.
#[tokio::test(flavor = "multi_thread")]
async fn a_leaving_container_that_removes_itself_on_a_changed_network_refuses_that() {
    let site = Site::new("leavingremoves").await;
    let spec = |label: &str, old: bool| {
        let mut module = json!({
            "networks": { "lan": { "labels": { "edit": label } } },
            "containers": { "c": hold(&json!({ "networks": { "lan": {} } })) }
        });
        if old {
            module["containers"]["old"] = hold(&json!({ "networks": { "lan": {} }, "auto_remove": true }));
        }
        site.module(module)
    };
    site.apply(&spec("1", true), false).await;
    let before = site.identity("old").await;
    let refused = site.apply(&spec("2", false), true).await;
    assert_eq!(object(&refused, "lan").reason(), RefusalReason::InUse);
    assert!(object(&refused, "lan").detail.contains("-old"), "{}", object(&refused, "lan").detail);
    assert_eq!(site.identity("old").await, before);
    // One after the other it works.
    assert_eq!(object(&site.apply(&spec("1", false), true).await, "old").action(), Action::Removed);
    assert_eq!(object(&site.apply(&spec("2", false), true).await, "lan").action(), Action::Recreated);
}
