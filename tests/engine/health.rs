//! The window of a started container: what does not become healthy, or does not stay up, takes nobody's place.

use std::time::{Duration, Instant};

use plumbline::proto::v1::apply_response::Event;
use plumbline::proto::v1::{Action, ContainerFailure, Failure, ModuleSpec, Phase, Progress};
use serde_json::{Value as Json, json};

use crate::served::Served;
use crate::site::{docker, hold, object, text};

/// How long engines, and this machine, may take for stopping, starting and removing beside what is waited for.
const SLACK: Duration = Duration::from_secs(30);

/// A shell that runs this line, with these settings.
fn shell(line: &str, settings: &Json) -> Json {
    let mut container = hold(settings);
    container["entrypoint"] = json!(["/bin/sh", "-c"]);
    container["command"] = json!([line]);
    container
}

/// A container that holds, with a health check of this line.
fn checked(line: &str, settings: &Json) -> Json {
    let mut container = hold(settings);
    container["healthcheck"] =
        json!({ "test": ["CMD-SHELL", line], "interval": "200ms", "timeout": "5s", "retries": 2 });
    container
}

/// A host on which the old container `c` serves.
struct Old {
    host: Served,
    before: Json,
}

impl Old {
    async fn serving(test: &str) -> Self {
        let host = Served::new(test).await;
        let serving = json!({ "image": "plumbline/sample:1", "restart": "unless-stopped" });
        host.apply(&host.site.module(json!({ "containers": { "c": serving } })), false).await;
        let before = host.site.inspect("c").await;
        Self { host, before }
    }

    fn spec(&self, container: &Json) -> ModuleSpec {
        self.host.site.module(json!({ "containers": { "c": container } }))
    }

