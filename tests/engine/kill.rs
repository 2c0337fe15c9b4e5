//! The agent is killed (SIGKILL) at every step of a recreation, and of one that fails and is rolled back.
//!
//! A proxy before the engine says when: before a mutating call reaches the engine (its announcement is in the journal by
//! then), when the engine has done it and the agent has not heard, and when it has heard and looks. After the agent is
//! started again, without anybody asking for anything: exactly one container of the module exists and runs, under its
//! name, with the data of the first; the journal is empty.
//!
//! `PLUMBLINE_KILL_ROUNDS`: how often each; what was found is in `target/kill`.

use std::path::PathBuf;
use std::time::Duration;

use plumbline::proto::v1::ModuleSpec;
use serde_json::{Value as Json, json};

use crate::proxy::Moment;
use crate::served::Served;
use crate::site::docker;

/// More mutating calls than any recreation makes, rolled back or not.
const MANY: usize = 30;

/// How long an agent that starts may take until all is well.
const RECOVERY: Duration = Duration::from_secs(30);

/// What the container has before anything is killed.
const DATA: &str = "what must not be lost";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The new container comes up.
    Replaced,
    /// It does not, and the old one is put back.
    RolledBack,
}

struct Kills {
    host: Served,
    kind: Kind,
    folder: String,
    edits: usize,
    runs: usize,
    /// The calls at which the agent was killed.
    steps: std::collections::BTreeSet<String>,
}

impl Kills {
    async fn new(test: &str, kind: Kind) -> Self {
        let host = Served::killable(test).await;
        let folder = host.site.host_folder("data");
        std::fs::write(format!("{folder}/bound"), DATA).expect("written");
        let kills = Self { host, kind, folder, edits: 0, runs: 0, steps: std::collections::BTreeSet::new() };
        kills.host.apply(&kills.spec(Kind::Replaced), false).await;
        docker(&["exec", &kills.host.container(), "sh", "-c", &format!("echo '{DATA}' > /anonymous/file")]);
        kills
    }

    /// Another edit of the module each time.
    fn spec(&self, kind: Kind) -> ModuleSpec {
        let mut container = json!({
            "restart": "always", "labels": { "edit": self.edits.to_string() },
            "mounts": [format!("{}:/data", self.folder), { "type": "volume", "target": "/anonymous" }]
        });
        if kind == Kind::RolledBack {
            container["entrypoint"] = json!(["/nonexistent"]);
        }
        self.host.site.holding(&container)
    }

    /// Kills the agent at the mutating call after so many others. False: there are no more.
    async fn kill_at(&mut self, calls: usize, moment: Moment) -> bool {
        self.edits += 1;
        let spec = self.spec(self.kind);
        self.host.engine.stall_after(calls, moment);
        let request = self.host.request(&format!("{}", self.edits), &spec, true);
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
        self.steps.insert(format!("{calls:02} {}", without_id(&call)));
        self.host.kill();
        true
    }

    /// Starts the agent again, and waits until all is well; else what is not.
    async fn recovers(&mut self) -> Result<(), String> {
        self.host.engine.answer_again();
        self.host.start_again().await;
        self.is_well().await
    }

