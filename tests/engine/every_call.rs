//! Every call that a recreation makes is answered wrongly, one at a time: with 404, 409 and 500, with a closed connection,
//! not at all, too late, and done too late; those that change something both done and not done.
//!
//! What the agent then says is true at that moment; when its recovery had its time, one container of the module runs, old
//! or new, with its data, its volume, its network, its port and its restart policy; at no time did two run; and the next
//! apply works.
//!
//! `PLUMBLINE_FAULT_ROUNDS=all` answers every call in every wrong way; else those that only look in one each, and not all
//! of the late ways are taken with each call.

use std::collections::{BTreeSet, VecDeque};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plumbline::proto::v1::apply_response::Event;
use plumbline::proto::v1::{ModuleSpec, Outcome};
use serde_json::{Value as Json, json};

use crate::free::free_ports;
use crate::served::{Process, Served};
use crate::site::{docker, hold, text};
use crate::wrong_answer::{Counted, Engine, Wrong};

/// How long an agent waits for the engine, at least, that is made to wait in vain.
const DEADLINE: Duration = Duration::from_millis(1500);
/// How long another agent waits.
const PATIENT: Duration = Duration::from_secs(60);
/// The container's own, which a stop may take beyond it.
const GRACE: Duration = Duration::from_secs(1);
/// How long the agent's recovery may take.
const RECOVERY: Duration = Duration::from_secs(90);
/// Hosts side by side, with agents that wait shortly and long.
const WORKERS: [usize; 2] = [4, 4];
const DATA: &str = "what must not be lost";

/// What would come of the apply if all went well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Replaced,
    /// The new container ends at once.
    RolledBack,
}

/// One apply with one wrong answer.
#[derive(Debug, Clone, Copy)]
struct Job {
    kind: Kind,
    counted: Counted,
    call: usize,
    wrong: Wrong,
}

struct World {
    host: Served,
    port: u16,
    folder: String,
    edit: u32,
    volume: String,
    test: String,
    deadline: Duration,
}

impl World {
    async fn new(test: &str, deadline: Duration) -> Self {
        let host = Served::impatient(test, deadline).await;
        let folder = host.site.host_folder("data");
        std::fs::write(format!("{folder}/bound"), DATA).expect("written");
        let (port, test) = (free_ports(), test.to_owned());
        let mut world = Self { host, port, folder, edit: 0, volume: String::new(), test, deadline };
        world.apply_rightly().await;
        docker(&["exec", &world.host.container(), "sh", "-c", &format!("echo '{DATA}' > /anonymous/file")]);
        world.volume = World::anonymous(&world.host.site.inspect("c").await);
        world
    }

    fn spec(&self, kind: Kind) -> ModuleSpec {
        let mut container = hold(&json!({
            "restart": "always", "labels": { "edit": self.edit.to_string() }, "networks": { "lan": {} },
            "stop_grace_period": "1s", "ports": [format!("127.0.0.1:{}:8080", self.port)],
            "mounts": [format!("{}:/data", self.folder), { "type": "volume", "target": "/anonymous" }]
        }));
        if kind == Kind::RolledBack {
            container["command"] = json!(["sh", "-c", "echo its last words; exit 3"]);
            container["entrypoint"] = json!([]);
        }
        self.host.site.module(json!({ "networks": { "lan": {} }, "containers": { "c": container } }))
    }

    /// A busy engine may take longer than this agent waits.
    async fn apply_rightly(&mut self) {
        for _ in 0..8 {
            let request =
                self.host.request(&uuid::Uuid::new_v4().to_string(), &self.spec(Kind::Replaced), true);
            match self.host.events(request).await.pop().and_then(|last| last.event) {
                Some(Event::Result(result)) if result.outcome() != Outcome::RefusedNeedsRecreation => return,
                other => eprintln!("once more: {other:?}"),
            }
        }
        panic!("the next apply does not work: {:?}", self.host.site.containers());
    }

