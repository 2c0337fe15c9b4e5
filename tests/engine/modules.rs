//! Modules of several containers: all or nothing, and in order.

use plumbline::proto::v1::{Action, Outcome, RefusalReason};
use serde_json::json;

use crate::free::free_ports;
use crate::site::{Site, actions, hold, object, text};

#[tokio::test(flavor = "multi_thread")]
async fn one_refused_container_keeps_the_whole_module_untouched() {
    let site = Site::new("allornone").await;
    let spec = |edit: &str, memory: &str| {
        site.module(json!({ "containers": {
            "db": hold(&json!({ "labels": { "edit": edit } })),
            "app": hold(&json!({ "depends_on": ["db"], "mem_limit": memory })),
            "web": hold(&json!({ "depends_on": ["app"], "labels": { "edit": edit } }))
        } }))
    };
    site.apply(&spec("1", "64m"), false).await;
    let keys = ["db", "app", "web"];
    let mut before = Vec::new();
    for key in keys {
        before.push(site.identity(key).await);
    }

    let mutations = site.engine.mutations();
    let refused = site.apply(&spec("2", "96m"), false).await;
    assert_eq!(refused.outcome(), Outcome::RefusedNeedsRecreation);
    assert_eq!(object(&refused, "db").reason(), RefusalReason::NeedsRecreation);
    assert_eq!(object(&refused, "app").reason(), RefusalReason::Module);
    assert_eq!(site.engine.mutations(), mutations, "not one mutating call");
    for (key, before) in keys.iter().zip(&before) {
        assert_eq!(site.identity(key).await, *before);
    }
    assert_eq!(site.inspect("app").await["HostConfig"]["Memory"], 64 * 1024 * 1024);

    let allowed = site.apply(&spec("2", "96m"), true).await;
    let expected = [("db", Action::Recreated), ("app", Action::Updated), ("web", Action::Recreated)];
    assert_eq!(
        actions(&allowed),
        expected.map(|(key, action)| (key.to_owned(), action)),
        "in the order of dependence"
    );
    let started = |key: &'static str| async { text(&site.inspect(key).await["State"]["StartedAt"]) };
    assert!(started("db").await < started("web").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_left_the_declaration_needs_permission_to_go_and_its_volumes_stay() {
    let site = Site::new("leaves").await;
    let both = site.module(json!({
        "containers": { "c": hold(&json!({})), "old": hold(&json!({ "mounts": ["data:/data"] })) }, "volumes": { "data": {} }
    }));
    site.apply(&both, false).await;
    let one = site.module(json!({ "containers": { "c": hold(&json!({})) }, "volumes": { "data": {} } }));
    let refused = site.apply(&one, false).await;
    assert_eq!(object(&refused, "old").reason(), RefusalReason::NeedsRemoval);
    assert_eq!(site.containers().len(), 2);
    let allowed = site.apply(&one, true).await;
    assert_eq!(object(&allowed, "old").action(), Action::Removed);
    assert_eq!(site.containers(), [format!("{}-c", site.name)]);
    let volume = site.engine.volume(&format!("{}_data", site.name)).await.expect("the engine answers");
    assert!(volume.is_some(), "no apply removes a volume");
}

#[tokio::test(flavor = "multi_thread")]
async fn h40_links_to_new_containers_are_made_in_order() {
    let site = Site::new("links").await;
    let before = site.holding(&json!({}));
    site.apply(&before, false).await;
    let after = site.module(json!({ "containers": {
        "c": hold(&json!({ "links": ["z1:one", "z2:two"] })), "z1": hold(&json!({})), "z2": hold(&json!({}))
    } }));
    let result = site.apply(&after, true).await;
    assert_eq!(object(&result, "c").action(), Action::Recreated);
    assert_eq!(object(&site.apply(&after, true).await, "c").action(), Action::Unchanged);
}

#[tokio::test(flavor = "multi_thread")]
async fn h17_a_stopped_container_has_its_ports_and_is_started() {
    let site = Site::new("stopped").await;
    let spec = site.holding(
        &json!({ "ports": [format!("127.0.0.1:{}:8080", free_ports())], "restart": "unless-stopped" }),
    );
    site.apply(&spec, false).await;
    let before = site.identity("c").await;
    site.engine.stop(&before.0, None).await.expect("stopped");
    assert!(site.differs(&spec).await.is_empty(), "its settings are as declared");
    let result = site.apply(&spec, false).await;
    assert_eq!(object(&result, "c").action(), Action::Started);
    let after = site.inspect("c").await;
    assert_eq!((text(&after["Id"]), &after["State"]["Running"]), (before.0, &json!(true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_done_is_not_started_again() {
    let site = Site::new("job").await;
    let spec = site.holding(&json!({ "command": ["entry", "true"], "restart": "on-failure" }));
    site.apply(&spec, false).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let before = site.identity("c").await;
    assert_eq!(object(&site.apply(&spec, true).await, "c").action(), Action::Unchanged);
    assert_eq!(site.identity("c").await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn ignored_paths_are_not_compared_and_are_counted() {
    let site = Site::new("ignored").await;
    site.apply(&site.holding(&json!({ "labels": { "build": "1" } })), false).await;
    let spec = site.module(json!({
        "containers": { "c": hold(&json!({ "labels": { "build": "2" } })) },
        "ignore_paths": ["containers.c.labels[build]"]
    }));
    let result = site.apply(&spec, false).await;
    assert_eq!(object(&result, "c").action(), Action::Unchanged);
    assert_eq!(object(&result, "c").diff.as_ref().expect("a diff").ignored, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_makes_no_mutating_call_and_its_token_binds() {
    let site = Site::new("plan").await;
    let spec = site.holding(&json!({ "mem_limit": "64m" }));
    let mutations = site.engine.mutations();
    let plan = site.plan(&spec, true).await;
    assert_eq!(site.engine.mutations(), mutations);
    assert_eq!(
        plan.plan_token,
        site.plan(&spec, true).await.plan_token,
        "the same question has the same answer"
    );
    site.apply(&spec, false).await;
    let request = plumbline::proto::v1::ApplyRequest {
        operation_id: "late".to_owned(),
        spec: Some(spec.clone()),
        recreate: plumbline::proto::v1::RecreatePolicy::Allow.into(),
        plan_token: plan.plan_token,
        ..Default::default()
    };
    let applied = plumbline_agent::apply::apply(
        &site.engine,
        &site.state,
        &site.installation,
        &site.settings(),
        &request,
        &crate::site::Silent,
    )
    .await;
    assert_eq!(object(&applied.result.expect("a result"), "c").reason(), RefusalReason::StalePlan);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_installation_made_is_adopted_only_if_that_is_said() {
    let (owner, other) = (Site::new("made").await, Site::new("other").await);
    owner.apply(&owner.holding(&json!({})), false).await;
    let before = owner.identity("c").await;
    let container = hold(&json!({ "container_name": format!("{}-c", owner.name) }));
    let spec = other.module(json!({ "containers": { "c": container } }));
    let request = |said| plumbline::proto::v1::AdoptRequest {
        container: format!("{}-c", owner.name),
        spec: Some(spec.clone()),
        key: "c".to_owned(),
        from_other_installation: said,
        ..Default::default()
    };
    let adopt = async |said| {
        plumbline_agent::apply::adopt(
            other.engine.reader(),
            &other.state,
            &other.installation,
            &request(said),
        )
        .await
    };
    let refused = adopt(false).await.expect_err("it is another's");
    assert!(refused.to_string().contains("--from-other-installation"), "{refused}");
    assert!(adopt(true).await.expect("it was said").adopted);
    assert_eq!(owner.identity("c").await, before);
}
