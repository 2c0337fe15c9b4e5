//! The workload's own veto: while its update lock exists, a container is neither recreated nor removed.

use plumbline::proto::v1::{Action, ModuleSpec, Outcome, RefusalReason};
use serde_json::{Value as Json, json};

use crate::served::Served;
use crate::site::{Site, docker, object, text};

/// Runs a command in the container `c`.
fn inside(site: &Site, command: &[&str]) {
    let name = format!("{}-c", site.name);
    docker(&[&["exec", name.as_str()][..], command].concat());
}

/// Declared with this lock and this edit, which needs a recreation.
fn with_lock(site: &Site, lock: &str, edit: &str, more: &Json) -> ModuleSpec {
    let mut settings = json!({ "update_lock": lock, "labels": { "edit": edit } });
    for (key, value) in more.as_object().into_iter().flatten() {
        settings[key] = value.clone();
    }
    site.holding(&settings)
}

/// Plan and apply refuse because of the lock, and nothing is touched.
async fn refuses(site: &Site, spec: &ModuleSpec, lock: &str) {
    let (before, mutations) = (site.identity("c").await, site.engine.mutations());
    let planned = site.plan(spec, true).await.result.expect("a result");
    for result in [planned, site.apply(spec, true).await] {
        assert_eq!(result.outcome(), Outcome::RefusedNeedsRecreation);
        let refused = object(&result, "c");
        assert_eq!(refused.reason(), RefusalReason::UpdateLocked, "{}", refused.detail);
        let name = format!("{}-c", site.name);
        assert!(refused.detail.contains(&name) && refused.detail.contains(lock), "{}", refused.detail);
    }
    assert_eq!(site.engine.mutations(), mutations, "not one mutating call");
    assert_eq!(site.identity("c").await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recreation_waits_until_the_lock_is_gone() {
    let site = Site::new("locked").await;
    let lock = "/tmp/update.lock";
    site.apply(&with_lock(&site, lock, "1", &json!({})), false).await;
    inside(&site, &["touch", lock]);
    let changed = with_lock(&site, lock, "2", &json!({}));
    refuses(&site, &changed, lock).await;
    let without = site.plan(&changed, false).await.result.expect("a result");
    assert_eq!(object(&without, "c").reason(), RefusalReason::NeedsRecreation, "permission comes first");
    inside(&site, &["rm", lock]);
    assert_eq!(object(&site.apply(&changed, true).await, "c").action(), Action::Recreated);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_restarts_nothing_is_done_under_the_lock() {
    let site = Site::new("lockinplace").await;
    let lock = "/tmp/update.lock";
    site.apply(&with_lock(&site, lock, "1", &json!({})), false).await;
    inside(&site, &["touch", lock]);
    let before = site.identity("c").await;
    let changed = with_lock(&site, lock, "1", &json!({ "mem_limit": "64m" }));
    assert_eq!(object(&site.apply(&changed, true).await, "c").action(), Action::Updated);
    assert_eq!(site.identity("c").await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_in_memory_is_seen_also_behind_a_link() {
    let site = Site::new("locktmpfs").await;
    let memory = json!({ "tmpfs": { "/run": "" } });
    for lock in ["/run/app/update.lock", "/tmp/link/app/update.lock"] {
        site.apply(&with_lock(&site, lock, "1", &memory), true).await;
        inside(&site, &["mkdir", "-p", "/run/app"]);
        inside(&site, &["ln", "-s", "/run", "/tmp/link"]);
        inside(&site, &["touch", "/run/app/update.lock"]);
        refuses(&site, &with_lock(&site, lock, "2", &memory), lock).await;
        inside(&site, &["rm", "/run/app/update.lock"]);
    }
    let changed = with_lock(&site, "/run/app/update.lock", "2", &memory);
    assert_eq!(object(&site.apply(&changed, true).await, "c").action(), Action::Recreated);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_container_holds_what_outlives_its_process() {
    let site = Site::new("lockstopped").await;
    let memory = json!({ "tmpfs": { "/run": "" } });
    site.apply(&with_lock(&site, "/tmp/update.lock", "1", &memory), false).await;
    inside(&site, &["touch", "/tmp/update.lock", "/run/update.lock"]);
    site.engine.stop(&site.identity("c").await.0, None).await.expect("stopped");
    refuses(&site, &with_lock(&site, "/tmp/update.lock", "2", &memory), "/tmp/update.lock").await;

    let site = Site::new("lockgone").await;
    site.apply(&with_lock(&site, "/run/update.lock", "1", &memory), false).await;
    inside(&site, &["touch", "/run/update.lock"]);
    site.engine.stop(&site.identity("c").await.0, None).await.expect("stopped");
    let changed = with_lock(&site, "/run/update.lock", "2", &memory);
    assert_eq!(object(&site.apply(&changed, true).await, "c").action(), Action::Recreated);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lock_that_the_process_knows_counts_and_so_does_the_newly_declared_one() {
    let site = Site::new("lockboth").await;
    site.apply(&with_lock(&site, "/tmp/old.lock", "1", &json!({})), false).await;
    inside(&site, &["touch", "/tmp/old.lock"]);
    refuses(&site, &with_lock(&site, "/tmp/new.lock", "2", &json!({})), "/tmp/old.lock").await;
    refuses(&site, &site.holding(&json!({ "labels": { "edit": "2" } })), "/tmp/old.lock").await;
    inside(&site, &["mv", "/tmp/old.lock", "/tmp/new.lock"]);
    refuses(&site, &with_lock(&site, "/tmp/new.lock", "2", &json!({})), "/tmp/new.lock").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_leads_through_a_file_is_no_lock() {
    let site = Site::new("lockfile").await;
    let lock = "/version/update.lock";
    site.apply(&with_lock(&site, lock, "1", &json!({})), false).await;
    let changed = with_lock(&site, lock, "2", &json!({}));
    assert_eq!(object(&site.apply(&changed, true).await, "c").action(), Action::Recreated);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_left_the_declaration_stays_while_it_holds_its_lock() {
    let site = Site::new("lockleft").await;
    let lock = "/tmp/update.lock";
    site.apply(&with_lock(&site, lock, "1", &json!({})), false).await;
    inside(&site, &["touch", lock]);
    let none = site.module(json!({ "containers": {} }));
    refuses(&site, &none, lock).await;
    inside(&site, &["rm", lock]);
    assert_eq!(object(&site.apply(&none, true).await, "c").action(), Action::Removed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_taken_after_the_plan_is_seen_before_the_stop() {
    let served = Served::new("locklate").await;
    let site = &served.site;
    let lock = "/tmp/update.lock";
    let restarts = json!({ "restart": "unless-stopped" });
    served.apply(&with_lock(site, lock, "1", &restarts), false).await;
    let before = site.identity("c").await;
    served.engine.hold("POST /containers/create");
    let changed = with_lock(site, lock, "2", &restarts);
    let (failure, ()) = tokio::join!(served.fails(&changed), async {
        served.engine.held().await;
        inside(site, &["touch", lock]);
        served.engine.release();
    });
    assert!(failure.message.contains(lock) && failure.rolled_back, "{}", failure.message);
    assert_eq!(site.identity("c").await, before, "it was not stopped");
    assert_eq!(site.containers(), [format!("{}-c", site.name)], "the new one is gone");
    assert_eq!(text(&site.inspect("c").await["HostConfig"]["RestartPolicy"]["Name"]), "unless-stopped");
}
