//! Taking a module away: containers and networks go, volumes stay unless they are named.

use std::sync::Arc;
use std::time::Duration;

use plumbline::proto::v1::{
    Action, ApplyRequest, ModuleSpec, ObjectKind, ObjectResult, Outcome, RefusalReason, RemoveRequest,
    RemoveResponse, VolumeContents,
};
use plumbline_agent::apply::ApplyError;
use plumbline_agent::operations::Operations;
use plumbline_agent::removal;
use serde_json::json;
use tokio_stream::StreamExt as _;

use crate::proxy::Fault;
use crate::served::Served;
use crate::site::{Site, docker, hold};

impl Site {
    fn removal(&self) -> RemoveRequest {
        RemoveRequest { module: self.name.clone(), ..RemoveRequest::default() }
    }

    async fn try_remove(&self, request: RemoveRequest) -> Result<RemoveResponse, ApplyError> {
        removal::remove(&self.engine, &self.state, &self.installation, &request).await
    }

    /// Removes, with these volumes as a plan has just shown them.
    async fn remove(&self, volumes: &[&str]) -> RemoveResponse {
        let volumes: Vec<String> = volumes.iter().map(|&name| name.to_owned()).collect();
        let mutations = self.engine.mutations();
        let plan = RemoveRequest { plan_only: true, volumes: volumes.clone(), ..self.removal() };
        let plan = self.try_remove(plan).await.expect("a plan");
        assert_eq!(self.engine.mutations(), mutations, "a plan makes no mutating call");
        let request = RemoveRequest { volumes, plan_token: plan.plan_token, ..self.removal() };
        self.try_remove(request).await.expect("an answer")
    }

    /// What a removal without volumes would do.
    async fn remove_plan(&self) -> RemoveResponse {
        self.try_remove(RemoveRequest { plan_only: true, ..self.removal() }).await.expect("a plan")
    }

    /// A module of a database with a network, a named and an anonymous volume, and a client that needs it.
    fn shop(&self) -> ModuleSpec {
        self.module(json!({
            "containers": {
                "db": hold(&json!({ "mounts": ["data:/vol", "/scratch"], "networks": { "back": {} } })),
                "app": hold(&json!({ "depends_on": ["db"], "networks": { "back": {} } }))
            },
            "networks": { "back": {} },
            "volumes": { "data": {} }
        }))
    }

    async fn has_volume(&self, name: &str) -> bool {
        self.engine.volume(name).await.expect("the engine answers").is_some()
    }

    async fn has_network(&self, name: &str) -> bool {
        self.engine.network(name).await.expect("the engine answers").is_some()
    }

    /// The anonymous volume of the container with this key.
    async fn anonymous(&self, key: &str) -> String {
        let inspect = self.inspect(key).await;
        let mounts = inspect["Mounts"].as_array().expect("mounts").clone();
        let names = mounts.iter().filter_map(|mount| mount["Name"].as_str());
        names.filter(|name| name.len() == 64).map(str::to_owned).next().expect("an anonymous volume")
    }
}

fn named<'a>(removed: &'a RemoveResponse, name: &str) -> &'a ObjectResult {
    let objects = &removed.result.as_ref().expect("a result").objects;
    objects
        .iter()
        .find(|object| object.engine_name == name)
        .unwrap_or_else(|| panic!("no {name}: {objects:?}"))
}

fn contents<'a>(removed: &'a RemoveResponse, name: &str) -> &'a VolumeContents {
    removed.volumes.iter().find(|volume| volume.name == name).expect("the volume is shown")
}

