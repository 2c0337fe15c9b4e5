//! What the agent remembers, and what it knows without.

use plumbline::proto::v1::{Action, AdoptRequest, ModuleSpec, PlanRequest, RefusalReason};
use plumbline_agent::apply::{adopt, plan};
use plumbline_agent::state::State;
use serde_json::json;

use crate::site::{Site, docker, object};

/// What an agent with this state would do.
async fn planned(site: &Site, state: &State, spec: &ModuleSpec) -> (Action, RefusalReason) {
    let request = PlanRequest { spec: Some(spec.clone()), ..PlanRequest::default() };
    let planned = plan(site.engine.reader(), state, &site.installation, &request).await.expect("a plan");
    let result = planned.result.expect("a result");
    (object(&result, "c").action(), object(&result, "c").reason())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_lost_its_memory_knows_the_containers_that_it_made() {
    let site = Site::new("forgetful").await;
    let spec = site.holding(&json!({ "labels": { "a": "1" }, "mem_limit": "64m" }));
    site.apply(&spec, false).await;
    let other = State::open(std::path::Path::new(&site.host_folder("other"))).expect("a state");
    assert_eq!(planned(&site, &other, &spec).await, (Action::Unchanged, RefusalReason::Unspecified));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adoption_outlives_the_agent_and_only_that_makes_the_container_ours() {
    let site = Site::new("adopted").await;
    let folder = site.host_folder("agent");
    let folder = std::path::Path::new(&folder);
    let name = format!("{}-c", site.name);
    docker(&["run", "-d", "--name", &name, "plumbline/sample:1", "hold"]);
    let spec = site.holding(&json!({}));
    let request = AdoptRequest {
        container: name,
        spec: Some(spec.clone()),
        key: "c".to_owned(),
        ..AdoptRequest::default()
    };
    {
        let state = State::open(folder).expect("a state");
        assert_eq!(planned(&site, &state, &spec).await, (Action::Refused, RefusalReason::NotOurs));
        let adopted = adopt(site.engine.reader(), &state, &site.installation, &request).await;
        assert!(adopted.expect("a comparison").adopted);
    }
    let state = State::open(folder).expect("the lock is free again");
    assert_eq!(planned(&site, &state, &spec).await, (Action::Unchanged, RefusalReason::Unspecified));
    let forgot = State::open(&folder.join("other")).expect("a state");
    assert_eq!(planned(&site, &forgot, &spec).await, (Action::Refused, RefusalReason::NotOurs));

    // Another module cannot take it over.
    let mut other = request;
    other.spec.as_mut().expect("it has one").name = Some(format!("{}-other", site.name));
    let taken = adopt(site.engine.reader(), &state, &site.installation, &other).await;
    let words = taken.expect_err("it belongs to a module").to_string();
    assert!(words.contains("is already container c of module"), "{words}");
}
