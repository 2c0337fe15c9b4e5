//! Declared fields that the engine reads back differently: listed, remembered for this engine version, and never the cause
//! of a second recreation. The engine is honest in most things, so a proxy makes it lie.

use plumbline::proto::v1::{Action, ModuleSpec, ObjectResult, Outcome, RefusalReason};
use serde_json::{Value as Json, json};

use crate::served::{Served, lines, words};
use crate::site::{changes, hold, object};

const DECLARED: [&str; 4] = [
    "containers.c.tty: true, shown absent",
    "containers.c.environment[PASSWORD]: secret, shown secret",
    "containers.c.ulimits[nofile].soft: 128, shown 64",
    "containers.c.shm_size: 33554432, shown 16777216",
];

/// Shows no terminal, 16 MiB of shared memory, another limit, and another password, whatever was asked for.
fn lie(inspect: &mut Json) {
    inspect["Config"]["Tty"] = json!(false);
    for entry in inspect["Config"]["Env"].as_array_mut().into_iter().flatten() {
        if entry.as_str().is_some_and(|entry| entry.starts_with("PASSWORD=")) {
            *entry = json!("PASSWORD=as-shown");
        }
    }
    for limit in inspect["HostConfig"]["Ulimits"].as_array_mut().into_iter().flatten() {
        limit["Soft"] = json!(64);
    }
    inspect["HostConfig"]["ShmSize"] = json!(16 << 20);
}

fn declared(host: &Served, more: &Json) -> ModuleSpec {
    let mut settings = json!({
        "tty": true, "shm_size": "32m", "environment": { "PASSWORD": "as-declared" },
        "ulimits": { "nofile": { "soft": 128, "hard": 512 } }
    });
    for (key, value) in more.as_object().expect("settings") {
        settings[key] = value.clone();
    }
    host.site.holding(&settings)
}

fn residue(object: &ObjectResult) -> Vec<String> {
    let line = |residue: &plumbline::proto::v1::Residue| {
        let (declared, shown) = (words(residue.declared.as_ref()), words(residue.observed.as_ref()));
        format!("{}: {declared}, shown {shown}", residue.path_text)
    };
    object.residue.iter().map(line).collect()
}

/// A host with a container that was made with all of this residue.
async fn with_residue(test: &str) -> (Served, ModuleSpec) {
    let host = Served::new(test).await;
    host.engine.show("/containers/", lie);
    let spec = declared(&host, &json!({}));
    let made = host.apply(&spec, false).await;
    assert_eq!((made.outcome(), made.action()), (Outcome::Applied, Action::Created));
    assert_eq!(residue(object(&made, "c")), DECLARED);
    let said = format!("{made:?}");
    assert!(!said.contains("as-declared") && !said.contains("as-shown"), "a secret is shown as a hash");
    let secret = &object(&made, "c").residue[1];
    assert_ne!(secret.declared, secret.observed, "by which one sees that it differs");
    (host, spec)
}