fn outcome(removed: &RemoveResponse) -> (Outcome, Action) {
    let result = removed.result.as_ref().expect("a result");
    (result.outcome(), result.action())
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_and_networks_go_volumes_stay_and_are_shown_with_what_they_hold() {
    let site = Site::new("removal").await;
    site.apply(&site.shop(), false).await;
    let (db, data) = (format!("{}-db", site.name), format!("{}_data", site.name));
    let scratch = site.anonymous("db").await;
    docker(&["exec", &db, "sh", "-c", "mkdir /vol/a; printf 12345 >/vol/a/b; printf 6 >/scratch/c"]);
    let before = contents(&site.remove_plan().await, &data).clone();

    let removed = site.remove(&[]).await;
    assert_eq!(outcome(&removed), (Outcome::Applied, Action::Removed));
    let order: Vec<_> =
        removed.result.iter().flat_map(|result| &result.objects).map(ObjectResult::kind).collect();
    let (container, volume) = (ObjectKind::Container, ObjectKind::Volume);
    assert_eq!(order, [container, container, ObjectKind::Network, volume, volume]);
    assert_eq!(removed.result.as_ref().expect("a result").objects[1].engine_name, db, "the database last");
    assert_eq!(site.containers(), [""; 0]);
    assert!(!site.has_network(&format!("{}_back", site.name)).await);
    for (name, bytes, anonymous) in [(&data, 5, false), (&scratch, 1, true)] {
        assert!(site.has_volume(name).await, "{name}");
        assert_eq!(named(&removed, name).action(), Action::Unchanged);
        let held = contents(&removed, name);
        assert_eq!((held.bytes, held.files, held.anonymous), (Some(bytes), Some(1), anonymous), "{held:?}");
    }
    assert_eq!(&before, contents(&removed, &data));
    assert_eq!(site.state.modules(), [""; 0]);

    let mutations = site.engine.mutations();
    let again = site.remove(&[]).await;
    assert_eq!(outcome(&again), (Outcome::Applied, Action::Unchanged));
    assert_eq!(site.engine.mutations(), mutations, "again there is nothing to do");
    // The named volume is known by its labels, the anonymous one by the agent's memory.
    for name in [&data, &scratch] {
        assert_eq!(contents(&again, name), contents(&removed, name));
        assert!(named(&again, name).detail.contains(&format!("--volume {name}")));
        assert_eq!(outcome(&site.remove(&[name]).await), (Outcome::Applied, Action::Removed));
        assert!(!site.has_volume(name).await);
    }
    assert_eq!(site.remove_plan().await.volumes, [], "what is gone is not known any more");
    assert_eq!(site.state.left_volumes(&site.name), []);
    assert_eq!(outcome(&site.remove(&[&data]).await), (Outcome::Applied, Action::Unchanged), "it is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_go_only_by_name_and_as_a_plan_has_shown_them() {
    let site = Site::new("removalvolumes").await;
    site.apply(&site.shop(), false).await;
    let (data, scratch) = (format!("{}_data", site.name), site.anonymous("db").await);
    let unseen = RemoveRequest { volumes: vec![data.clone()], ..site.removal() };
    let error = site.try_remove(unseen).await.expect_err("nobody saw what it holds");
    assert_eq!(error.reason(), "VOLUMES_NOT_SHOWN");
    let other = RemoveRequest {
        plan_token: site.remove_plan().await.plan_token,
        volumes: vec![data.clone()],
        ..site.removal()
    };
    let stale = site.try_remove(other).await.expect("an answer");
    assert_eq!(named(&stale, &data).reason(), RefusalReason::StalePlan, "the plan showed another removal");
    assert_eq!(site.containers().len(), 2);

    let removed = site.remove(&[&data, &scratch]).await;
    assert_eq!(removed.failure, None);
    for name in [&data, &scratch] {
        assert_eq!(named(&removed, name).action(), Action::Removed);
        assert!(!site.has_volume(name).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_for_a_name_refuses_all_and_the_volume_that_was_meant_is_named() {
    let site = Site::new("removalkey").await;
    site.apply(&site.shop(), false).await;
    let (data, scratch) = (format!("{}_data", site.name), site.anonymous("db").await);
    let mutations = site.engine.mutations();
    // A key names no volume of the engine; neither does the right name beside it help.
    let refused = site.remove(&["data", &data]).await;
    assert_eq!(outcome(&refused).0, Outcome::RefusedNeedsRecreation);
    let volume = named(&refused, "data");
    assert_eq!((volume.action(), volume.reason()), (Action::Refused, RefusalReason::Missing));
    let meant = format!("there is no volume data; did you mean --volume {data}?");
    assert_eq!(volume.detail, meant);
    assert_eq!(named(&refused, &data).reason(), RefusalReason::Module);
    assert_eq!((site.engine.mutations(), site.containers().len()), (mutations, 2), "nothing was touched");
    assert!(site.has_network(&format!("{}_back", site.name)).await && site.has_volume(&data).await);
    site.remove(&[&data, &scratch]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_use_stays() {
    let site = Site::new("removalothers").await;
    site.apply(&site.shop(), false).await;
    let (data, back) = (format!("{}_data", site.name), format!("{}_back", site.name));
    let scratch = site.anonymous("db").await;
    let stranger = format!("{}-stranger", site.name);
    // Not even running.
    docker(&[
        "create",
        "--name",
        &stranger,
        "-v",
        &format!("{data}:/data"),
        "--network",
        &back,
        "plumbline/sample:1",
    ]);
    let refused = site.remove(&[&data]).await;
    assert_eq!(outcome(&refused).0, Outcome::RefusedNeedsRecreation);
    let volume = named(&refused, &data);
    assert!(
        volume.reason() == RefusalReason::InUse && volume.detail.contains(&stranger),
        "{}",
        volume.detail
    );
    assert_eq!(named(&refused, &back).action(), Action::Unchanged);
    assert_eq!(site.containers().len(), 3, "nothing was touched");

    let removed = site.remove(&[]).await;
    assert_eq!(outcome(&removed), (Outcome::Applied, Action::Removed));
    let network = named(&removed, &back);
    assert!(
        network.action() == Action::Unchanged && network.detail.contains(&stranger),
        "{}",
        network.detail
    );
    assert!(site.has_network(&back).await && site.has_volume(&data).await);
    assert_eq!(site.containers(), std::slice::from_ref(&stranger));
    docker(&["rm", &stranger]);
    assert_eq!(named(&site.remove(&[]).await, &back).action(), Action::Removed, "now nobody is attached");
    docker(&["volume", "rm", &scratch]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_external_never_goes() {
    let site = Site::new("removalexternal").await;
    let (network, volume) = (format!("{}-net", site.name), format!("{}-vol", site.name));
    docker(&["network", "create", &network]);
    docker(&["volume", "create", &volume]);
    let spec = site.module(json!({
        "containers": { "c": hold(&json!({ "mounts": ["v:/data"], "networks": { "n": {} } })) },
        "networks": { "n": { "external": true, "name": network } },
        "volumes": { "v": { "external": true, "name": volume } }
    }));
    site.apply(&spec, false).await;
    assert_eq!(named(&site.remove(&[&volume]).await, &volume).reason(), RefusalReason::NotOurs);
    assert_eq!(site.containers().len(), 1);
    let removed = site.remove(&[]).await;
    for name in [&network, &volume] {
        assert_eq!(named(&removed, name).action(), Action::Unchanged);
    }
    assert!(site.has_network(&network).await && site.has_volume(&volume).await);
    assert_eq!(site.containers(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_the_engine_would_take_along_stays() {
    let site = Site::new("removalauto").await;
    let spec = site.holding(&json!({ "auto_remove": true, "mounts": ["/scratch"] }));
    site.apply(&spec, false).await;
    let scratch = site.anonymous("c").await;
    let removed = site.remove(&[]).await;
    assert_eq!(outcome(&removed), (Outcome::Applied, Action::Removed));
    assert_eq!(site.containers(), [""; 0]);
    assert!(site.has_volume(&scratch).await);
    docker(&["volume", "rm", &scratch]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_holds_its_update_lock_keeps_the_module() {
    let site = Site::new("removallocked").await;
    let spec = site.module(json!({ "containers": {
        "c": hold(&json!({ "update_lock": "/tmp/lock" })), "other": hold(&json!({}))
    } }));
    site.apply(&spec, false).await;
    let name = format!("{}-c", site.name);
    docker(&["exec", &name, "touch", "/tmp/lock"]);
    let mutations = site.engine.mutations();
    let refused = site.remove(&[]).await;
    let container = named(&refused, &name);
    assert_eq!(container.reason(), RefusalReason::UpdateLocked);
    assert!(
        container.detail.contains(&name) && container.detail.contains("/tmp/lock"),
        "{}",
        container.detail
    );
    assert_eq!(named(&refused, &format!("{}-other", site.name)).reason(), RefusalReason::Module);
    assert_eq!((site.engine.mutations(), site.containers().len()), (mutations, 2));
    docker(&["exec", &name, "rm", "/tmp/lock"]);
    assert_eq!(outcome(&site.remove(&[]).await), (Outcome::Applied, Action::Removed));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_signal_comes_first_and_the_grace_period_is_given() {
    let site = Site::new("removalgrace").await;
    // It writes to its volume a while after it was asked to end.
    let slow = "trap 'sleep 2; echo ended >/data/end; exit 0' TERM; while :; do sleep 0.1; done";
    let spec = site.module(json!({
        "containers": { "c": {
            "image": "plumbline/sample:1", "command": ["sh", "-c", slow.replace('$', "$$")],
            "stop_grace_period": "20s", "mounts": ["data:/data"]
        } },
        "volumes": { "data": {} }
    }));
    site.apply(&spec, false).await;
    site.remove(&[]).await;
    let data = format!("{}_data:/data", site.name);
    assert_eq!(docker(&["run", "--rm", "-v", &data, "plumbline/sample:1", "cat", "/data/end"]), "ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_half_way_says_what_went_and_what_did_not_and_the_next_one_ends_it() {
    let served = Served::new("removalfails").await;
    let site = &served.site;
    served.apply(&site.shop(), false).await;
    served.engine.take_mutations();
    let [app, db] = ["app", "db"].map(|key| format!("{}-{key}", site.name));
    // Stop and removal of the one that goes first, then the stop of the other.
    served.engine.fail_after(2, Fault::NotDone);
    let answer = served.client().remove(site.removal()).await.expect("an answer").into_inner();
    let failure = answer.failure.clone().expect("a failure");
    let back = format!("{}_back", site.name);
    assert!(failure.message.contains(&format!("removed before it: {app};")), "{}", failure.message);
    assert!(failure.message.contains(&format!("not removed: {db}, {back};")), "{}", failure.message);
    assert_eq!(named(&answer, &app).action(), Action::Removed);
    assert_eq!(named(&answer, &db).action(), Action::Unspecified);
    assert_eq!(named(&answer, &back).action(), Action::Unchanged);
    assert_eq!(site.containers(), [db]);
    // The removal fails after the last container: its anonymous volume is known all the same.
    served.engine.fail_after(2, Fault::NotDone);
    let answer = served.client().remove(site.removal()).await.expect("an answer").into_inner();
    assert!(answer.failure.is_some() && site.containers().is_empty(), "{answer:?}");
    assert!(answer.volumes.iter().any(|volume| volume.anonymous));

    let again = served.client().remove(site.removal()).await.expect("an answer").into_inner();
    assert_eq!((again.failure.clone(), outcome(&again)), (None, (Outcome::Applied, Action::Removed)));
    assert_eq!(site.containers(), [""; 0]);
    assert_eq!(again.volumes, answer.volumes);
    remove_anonymous(&again);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_goes_on_when_the_caller_leaves() {
    let served = Served::new("removalleft").await;
    let site = &served.site;
    served.apply(&site.shop(), false).await;
    let scratch = site.anonymous("db").await;
    served.engine.hold("/stop");
    let (mut client, request) = (served.client(), site.removal());
    let call = tokio::spawn(async move { client.remove(request).await });
    served.engine.held().await;
    call.abort();
    assert!(call.await.is_err(), "nobody waits any more");
    served.engine.release();
    // It takes its turn after the one that nobody waits for.
    let again = served.client().remove(site.removal()).await.expect("an answer").into_inner();
    assert_eq!(outcome(&again), (Outcome::Applied, Action::Unchanged));
    assert_eq!(site.containers(), [""; 0]);
    docker(&["volume", "rm", &scratch]);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_takes_its_turn_after_an_apply() {
    let site = Site::new("removalturn").await;
    let operations = Arc::new(Operations::new(
        site.engine.clone(),
        site.state.clone(),
        &site.installation,
        site.settings(),
    ));
    let request = ApplyRequest {
        operation_id: site.name.clone(),
        spec: Some(site.holding(&json!({}))),
        ..ApplyRequest::default()
    };
    let events = operations.apply(request).expect("a new id");
    let removed = operations.remove(site.removal()).await.expect("an answer");
    assert_eq!(outcome(&removed), (Outcome::Applied, Action::Removed), "there was something by then");
    assert_eq!(site.containers(), [""; 0]);
    let ended = tokio::time::timeout(Duration::from_secs(5), events.collect::<Vec<_>>()).await;
    assert!(!ended.expect("it had ended before").is_empty());
}

/// Removes the anonymous volumes that a removal left, as it must.
fn remove_anonymous(removed: &RemoveResponse) {
    for volume in removed.volumes.iter().filter(|volume| volume.anonymous) {
        docker(&["volume", "rm", &volume.name]);
    }
}
