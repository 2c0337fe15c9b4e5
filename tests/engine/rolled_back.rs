//! A new container that cannot take the old one's place, for every reason that is not the agent's: the old one serves
//! again, is the same container, and the answer says what happened and that it was rolled back.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plumbline::proto::v1::{ModuleSpec, Outcome};
use plumbline_agent::state::State;
use serde_json::{Value as Json, json};

use crate::free::{free_ports, own_subnet};
use crate::own_engine::OwnEngine;
use crate::served::Served;
use crate::site::{Site, docker};

/// How long a server may take to listen once its container runs.
const SLACK: Duration = Duration::from_secs(20);

/// A host on which the container `c` serves a page from a bind, with a restart policy.
struct Serving {
    host: Served,
    port: u16,
    folder: String,
    networks: Json,
    before: Json,
}

impl Serving {
    async fn new(test: &str) -> Self {
        Self::on(Served::new(test).await, json!({})).await
    }

    async fn on(host: Served, networks: Json) -> Self {
        let folder = host.site.host_folder("pages");
        std::fs::write(format!("{folder}/index.html"), "the old page").expect("written");
        let mut serving = Self { host, port: free_ports(), folder, networks, before: Json::Null };
        serving.host.apply(&serving.spec(&json!({})), false).await;
        serving.before = serving.host.site.inspect("c").await;
        assert!(serves(serving.port), "it serves before");
        serving
    }

    /// The module with these settings changed.
    fn spec(&self, settings: &Json) -> ModuleSpec {
        let mut container = json!({
            "image": "plumbline/sample:1", "restart": "unless-stopped",
            "ports": [format!("127.0.0.1:{}:8080", self.port)], "mounts": [format!("{}:/data", self.folder)]
        });
        for (key, value) in settings.as_object().into_iter().flatten() {
            match (&mut container[key], value) {
                (Json::Array(known), Json::Array(more)) if key != "command" => known.extend(more.clone()),
                (known, value) => *known = value.clone(),
            }
        }
        self.host.site.module(json!({
            "networks": self.networks, "containers": { "c": container },
            "volumes": { "small": { "driver_opts": { "type": "tmpfs", "device": "tmpfs", "o": "size=64k" } } }
        }))
    }

    /// This change fails, with these words; the old container serves as before.
    async fn outlives(&self, what: &str, settings: &Json, words: &[&str]) {
        let gap = LongestGap::of(self.port);
        let failure = self.host.fails(&self.spec(settings)).await;
        assert!(serves(self.port), "{what}: the old one does not serve");
        println!("{what}: silent for {:?}", gap.end());
        assert!(failure.rolled_back, "{what}: {}", failure.message);
        // The last lines of the new container come as data, beside the message.
        let said = format!("{failure:?}");
        for words in words {
            assert!(said.contains(words), "{what}, without `{words}`: {said}");
        }
        self.is_as_before(what).await;
    }

    async fn is_as_before(&self, what: &str) {
        let now = self.host.site.inspect("c").await;
        for path in ["/Id", "/Name", "/HostConfig/RestartPolicy", "/Mounts", "/HostConfig/PortBindings"] {
            assert_eq!(now.pointer(path), self.before.pointer(path), "{what}: {path}");
        }
        assert_eq!(now["State"]["Running"], true, "{what}");
        let mut all = self.host.site.containers();
        all.retain(|name| !name.ends_with("-stranger"));
        assert_eq!(all, [self.host.container()], "{what}: nothing is left of the new one");
        let journal = std::fs::read_dir(self.host.data().join("journal")).expect("it is there").count();
        assert_eq!(journal, 0, "{what}: nothing is left to be done");
        self.host.settled(&self.spec(&json!({}))).await;
    }
}

