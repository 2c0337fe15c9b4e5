//! A network whose declaration changed: made anew with all containers on it, or not at all.
//!
//! The kill tests do what those of `kill` do for one container: the agent is killed at every mutating call, and once more while
//! it recovers. After that both containers run, old or new, on the one network of that name.

use std::collections::BTreeSet;
use std::time::Duration;

use plumbline::proto::v1::{Action, ModuleSpec, Outcome, RefusalReason};
use serde_json::{Value as Json, json};

use crate::free::own_subnet;
use crate::proxy::Moment;
use crate::served::Served;
use crate::site::{Site, docker, hold, object, text};

/// More mutating calls than the change of a network with two containers makes, undone or not.
const MANY: usize = 60;

/// How long an agent that starts may take until all is well.
const RECOVERY: Duration = Duration::from_secs(30);

/// A bad entrypoint.
const BAD: &str = "/nonexistent";

/// `a` with a fixed address and an alias and `b`, both on `lan`, and `c` elsewhere. `edit` changes the network alone.
fn module(site: &Site, subnet: &str, edit: &str, entrypoint: &str) -> ModuleSpec {
    site.module(json!({
        "networks": { "lan": {
            "driver_opts": { "com.docker.network.bridge.name": format!("pl{edit}{}", std::process::id() % 100_000) },
            "ipam": { "config": [{ "subnet": format!("{subnet}.0/24") }] }
        } },
        "containers": {
            "a": hold(&json!({
                "restart": "always", "networks": { "lan": { "ipv4_address": format!("{subnet}.9"), "aliases": ["first"] } }
            })),
            "b": hold(&json!({ "restart": "always", "networks": { "lan": {} }, "depends_on": ["a"], "entrypoint": [entrypoint] })),
            "c": hold(&json!({}))
        }
    }))
}

fn network_id(name: &str) -> String {
    docker(&["network", "inspect", "--format", "{{.Id}}", name])
}