    async fn is_well(&self) -> Result<(), String> {
        let until = tokio::time::Instant::now() + RECOVERY;
        loop {
            let found = self.look().await;
            if found.is_ok() || tokio::time::Instant::now() > until {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn look(&self) -> Result<(), String> {
        let journal = std::fs::read_dir(self.host.data().join("journal")).expect("it is there").count();
        let (containers, name) = (self.host.site.containers(), self.host.container());
        if journal > 0 || containers != [name.clone()] {
            return Err(format!("{containers:?}, journals: {journal}"));
        }
        self.runs_alone().await
    }

    /// One container of the module runs, under its name, with its data and its restart policy.
    async fn runs_alone(&self) -> Result<(), String> {
        let name = self.host.container();
        let named = format!("name=^{}", self.host.site.name);
        let running = docker(&["ps", "--filter", &named, "--format", "{{.Names}}"]);
        if running != name {
            return Err(format!("running: {running}"));
        }
        let shown = self.host.site.inspect("c").await;
        if shown["HostConfig"]["RestartPolicy"]["Name"] != json!("always") {
            return Err(format!("its restart policy: {}", shown["HostConfig"]["RestartPolicy"]));
        }
        let data = docker(&["exec", &name, "sh", "-c", "cat /anonymous/file /data/bound"]);
        if data != format!("{DATA}\n{DATA}") {
            return Err(format!("its data: {data}"));
        }
        Ok(())
    }

    /// Kills it at every call, at this moment; then once more while it recovers.
    async fn everywhere(&mut self, moment: Moment) -> Vec<String> {
        let mut violations = Vec::new();
        for round in 0..rounds() {
            for calls in 0..MANY {
                if !self.kill_at(calls, moment).await {
                    assert!(calls > 5, "a recreation has more calls than {calls}");
                    break;
                }
                self.runs += 1;
                // A second kill, at another call of the recovery each time.
                let again = (calls + round) % 4;
                self.host.engine.stall_after(again, moment);
                self.host.start_again().await;
                tokio::select! {
                    _ = self.host.engine.stalled() => {
                        self.host.kill();
                        if let Err(found) = self.recovers().await {
                            violations.push(format!("{moment:?} {calls}, again at {again}: {found}"));
                        }
                    }
                    found = self.is_well() => {
                        self.host.engine.answer_again();
                        if let Err(found) = found {
                            violations.push(format!("{moment:?} {calls}: {found}"));
                        }
                    }
                }
                if !violations.is_empty() {
                    return violations;
                }
            }
        }
        // What is there can be worked with.
        self.host.apply(&self.spec(Kind::Replaced), true).await;
        self.host.settled(&self.spec(Kind::Replaced)).await;
        violations
    }
}

/// A call with ID in the place of an id.
fn without_id(call: &str) -> String {
    let is_id = |part: &&str| part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts = call.split('/').map(|part| if is_id(&part) { "ID" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

fn rounds() -> usize {
    std::env::var("PLUMBLINE_KILL_ROUNDS").map_or(1, |text| text.parse().expect("a number"))
}

async fn killed(test: &str, kind: Kind, moment: Moment) {
    let mut kills = Kills::new(test, kind).await;
    let violations = kills.everywhere(moment).await;
    let report: Json = json!({
        "what": format!("{kind:?}"), "killed": format!("{moment:?}"), "rounds": rounds(), "runs": kills.runs,
        "steps": kills.steps, "violations": violations.len(), "found": violations,
    });
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/kill");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join(format!("{test}.json")), format!("{report:#}\n")).expect("written");
    assert!(violations.is_empty(), "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_and_killed_before_each_call() {
    killed("killbefore", Kind::Replaced, Moment::Before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_and_killed_after_each_call() {
    killed("killafter", Kind::Replaced, Moment::After).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_and_killed_when_each_call_was_heard() {
    killed("killheard", Kind::Replaced, Moment::Heard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rolled_back_and_killed_before_each_call() {
    killed("backbefore", Kind::RolledBack, Moment::Before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rolled_back_and_killed_after_each_call() {
    killed("backafter", Kind::RolledBack, Moment::After).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rolled_back_and_killed_when_each_call_was_heard() {
    killed("backheard", Kind::RolledBack, Moment::Heard).await;
}

/// The end of the journal may not have reached the disk, whatever the agent was told; or all of it is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_lost_records_leaves_one_container_running() {
    let mut kills = Kills::new("killtorn", Kind::Replaced).await;
    // Before the new one is started, and before the old one is removed.
    for calls in [5, 6] {
        for kept in 0..6 {
            assert!(kills.kill_at(calls, Moment::Before).await);
            let path = kills.host.data().join("journal").join(&kills.host.site.name);
            let whole = std::fs::read_to_string(&path).expect("there is a journal");
            let lines: Vec<&str> = whole.lines().collect();
            assert!(lines.len() > 6, "{whole}");
            match kept {
                0 => std::fs::remove_file(&path).expect("removed"),
                // Some records, and half of the next.
                kept => {
                    let kept = lines.len() * kept / 6;
                    let torn = &lines[kept][..lines[kept].len() / 2];
                    let text = format!("{}\n{torn}", lines[..kept].join("\n"));
                    std::fs::write(&path, text).expect("written");
                }
            }
            kills.host.engine.answer_again();
            kills.host.start_again().await;
            let until = tokio::time::Instant::now() + RECOVERY;
            while let Err(found) = kills.runs_alone().await {
                assert!(
                    tokio::time::Instant::now() < until,
                    "before call {calls}, {kept} of 6 kept: {found}"
                );
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            // What else was left is gone after the next apply.
            kills.edits += 1;
            kills.host.apply(&kills.spec(Kind::Replaced), true).await;
            kills.is_well().await.expect("one container is left");
        }
    }
}
