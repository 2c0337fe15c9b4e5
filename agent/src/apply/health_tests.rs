//! What is waited for, and what each look means.

use serde_json::json;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn seconds_of(text: u64) -> Duration {
    Duration::from_secs(text)
}

fn declared(monitor: Option<u64>, deadline: Option<u64>) -> UpdateConfig {
    let duration = |seconds: Option<u64>| seconds.and_then(|seconds| seconds_of(seconds).try_into().ok());
    UpdateConfig { monitor: duration(monitor), healthy_deadline: duration(deadline) }
}

#[test]
fn what_is_waited_for_comes_from_the_declaration_then_the_check_then_the_agent() {
    let (up, healthy) = (|time| Window::Up(seconds_of(time)), |time| Window::Healthy(seconds_of(time)));
    let check = |interval: u64, timeout: u64, retries: u64, start_period: u64| {
        json!({ "Test": ["CMD", "true"], "Interval": interval * SECOND, "Timeout": timeout * SECOND,
                "Retries": retries, "StartPeriod": start_period * SECOND })
    };
    for (check, declared, expected, why) in [
        (json!(null), declared(None, None), up(5), "no check: the agent's"),
        (json!(null), declared(Some(60), Some(7)), up(60), "no check: the declared time"),
        (json!({ "Test": ["NONE"] }), declared(None, Some(7)), up(5), "a check that is switched off"),
        (json!({ "Test": [], "Interval": SECOND }), declared(None, None), up(5), "a check of nothing"),
        (check(10, 2, 2, 60), declared(None, Some(7)), healthy(7), "a check: the declared limit"),
        (check(10, 2, 2, 60), declared(Some(3), None), healthy(96), "60 + (2 + 1) * (10 + 2)"),
        (
            json!({ "Test": ["CMD-SHELL", "true"] }),
            declared(None, None),
            healthy(240),
            "the engine's defaults",
        ),
        (check(1, 1, 3, 0), declared(None, None), healthy(30), "never less than 30 s"),
    ] {
        assert_eq!(Window::of(&check, &declared, seconds_of(5)), expected, "{why}");
    }
    let endless = check(u64::MAX / SECOND, u64::MAX / SECOND, u64::MAX, 1);
    assert!(matches!(Window::of(&endless, &declared(None, None), seconds_of(5)), Window::Healthy(_)));
}

fn look(state: &Json, restarts: i64) -> Sight {
    let mut inspect = json!({ "State": { "StartedAt": "10:00" }, "RestartCount": restarts });
    for (key, value) in state.as_object().into_iter().flatten() {
        inspect["State"][key] = value.clone();
    }
    Sight::of(Some(&inspect))
}

#[test]
fn each_look_says_whether_it_is_over() {
    let (up, healthy) = (Window::Up(seconds_of(5)), Window::Healthy(seconds_of(30)));
    let with = |health: &str| json!({ "Running": true, "Health": { "Status": health } });
    let first = First { started_at: "10:00".to_owned(), restarts: 0 };
    for (window, state, restarts, after, expected) in [
        (up, json!({ "Running": true }), 0, 4, "waits"),
        (up, json!({ "Running": true }), 0, 5, "up for 5 s"),
        (
            up,
            json!({ "Running": true, "Restarting": true, "ExitCode": 3 }),
            0,
            1,
            "having ended with exit code 3",
        ),
        (up, json!({ "Running": true, "Restarting": true }), 0, 1, "having ended with exit code 0"),
        (up, json!({ "Running": true }), 1, 5, "it was started again within 5 s, having ended"),
        (up, json!({ "Running": true, "StartedAt": "10:01" }), 0, 5, "it was started again"),
        (up, json!({ "ExitCode": 3 }), 0, 1, "it ended after 1 s with exit code 3"),
        (up, json!({ "ExitCode": 137, "OOMKilled": true }), 0, 1, "with exit code 137 (out of memory"),
        (up, json!({ "ExitCode": 127, "Error": "no such file" }), 0, 1, "exit code 127: no such file"),
        (up, json!({ "Dead": true }), 0, 1, "it ended"),
        (up, json!({ "ExitCode": 0 }), 0, 1, "it ended by itself with exit code 0 after 1 s"),
        (healthy, with("starting"), 0, 29, "waits"),
        (healthy, with(""), 0, 1, "waits"),
        (healthy, with("healthy"), 0, 2, "healthy after 2 s"),
        (healthy, with("unhealthy"), 0, 2, "says after 2 s that it is unhealthy"),
        (healthy, with("starting"), 0, 30, "did not become healthy within 30 s"),
        (healthy, json!({ "ExitCode": 1 }), 0, 2, "it ended after 2 s with exit code 1"),
        (healthy, json!({ "ExitCode": 0 }), 0, 2, "it ended by itself with exit code 0"),
    ] {
        let said = match look(&state, restarts).judge(window, &first, seconds_of(after)) {
            None => "waits".to_owned(),
            Some(Ok(came)) => came,
            Some(Err(not_up)) => not_up.to_string(),
        };
        assert!(said.contains(expected), "{state} after {after} s: {said}");
    }
    let gone = Sight::of(None).judge(up, &first, seconds_of(1));
    let (after, exit_code, oom_killed) = (seconds_of(1), None, false);
    assert_eq!(gone, Some(Err(NotUp::Gone { after, exit_code, oom_killed })));
}

