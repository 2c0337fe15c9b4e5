//! The agent is killed (SIGKILL) at every step of an apply that moves data, and no byte is lost.
//!
//! At the engine's calls a proxy says when; within the move the agent's own progress does. After it is started again,
//! without anybody asking for anything: one container of the module runs, on the whole data in one of the two places, and the
//! other place holds none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plumbline::proto::v1::apply_response::Event;
use plumbline::proto::v1::{ModuleSpec, Outcome, Phase, UpdateConfig};
use serde_json::json;
use tokio::time::Instant;

use crate::proxy::Moment;
use crate::served::Served;
use crate::site::{docker, hold};
use crate::tree::{Manifest, make, manifest};

const RECOVERY: Duration = Duration::from_secs(60);

/// More mutating calls than such an apply makes.
const MANY: usize = 30;

struct Moves {
    host: Served,
    places: [PathBuf; 2],
    /// In which of the two the data is.
    at: usize,
    data: Manifest,
    edits: usize,
    runs: usize,
    steps: BTreeMap<String, usize>,
    _disk: tempfile::TempDir,
}

impl Moves {
    /// The two places are on two file systems, or on one.
    async fn new(test: &str, files: usize, across: bool) -> Self {
        // What is written at the end is of this run.
        let _ = std::fs::remove_file(report_file(test));
        let host = Served::killable(test).await;
        let here = PathBuf::from(host.site.host_folder("here"));
        let disk = if across { tempfile::tempdir_in("/dev/shm") } else { tempfile::tempdir_in(&here) };
        let disk = disk.expect("a folder");
        let places = [here.join("data"), disk.path().join("data")];
        std::fs::create_dir(&places[0]).expect("a folder");
        make(&places[0], files);
        let data = manifest(&places[0]);
        let mut moves =
            Self { host, places, at: 0, data, edits: 0, runs: 0, steps: BTreeMap::new(), _disk: disk };
        let spec = moves.spec(0);
        moves.host.apply(&spec, false).await;
        moves.edits = 1;
        moves
    }

    /// The data shall be at this place, wherever it is.
    fn spec(&self, to: usize) -> ModuleSpec {
        let (from, to) = (self.places[1 - to].display().to_string(), self.places[to].display().to_string());
        self.host.site.holding(&json!({
            "restart": "always", "stop_grace_period": "1s", "labels": { "edit": self.edits.to_string() },
            "mounts": [{ "type": "bind", "source": to, "target": "/data", "moved_from": from }]
        }))
    }

    /// Applies a move to the other place until `stop` says so of an event, or the engine's proxy stops it, and kills the
    /// agent then. False: it ended before.
    async fn kill_when(&mut self, stop: impl Fn(&Event) -> bool) -> bool {
        self.edits += 1;
        let spec = self.spec(1 - self.at);
        let request = self.host.request(&self.edits.to_string(), &spec, true);
        let mut client = self.host.client();
        let watch = async {
            let mut stream = client.apply(tokio_stream::once(request)).await.expect("a stream").into_inner();
            while let Ok(Some(event)) = stream.message().await {
                let event = event.event.expect("an event");
                if stop(&event) {
                    return Some(match &event {
                        Event::Progress(progress) => progress.phase().as_str_name().to_owned(),
                        _ => "end".to_owned(),
                    });
                }
            }
            None
        };
        let step = tokio::select! {
            call = self.host.engine.stalled() => Some(call.split('/').next_back().unwrap_or_default().to_owned()),
            stopped = watch => stopped,
        };
        let Some(step) = step else {
            self.host.engine.answer_again();
            return false;
        };
        *self.steps.entry(step).or_default() += 1;
        self.runs += 1;
        self.host.kill();
        true
    }

