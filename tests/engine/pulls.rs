//! What is pulled when, from a real registry: the three pull policies, and registries that do not give.

use std::io::{Read as _, Write as _};

use plumbline::proto::v1::apply_response::Event;
use plumbline::proto::v1::{Action, ApplyRequest, ModuleSpec, Outcome, Phase, RefusalReason};
use plumbline_agent::apply;
use serde_json::{Value as Json, json};

use crate::registry::{Registry, free_port};
use crate::served::{Served, lines};
use crate::site::{Silent, changes, docker, object};

const PULL: &str = "POST /images/create";

/// A registry, a host, and the container from which images are made. In this order: the host's containers go first.
async fn world(test: &str) -> (Registry, Served) {
    let (registry, host) = (Registry::start(), Served::new(test).await);
    docker(&["create", "--name", &maker(&host), "plumbline/sample:1"]);
    (registry, host)
}

fn maker(host: &Served) -> String {
    format!("{}-maker", host.site.name)
}

/// Puts an image into the registry that it tells from all others by its environment, and takes it off the host.
fn publish(registry: &Registry, host: &Served, reference: &str, version: &str) -> String {
    let id = registry.commit(&maker(host), reference, &[&format!("ENV V={version}")]);
    Registry::push(reference, None);
    docker(&["image", "rm", reference]);
    id
}

fn spec(host: &Served, image: &str, policy: Option<&str>) -> ModuleSpec {
    let mut settings = json!({ "image": image });
    if let Some(policy) = policy {
        settings["pull_policy"] = json!(policy);
    }
    host.site.holding(&settings)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_image_is_pulled_with_progress_and_one_that_is_there_is_not_asked_about() {
    let (registry, host) = world("pullmissing").await;
    let reference = registry.reference("app:1");
    let blob = host.site.host_folder("blob") + "/blob";
    let mut random = vec![0; 8 << 20];
    std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut random)).expect("random");
    std::fs::write(&blob, &random).expect("it can be written");
    docker(&["cp", &blob, &format!("{}:/blob", maker(&host))]);
    let first = publish(&registry, &host, &reference, "1");
    docker(&["image", "rm", "--force", &first]);
    assert!(host.site.engine.image(&first).await.expect("an answer").is_none(), "it is not on the host");

    let spec = spec(&host, &reference, None);
    registry.asked();
    let planned = host.plan(&spec).await;
    assert_eq!(planned.action(), Action::Created);
    assert_eq!((registry.asked(), host.engine.take_mutations()), (vec![], vec![]), "a plan does not pull");
    let events = host.events(host.request("first", &spec, false)).await;
    let pulling = events.iter().filter_map(|event| match &event.event {
        Some(Event::Progress(progress)) if progress.phase() == Phase::Pulling => Some(progress),
        _ => None,
    });
    let bytes: Vec<(u64, u64)> =
        pulling.map(|progress| (progress.done_bytes, progress.total_bytes)).collect();
    assert!(bytes.iter().any(|(done, total)| 0 < *done && *done <= *total && *total > 8 << 20), "{bytes:?}");
    assert!(
        matches!(&events.last().expect("an end").event, Some(Event::Result(result)) if result.action() == Action::Created)
    );
    assert_eq!(host.site.inspect("c").await["Image"], json!(first));
    assert_eq!(host.engine.take_mutations()[0], PULL);

    publish(&registry, &host, &registry.reference("app:2"), "2");
    let moved = registry.commit(&maker(&host), &registry.reference("app:moving"), &["ENV V=3"]);
    docker(&["tag", &moved, &reference]);
    Registry::push(&reference, None);
    docker(&["tag", &first, &reference]);
    registry.asked();
    host.settled(&spec).await;
    assert_eq!(registry.asked(), [""; 0], "the tag moved in the registry alone, which was not asked");
    assert_eq!(host.site.inspect("c").await["Image"], json!(first));
}

