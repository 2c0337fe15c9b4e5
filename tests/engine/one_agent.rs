//! An engine has one agent of an installation: a second one would take the first one's containers for its own.

use std::path::Path;
use std::sync::Arc;

use plumbline::proto::v1::apply_response::Event;
use plumbline_agent::apply::ApplyError;
use plumbline_agent::engine::Engine;
use plumbline_agent::guard::HostFiles;
use plumbline_agent::operations::Operations;
use plumbline_agent::state::State;
use serde_json::json;
use tokio_stream::StreamExt as _;

use crate::served::Served;
use crate::site::{Site, request, socket};

#[tokio::test(flavor = "multi_thread")]
async fn a_second_agent_of_an_engine_refuses_to_start() {
    let host = Served::new("second").await;
    let (well, said) = host.second_agent();
    assert!(!well, "{said}");
    let own = std::process::id();
    assert!(said.contains("another agent of this installation already works with the engine"), "{said}");
    assert!(said.contains(&format!("the process {own}")), "{said}");
    // Another installation's is another matter, and so is this one's when the first has ended.
    let mut other = Served::new("secondother").await;
    other.restart(false).await;
}

/// Where the engine does not answer when the agent starts, that shows later.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_agent_that_finds_the_engine_later_changes_nothing() {
    let site = Site::new("secondlate").await;
    let agent = |folder: &Path| {
        let state = Arc::new(State::open(folder).expect("a state"));
        let engine = Engine::new(Path::new(&socket()));
        Arc::new(Operations::new(engine, state, &site.installation, HostFiles::default()))
    };
    let folders = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
    let (first, second) = (agent(folders[0].path()), agent(folders[1].path()));
    first.claim().await.expect("nobody has it");
    first.claim().await.expect("once more is no error");
    let spec = site.holding(&json!({}));
    let end = async |id: &str| {
        let asked = plumbline::proto::v1::ApplyRequest { operation_id: id.to_owned(), ..request(&spec, &[]) };
        let mut events = second.apply(asked).expect("a new id");
        let mut last = None;
        while let Some(event) = events.next().await {
            last = event.event;
        }
        last
    };
    let refused = end("refused").await;
    let Some(Event::Failure(failure)) = refused else { panic!("{refused:?}") };
    assert!(failure.message.contains("another agent of this installation"), "{}", failure.message);
    assert!(failure.rolled_back, "nothing was touched");
    assert!(matches!(second.claim().await, Err(ApplyError::EngineTaken { .. })));
    assert_eq!(site.containers(), [""; 0]);
    drop(first);
    let applied = end("applied").await;
    assert!(matches!(applied, Some(Event::Result(_))), "{applied:?}");
}