    /// This container in the place of the old one fails: the old one is back and serves. What is known of the new one.
    async fn outlives(&self, container: &Json) -> (Failure, ContainerFailure) {
        let failure = self.host.fails(&self.spec(container)).await;
        assert!(failure.rolled_back, "{}", failure.message);
        let now = self.host.site.inspect("c").await;
        assert_eq!((&now["Id"], &now["State"]["Running"]), (&self.before["Id"], &json!(true)));
        assert_eq!(now["HostConfig"]["RestartPolicy"], self.before["HostConfig"]["RestartPolicy"]);
        assert_eq!(self.host.site.containers(), [self.host.container()], "nothing is left of the new one");
        // It listens a moment after it was started.
        let ask = ["exec", &self.host.container(), "wget", "-q", "-O", "-", "http://127.0.0.1:8080/"];
        let begun = Instant::now();
        while docker(&ask) != "plumbline/sample:1" {
            assert!(begun.elapsed() < SLACK, "the old container does not serve");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let reached = failure.reached.clone().expect("it says how far it got");
        let known = object(&reached, "c").failure.clone().expect("how the container ended");
        (failure, known)
    }

    /// This container takes the old one's place. What was said of it on the way.
    async fn gives_way(&self, container: &Json) -> Vec<Progress> {
        let spec = self.spec(container);
        let events = self.host.events(self.host.request("way", &spec, true)).await;
        let mut said = Vec::new();
        for event in events {
            match event.event.expect("an event") {
                Event::Progress(progress) => said.push(progress),
                Event::Result(result) => assert_eq!(object(&result, "c").action(), Action::Recreated),
                Event::Failure(failure) => panic!("{}", failure.message),
            }
        }
        assert_ne!(self.host.site.inspect("c").await["Id"], self.before["Id"]);
        assert_eq!(self.host.site.containers(), [self.host.container()]);
        said
    }
}

fn details(said: &[Progress], phase: Phase) -> Vec<&str> {
    said.iter().filter(|one| one.phase() == phase).map(|one| one.detail.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_never_healthy_is_rolled_back_when_its_time_is_over() {
    let old = Old::serving("hnever").await;
    let mut never = checked("sleep 60", &json!({ "update_config": { "healthy_deadline": "2s" } }));
    never["healthcheck"]["timeout"] = json!("50s");
    let begun = Instant::now();
    let (failure, known) = old.outlives(&never).await;
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(2) + SLACK, "{took:?}");
    assert!(failure.message.contains("did not become healthy within 2 s"), "{}", failure.message);
    assert!(failure.message.contains("healthy_deadline"), "it says what to do: {}", failure.message);
    assert_eq!((known.exit_code, known.health.as_str()), (None, "starting"), "it ran");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_becomes_healthy_late_takes_the_place() {
    let old = Old::serving("hlate").await;
    let late = shell("sleep 3; touch /tmp/ready; exec hold", &json!({}));
    let mut late = checked("test -e /tmp/ready", &late);
    // It fails meanwhile, and that does not count.
    late["healthcheck"]["start_period"] = json!("60s");
    let begun = Instant::now();
    let said = old.gives_way(&late).await;
    assert!(begun.elapsed() >= Duration::from_secs(3), "it was waited for");
    let inspect = old.host.site.inspect("c").await;
    assert_eq!(inspect["State"]["Health"]["Status"], "healthy");
    // 60 s + (2 + 1) * (0.2 s + 5 s)
    assert_eq!(details(&said, Phase::Started)[0], "it has to become healthy within 75.6 s");
    let [healthy] = details(&said, Phase::Healthy)[..] else { panic!("{said:?}") };
    assert!(healthy.starts_with("healthy after "), "{healthy}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_unhealthy_is_rolled_back_at_once() {
    let old = Old::serving("hsick").await;
    let sick =
        checked("echo no database; exit 1", &json!({ "update_config": { "healthy_deadline": "10m" } }));
    let begun = Instant::now();
    let (failure, known) = old.outlives(&sick).await;
    assert!(begun.elapsed() < Duration::from_secs(60), "not after 10 minutes");
    assert!(failure.message.contains("unhealthy"), "{}", failure.message);
    assert_eq!((known.exit_code, known.health.as_str()), (None, "unhealthy"));
    assert_eq!(known.health_output, ["no database", "no database"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_dies_tells_its_exit_code_and_its_last_lines() {
    let old = Old::serving("hdies").await;
    let line = "for n in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $n; done; sleep 0.5; exit 3";
    for settings in [json!({}), json!({ "healthcheck": { "test": ["CMD", "true"], "interval": "60s" } })] {
        let (failure, known) = old.outlives(&shell(line, &settings)).await;
        assert_eq!(known.exit_code, Some(3));
        let expected: Vec<String> = (3..=12).map(|number| format!("line {number}")).collect();
        assert_eq!(known.last_lines, expected, "the last ten");
        assert_eq!((known.error.as_str(), known.oom_killed), ("", false));
        assert!(failure.message.contains("with exit code 3"), "{}", failure.message);
        assert!(!failure.message.contains("line 12"), "told once: {}", failure.message);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_dies_after_the_window_has_come_through_it() {
    let old = Old::serving("hafter").await;
    let said = old.gives_way(&shell("sleep 4; exit 3", &json!({ "restart": "no" }))).await;
    assert_eq!(details(&said, Phase::Started), ["it has to stay up for 1 s"], "the agent's");
    assert_eq!(details(&said, Phase::Healthy), ["up for 1 s"]);
    // The same with a longer window: it is not up.
    let mut longer = shell("sleep 4; exit 4", &json!({ "update_config": { "monitor": "20s" } }));
    longer["restart"] = json!("no");
    let failure = old.host.fails(&old.spec(&longer)).await;
    let known =
        object(failure.reached.as_ref().expect("a result"), "c").failure.clone().expect("how it ended");
    assert_eq!(known.exit_code, Some(4));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_the_engine_starts_again_and_again_is_not_up() {
    let old = Old::serving("hloop").await;
    for code in [0, 3] {
        let line = format!("echo once more; sleep 0.3; exit {code}");
        let (failure, known) = old.outlives(&shell(&line, &json!({ "restart": "always" }))).await;
        assert!(failure.message.contains("it was started again"), "{}", failure.message);
        assert_eq!(known.exit_code, Some(code), "{known:?}");
        assert!(failure.message.contains(&format!("with exit code {code}")), "{}", failure.message);
        assert_eq!(known.last_lines.first().map(String::as_str), Some("once more"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_ends_well_by_itself_has_come_up() {
    let old = Old::serving("hends").await;
    let said = old.gives_way(&shell("exit 0", &json!({ "update_config": { "monitor": "60s" } }))).await;
    let [ended] = details(&said, Phase::Healthy)[..] else { panic!("{said:?}") };
    assert!(ended.contains("ended by itself with exit code 0"), "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_health_check_of_the_image_counts_unless_it_is_switched_off() {
    let old = Old::serving("himage").await;
    let said = old.gives_way(&json!({ "image": "plumbline/defaults:1" })).await;
    // 1 s + (2 + 1) * (5 s + 2 s) is less than the least.
    assert_eq!(details(&said, Phase::Started), ["it has to become healthy within 30 s"]);
    assert!(details(&said, Phase::Healthy)[0].starts_with("healthy after "));
    let off = json!({ "image": "plumbline/defaults:1", "healthcheck": { "test": ["NONE"] } });
    let events = old.host.events(old.host.request("off", &old.spec(&off), true)).await;
    let said = events.into_iter().filter_map(|event| match event.event {
        Some(Event::Progress(progress)) => Some(progress),
        _ => None,
    });
    assert_eq!(details(&said.collect::<Vec<_>>(), Phase::Healthy), ["up for 1 s"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_killed_for_want_of_memory_says_so() {
    let old = Old::serving("hoom").await;
    let greedy = "sleep 0.3; exec tail /dev/zero";
    let limits = json!({ "mem_limit": "16m", "memswap_limit": "16m", "update_config": { "monitor": "60s" } });
    let (failure, known) = old.outlives(&shell(greedy, &limits)).await;
    assert!(known.oom_killed, "{known:?}");
    assert_eq!(known.exit_code, Some(137));
    assert!(failure.message.contains("out of memory"), "{}", failure.message);
}

/// Inspect says nothing of either: the one runs again when it is looked at, the other is gone.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_ended_unseen_tells_its_exit_code() {
    let old = Old::serving("hunseen").await;
    for settings in [json!({ "restart": "always" }), json!({ "auto_remove": true, "restart": "no" })] {
        let (failure, known) = old.outlives(&shell("exit 5", &settings)).await;
        assert_eq!(known.exit_code, Some(5), "{known:?}");
        assert!(failure.message.contains("with exit code 5"), "{}", failure.message);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_in_what_is_told() {
    let old = Old::serving("hsecret").await;
    let key = "-----BEGIN KEY-----\nMIIEabcdefgh\n-----END KEY-----";
    let long = "s3cr3t".repeat(90);
    let environment = json!({ "environment": { "TOKEN": "hunter22", "KEY": key, "LONG": long } });
    let line = "sleep 0.2; echo token $TOKEN; echo \"$KEY\"; echo long $LONG; exit 3";
    let (failure, known) = old.outlives(&shell(line, &environment)).await;
    assert_eq!(known.last_lines[0], "token (secret)");
    let mut sick = checked("echo token $TOKEN; exit 1", &environment);
    sick["command"] = json!(["hold"]);
    let (unhealthy, probed) = old.outlives(&sick).await;
    assert_eq!(probed.health_output[0], "token (secret)");
    let all = format!("{failure:?}{unhealthy:?}");
    for secret in ["hunter22", "MIIEabcdefgh", "s3cr3t"] {
        assert!(!all.contains(secret), "{secret} in {all}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_not_there_tells_the_engines_words() {
    let old = Old::serving("hentry").await;
    let mut bad = hold(&json!({}));
    bad["entrypoint"] = json!(["/no/such/program"]);
    let (_, known) = old.outlives(&bad).await;
    assert!(known.error.contains("/no/such/program"), "{known:?}");
    assert_eq!(known.exit_code, Some(127));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_was_down_has_its_window_too_and_stays_as_it_is() {
    let host = Served::new("hdown").await;
    let line = "test -e /tmp/was-here && echo bad data && exit 5; touch /tmp/was-here; exec hold";
    let spec = host.site.module(json!({ "containers": { "c": shell(line, &json!({})) } }));
    host.apply(&spec, false).await;
    let before = host.site.identity("c").await.0;
    docker(&["stop", "-t", "0", &host.container()]);
    let failure = host.fails(&spec).await;
    assert!(!failure.rolled_back, "nothing was put back");
    assert!(failure.message.contains("left as it is now"), "{}", failure.message);
    let known =
        object(failure.reached.as_ref().expect("a result"), "c").failure.clone().expect("how it ended");
    assert_eq!((known.exit_code, known.last_lines), (Some(5), vec!["bad data".to_owned()]));
    assert_eq!(text(&host.site.inspect("c").await["Id"]), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_that_are_bound_to_one_another_are_committed_when_all_came_through() {
    let host = Served::new("hbound").await;
    let module = |label: &str, line: &str| {
        let owner = hold(&json!({ "labels": { "edit": label } }));
        let guest = json!({ "network_mode": "container:owner", "restart": "no" });
        host.site.module(json!({ "containers": { "owner": owner, "guest": shell(line, &guest) } }))
    };
    host.apply(&module("1", "exec hold"), false).await;
    let ids = async || [host.site.identity("owner").await.0, host.site.identity("guest").await.0];
    let before = ids().await;
    let failure = host.fails(&module("2", "sleep 0.5; exit 6")).await;
    assert!(failure.rolled_back, "{}", failure.message);
    assert_eq!(ids().await, before, "the owner had come through, and went back with its guest");
    for key in ["owner", "guest"] {
        assert_eq!(host.site.inspect(key).await["State"]["Running"], true, "{key}");
    }
    let reached = failure.reached.expect("a result");
    assert_eq!(object(&reached, "guest").failure.as_ref().and_then(|known| known.exit_code), Some(6));
    assert_eq!(object(&reached, "owner").failure, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn how_long_it_is_watched_is_never_a_change() {
    let host = Served::new("hinstruct").await;
    let spec = |monitor: &str| host.site.holding(&json!({ "update_config": { "monitor": monitor } }));
    host.apply(&spec("1s"), false).await;
    host.settled(&spec("2s")).await;
    host.settled(&host.site.holding(&json!({}))).await;
}
