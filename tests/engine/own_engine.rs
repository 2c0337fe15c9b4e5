//! An engine of a test's own, which can be stopped, killed and started again: this machine's dockerd in a mount and a
//! network namespace of its own, with its own containerd, data and socket. Nothing is shared with the machine's engine but
//! the files below other folders, so that binds mean the same, and the process ids, so that the agent sees containers.
//!
//! It needs root, as scripts/engine does.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::served::Process;
use crate::site::make_sample_images;

/// How an engine ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// SIGTERM: it stops its containers first, as when it is restarted or updated.
    Asked,
    /// SIGKILL: its containers go on without it until it is started again.
    Killed,
}

/// More than an engine takes to stop its containers, or to come up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Turns the namespaces into the engine's, and keeps them: mounts of the machine's engines are left, /run is empty, and
/// /sys is that of this network.
const NAMESPACES: &str = r#"set -eu
awk '$5 ~ "^(/run|/var/run|/var/lib/docker|/var/lib/containerd)/" {print $5}' /proc/self/mountinfo | sort -r |
    while read -r point; do umount --lazy "$point" || true; done
mount --rbind /sys/fs/cgroup "$1/groups"
mount -t sysfs sysfs /sys
mount --move "$1/groups" /sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs /run
if [ -n "$2" ]; then
    mkdir "$1/data"
    mount -t tmpfs -o "size=$2" tmpfs "$1/data"
fi
mount --make-rshared /
ip link set lo up
echo ready > "$1/ready"
exec sleep 2147483647
"#;

/// Starts dockerd in a control group by which it is found again, with all that it started.
const DOCKERD: &str = r#"set -eu
mkdir -p "$2/engine"
echo $$ > "$2/engine/cgroup.procs"
exec dockerd --config-file="$1/daemon.json" --data-root="$1/data" --exec-root="$1/exec" --pidfile="$1/docker.pid" \
    --host="unix://$1/docker.sock" --exec-opt=native.cgroupdriver=cgroupfs --cgroup-parent="/${2##*/}" >> "$1/log" 2>&1
"#;

/// It ends, with all its containers, when this is dropped.
pub(crate) struct OwnEngine {
    folder: tempfile::TempDir,
    namespaces: Process,
    dockerd: Option<Child>,
    /// The control group's folder.
    group: PathBuf,
}

impl OwnEngine {
    /// Starts one, with the sample images.
    pub(crate) fn new(test: &str) -> Self {
        Self::with_disk(test, "")
    }

    /// The same with a disk of its own, of this size (as `64m`).
    pub(crate) fn with_disk(test: &str, size: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("groups")).expect("a folder");
        std::fs::write(folder.path().join("daemon.json"), "{}").expect("written");
        let mut command = Command::new("unshare");
        command.args(["--mount", "--net", "--propagation", "slave", "sh", "-c", NAMESPACES, "sh"]);
        let namespaces =
            command.arg(folder.path()).arg(size).stdin(Stdio::null()).spawn().expect("unshare is needed");
        let namespaces = Process(namespaces);
        wait_for(
            "namespaces (root is needed for them)",
            || folder.path().join("ready").exists(),
            String::new,
        );
        let hierarchy = if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() { "" } else { "pids/" };
        let group = format!("/sys/fs/cgroup/{hierarchy}plumbline-{test}-{}", std::process::id());
        let mut engine = Self { folder, namespaces, dockerd: None, group: group.into() };
        engine.start();
        make_sample_images(&engine.socket());
        engine
    }

    pub(crate) fn socket(&self) -> String {
        self.folder.path().join("docker.sock").display().to_string()
    }

    /// Starts it again, on the same data.
    pub(crate) fn start(&mut self) {
        // One that was killed leaves them.
        let (_, _) = (
            std::fs::remove_file(self.socket()),
            std::fs::remove_file(self.folder.path().join("docker.pid")),
        );
        let keeper = self.namespaces.0.id().to_string();
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--net", "--target", &keeper, "sh", "-c", DOCKERD, "sh"]);
        let started = command.arg(self.folder.path()).arg(&self.group).stdin(Stdio::null()).spawn();
        self.dockerd = Some(started.expect("nsenter is needed"));
        let answers = || {
            let mut docker = Command::new("docker");
            let asked = docker.args(["-H", &format!("unix://{}", self.socket()), "version"]).output();
            asked.is_ok_and(|output| output.status.success())
        };
        wait_for("the engine", answers, || self.log());
    }

    /// Runs a shell line where the engine's files are, in its data directory.
    pub(crate) fn on_disk(&self, line: &str) -> String {
        let keeper = self.namespaces.0.id().to_string();
        let folder = self.folder.path().join("data");
        let line = format!("cd {} && {line}", folder.display());
        let mut command = Command::new("nsenter");
        let output = command.args(["--mount", "--target", &keeper, "sh", "-c", &line]).output();
        let output = output.expect("nsenter is needed");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// Ends it, and waits until it is gone.
    pub(crate) fn end(&mut self, how: End) {
        let Some(mut dockerd) = self.dockerd.take() else { return };
        match how {
            End::Killed => dockerd.kill().expect("it is ours"),
            End::Asked => signal("TERM", &[dockerd.id().to_string()]),
        }
        wait_for(
            "the end of the engine",
            || dockerd.try_wait().expect("it is ours").is_some(),
            || self.log(),
        );
        // Its containerd dies with it, and the next one starts another only if this one has no process id any more.
        let containerd = std::fs::read_to_string(self.folder.path().join("exec/containerd/containerd.pid"));
        if let Ok(pid) = containerd {
            let process = Path::new("/proc").join(pid.trim());
            wait_for("the end of its containerd", || !process.exists(), || self.log());
        }
    }

    /// What it said last.
    fn log(&self) -> String {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        log.lines().rev().take(10).collect::<Vec<_>>().join("\n")
    }

    /// Every process that it started and that is still there, those of its containers included.
    fn members(&self) -> Vec<String> {
        let lists = folders_in(&self.group)
            .filter_map(|group| std::fs::read_to_string(group.join("cgroup.procs")).ok());
        lists.flat_map(|list| list.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    }
}

impl Drop for OwnEngine {
    fn drop(&mut self) {
        self.end(End::Asked);
        // Where it had been killed, its containers are still there.
        for _ in 0..100 {
            let members = self.members();
            if members.is_empty() {
                break;
            }
            signal("KILL", &members);
            std::thread::sleep(Duration::from_millis(50));
        }
        // With the first version of control groups there is one for each controller.
        let name = self.group.file_name().expect("it has a name");
        let controllers = folders_in(Path::new("/sys/fs/cgroup")).map(|controller| controller.join(name));
        for group in controllers.chain([self.group.clone()]) {
            folders_in(&group).for_each(|inner| drop(std::fs::remove_dir(inner)));
            let _ = std::fs::remove_dir(group);
        }
    }
}

fn folders_in(folder: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
}

/// Some of them may have ended by themselves.
fn signal(name: &str, processes: &[String]) {
    let mut command = Command::new("sh");
    command.args(["-c", "kill -s \"$@\" 2>/dev/null", "sh", name]).args(processes);
    let _ = command.status().expect("a shell");
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool, log: impl Fn() -> String) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "waited in vain for {what}\n{}", log());
        std::thread::sleep(Duration::from_millis(20));
    }
}