    fn anonymous(shown: &Json) -> String {
        let mounts = shown["Mounts"].as_array().into_iter().flatten();
        mounts
            .filter(|mount| mount["Destination"] == "/anonymous")
            .map(|mount| text(&mount["Name"]))
            .collect()
    }

    /// The calls of an apply on which all goes well.
    async fn calls(&mut self, kind: Kind) -> Vec<String> {
        self.edit += 1;
        self.host.engine.take_calls();
        let request = self.host.request(&uuid::Uuid::new_v4().to_string(), &self.spec(kind), true);
        self.host.events(request).await;
        self.host.engine.take_calls()
    }

    /// Does it; else what is wrong. `None`: no call was left.
    async fn run(&mut self, job: Job) -> Option<Result<(), String>> {
        self.edit += 1;
        let (spec, old) = (self.spec(job.kind), self.host.site.inspect("c").await);
        let (listening, events) = self.events();
        tokio::time::sleep(Duration::from_millis(200)).await;
        self.host.engine.take_calls();
        self.host.engine.answer_wrongly(job.counted, job.call, job.wrong);
        let request = self.host.request(&uuid::Uuid::new_v4().to_string(), &spec, true);
        let end = self.host.events(request).await.pop().and_then(|last| last.event);
        let truth = self.is_true(end.as_ref(), &old).await;
        let Some(call) = self.host.engine.answer_rightly() else {
            self.is_well().await.expect("all is well");
            return None;
        };
        let mut found = match truth {
            Ok(()) => self.recovers().await,
            untrue => untrue,
        };
        drop(listening);
        let events = std::fs::read_to_string(events.path()).expect("it is there");
        if found.is_ok() && most_at_once(&events, &text(&old["Id"])) > 1 {
            found = Err(format!("two ran at the same time: {events}"));
        }
        if found.is_ok() {
            self.apply_rightly().await;
            found = self.recovers().await;
        }
        let said = match &end {
            Some(Event::Failure(failure)) => {
                format!("rolled back {}: {}", failure.rolled_back, failure.message)
            }
            Some(Event::Result(result)) => format!("{:?}", result.outcome()),
            other => format!("{other:?}"),
        };
        Some(found.map_err(|found| format!("{job:?}\n  at {call}\n  said {said}\n  found {found}")))
    }

    /// Whether what was said is so, now.
    async fn is_true(&self, end: Option<&Event>, old: &Json) -> Result<(), String> {
        let now = self.host.site.inspect("c").await;
        let runs = now["State"]["Running"] == json!(true);
        let is_old = now["Id"] == old["Id"];
        let so = match end {
            Some(Event::Result(result)) => match result.outcome() {
                Outcome::RefusedNeedsRecreation => {
                    let calls = self.host.engine.take_mutations();
                    is_old && runs && calls.is_empty()
                }
                _ => runs && now["Config"]["Labels"]["edit"] == json!(self.edit.to_string()),
            },
            Some(Event::Failure(failure)) if failure.rolled_back => {
                runs && is_old && !failure.message.contains("failed, too")
            }
            Some(Event::Failure(failure)) => ["docker ps -a", "plan again", "putting back"]
                .iter()
                .any(|words| failure.message.contains(words)),
            _ => false,
        };
        let shown = [&now["Id"], &now["State"]["Status"], &now["Config"]["Labels"]["edit"]];
        if so { Ok(()) } else { Err(format!("that is not so: {shown:?}, the old one: {}", old["Id"])) }
    }

