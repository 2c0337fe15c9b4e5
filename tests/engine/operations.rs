//! Who asks is not who owns the work.

use std::sync::Arc;
use std::time::Duration;

use plumbline::proto::v1::apply_response::Event;
use plumbline::proto::v1::{ApplyRequest, ApplyResponse};
use plumbline_agent::operations::Operations;
use serde_json::json;
use tokio_stream::StreamExt as _;

use crate::site::Site;

fn request(site: &Site, id: &str, spec: &plumbline::proto::v1::ModuleSpec) -> ApplyRequest {
    ApplyRequest {
        operation_id: format!("{}-{id}", site.name),
        spec: Some(spec.clone()),
        ..ApplyRequest::default()
    }
}

fn operations(site: &Site) -> Arc<Operations> {
    Arc::new(Operations::new(site.engine.clone(), site.state.clone(), &site.installation, site.settings()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_leaves_changes_nothing() {
    let site = Site::new("leaver").await;
    let operations = operations(&site);
    let spec = site.holding(&json!({}));
    let mut events = operations.apply(request(&site, "1", &spec)).expect("a new id");
    events.next().await.expect("it was accepted");
    drop(events);
    operations.idle().await;
    assert_eq!(site.inspect("c").await["State"]["Running"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_id_again_gives_the_same_events_and_does_nothing_twice() {
    let site = Site::new("sameid").await;
    let operations = operations(&site);
    let spec = site.holding(&json!({}));
    let first: Vec<ApplyResponse> =
        operations.apply(request(&site, "1", &spec)).expect("a new id").collect().await;
    assert!(matches!(first.last().and_then(|event| event.event.clone()), Some(Event::Result(_))));
    let mutations = site.engine.mutations();
    let second: Vec<ApplyResponse> =
        operations.apply(request(&site, "1", &spec)).expect("the same request").collect().await;
    assert_eq!(first, second);
    assert_eq!(site.engine.mutations(), mutations);
    let other = site.holding(&json!({ "mem_limit": "64m" }));
    assert!(operations.apply(request(&site, "1", &other)).is_err(), "another request under the same id");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_revision_than_the_last_one_is_refused() {
    let site = Site::new("older").await;
    let operations = operations(&site);
    let spec = site.holding(&json!({}));
    let newer = ApplyRequest { revision: 5, ..request(&site, "5", &spec) };
    let _: Vec<ApplyResponse> = operations.apply(newer).expect("a new id").collect().await;
    let older = ApplyRequest { revision: 4, ..request(&site, "4", &spec) };
    let events: Vec<ApplyResponse> = operations.apply(older).expect("a new id").collect().await;
    let Some(Event::Failure(failure)) = events.last().and_then(|event| event.event.clone()) else {
        panic!("{events:?}")
    };
    assert!(failure.message.contains("revision 4") && failure.rolled_back, "{}", failure.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_of_one_module_queue() {
    let site = Site::new("queue").await;
    let operations = operations(&site);
    let sizes = ["64m", "80m", "96m"];
    let all: Vec<_> = sizes
        .iter()
        .map(|size| {
            let spec = site.holding(&json!({ "mem_limit": size }));
            operations.apply(request(&site, size, &spec)).expect("a new id")
        })
        .collect();
    for events in all {
        let events: Vec<ApplyResponse> =
            tokio::time::timeout(Duration::from_secs(60), events.collect()).await.expect("an end");
        assert!(
            matches!(events.last().and_then(|event| event.event.clone()), Some(Event::Result(_))),
            "{events:?}"
        );
    }
    assert_eq!(
        site.inspect("c").await["HostConfig"]["Memory"],
        96 * 1024 * 1024,
        "the last one sent is the last one done"
    );
}