/// Whether the old page comes, soon.
fn serves(port: u16) -> bool {
    let until = Instant::now() + SLACK;
    loop {
        let served = page(port).is_some_and(|page| page.contains("the old page"));
        if served || Instant::now() > until {
            return served;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn page(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    stream.write_all(b"GET /index.html HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// For how long at most a page did not come, asked all the time.
struct LongestGap(Arc<AtomicBool>, std::thread::JoinHandle<Duration>);

impl LongestGap {
    fn of(port: u16) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let is_over = ended.clone();
        let asking = std::thread::spawn(move || {
            let (mut longest, mut last) = (Duration::ZERO, Instant::now());
            // The silence that is being asked about ends with an answer.
            let mut answered = false;
            while !(answered && is_over.load(Ordering::Relaxed)) {
                answered = false;
                if page(port).is_some_and(|page| page.contains("the old page")) {
                    longest = longest.max(last.elapsed());
                    last = Instant::now();
                    answered = true;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            longest
        });
        Self(ended, asking)
    }

    fn end(self) -> Duration {
        self.0.store(true, Ordering::Relaxed);
        self.1.join().expect("it ends")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_old_one_serves_again_whatever_keeps_the_new_one_from_running() {
    let old = Serving::new("rollback").await;
    let gap = LongestGap::of(old.port);
    docker(&["restart", &old.host.container()]);
    assert!(serves(old.port));
    println!("bare stop and start: silent for {:?}", gap.end());

    let image = json!({ "image": "127.0.0.1:1/no/such:1" });
    old.outlives("image missing", &image, &["127.0.0.1:1/no/such:1", "nothing was touched"]).await;

    let runs_again = "the old container runs again, under its own name";
    let entrypoint = json!({ "entrypoint": ["/no/such/program"] });
    old.outlives("bad entrypoint", &entrypoint, &["start failed", "/no/such/program", runs_again]).await;

    let dies = json!({ "command": ["sh", "-c", "echo no such database; exit 7"], "entrypoint": [] });
    old.outlives("dies at once", &dies, &["exit code 7", "no such database", runs_again]).await;

    // The shell's own words, so that it ends within its window.
    let line = "while echo $0; do :; done > /small/file; exit 28";
    let full = json!({
        "command": ["sh", "-c", line, "x".repeat(4000)], "entrypoint": [], "mounts": ["small:/small"]
    });
    old.outlives("its disk is full", &full, &["exit code 28", "No space left on device", runs_again]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_old_one_serves_again_when_a_stranger_has_the_port() {
    let old = Serving::new("strangeport").await;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    let ports = json!({ "ports": [format!("127.0.0.1:{port}:81")] });
    let words = ["address already in use", &port.to_string(), "the old container runs again"];
    old.outlives("a process has the port", &ports, &words).await;
    drop(listener);

    let stranger = format!("{}-stranger", old.host.site.name);
    let published = format!("127.0.0.1:{port}:81");
    docker(&["run", "-d", "--name", &stranger, "-p", &published, "plumbline/sample:1", "hold"]);
    let words = ["already allocated", &port.to_string(), "the old container runs again"];
    old.outlives("a container has the port", &ports, &words).await;
    let running = docker(&["inspect", "-f", "{{.State.Running}}", &stranger]);
    assert_eq!(running, "true", "the stranger is not touched");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_old_one_serves_again_when_a_stranger_has_the_address() {
    let host = Served::new("strangeaddress").await;
    let (lan, subnet) = (format!("{}-lan", host.site.name), own_subnet());
    docker(&["network", "create", "--subnet", &format!("{subnet}.0/24"), &lan]);
    let (stranger, address) = (format!("{}-stranger", host.site.name), format!("{subnet}.9"));
    docker(&[
        "run",
        "-d",
        "--name",
        &stranger,
        "--network",
        &lan,
        "--ip",
        &address,
        "plumbline/sample:1",
        "hold",
    ]);
    let old = Serving::on(host, json!({ "lan": { "external": true, "name": lan } })).await;
    // Another label makes it a recreation: an endpoint alone is changed in place.
    let taken = json!({ "labels": { "edit": "1" }, "networks": { "lan": { "ipv4_address": address } } });
    old.outlives("address taken", &taken, &["Address already in use", "the old container runs again"]).await;
    let running = docker(&["inspect", "-f", "{{.State.Running}}", &stranger]);
    assert_eq!(running, "true", "the stranger is not touched");
}

/// Creating and starting need room where the engine has its data; so do the calls that put everything back.
#[tokio::test(flavor = "multi_thread")]
async fn the_old_one_runs_when_the_engines_disk_is_full() {
    let engine = OwnEngine::with_disk("fulldisk", "96m");
    let host = Served::killable_on("fulldisk", engine.socket()).await;
    let spec = |edit: usize| {
        let settings = json!({ "restart": "always", "labels": { "edit": edit.to_string() } });
        host.site.holding(&settings)
    };
    host.apply(&spec(0), false).await;
    let mut failed = 0;
    for (edit, room) in [0, 16, 32, 36, 40, 44, 48, 52, 56, 64].into_iter().enumerate() {
        let before = host.site.inspect("c").await;
        engine.on_disk("cat /dev/zero > filler; true");
        if room > 0 {
            engine.on_disk(&format!(
                "dd if=/dev/zero of=filler bs=1k seek=$(($(wc -c < filler) / 1024 - {room})) count=0"
            ));
        }
        let request = host.request(&format!("{edit}"), &spec(edit + 1), true);
        let end = host.events(request).await.pop().and_then(|last| last.event);
        let now = host.site.inspect("c").await;
        match end {
            Some(plumbline::proto::v1::apply_response::Event::Failure(failure)) => {
                println!("{room} KiB: {}", failure.message);
                failed += 1;
                assert!(failure.message.contains("no space left on device"), "{room}: {}", failure.message);
                if failure.rolled_back {
                    assert_eq!(
                        (&now["Id"], &now["State"]["Running"]),
                        (&before["Id"], &json!(true)),
                        "{room}"
                    );
                } else {
                    assert!(failure.message.contains("docker ps -a"), "{room}: {}", failure.message);
                }
            }
            Some(plumbline::proto::v1::apply_response::Event::Result(result)) => {
                println!("{room} KiB: {:?}", result.outcome());
                assert_eq!(result.outcome(), Outcome::Recreated, "{result:?}");
            }
            other => panic!("{room}: {other:?}"),
        }
        engine.on_disk("rm filler");
        // What could not be put back for want of room is, once there is some.
        let until = Instant::now() + SLACK;
        loop {
            let shown = host.site.inspect("c").await;
            let journal = std::fs::read_dir(host.data().join("journal")).expect("it is there").count();
            let is_well = shown["State"]["Running"] == json!(true)
                && shown["HostConfig"]["RestartPolicy"]["Name"] == json!("always")
                && host.site.containers() == [host.container()]
                && journal == 0;
            if is_well {
                break;
            }
            assert!(Instant::now() < until, "{room}: {:?} {:#}", host.site.containers(), shown["State"]);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        host.apply(&spec(edit + 1), true).await;
        host.settled(&spec(edit + 1)).await;
    }
    assert!(failed > 0, "there was room for everything");
}

/// A file system of its own for an agent's data.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new() -> Self {
        let disk = Self(tempfile::tempdir().expect("a folder"));
        let mut mount = Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(disk.0.path()).status();
        assert!(mounted.is_ok_and(|status| status.success()), "root is needed to mount");
        disk
    }

    fn filler(&self) -> PathBuf {
        self.0.path().join("filler")
    }

    /// Leaves room for so many bytes.
    fn fill(&self, room: usize) {
        let mut file = std::fs::File::create(self.filler()).expect("it can be made");
        let mut length = 0;
        while let Ok(written @ 1..) = file.write(&[0; 1024]) {
            length += written;
        }
        file.set_len(length.saturating_sub(room) as u64).expect("it can be shorter");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

/// Whichever of its writes finds no room: nothing is touched, or all is put back, or the new one stands and is known.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_of_the_agent_loses_nothing() {
    let disk = SmallDisk::new();
    let mut site = Site::new("fullagent").await;
    site.state = Arc::new(State::open(&disk.0.path().join("state")).expect("a state"));
    let long = "x".repeat(6000);
    let spec = |edit: usize| {
        let labels = json!({ "edit": edit.to_string(), "long": long });
        site.holding(&json!({ "restart": "always", "labels": labels, "mounts": ["/anonymous"] }))
    };
    site.apply(&spec(0), false).await;
    let name = format!("{}-c", site.name);
    let (mut untouched, mut back, mut stood) = (0, 0, 0);
    for (edit, room) in [0, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48].into_iter().enumerate() {
        let before = site.inspect("c").await;
        disk.fill(room * 1024);
        let mutations = site.engine.mutations();
        let applied = site.try_apply(&spec(edit + 1), true).await;
        let now = site.inspect("c").await;
        assert_eq!(now["State"]["Running"], true, "{room}");
        let is_old = now["Id"] == before["Id"];
        match applied.error {
            Some(error) => {
                println!("{room} KiB: {error}");
                assert!(error.to_string().contains("No space left on device"), "{room}: {error}");
                let words =
                    ["it is as it was before", "the old container runs again", "what was applied stands"];
                assert!(words.iter().any(|words| error.to_string().contains(words)), "{room}: {error}");
                assert_eq!(error.rolled_back(), is_old, "{room}: {error}");
                match (is_old, site.engine.mutations() == mutations) {
                    (true, true) => untouched += 1,
                    (true, false) => back += 1,
                    (false, _) => assert!(error.to_string().contains("what was applied stands"), "{error}"),
                }
            }
            None => {
                assert!(!is_old, "{room}");
                stood += 1;
            }
        }
        std::fs::remove_file(disk.filler()).expect("removed");
        site.apply(&spec(edit + 1), true).await;
        assert_eq!(site.containers(), std::slice::from_ref(&name), "{room}");
        let now = site.inspect("c").await;
        assert_eq!(now["HostConfig"]["RestartPolicy"]["Name"], "always", "{room}");
        assert_eq!(now["Config"]["Labels"]["edit"], (edit + 1).to_string(), "{room}");
        assert_eq!(now["Mounts"], before["Mounts"], "{room}: the same volume");
    }
    println!("untouched {untouched}, put back {back}, stood {stood}");
    assert!(untouched > 0 && back > 0 && stood > 0, "untouched {untouched}, put back {back}, stood {stood}");
}
