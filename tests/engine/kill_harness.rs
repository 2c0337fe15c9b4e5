//! What the kill tests share: a module whose apply is cut off at a mutating call, and what must be true afterwards.
//!
//! Its container appends a line to a file of its data every 50 ms, of which every start has its own: where the lines of two
//! starts alternate, two containers ran over the same data at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plumbline::proto::v1::ModuleSpec;
use plumbline::proto::v1::apply_response::Event;
use serde_json::{Value as Json, json};
use tokio::task::JoinHandle;

use crate::proxy::Moment;
use crate::served::Served;

/// More mutating calls than any recreation makes, rolled back or not.
pub(crate) const MANY: usize = 30;

/// How long an agent may take until all is well.
pub(crate) const RECOVERY: Duration = Duration::from_secs(30);

/// Ends at once on SIGTERM.
const BEAT: &str = "read -r start < /proc/sys/kernel/random/uuid
trap 'exit 0' TERM
while :; do echo $start >> /data/beats; usleep 50000; done
";
const DIE: &str = "cat /proc/sys/kernel/random/uuid >> /data/beats; exit 3\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The new container comes up.
    Replaced,
    /// It cannot be started, and the old one is put back.
    RolledBack,
    /// It is started and dies at once, and the old one is put back.
    Dies,
}

/// Where an apply is cut off, about a mutating call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Before the call was announced in the journal, if it is announced there.
    Unannounced,
    /// After that, before the call.
    Before,
    /// After the call, of which the agent has not heard.
    After,
    /// The agent has heard, and has written down what it writes down about that.
    Heard,
}

impl Cut {
    pub(crate) fn moment(self) -> Moment {
        match self {
            Self::Unannounced | Self::Before => Moment::Before,
            Self::After => Moment::After,
            Self::Heard => Moment::Heard,
        }
    }
}

pub(crate) struct Kills {
    pub(crate) host: Served,
    pub(crate) kind: Kind,
    folder: String,
    began: std::time::Instant,
    pub(crate) edits: usize,
    /// The checksums of its data.
    sums: String,
    pub(crate) runs: usize,
    /// How often the agent was killed while it recovered.
    pub(crate) again: usize,
    /// The calls at which it was cut off, each with the last record of the journal.
    pub(crate) steps: BTreeSet<String>,
    /// The last record of the journal at the last cut.
    last: String,
    /// The last record goes with the next kill.
    loses: bool,
}

impl Kills {
    pub(crate) async fn new(host: Served, kind: Kind) -> Self {
        let folder = host.site.host_folder("data");
        for (name, text) in [("beat.sh", BEAT), ("die.sh", DIE), ("kept", "what must not be lost\n")] {
            std::fs::write(format!("{folder}/{name}"), text).expect("written");
        }
        let (steps, last) = (BTreeSet::new(), String::new());
        let began = std::time::Instant::now();
        let mut kills = Self {
            host,
            kind,
            folder,
            began,
            edits: 0,
            sums: String::new(),
            runs: 0,
            again: 0,
            steps,
            last,
            loses: false,
        };
        kills.host.apply(&kills.spec(Kind::Replaced), false).await;
        let fill = "dd if=/dev/urandom of=/anonymous/random bs=64k count=1; mkdir /anonymous/a; echo 1 > /anonymous/a/b";
        kills.host.site.docker(&["exec", &kills.host.container(), "sh", "-c", fill]);
        kills.sums = kills.checksums();
        assert_eq!(kills.sums.lines().count(), 3, "{}", kills.sums);
        kills
    }

    /// Another edit of the module each time.
    pub(crate) fn spec(&self, kind: Kind) -> ModuleSpec {
        let script = if kind == Kind::Dies { "/data/die.sh" } else { "/data/beat.sh" };
        let mut container = json!({
            "restart": "always", "labels": { "edit": self.edits.to_string() }, "command": ["sh", script],
            "mounts": [format!("{}:/data", self.folder), { "type": "volume", "target": "/anonymous" }]
        });
        if kind == Kind::RolledBack {
            container["entrypoint"] = json!(["/nonexistent"]);
        }
        self.host.site.holding(&container)
    }

    fn checksums(&self) -> String {
        let sum = "find /anonymous /data/kept -type f | sort | xargs sha256sum";
        self.host.site.docker_says(&["exec", &self.host.container(), "sh", "-c", sum]).trim().to_owned()
    }

    /// Applies the next edit until the mutating call after so many others, where the agent gets no more answers. `None`:
    /// there are no more calls.
    pub(crate) async fn cut_at(&mut self, calls: usize, cut: Cut) -> Option<JoinHandle<Option<Event>>> {
        self.edits += 1;
        self.host.engine.stall_after(calls, cut.moment());
        let request = self.host.request(&self.edits.to_string(), &self.spec(self.kind), true);
        let mut client = self.host.client();
        let mut apply = tokio::spawn(async move {
            let mut stream = client.apply(tokio_stream::once(request)).await.ok()?.into_inner();
            let mut last = None;
            while let Ok(Some(event)) = stream.message().await {
                last = event.event;
            }
            last
        });
        let call = tokio::select! {
            call = self.host.engine.stalled() => call,
            _ = &mut apply => {
                self.host.engine.answer_again();
                return None;
            }
        };
        let last = self.record(0);
        let is_announced = calls == 0 || last != self.last;
        self.loses = cut == Cut::Unannounced && is_announced;
        let record = if self.loses { self.record(1) } else { last.clone() };
        self.runs += 1;
        self.steps.insert(format!("{calls:02} {}, journal: {record}", without_id(&call)));
        self.last = last;
        Some(apply)
    }