#[test]
fn restarts_before_the_window_do_not_count() {
    let unpaused = look(&json!({ "Running": true }), 7);
    let first = First::of(&unpaused, Some("10:00"));
    assert_eq!(unpaused.judge(Window::Up(seconds_of(5)), &first, seconds_of(1)), None);
    // Started by us: whatever is counted is of this window.
    let first = First::of(&unpaused, Some("09:00"));
    assert!(matches!(
        unpaused.judge(Window::Up(seconds_of(5)), &first, seconds_of(1)),
        Some(Err(NotUp::Restarted { exit_code: None, .. }))
    ));
}

#[test]
fn how_it_ended_is_asked_for_where_inspect_does_not_say() {
    let first = First { started_at: "10:00".to_owned(), restarts: 0 };
    for (state, restarts, is_unseen) in [
        (json!({ "Running": true }), 0, false),
        (json!({ "Running": true }), 1, true),
        (json!({ "Running": true, "StartedAt": "10:01" }), 0, true),
        (json!({ "Running": true, "Restarting": true }), 1, false),
        (json!({ "ExitCode": 3 }), 1, false),
    ] {
        assert_eq!(look(&state, restarts).ended_unseen(&first), is_unseen, "{state}");
    }
    let mut gone = Sight::of(None);
    assert!(gone.ended_unseen(&first));
    gone.ended(End { exit_code: Some(137), oom_killed: true });
    let said = gone
        .judge(Window::Up(seconds_of(5)), &first, seconds_of(1))
        .map(|end| end.map_err(|e| e.to_string()));
    let Some(Err(said)) = said else { panic!("{said:?}") };
    assert!(said.contains("ended after 1 s with exit code 137 (out of memory"), "{said}");
    let failure = gone.failure();
    assert_eq!((failure.exit_code, failure.oom_killed), (Some(137), true));
}

#[test]
fn what_is_known_is_kept_for_whoever_asks() {
    let probe = |output: &str| json!({ "ExitCode": 1, "Output": output });
    let health = json!({ "Status": "unhealthy", "FailingStreak": 3,
        "Log": [probe("a"), probe("b\u{1b}\n"), probe(""), probe("c"), probe("d")] });
    let unhealthy = look(&json!({ "Running": true, "Health": health }), 0);
    assert_eq!(
        unhealthy.news(&Sight::default()).as_deref(),
        Some("its health check failed 3 times in a row")
    );
    assert_eq!(unhealthy.news(&unhealthy), None);
    let failure = unhealthy.failure();
    assert_eq!((failure.exit_code, failure.health.as_str()), (None, "unhealthy"), "it runs");
    assert_eq!(failure.health_output, ["b", "c", "d"]);
    let failure = look(&json!({ "ExitCode": 137, "OOMKilled": true, "Error": "e" }), 0).failure();
    assert_eq!((failure.exit_code, failure.oom_killed), (Some(137), true));
    assert_eq!((failure.health.as_str(), failure.error.as_str()), ("none", "e"));
}