/// Whether the containers run on the network of this name, with their settings, and reach one another.
async fn are_on(site: &Site, network: &str, address: &str) -> Result<(), String> {
    let ids = docker(&["network", "ls", "-q", "--no-trunc", "--filter", &format!("name=^{network}$")]);
    for key in ["a", "b"] {
        let shown = site.inspect(key).await;
        let endpoint = &shown["NetworkSettings"]["Networks"][network];
        if shown["State"]["Running"] != json!(true) || endpoint["NetworkID"] != ids.as_str() {
            return Err(format!("{key}: {} on {endpoint}, the network is {ids}", shown["State"]));
        }
        if shown["HostConfig"]["RestartPolicy"]["Name"] != "always" {
            return Err(format!("{key}: {}", shown["HostConfig"]["RestartPolicy"]));
        }
        if key == "a" && endpoint["IPAddress"] != address {
            return Err(format!("its address: {endpoint}"));
        }
    }
    let from = format!("{}-b", site.name);
    let pinged = crate::site::docker_says(&["exec", &from, "ping", "-c1", "-W2", "first"]);
    if pinged.contains("1 packets received") { Ok(()) } else { Err(pinged) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_network_is_made_anew_with_the_containers_on_it() {
    let site = Site::new("netanew").await;
    let (subnet, other, lan) = (own_subnet(), own_subnet(), format!("{}_lan", site.name));
    site.apply(&module(&site, &subnet, "x", "/bin/entry"), false).await;
    let (network, bystander) = (network_id(&lan), site.identity("c").await);

    let mutations = site.engine.mutations();
    let refused = site.apply(&module(&site, &other, "x", "/bin/entry"), false).await;
    assert_eq!(object(&refused, "lan").reason(), RefusalReason::NeedsRecreation);
    assert_eq!(object(&refused, "b").reason(), RefusalReason::NeedsRecreation);
    assert_eq!((site.engine.mutations(), network_id(&lan)), (mutations, network.clone()));

    let applied = site.apply(&module(&site, &other, "x", "/bin/entry"), true).await;
    assert_eq!(applied.outcome(), Outcome::Recreated);
    for (key, action) in [
        ("lan", Action::Recreated),
        ("a", Action::Recreated),
        ("b", Action::Recreated),
        ("c", Action::Unchanged),
    ] {
        assert_eq!(object(&applied, key).action(), action, "{key}");
    }
    assert_ne!(network_id(&lan), network);
    assert_eq!(object(&applied, "lan").engine_id, network_id(&lan));
    are_on(&site, &lan, &format!("{other}.9")).await.expect("they run on the new network");
    assert_eq!(site.identity("c").await, bystander);
    assert_eq!(site.containers().len(), 3);
    let again = site.apply(&module(&site, &other, "x", "/bin/entry"), true).await;
    assert!(again.objects.iter().all(|object| object.action() == Action::Unchanged), "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_with_a_stranger_on_it_is_refused_and_names_it() {
    let site = Site::new("netstranger").await;
    let (subnet, lan) = (own_subnet(), format!("{}_lan", site.name));
    let stranger = format!("{}-stranger", site.name);
    site.apply(&module(&site, &subnet, "x", "/bin/entry"), false).await;
    let before = (network_id(&lan), site.identity("a").await);
    docker(&["run", "-d", "--name", &stranger, "--network", &lan, "plumbline/sample:1", "hold"]);
    let edited = module(&site, &subnet, "y", "/bin/entry");
    for stop in [false, true] {
        if stop {
            // The engine would remove the network under it, and it could start no more.
            docker(&["stop", "-t", "1", &stranger]);
        }
        let mutations = site.engine.mutations();
        let refused = site.apply(&edited, true).await;
        assert_eq!(object(&refused, "lan").reason(), RefusalReason::InUse);
        assert!(object(&refused, "lan").detail.contains(&stranger), "{}", object(&refused, "lan").detail);
        assert_eq!(site.engine.mutations(), mutations);
        assert_eq!((network_id(&lan), site.identity("a").await), before);
    }
    docker(&["rm", "-f", &stranger]);
    assert_eq!(object(&site.apply(&edited, true).await, "lan").action(), Action::Recreated);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_change_of_a_network_brings_network_and_containers_back() {
    let host = Served::new("netback").await;
    let (subnet, lan) = (own_subnet(), format!("{}_lan", host.site.name));
    let before = module(&host.site, &subnet, "x", "/bin/entry");
    host.apply(&before, false).await;
    let ids = (host.site.identity("a").await.0, host.site.identity("b").await.0);
    let failure = host.fails(&module(&host.site, &subnet, "y", BAD)).await;
    assert!(failure.rolled_back, "{}", failure.message);
    let result = failure.reached.expect("how far it got");
    assert!(object(&result, "lan").detail.contains("as it was before"), "{}", object(&result, "lan").detail);
    are_on(&host.site, &lan, &format!("{subnet}.9")).await.expect("they are back");
    assert_eq!((host.site.identity("a").await.0, host.site.identity("b").await.0), ids);
    host.settled(&before).await;

    // The new network cannot be made: its addresses are another's.
    let taken = own_subnet();
    docker(&[
        "network",
        "create",
        "--subnet",
        &format!("{taken}.0/24"),
        &format!("{}-other", host.site.name),
    ]);
    let failure = host.fails(&module(&host.site, &taken, "x", "/bin/entry")).await;
    assert!(failure.rolled_back, "{}", failure.message);
    assert!(failure.message.contains("creation of the new network"), "{}", failure.message);
    are_on(&host.site, &lan, &format!("{subnet}.9")).await.expect("they are back");
    host.settled(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_leaves_goes_with_the_network_or_comes_back_with_it() {
    let host = Served::new("netleaves").await;
    let (subnet, lan) = (own_subnet(), format!("{}_lan", host.site.name));
    let with_old = |edit: &str, entrypoint: &str, old: bool| {
        let mut spec = module(&host.site, &subnet, edit, entrypoint);
        if old {
            let other = spec.containers["b"].clone();
            spec.containers.insert("old".to_owned(), other);
        }
        spec
    };
    let before = with_old("x", "/bin/entry", true);
    host.apply(&before, false).await;
    let failure = host.fails(&with_old("y", BAD, false)).await;
    assert!(failure.rolled_back, "{}", failure.message);
    let old = host.site.inspect("old").await;
    assert_eq!(old["State"]["Running"], json!(true));
    assert_eq!(text(&old["NetworkSettings"]["Networks"][&lan]["NetworkID"]), network_id(&lan));
    host.settled(&before).await;
    host.apply(&with_old("y", "/bin/entry", false), true).await;
    assert_eq!(host.site.containers().len(), 3);
    host.settled(&with_old("y", "/bin/entry", false)).await;
}

/// What keeps its hardware address, which the engine (before API 1.44) keeps with the container.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_container_comes_back_with_all_settings_of_its_endpoint() {
    let host = Served::new("netmac").await;
    let (subnet, lan) = (own_subnet(), format!("{}_lan", host.site.name));
    let spec = |edit: &str, entrypoint: &str| {
        let mut spec = module(&host.site, &subnet, edit, entrypoint);
        if let Some(first) = spec.containers.get_mut("a") {
            first.mac_address = Some("02:42:0a:00:00:09".to_owned());
        }
        spec
    };
    host.apply(&spec("x", "/bin/entry"), false).await;
    let settings = |shown: &Json| {
        let endpoint = &shown["NetworkSettings"]["Networks"][&lan];
        ["IPAMConfig", "Aliases", "Links", "DriverOpts", "IPAddress", "MacAddress"]
            .map(|member| endpoint[member].clone())
    };
    let before = settings(&host.site.inspect("a").await);
    host.fails(&spec("y", BAD)).await;
    assert_eq!(settings(&host.site.inspect("a").await), before);
    host.settled(&spec("x", "/bin/entry")).await;
}

struct Kills {
    host: Served,
    subnet: String,
    entrypoint: &'static str,
    edits: usize,
    steps: BTreeSet<String>,
}

impl Kills {
    async fn new(test: &str, entrypoint: &'static str) -> Self {
        let host = Served::killable(test).await;
        let kills = Self { host, subnet: own_subnet(), entrypoint, edits: 0, steps: BTreeSet::new() };
        kills.host.apply(&kills.spec("/bin/entry"), false).await;
        kills
    }

    /// Another edit of the network each time.
    fn spec(&self, entrypoint: &str) -> ModuleSpec {
        let mut spec = module(&self.host.site, &self.subnet, "k", entrypoint);
        if let Some(network) = spec.networks.get_mut("lan") {
            network.driver_opts.clear();
            network.labels.insert("edit".to_owned(), self.edits.to_string());
        }
        spec
    }

    /// Kills the agent at the mutating call after so many others. False: there are no more.
    async fn kill_at(&mut self, calls: usize, moment: Moment) -> bool {
        self.edits += 1;
        self.host.engine.stall_after(calls, moment);
        let request = self.host.request(&self.edits.to_string(), &self.spec(self.entrypoint), true);
        let mut client = self.host.client();
        let apply = async {
            let Ok(stream) = client.apply(tokio_stream::once(request)).await else { return };
            let mut stream = stream.into_inner();
            while let Ok(Some(_)) = stream.message().await {}
        };
        let call = tokio::select! {
            call = self.host.engine.stalled() => call,
            () = apply => {
                self.host.engine.answer_again();
                return false;
            }
        };
        self.steps.insert(call);
        self.host.kill();
        true
    }

    async fn look(&self) -> Result<(), String> {
        let (site, lan) = (&self.host.site, format!("{}_lan", self.host.site.name));
        let journal = std::fs::read_dir(self.host.data().join("journal")).expect("it is there").count();
        let mut containers = site.containers();
        containers.sort();
        if journal > 0 || containers != ["a", "b", "c"].map(|key| format!("{}-{key}", site.name)) {
            return Err(format!("{containers:?}, journals: {journal}"));
        }
        are_on(site, &lan, &format!("{}.9", self.subnet)).await
    }

    async fn is_well(&self) -> Result<(), String> {
        let until = tokio::time::Instant::now() + RECOVERY;
        loop {
            let found = self.look().await;
            if found.is_ok() || tokio::time::Instant::now() > until {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Kills it at every second call, at this moment; then once more while it recovers.
    async fn everywhere(&mut self, first: usize, moment: Moment) {
        for calls in (first..MANY).step_by(2) {
            if !self.kill_at(calls, moment).await {
                assert!(calls > 15, "the change of a network has more calls than {calls}");
                break;
            }
            self.host.engine.stall_after(calls % 7, moment);
            self.host.start_again().await;
            let killed_again = tokio::select! {
                _ = self.host.engine.stalled() => true,
                found = self.is_well() => {
                    self.host.engine.answer_again();
                    found.unwrap_or_else(|found| panic!("{moment:?} {calls}: {found}"));
                    false
                }
            };
            if killed_again {
                self.host.kill();
                self.host.engine.answer_again();
                self.host.start_again().await;
                let found = self.is_well().await;
                found.unwrap_or_else(|found| panic!("{moment:?} {calls}, again at {}: {found}", calls % 7));
            }
        }
        let calls: Vec<&str> = self.steps.iter().filter_map(|call| call.split(' ').next()).collect();
        assert!(calls.contains(&"DELETE") && calls.contains(&"POST"), "{:?}", self.steps);
        // What is there can be worked with.
        self.edits += 1;
        self.host.apply(&self.spec("/bin/entry"), true).await;
        self.host.settled(&self.spec("/bin/entry")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn made_anew_and_killed_before_each_even_call() {
    Kills::new("netkbeforeeven", "/bin/entry").await.everywhere(0, Moment::Before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn made_anew_and_killed_before_each_odd_call() {
    Kills::new("netkbeforeodd", "/bin/entry").await.everywhere(1, Moment::Before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn made_anew_and_killed_after_each_even_call() {
    Kills::new("netkaftereven", "/bin/entry").await.everywhere(0, Moment::After).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn made_anew_and_killed_after_each_odd_call() {
    Kills::new("netkafterodd", "/bin/entry").await.everywhere(1, Moment::After).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn undone_and_killed_before_each_even_call() {
    Kills::new("netubeforeeven", BAD).await.everywhere(0, Moment::Before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn undone_and_killed_before_each_odd_call() {
    Kills::new("netubeforeodd", BAD).await.everywhere(1, Moment::Before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn undone_and_killed_after_each_even_call() {
    Kills::new("netuaftereven", BAD).await.everywhere(0, Moment::After).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn undone_and_killed_after_each_odd_call() {
    Kills::new("netuafterodd", BAD).await.everywhere(1, Moment::After).await;
}