#[tokio::test(flavor = "multi_thread")]
async fn always_asks_the_registry_when_it_may_recreate_and_says_so_when_it_may_not() {
    let (registry, host) = world("pullalways").await;
    let reference = registry.reference("app:1");
    let first = publish(&registry, &host, &reference, "1");
    let spec = spec(&host, &reference, Some("always"));
    host.apply(&spec, false).await;
    assert_eq!(host.site.inspect("c").await["Image"], json!(first));
    // It is on the host under its id still, so it is taken off by its name before the tag is moved.
    let second = registry.commit(&maker(&host), &registry.reference("app:moving"), &["ENV V=2"]);
    docker(&["tag", &second, &reference]);
    Registry::push(&reference, None);
    docker(&["tag", &first, &reference]);

    let old = host.site.identity("c").await;
    host.engine.take_mutations();
    registry.asked();
    let planned = host.plan(&spec).await;
    let refusing = host.apply(&spec, false).await;
    for result in [&planned, &refusing] {
        assert_eq!(object(result, "c").action(), Action::Unchanged);
        let detail = &object(result, "c").detail;
        assert!(detail.contains("was not asked") && detail.contains(&reference), "{detail}");
        assert!(detail.contains("--recreate"), "{detail}");
    }
    assert_eq!((registry.asked(), host.engine.take_mutations()), (vec![], vec![]));
    assert_eq!(host.site.identity("c").await, old);

    let allowed = host.apply(&spec, true).await;
    assert_eq!(allowed.outcome(), Outcome::Recreated);
    assert_eq!(object(&allowed, "c").detail, "");
    assert_eq!(
        lines(&changes(object(&allowed, "c"))),
        [
            format!("image: {reference} ({first}) -> {reference} ({second}) (RECREATE, DECLARED)"),
            "environment[V]: secret -> secret (RECREATE, IMAGE_DEFAULT)".to_owned()
        ]
    );
    assert_eq!(host.engine.take_mutations()[0], PULL);
    let inspect = host.site.inspect("c").await;
    assert_eq!(inspect["Image"], json!(second));
    assert!(inspect["Config"]["Env"].as_array().expect("a list").contains(&json!("V=2")));

    let again = host.apply(&spec, true).await;
    assert_eq!(object(&again, "c").action(), Action::Unchanged);
    assert_eq!(object(&again, "c").detail, "", "this time it was asked");
    assert_eq!(host.engine.take_mutations(), [PULL], "asked, and nothing else");
    assert_eq!(host.site.inspect("c").await["Id"], inspect["Id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_applied_with_the_images_that_it_saw() {
    let (registry, host) = world("pullplanned").await;
    let site = &host.site;
    let reference = registry.reference("app:1");
    let first = publish(&registry, &host, &reference, "1");
    let spec = spec(&host, &reference, Some("always"));
    site.apply(&spec, true).await;
    let plan = site.plan(&spec, true).await;
    let second = registry.commit(&maker(&host), &registry.reference("app:moving"), &["ENV V=2"]);
    docker(&["tag", &second, &reference]);
    Registry::push(&reference, None);
    docker(&["tag", &first, &reference]);

    let request = ApplyRequest {
        recreate: plumbline::proto::v1::RecreatePolicy::Allow.into(),
        plan_token: plan.plan_token,
        ..host.request("planned", &spec, true)
    };
    registry.asked();
    let applied =
        apply::apply(&site.engine, &site.state, &site.installation, &site.settings(), &request, &Silent)
            .await;
    let result = applied.result.expect("a result");
    assert_eq!(object(&result, "c").action(), Action::Unchanged);
    assert!(object(&result, "c").detail.contains("as planned"), "{}", object(&result, "c").detail);
    assert_eq!(registry.asked(), [""; 0]);
    assert_eq!(site.inspect("c").await["Image"], json!(first));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_for_a_new_container_that_changes_another_is_told() {
    let (registry, host) = world("pullshared").await;
    let reference = registry.reference("app:1");
    let first = publish(&registry, &host, &reference, "1");
    host.apply(&spec(&host, &reference, None), false).await;
    docker(&["image", "rm", &reference]);
    let second = publish(&registry, &host, &reference, "2");
    let old = host.site.identity("c").await;
    let both = host.site.module(json!({ "containers": {
        "c": { "image": reference, "command": ["hold"] },
        "new": { "image": reference, "command": ["hold"] }
    } }));
    host.engine.take_mutations();
    let result = host.apply(&both, false).await;
    assert_eq!(result.outcome(), Outcome::RefusedNeedsRecreation);
    assert!(
        object(&result, "c").detail.contains(&format!("({reference} was pulled; nothing else")),
        "{}",
        object(&result, "c").detail
    );
    assert_eq!(host.engine.take_mutations(), [PULL]);
    assert_eq!(host.site.identity("c").await, old);
    assert_eq!(host.site.inspect("c").await["Image"], json!(first));
    host.apply(&both, true).await;
    assert_eq!(host.site.inspect("c").await["Image"], json!(second));
}

#[tokio::test(flavor = "multi_thread")]
async fn never_uses_what_is_there_and_refuses_what_is_not() {
    let (registry, host) = world("pullnever").await;
    let reference = registry.reference("app:1");
    publish(&registry, &host, &reference, "1");
    let spec = spec(&host, &reference, Some("never"));
    registry.asked();
    for allow in [false, true] {
        let result = host.apply(&spec, allow).await;
        assert_eq!(object(&result, "c").reason(), RefusalReason::Missing);
        let detail = &object(&result, "c").detail;
        assert!(detail.contains("pull_policy is never") && detail.contains("load the image"), "{detail}");
    }
    assert_eq!((registry.asked(), host.engine.take_mutations()), (vec![], vec![]));
    docker(&["pull", &reference]);
    registry.asked();
    assert_eq!(host.apply(&spec, false).await.action(), Action::Created);
    assert!(!host.engine.take_mutations().contains(&PULL.to_owned()));
    assert_eq!(registry.asked(), [""; 0]);
    host.settled(&spec).await;
}

/// The answer says what to look at, and the old container is the one that runs.
async fn gives_nothing(host: &Served, reference: &str, words: &str) {
    let before = host.site.identity("c").await;
    host.engine.take_mutations();
    let failure = host.fails(&spec(host, reference, None)).await;
    assert!(failure.rolled_back, "{}", failure.message);
    for words in [words, reference, "cannot be pulled", "nothing was touched", "credentials"] {
        assert!(failure.message.contains(words), "without `{words}`: {}", failure.message);
    }
    assert_eq!(host.engine.take_mutations(), [PULL]);
    assert_eq!(host.site.identity("c").await, before);
    assert_eq!(host.site.containers(), [host.container(), maker(host)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_does_not_give_touches_nothing() {
    let (mut registry, host) = world("pullfails").await;
    let reference = registry.reference("app:1");
    publish(&registry, &host, &reference, "1");
    host.apply(&host.site.holding(&json!({})), false).await;
    gives_nothing(&host, &registry.reference("app:unknown"), "manifest unknown").await;
    gives_nothing(&host, &registry.reference("nothing:1"), "not found").await;
    gives_nothing(&host, &format!("{}/app:1", broken_registry()), "500").await;
    registry.stop();
    gives_nothing(&host, &reference, "connection refused").await;

    // What is to be pulled always fails, too, with the image on the host.
    let sample = format!("127.0.0.1:{}/app:1", free_port());
    docker(&["tag", "plumbline/sample:1", &sample]);
    let always = host.site.holding(&json!({ "image": sample, "pull_policy": "always" }));
    let before = host.site.identity("c").await;
    let failure = host.fails(&always).await;
    assert!(failure.message.contains("connection refused"), "{}", failure.message);
    assert_eq!(host.site.identity("c").await, before);
    docker(&["image", "rm", &sample]);
}

/// Answers every request with 500, as long as the test runs.
fn broken_registry() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound").to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let answer =
                "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

/// A folder with Docker's configuration in which this user logged in to the registry.
fn login(host: &crate::site::Site, registry: &Registry, user: &str) -> String {
    use base64::Engine as _;
    let folder = host.host_folder("login");
    let auth = base64::engine::general_purpose::STANDARD.encode(user);
    let config: Json = json!({ "auths": { registry.address.clone(): { "auth": auth } } });
    std::fs::write(format!("{folder}/config.json"), config.to_string()).expect("it can be written");
    folder
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_is_asked_with_the_credentials_of_the_agents_user() {
    let registry = Registry::with_password();
    let config = tempfile::tempdir().expect("a folder");
    let host = Served::with_docker_config("pulllogin", config.path()).await;
    docker(&["create", "--name", &maker(&host), "plumbline/sample:1"]);
    let reference = registry.reference("app:1");
    let id = registry.commit(&maker(&host), &reference, &["ENV V=1"]);
    Registry::push(&reference, Some(&login(&host.site, &registry, "tester:right")));
    docker(&["image", "rm", "--force", &id]);

    host.apply(&host.site.holding(&json!({})), false).await;
    gives_nothing(&host, &reference, "no basic auth credentials").await;
    let has = |user: &str| {
        let folder = login(&host.site, &registry, user);
        std::fs::copy(format!("{folder}/config.json"), config.path().join("config.json")).expect("copied");
    };
    has("tester:wrong-password");
    gives_nothing(&host, &reference, "unauthorized").await;
    let failure = host.fails(&spec(&host, &reference, None)).await;
    assert!(!failure.message.contains("wrong-password"), "{}", failure.message);
    has("tester:right");
    host.apply(&spec(&host, &reference, None), true).await;
    assert_eq!(host.site.inspect("c").await["Image"], json!(id));
}