/// Refused without permission, recreated once with it, and then at rest.
async fn recreated_once(host: &Served, spec: &ModuleSpec) -> ObjectResult {
    let old = host.site.identity("c").await;
    host.engine.take_mutations();
    let refused = host.apply(spec, false).await;
    assert_eq!(object(&refused, "c").reason(), RefusalReason::NeedsRecreation);
    assert_eq!(host.engine.take_mutations(), [""; 0]);
    assert_eq!(host.site.identity("c").await, old);
    let allowed = host.apply(spec, true).await;
    assert_eq!((allowed.outcome(), allowed.action()), (Outcome::Recreated, Action::Recreated));
    let new = host.site.identity("c").await;
    assert_ne!(new.0, old.0);
    host.settled(spec).await;
    assert_eq!(host.site.identity("c").await, new);
    object(&allowed, "c").clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn residue_is_listed_once_and_no_change_afterwards() {
    let (mut host, spec) = with_residue("residue").await;
    let made = host.site.identity("c").await;
    host.settled(&spec).await;
    assert_eq!(host.differs(&spec).await, [""; 0]);
    host.restart(false).await;
    host.settled(&spec).await;
    assert_eq!(host.site.identity("c").await, made);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_field_that_needs_a_recreation_leads_to_one() {
    let (host, _) = with_residue("residueother").await;
    let edited = declared(&host, &json!({ "labels": { "edit": "2" } }));
    assert_eq!(host.differs(&edited).await, ["labels[edit]: absent -> 2 (RECREATE, DECLARED)"]);
    assert_eq!(residue(&recreated_once(&host, &edited).await), DECLARED);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_value_of_the_same_field_is_a_change_once() {
    let (host, _) = with_residue("residuevalue").await;
    let edited = declared(&host, &json!({ "shm_size": "48m" }));
    assert_eq!(host.differs(&edited).await, ["shm_size: 16777216 -> 50331648 (RECREATE, DECLARED)"]);
    let result = recreated_once(&host, &edited).await;
    assert_eq!(residue(&result)[3], "containers.c.shm_size: 50331648, shown 16777216");
    let secret = declared(&host, &json!({ "shm_size": "48m", "environment": { "PASSWORD": "new" } }));
    let expected = ["environment[PASSWORD]: secret -> secret (RECREATE, DECLARED)"];
    assert_eq!(host.differs(&secret).await, expected);
    recreated_once(&host, &secret).await;
    // What the engine shows is what is declared: no residue any more.
    let agreed = declared(&host, &json!({ "shm_size": "16m", "environment": { "PASSWORD": "as-shown" } }));
    assert_eq!(host.differs(&agreed).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_version_of_the_engine_is_compared_once_more() {
    let (mut host, spec) = with_residue("residueversion").await;
    host.engine.show("/version", |version| version["Version"] = json!("99.1.0"));
    host.restart(false).await;
    let again = host.differs(&spec).await;
    assert_eq!(again.len(), DECLARED.len());
    assert!(
        again.iter().all(|line| line.ends_with("(RECREATE, ENGINE_DEFAULT)")),
        "no hand did it: {again:?}"
    );
    assert_eq!(residue(&recreated_once(&host, &spec).await), DECLARED);
    host.restart(false).await;
    host.settled(&spec).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_forgot_the_residue_recreates_at_most_once() {
    let (mut host, spec) = with_residue("residueforgot").await;
    host.restart(true).await;
    assert_eq!(residue(&recreated_once(&host, &spec).await), DECLARED);
}

/// Of a mount, only what the old container has already: anything else could show other data.
#[tokio::test(flavor = "multi_thread")]
async fn a_mount_that_reads_back_differently_is_not_put_in_the_place_of_one_that_does_not() {
    let host = Served::new("residuemount").await;
    let spec = |edit: &str, read_only: bool| {
        let mount = json!({ "type": "volume", "source": "data", "target": "/data", "read_only": read_only });
        let settings = json!({ "mounts": [mount], "labels": { "edit": edit } });
        host.site.module(json!({ "volumes": { "data": {} }, "containers": { "c": hold(&settings) } }))
    };
    host.engine.show("/containers/", |inspect| {
        for mount in inspect["HostConfig"]["Mounts"].as_array_mut().into_iter().flatten() {
            mount["ReadOnly"] = json!(false);
        }
    });
    let made = host.apply(&spec("1", false), false).await;
    assert_eq!(residue(object(&made, "c")), [""; 0]);
    let old = host.site.identity("c").await;
    let failure = host.fails(&spec("1", true)).await;
    for words in ["reading back failed", "mounts[/data].read_only", "was not touched"] {
        assert!(failure.message.contains(words), "without `{words}`: {}", failure.message);
    }
    assert!(failure.rolled_back);
    assert_eq!(host.site.identity("c").await, old, "not even stopped");
    assert_eq!(host.site.containers(), [host.container()]);

    host.site.engine.remove_container(&old.0).await.expect("it goes");
    let made = host.apply(&spec("1", true), false).await;
    assert_eq!(residue(object(&made, "c")), ["containers.c.mounts[/data].read_only: true, shown absent"]);
    host.settled(&spec("1", true)).await;
    recreated_once(&host, &spec("2", true)).await;
}

/// Another version of the engine is no reason to make them anew.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_network_or_volume_reads_back_differently_is_no_change_afterwards() {
    let mut host = Served::new("residueothers").await;
    let relabel = |shown: &mut Json| shown["Labels"]["l"] = json!("as-shown");
    host.engine.show("/networks/", relabel);
    host.engine.show("/volumes/", relabel);
    let spec = |label: &str| {
        let labels = json!({ "labels": { "l": label } });
        host.site.module(json!({
            "networks": { "lan": labels }, "volumes": { "data": labels },
            "containers": { "c": hold(&json!({ "networks": { "lan": {} }, "mounts": ["data:/data"] })) }
        }))
    };
    let (before, after) = (spec("1"), spec("2"));
    let made = host.apply(&before, false).await;
    assert_eq!(residue(object(&made, "lan")), ["networks.lan.labels[l]: 1, shown as-shown"]);
    assert_eq!(residue(object(&made, "data")), ["volumes.data.labels[l]: 1, shown as-shown"]);
    host.settled(&before).await;
    let refused = host.plan(&after).await;
    for (key, reason) in [("lan", RefusalReason::NeedsRecreation), ("data", RefusalReason::WouldLoseData)] {
        assert_eq!(object(&refused, key).reason(), reason, "another value is a change");
    }
    host.engine.show("/version", |version| version["Version"] = json!("99.1.0"));
    host.restart(false).await;
    host.settled(&before).await;

    // A network that is made anew for another reason: what is then read back differently is known.
    let mut edited = before.clone();
    if let Some(lan) = edited.networks.get_mut("lan") {
        lan.labels.insert("l".to_owned(), "3".to_owned());
    }
    let anew = host.apply(&edited, true).await;
    assert_eq!(residue(object(&anew, "lan")), ["networks.lan.labels[l]: 3, shown as-shown"]);
    host.settled(&edited).await;
}

fn stuck_memory(inspect: &mut Json) {
    inspect["HostConfig"]["Memory"] = json!(64 << 20);
    inspect["HostConfig"]["MemorySwap"] = json!(128 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_in_place_that_does_not_read_back_is_undone_and_needs_a_recreation_from_then_on() {
    let mut host = Served::new("stuck").await;
    host.engine.show("/containers/", stuck_memory);
    let spec = |limit: &str| host.site.holding(&json!({ "mem_limit": limit }));
    let (before, after) = (spec("64m"), spec("128m"));
    host.apply(&before, false).await;
    let old = host.site.identity("c").await;
    assert_eq!(host.differs(&after).await, ["mem_limit: 67108864 -> 134217728 (IN_PLACE, DECLARED)"]);

    let failure = host.fails_with(&after, false).await;
    for words in
        ["reading back failed", "inspect does not show it: containers.c.mem_limit", "--recreate", "undone"]
    {
        assert!(failure.message.contains(words), "without `{words}`: {}", failure.message);
    }
    assert!(failure.rolled_back, "{}", failure.message);
    let inspect = host.site.inspect("c").await;
    assert_eq!(inspect["HostConfig"]["Memory"], 64 << 20, "the engine did it, and it was undone");
    assert_eq!(host.site.identity("c").await, old);
    host.settled(&before).await;

    let expected = ["mem_limit: 67108864 -> 134217728 (RECREATE, DECLARED)"];
    host.restart(false).await;
    assert_eq!(host.differs(&after).await, expected);
    let result = recreated_once(&host, &after).await;
    assert_eq!(lines(&changes(&result)), expected);
    assert_eq!(residue(&result), ["containers.c.mem_limit: 134217728, shown 67108864"]);
    assert_eq!(host.site.inspect("c").await["HostConfig"]["Memory"], 128 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_version_of_the_engine_may_change_it_in_place() {
    let mut host = Served::new("stuckversion").await;
    host.engine.show("/containers/", stuck_memory);
    let spec = |limit: &str| host.site.holding(&json!({ "mem_limit": limit }));
    host.apply(&spec("64m"), false).await;
    let old = host.site.identity("c").await.0;
    host.fails_with(&spec("128m"), false).await;
    host.engine.show("/containers/", |_| ());
    host.engine.show("/version", |version| version["Version"] = json!("99.1.0"));
    host.restart(false).await;
    let after = host.site.holding(&json!({ "mem_limit": "128m" }));
    assert_eq!(host.apply(&after, false).await.action(), Action::Updated);
    assert_eq!(host.site.identity("c").await.0, old);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_permission_it_becomes_a_recreation_in_the_same_apply() {
    let host = Served::new("stuckallowed").await;
    host.engine.show("/containers/", |inspect| inspect["HostConfig"]["CpuShares"] = json!(0));
    let spec = |limit: &str, shares: Option<u32>| {
        let mut last = hold(&json!({ "depends_on": ["a"] }));
        if let Some(shares) = shares {
            last["cpu_shares"] = json!(shares);
        }
        let first = hold(&json!({ "mem_limit": limit }));
        host.site.module(json!({ "containers": { "a": first, "c": last } }))
    };
    host.apply(&spec("64m", None), false).await;
    let (a, c) = (host.site.identity("a").await, host.site.identity("c").await);
    let after = spec("96m", Some(512));
    let result = host.apply(&after, true).await;
    assert_eq!((result.outcome(), result.action()), (Outcome::Recreated, Action::Recreated));
    assert_eq!(object(&result, "a").action(), Action::Updated, "what the first pass did is told");
    assert_eq!(object(&result, "c").action(), Action::Recreated);
    assert_eq!(residue(object(&result, "c")), ["containers.c.cpu_shares: 512, shown absent"]);
    assert_eq!(host.site.identity("a").await, a);
    assert_eq!(host.site.inspect("a").await["HostConfig"]["Memory"], 96 << 20);
    assert_ne!(host.site.identity("c").await.0, c.0);
    assert_eq!(host.site.inspect("c").await["HostConfig"]["CpuShares"], 512);
    host.settled(&after).await;
}