    /// Waits until all is well; else what is not.
    async fn recovers(&self) -> Result<(), String> {
        let until = tokio::time::Instant::now() + RECOVERY;
        loop {
            let found = self.is_well().await;
            if found.is_ok() || tokio::time::Instant::now() > until {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn is_well(&self) -> Result<(), String> {
        let journal = std::fs::read_dir(self.host.data().join("journal")).expect("it is there").count();
        let (containers, name) = (self.host.site.containers(), self.host.container());
        if journal > 0 || containers != [name.clone()] {
            return Err(format!("{containers:?}, journals: {journal}"));
        }
        let shown = self.host.site.inspect("c").await;
        let lan = format!("{}_lan", self.host.site.name);
        let networks =
            docker(&["network", "ls", "--filter", &format!("name={lan}"), "--format", "{{.Name}}"]);
        let published = &shown["NetworkSettings"]["Ports"]["8080/tcp"][0]["HostPort"];
        let bound = std::fs::read_to_string(format!("{}/bound", self.folder)).unwrap_or_default();
        let facts = [
            ("it runs", shown["State"]["Running"] == json!(true)),
            ("its restart policy", shown["HostConfig"]["RestartPolicy"]["Name"] == json!("always")),
            ("its volume", Self::anonymous(&shown) == self.volume),
            ("its data", bound == DATA),
            ("its network", shown["NetworkSettings"]["Networks"].get(&lan).is_some() && networks == lan),
            ("its port", *published == json!(self.port.to_string())),
        ];
        match facts.iter().find(|(_, is_so)| !is_so) {
            Some((what, _)) => Err(format!("not as it should be: {what}")),
            None => Ok(()),
        }
    }

    /// Writes down what starts and ends from now on: engines remember their last 256 events only.
    fn events(&self) -> (Process, tempfile::NamedTempFile) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut command = Command::new("docker");
        command.args(["-H", &format!("unix://{}", self.host.site.socket), "events"]);
        command.args(["--filter", &format!("label=dev.plumbline.module={}", self.host.site.name)]);
        command.args(["--filter", "event=start", "--filter", "event=die", "--format", "{{.Status}} {{.ID}}"]);
        let child = command.stdout(file.reopen().expect("it is there")).spawn().expect("docker is needed");
        (Process(child), file)
    }
}

/// How many of these ran at the same time, at most, beginning with this one.
fn most_at_once(events: &str, old: &str) -> usize {
    let (mut running, mut most) = (BTreeSet::from([old]), 1);
    for (what, id) in events.lines().filter_map(|line| line.split_once(' ')) {
        if what == "start" {
            running.insert(id);
        } else {
            running.remove(id);
        }
        most = most.max(running.len());
    }
    most
}

/// Whether every call is answered in every way.
fn is_thorough() -> bool {
    std::env::var("PLUMBLINE_FAULT_ROUNDS").is_ok_and(|rounds| rounds == "all")
}

/// In every wrong way that an engine may answer a call that changes something; unless it is to be thorough, in two of
/// those for which the agent waits in vain, another one for each call.
fn every_way(number: usize, call: &str, deadline: Duration) -> Vec<Wrong> {
    let waited = if call.ends_with("/stop") { deadline + GRACE } else { deadline };
    let mut all = Vec::new();
    for engine in [Engine::Idle, Engine::Does] {
        all.extend([404, 409, 500].map(|status| Wrong::Status(status, engine)));
        all.push(Wrong::Closed(engine));
    }
    let during = waited + Duration::from_millis(200);
    all.push(Wrong::DoneLate(during));
    let others = [
        Wrong::Silent(Engine::Idle),
        Wrong::Silent(Engine::Does),
        Wrong::AnsweredLate(during),
        Wrong::DoneLate(waited + deadline * 3),
    ];
    if is_thorough() {
        all.extend(others);
    } else {
        all.push(others[number % others.len()]);
    }
    all
}

/// In every way that makes a difference where nothing is done.
fn every_way_of_looking(deadline: Duration) -> Vec<Wrong> {
    let mut all = [404, 409, 500].map(|status| Wrong::Status(status, Engine::Idle)).to_vec();
    all.extend([Wrong::Closed(Engine::Idle), Wrong::Silent(Engine::Idle)]);
    all.push(Wrong::AnsweredLate(deadline + Duration::from_millis(200)));
    all
}

fn jobs(kind: Kind, calls: &[String], deadline: Duration) -> Vec<Job> {
    let mutating = calls.iter().filter(|call| !call.starts_with("GET ")).enumerate();
    let start =
        calls.iter().filter(|call| !call.starts_with("GET ")).position(|call| call.ends_with("/start"));
    // What comes before the start is the same in both.
    let from = if kind == Kind::RolledBack { start.expect("there is a start") + 1 } else { 0 };
    let mut jobs = Vec::new();
    for (call, text) in mutating.skip(from) {
        jobs.extend(every_way(call, text, deadline).into_iter().map(|wrong| Job {
            kind,
            counted: Counted::Mutating,
            call,
            wrong,
        }));
    }
    let ways = every_way_of_looking(deadline);
    let from = calls.iter().position(|call| call.ends_with("/start")).filter(|_| kind == Kind::RolledBack);
    for (call, _) in
        calls.iter().enumerate().skip(from.unwrap_or(0)).filter(|(_, call)| call.starts_with("GET "))
    {
        let chosen = if is_thorough() { ways.clone() } else { vec![ways[call % ways.len()]] };
        jobs.extend(chosen.into_iter().map(|wrong| Job { kind, counted: Counted::All, call, wrong }));
    }
    jobs
}

/// The agent waits in vain.
fn is_late(wrong: Wrong) -> bool {
    matches!(wrong, Wrong::Silent(_) | Wrong::AnsweredLate(_) | Wrong::DoneLate(_))
}

/// Does these side by side. Returns how many came to pass, and what was wrong.
async fn run_all(worlds: Vec<World>, jobs: VecDeque<Job>) -> (usize, Vec<String>) {
    let jobs = Arc::new(Mutex::new(jobs));
    let mut workers = Vec::new();
    for mut world in worlds {
        let jobs = jobs.clone();
        workers.push(tokio::spawn(async move {
            let (mut runs, mut violations) = (0, Vec::new());
            let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            while let Some(job) = next() {
                match world.run(job).await {
                    Some(Ok(())) => runs += 1,
                    Some(Err(found)) => {
                        eprintln!("{found}");
                        violations.push(found);
                        // What it left is no ground for more.
                        world =
                            World::new(&format!("{}x{}", world.test, violations.len()), world.deadline).await;
                    }
                    None => {}
                }
            }
            let data = docker(&["exec", &world.host.container(), "cat", "/anonymous/file"]);
            if data != DATA {
                violations.push(format!("the volume's data: {data}"));
            }
            (runs, violations)
        }));
    }
    let (mut runs, mut violations) = (0, Vec::new());
    for worker in workers {
        let (ran, found) = worker.await.expect("it ends");
        runs += ran;
        violations.extend(found);
    }
    (runs, violations)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_or_a_new_one_runs_whichever_call_is_answered_wrongly() {
    let mut patient = vec![World::new("every", PATIENT).await];
    // Twice what an apply takes alone is enough for any one call beside the others.
    let begun = Instant::now();
    let replacing = patient[0].calls(Kind::Replaced).await;
    let deadline = DEADLINE.max(begun.elapsed() * 2);
    patient[0].recovers().await.expect("all is well");
    let rolling_back = patient[0].calls(Kind::RolledBack).await;
    patient[0].recovers().await.expect("all is well");
    let mut all = jobs(Kind::Replaced, &replacing, deadline);
    all.extend(jobs(Kind::RolledBack, &rolling_back, deadline));
    for number in 1..WORKERS[1] {
        patient.push(World::new(&format!("every{number}"), PATIENT).await);
    }
    let mut impatient = Vec::new();
    for number in 0..WORKERS[0] {
        impatient.push(World::new(&format!("late{number}"), deadline).await);
    }
    let count = all.len();
    assert!(count > 100, "only {count} applies");
    let (late, others) = all.into_iter().partition(|job| is_late(job.wrong));
    let ended = tokio::join!(run_all(impatient, late), run_all(patient, others));
    let (runs, violations) = (ended.0.0 + ended.1.0, [ended.0.1, ended.1.1].concat());
    println!("{runs} wrong answers of {count}");
    assert!(violations.is_empty(), "{}", violations.join("\n"));
    // Fewer calls may be made where a container is watched for a shorter while.
    assert!(runs * 10 > count * 8, "only {runs} of {count} came to pass");
}
