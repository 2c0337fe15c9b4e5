//! What the agent remembers, and what it knows without.

use std::path::Path;

use plumbline::proto::v1::{
    Action, AdoptRequest, ApplyRequest, ModuleSpec, PlanRequest, RecreatePolicy, RefusalReason,
};
use plumbline_agent::apply::{adopt, apply, plan};
use plumbline_agent::state::State;
use serde_json::{Value as Json, json};

use crate::site::{Silent, Site, docker, hold, object};

/// What an agent with this state would do.
async fn planned(site: &Site, state: &State, spec: &ModuleSpec) -> (Action, RefusalReason) {
    let request = PlanRequest { spec: Some(spec.clone()), ..PlanRequest::default() };
    let planned =
        plan(site.engine.reader(), state, &site.installation, &site.files, &request).await.expect("a plan");
    let result = planned.result.expect("a result");
    (object(&result, "c").action(), object(&result, "c").reason())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_lost_its_memory_knows_the_containers_that_it_made() {
    let site = Site::new("forgetful").await;
    let spec = site.holding(&json!({ "labels": { "a": "1" }, "mem_limit": "64m" }));
    site.apply(&spec, false).await;
    let other = State::open(Path::new(&site.host_folder("other"))).expect("a state");
    assert_eq!(planned(&site, &other, &spec).await, (Action::Unchanged, RefusalReason::Unspecified));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adoption_outlives_the_agent_and_only_that_makes_the_container_ours() {
    let site = Site::new("adopted").await;
    let folder = site.host_folder("agent");
    let folder = Path::new(&folder);
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

/// What differs is found by comparing fields, never by a hash of our own forms: what another version of the agent wrote
/// leads to no change.
#[tokio::test(flavor = "multi_thread")]
async fn h26_what_another_version_remembered_recreates_nothing() {
    let site = Site::new("versions").await;
    let settings = json!({ "labels": { "a": "1" }, "mem_limit": "64m", "networks": { "lan": {} }, "dns": ["192.0.2.1"] });
    let spec = site.module(json!({
        "networks": { "lan": {} }, "volumes": { "data": {} }, "containers": { "c": hold(&settings) }
    }));
    site.apply(&spec, false).await;
    let written = std::fs::read(Path::new(&site.host_folder("state")).join("agent.json")).expect("a state");
    let written: Json = serde_json::from_slice(&written).expect("it is JSON");
    let before = (site.identity("c").await, site.engine.mutations());
    for (version, edit) in [
        ("one that knew fewer fields", without_fields as fn(&mut Json)),
        ("one that knew more fields", |module| {
            module["containers"]["c"]["desired"]["newerField"] = json!(true);
        }),
        ("one that remembered less", |module| {
            module.as_object_mut().expect("a map").remove("others");
            module["containers"]["c"].as_object_mut().expect("a map").remove("residue");
        }),
        ("one that remembered nothing of what was desired", |module| {
            module["containers"]["c"]["desired"] = Json::Null;
        }),
    ] {
        let mut state = written.clone();
        edit(&mut state["modules"][site.name.as_str()]);
        let folder = site.host_folder(version);
        std::fs::write(Path::new(&folder).join("agent.json"), state.to_string()).expect("written");
        let state = State::open(Path::new(&folder)).unwrap_or_else(|error| panic!("{version}: {error}"));
        let request = ApplyRequest {
            spec: Some(spec.clone()),
            recreate: RecreatePolicy::Allow.into(),
            ..ApplyRequest::default()
        };
        let applied =
            apply(&site.engine, &state, &site.installation, &site.settings(), &request, &Silent).await;
        let result = applied.result.unwrap_or_else(|| panic!("{version}: {:?}", applied.error));
        assert_eq!(result.action(), Action::Unchanged, "{version}");
        assert_eq!((site.identity("c").await, site.engine.mutations()), before, "{version}");
    }
}

fn without_fields(module: &mut Json) {
    let desired = module["containers"]["c"]["desired"].as_object_mut().expect("a map");
    for field in ["dns", "labels", "memLimit"] {
        assert!(desired.remove(field).is_some(), "{field} was remembered");
    }
}
