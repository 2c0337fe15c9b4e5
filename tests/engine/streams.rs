//! Applies over a stream: whoever listens, and however long, the work is done once and to its end.

use plumbline::proto::v1::Phase::{
    self, Accepted, Created, Healthy, Planned, Removed, Started, Stopped, Verified,
};
use plumbline::proto::v1::apply_response::Event;
use serde_json::json;
use tonic::Code;

use crate::served::Served;
use crate::site::object;

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_dropped_in_the_middle_of_a_recreation_does_not_stop_it() {
    let host = Served::new("rdrop").await;
    host.apply(&host.site.holding(&json!({})), false).await;
    let old = host.site.identity("c").await;
    let spec = host.site.holding(&json!({ "hostname": "new" }));
    let request = host.request("1", &spec, true);

    // The old container has stopped and the new one has its name, when everybody leaves.
    host.engine.hold("/start");
    let stream = host.client().apply(tokio_stream::once(request.clone())).await.expect("the stream opens");
    host.engine.held().await;
    drop(stream);
    assert_eq!(host.site.inspect_name(&old.0).await["State"]["Running"], false);
    host.engine.release();

    // Whoever asks again under the same id hears it all.
    host.engine.take_mutations();
    let events = host.events(request).await;
    let Some(Event::Result(result)) = events.last().and_then(|event| event.event.clone()) else {
        panic!("{events:?}")
    };
    let inspect = host.site.inspect("c").await;
    assert_eq!(inspect["Id"], json!(object(&result, "c").engine_id));
    assert_eq!((&inspect["State"]["Running"], &inspect["Config"]["Hostname"]), (&json!(true), &json!("new")));
    assert!(!host.engine.take_mutations().contains(&"POST /containers/create".to_owned()), "not made twice");
    assert_eq!(host.site.containers(), [host.container()]);
    host.settled(&spec).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_events_of_a_recreation_say_what_was_done_in_order() {
    let host = Served::new("revents").await;
    host.apply(&host.site.holding(&json!({})), false).await;
    let spec = host.site.holding(&json!({ "hostname": "new" }));
    let events = host.events(host.request("1", &spec, true)).await;
    let phases: Vec<Phase> = events
        .iter()
        .filter_map(|event| match &event.event {
            Some(Event::Progress(progress)) => Some(progress.phase()),
            _ => None,
        })
        .collect();
    assert_eq!(phases, [Accepted, Planned, Created, Stopped, Started, Healthy, Verified, Removed]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_id_again_gives_the_same_events_and_another_request_under_it_is_refused() {
    let host = Served::new("rsame").await;
    let request = host.request("1", &host.site.holding(&json!({})), false);
    let first = host.events(request.clone()).await;
    host.engine.take_mutations();
    assert_eq!(host.events(request).await, first);
    assert_eq!(host.engine.take_mutations(), [""; 0]);

    let other = host.request("1", &host.site.holding(&json!({ "mem_limit": "64m" })), false);
    let stream = host.client().apply(tokio_stream::once(other)).await.expect("the stream opens");
    let status = stream.into_inner().message().await.expect_err("the id is taken");
    assert_eq!(status.code(), Code::AlreadyExists);
    assert_eq!(host.engine.take_mutations(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_applies_share_one_stream_and_none_without_an_id() {
    let host = Served::new("rmany").await;
    let spec = |memory: &str| host.site.holding(&json!({ "mem_limit": memory }));
    let requests = [("1", "64m"), ("2", "80m"), ("3", "96m")];
    let requests: Vec<_> =
        requests.iter().map(|(id, memory)| host.request(id, &spec(memory), false)).collect();
    let stream = host.client().apply(tokio_stream::iter(requests)).await.expect("the stream opens");
    let (mut stream, mut ended) = (stream.into_inner(), Vec::new());
    while let Some(event) = stream.message().await.expect("an event") {
        if matches!(event.event, Some(Event::Result(_))) {
            ended.push(event.operation_id.rsplit('-').next().unwrap_or_default().to_owned());
        }
    }
    assert_eq!(ended, ["1", "2", "3"]);
    assert_eq!(host.site.inspect("c").await["HostConfig"]["Memory"], 96 * 1024 * 1024);

    let mut nameless = host.request("", &spec("64m"), false);
    nameless.operation_id.clear();
    let stream = host.client().apply(tokio_stream::once(nameless)).await.expect("the stream opens");
    let status = stream.into_inner().message().await.expect_err("it has no id");
    assert_eq!(status.code(), Code::InvalidArgument);
}