    async fn recovers(&mut self) {
        self.host.engine.answer_again();
        self.host.start_again().await;
        let until = Instant::now() + RECOVERY;
        loop {
            match self.look().await {
                Ok(at) => {
                    self.at = at;
                    break;
                }
                Err(found) => assert!(Instant::now() < until, "after {:?}: {found}", self.steps),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // What is there can be worked with: nothing is left to be done.
        for place in &self.places {
            for kept in beside(place) {
                assert!(kept.1.contains(".plumbline-moved-"), "nothing else is left: {}", kept.1);
                assert!(manifest(&kept.0) == self.data, "the original is whole");
                std::fs::remove_dir_all(kept.0).expect("removed");
            }
        }
    }

    /// Where the data is, if all is well.
    async fn look(&self) -> Result<usize, String> {
        let journal = std::fs::read_dir(self.host.data().join("journal")).expect("it is there").count();
        let (containers, name) = (self.host.site.containers(), self.host.container());
        if journal > 0 || containers != [name.clone()] {
            return Err(format!("{containers:?}, journals: {journal}"));
        }
        let shown = self.host.site.inspect("c").await;
        if shown["State"]["Running"] != true {
            return Err("it does not run".to_owned());
        }
        let source = shown["Mounts"][0]["Source"].as_str().unwrap_or_default();
        let at = self.places.iter().position(|place| place == Path::new(source)).expect("one of the two");
        if self.places[1 - at].exists() {
            return Err(format!("{} is there, too", self.places[1 - at].display()));
        }
        let seen = docker(&["exec", &name, "sh", "-c", "ls -a /data | wc -l"]);
        let top = self.data.keys().filter(|path| !path.is_empty() && !path.contains(&b'/')).count();
        if seen != (top + 2).to_string() {
            return Err(format!("the container sees {seen} of {top} names"));
        }
        if manifest(&self.places[at]) != self.data {
            return Err("the data is not what it was".to_owned());
        }
        Ok(at)
    }

    /// Every run came through its assertions: the first that does not ends the test.
    fn report(&self, test: &str) {
        let report = json!({
            "what": "Moved", "killed": test, "rounds": 1, "runs": self.runs, "steps": self.steps, "violations": 0,
        });
        let file = report_file(test);
        std::fs::create_dir_all(file.parent().expect("a parent")).expect("a folder");
        std::fs::write(file, format!("{report:#}\n")).expect("written");
    }
}

fn report_file(test: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../target/kill/{test}.json"))
}

/// What else is in the directory of a place.
fn beside(place: &Path) -> Vec<(PathBuf, String)> {
    let listed = std::fs::read_dir(place.parent().expect("a parent")).expect("listed");
    let entries = listed.map(|entry| entry.expect("listed").path()).filter(|path| path != place);
    entries
        .map(|path| (path.clone(), path.file_name().expect("a name").to_string_lossy().into_owned()))
        .filter(|(_, name)| name.contains("plumbline"))
        .collect()
}

/// Before and after every mutating call, by renames and by copies.
async fn at_every_call(test: &str, across: bool) {
    let mut moves = Moves::new(test, 300, across).await;
    for moment in [Moment::Before, Moment::After] {
        for calls in 0..MANY {
            moves.host.engine.stall_after(calls, moment);
            if !moves.kill_when(|_| false).await {
                assert!(calls > 4, "such an apply has more calls than {calls}");
                moves.at = moves.look().await.expect("all is well");
                break;
            }
            // Once more while it recovers, at another call each time.
            moves.host.engine.stall_after(calls % 3, moment);
            moves.host.start_again().await;
            tokio::select! {
                _ = moves.host.engine.stalled() => {}
                () = tokio::time::sleep(Duration::from_secs(3)) => {}
            }
            moves.host.kill();
            moves.recovers().await;
        }
    }
    moves.report(test);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_every_call_of_a_rename() {
    at_every_call("moverenamed", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_every_call_of_a_copy() {
    at_every_call("movecopied", true).await;
}

/// While 10,000 files are copied and compared: at the beginning, at pieces in between, and when all is in its place.
#[tokio::test(flavor = "multi_thread")]
async fn killed_within_a_copy_of_many_files() {
    let mut moves = Moves::new("movemany", 10_000, true).await;
    for share in [0_u64, 10, 30, 49, 51, 70, 90, 99] {
        let killed = moves
            .kill_when(|event| match event {
                Event::Progress(progress) if progress.phase() == Phase::Moving => {
                    progress.done_bytes * 100 >= progress.total_bytes * share
                }
                _ => false,
            })
            .await;
        assert!(killed, "it says how far it is at {share} of 100");
        moves.recovers().await;
    }
    let killed = moves
        .kill_when(|event| matches!(event, Event::Progress(progress) if progress.phase() == Phase::Moved))
        .await;
    assert!(killed);
    moves.recovers().await;
    // Undisturbed it arrives.
    let before = moves.at;
    assert!(!moves.kill_when(|_| false).await);
    moves.at = moves.look().await.expect("all is well");
    assert_ne!(moves.at, before);
    moves.report("movemany");
}

/// A volume that was emptied by a rename is still there for the engine. With the journal lost, too, only the containers tell.
#[tokio::test(flavor = "multi_thread")]
async fn without_its_journal_no_old_container_runs_on_an_emptied_volume() {
    let mut host = Served::killable("movelost").await;
    // Where the engine has its volumes, for a rename.
    let folder = tempfile::tempdir_in(docker(&["info", "-f", "{{.DockerRootDir}}"])).expect("a folder");
    let (volume, new) = (format!("{}_store", host.site.name), folder.path().join("data"));
    let spec = |moved: bool| {
        let mut mount = json!({ "type": "volume", "source": "store", "target": "/data" });
        if moved {
            mount = json!({ "type": "bind", "source": new, "target": "/data", "moved_from": "store" });
        }
        let settings = json!({ "restart": "always", "stop_grace_period": "1s", "mounts": [mount] });
        host.site.module(json!({ "volumes": { "store": {} }, "containers": { "c": hold(&settings) } }))
    };
    let (before, moved) = (spec(false), spec(true));
    host.apply(&before, false).await;
    docker(&["exec", &host.container(), "sh", "-c", "echo kept > /data/file"]);
    let place = PathBuf::from(docker(&["volume", "inspect", "-f", "{{.Mountpoint}}", &volume]));
    let mut waited_for = 0;
    for calls in 0..MANY {
        host.engine.stall_after(calls, Moment::Before);
        let request = host.request(&format!("move {calls}"), &moved, true);
        let mut client = host.client();
        let mut apply = tokio::spawn(async move {
            let mut stream = client.apply(tokio_stream::once(request)).await.expect("a stream").into_inner();
            while let Ok(Some(_)) = stream.message().await {}
        });
        tokio::select! {
            _ = host.engine.stalled() => {}
            _ = &mut apply => {
                host.engine.answer_again();
                assert!(calls > 4, "such an apply has more calls than {calls}");
                break;
            }
        }
        host.kill();
        std::fs::remove_file(host.data().join("journal").join(&host.site.name)).expect("there is a journal");
        host.engine.answer_again();
        host.start_again().await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let never_empty = || {
            for name in host.site.containers() {
                let running = docker(&["inspect", "-f", "{{.State.Running}}", &name]) == "true";
                let seen = docker(&["exec", &name, "cat", "/data/file"]);
                assert!(!running || seen == "kept", "before call {calls}: {name} runs on {seen:?}");
            }
        };
        never_empty();
        // Whatever an apply says then, it is no worse.
        host.events(host.request(&format!("again {calls}"), &moved, true)).await;
        never_empty();
        let is_aside = host.site.containers().iter().any(|name| name.contains(".plumbline-old-"));
        if is_aside && new.join("file").exists() {
            waited_for += 1;
            // Back by hand: nothing else is needed.
            std::fs::remove_dir(&place).expect("it is empty");
            std::fs::rename(&new, &place).expect("moved back");
            let until = Instant::now() + RECOVERY;
            while docker(&["exec", &host.container(), "cat", "/data/file"]) != "kept" {
                assert!(Instant::now() < until, "before call {calls}: {:?}", host.site.containers());
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        // Everything as it was.
        for name in host.site.containers() {
            docker(&["rm", "-f", &name]);
        }
        if new.join("file").exists() {
            let _ = std::fs::remove_dir(&place);
            std::fs::rename(&new, &place).expect("moved back");
        }
        host.kill();
        std::fs::remove_dir_all(host.data()).expect("it was there");
        host.start_again().await;
        host.apply(&before, true).await;
        assert_eq!(docker(&["exec", &host.container(), "cat", "/data/file"]), "kept");
    }
    assert!(waited_for > 0, "an old container was aside while its data was away");
}

/// The new container serves while it is watched, and writes. Killed then, the agent goes back to the old one; whoever asks
/// next hears where what was written is.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_written_before_a_kill_is_kept_and_told() {
    let mut moves = Moves::new("movewritten", 10, true).await;
    let mut spec = moves.spec(1);
    let monitor = Some(prost_types::Duration { seconds: 60, nanos: 0 });
    let container = spec.containers.get_mut("c").expect("c");
    container.update_config = Some(UpdateConfig { monitor, ..UpdateConfig::default() });
    let request = moves.host.request("written", &spec, true);
    let mut stream =
        moves.host.client().apply(tokio_stream::once(request)).await.expect("a stream").into_inner();
    loop {
        let event = stream.message().await.expect("a message").expect("it goes on").event;
        if matches!(event, Some(Event::Progress(progress)) if progress.phase() == Phase::Started) {
            break;
        }
    }
    docker(&["exec", &moves.host.container(), "sh", "-c", "echo 42 > /data/order"]);
    moves.host.kill();
    moves.host.start_again().await;
    let until = Instant::now() + RECOVERY;
    while let Err(found) = moves.look().await {
        assert!(Instant::now() < until, "{found}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let kept = beside(&moves.places[1]);
    let [(kept, name)] = &kept[..] else { panic!("{kept:?}") };
    assert!(name.contains(".plumbline-undone-"), "{name}");
    assert_eq!(std::fs::read_to_string(kept.join("order")).expect("it is kept"), "42\n");
    // Also where the answer is a refusal, and once.
    let refused = moves.host.apply(&spec, false).await;
    assert_eq!(refused.outcome(), Outcome::RefusedNeedsRecreation);
    let [note] = &refused.notes[..] else { panic!("{:?}", refused.notes) };
    assert!(note.contains("cut off") && note.contains(&kept.display().to_string()), "{note}");
    assert_eq!(moves.host.apply(&spec, false).await.notes, Vec::<String>::new());
}

/// A cut off copy, and the old container is gone meanwhile: what was not moved is where it was, and nothing is stuck.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_was_cut_off_is_no_move_whoever_is_gone() {
    let mut moves = Moves::new("movegone", 2000, true).await;
    let killed = moves
        .kill_when(|event| matches!(event, Event::Progress(progress) if progress.phase() == Phase::Moving))
        .await;
    assert!(killed);
    docker(&["rm", "-f", &moves.host.container()]);
    moves.host.engine.answer_again();
    moves.host.start_again().await;
    let until = Instant::now() + RECOVERY;
    while std::fs::read_dir(moves.host.data().join("journal")).expect("it is there").count() > 0 {
        assert!(Instant::now() < until, "it is stuck");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(manifest(&moves.places[0]) == moves.data, "the data is where it was");
    assert!(!moves.places[1].exists());
    assert_eq!((beside(&moves.places[0]), beside(&moves.places[1])), (Vec::new(), Vec::new()));
    // The move is made when it is asked for again.
    let spec = moves.spec(1);
    let result = moves.host.apply(&spec, true).await;
    assert!(result.notes.iter().any(|note| note.contains("was not moved")), "{:?}", result.notes);
    assert!(manifest(&moves.places[1]) == moves.data);
}