    /// Kills the agent.
    pub(crate) fn kill(&mut self) {
        self.host.kill();
        if std::mem::take(&mut self.loses) {
            self.lose_last_record();
        }
    }

    pub(crate) fn journal(&self) -> std::path::PathBuf {
        self.host.data().join("journal").join(&self.host.site.name)
    }

    /// What the journal says last, or so many records before that.
    fn record(&self, before: usize) -> String {
        let text = std::fs::read_to_string(self.journal()).unwrap_or_default();
        let Some((_, json)) = text.lines().rev().nth(before).and_then(|line| line.split_once(' ')) else {
            return "nothing".to_owned();
        };
        let record: BTreeMap<String, Json> = serde_json::from_str(json).expect("a record");
        let (name, record) = record.into_iter().next().expect("it has a name");
        record["step"].as_str().unwrap_or(&name).to_owned()
    }

    /// As if the agent had been killed before it wrote that.
    fn lose_last_record(&self) {
        let text = std::fs::read_to_string(self.journal()).expect("there is a journal");
        let kept = text.trim_end().rfind('\n').map_or(0, |end| end + 1);
        std::fs::write(self.journal(), &text[..kept]).expect("written");
    }

    /// Starts the agent again, and waits until all is well; else what is not.
    pub(crate) async fn recovers(&mut self) -> Result<(), String> {
        self.host.engine.answer_again();
        self.host.start_again().await;
        self.is_well().await
    }

    /// Waits until all is well; else what is not.
    pub(crate) async fn is_well(&self) -> Result<(), String> {
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

    /// One container of the module runs, under its name, with its data and its restart policy, and no two ever did.
    pub(crate) async fn runs_alone(&self) -> Result<(), String> {
        let name = self.host.container();
        let named = format!("name=^{}", self.host.site.name);
        let running = self.host.site.docker(&["ps", "--filter", &named, "--format", "{{.Names}}"]);
        if running != name {
            return Err(format!("running: {running}"));
        }
        let shown = self.host.site.inspect("c").await;
        if shown["HostConfig"]["RestartPolicy"]["Name"] != json!("always") {
            return Err(format!("its restart policy: {}", shown["HostConfig"]["RestartPolicy"]));
        }
        let sums = self.checksums();
        if sums != self.sums {
            let state = &shown["State"];
            return Err(format!("its data: {sums}; it was {state}"));
        }
        self.never_two()
    }

    /// The lines of every start stand together.
    fn never_two(&self) -> Result<(), String> {
        let beats = std::fs::read_to_string(format!("{}/beats", self.folder)).expect("it has run");
        let mut starts: Vec<&str> = beats.lines().collect();
        starts.dedup();
        let different: BTreeSet<&str> = starts.iter().copied().collect();
        if different.len() == starts.len() {
            return Ok(());
        }
        Err("two ran over the same data at the same time".to_owned())
    }

    /// Which edit the running container is of.
    pub(crate) async fn edit(&self) -> Json {
        self.host.site.inspect("c").await["Config"]["Labels"]["edit"].clone()
    }

    /// What is there can be worked with.
    pub(crate) async fn can_go_on(&mut self) {
        self.edits += 1;
        self.host.apply(&self.spec(Kind::Replaced), true).await;
        self.host.settled(&self.spec(Kind::Replaced)).await;
    }

    /// Writes what came of it to target/kill, for scripts/kill-test.
    pub(crate) async fn write(
        &self,
        test: &str,
        cuts: &[String],
        what: &str,
        rounds: usize,
        violations: &[String],
    ) -> Json {
        let version = self.host.site.engine.version().await.expect("the engine answers");
        let report = json!({
            "test": test, "what": what, "apply": format!("{:?}", self.kind), "cuts": cuts, "engine": version.engine,
            "rounds": rounds, "runs": self.runs, "killed_again_in_recovery": self.again, "steps": self.steps,
            "seconds": self.began.elapsed().as_secs(), "violations": violations.len(), "found": violations,
        });
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/kill");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join(format!("{test}.json")), format!("{report:#}\n")).expect("written");
        report
    }

    /// The same at the end; fails on a violation.
    pub(crate) async fn report(
        &self,
        test: &str,
        cuts: &[String],
        what: &str,
        rounds: usize,
        violations: &[String],
    ) {
        let report = self.write(test, cuts, what, rounds, violations).await;
        assert!(violations.is_empty(), "{report:#}");
    }
}

/// A call with ID in the place of an id.
fn without_id(call: &str) -> String {
    let is_id = |part: &&str| part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts = call.split('/').map(|part| if is_id(&part) { "ID" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

/// `PLUMBLINE_KILL_ROUNDS`, else 1.
pub(crate) fn rounds() -> usize {
    std::env::var("PLUMBLINE_KILL_ROUNDS").map_or(1, |text| text.parse().expect("a number"))
}
