//! A registry for one test: Debian's `docker-registry` as a process on a port of the loopback interface, to which engines
//! speak without being told that it has no certificate. And images that nobody else has.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use crate::served::Process;
use crate::site::docker;

/// `tester` with the password `right`, as bcrypt.
const USERS: &str = "tester:$2b$04$BQO2mLDVTShdJnA5rMBrtu8ftMn4B8sskC7rYzaoMQhua14h2jul2\n";

/// A registry that runs as long as this lives.
pub(crate) struct Registry {
    /// As in a reference: `127.0.0.1:5000`.
    pub(crate) address: String,
    process: Option<Process>,
    images: Mutex<Vec<String>>,
    /// How much of the log was read.
    read: Mutex<usize>,
    folder: tempfile::TempDir,
}

impl Registry {
    /// A registry for everybody.
    pub(crate) fn start() -> Self {
        Self::with("")
    }

    /// A registry for `tester` with the password `right` alone.
    pub(crate) fn with_password() -> Self {
        Self::with("auth: {htpasswd: {realm: test, path: FOLDER/users}}\n")
    }

    fn with(more: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().display().to_string();
        std::fs::write(folder.path().join("users"), USERS).expect("it can be written");
        for _ in 0..5 {
            let port = free_port();
            let settings = format!(
                "version: 0.1\nlog: {{level: error}}\nhttp: {{addr: '127.0.0.1:{port}'}}\nstorage: {{filesystem: {{rootdirectory: FOLDER/data}}}}\n{more}"
            );
            let file = folder.path().join("settings.yml");
            std::fs::write(&file, settings.replace("FOLDER", &path)).expect("it can be written");
            let log = std::fs::File::create(folder.path().join("log")).expect("a file");
            let mut command = Command::new(program());
            command.arg("serve").arg(file).stdout(log).stderr(Stdio::null());
            let mut process = Process(command.spawn().expect("the registry starts"));
            let address = format!("127.0.0.1:{port}");
            if listens(&address, &mut process) {
                let process = Some(process);
                return Self { address, process, images: Mutex::default(), read: Mutex::default(), folder };
            }
        }
        panic!("the registry finds no port");
    }

    /// The reference of a repository here.
    pub(crate) fn reference(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }

    /// Makes an image from the container of this name, with these instructions, and puts it on the host under this
    /// reference. Its id is like no other's.
    pub(crate) fn commit(&self, maker: &str, reference: &str, instructions: &[&str]) -> String {
        let mut arguments = vec!["commit"];
        arguments.extend(instructions.iter().flat_map(|instruction| ["--change", instruction]));
        arguments.extend([maker, reference]);
        let id = docker(&arguments);
        assert!(id.starts_with("sha256:"), "no image was made: {id}");
        self.images.lock().expect("no test of it fails").push(id.clone());
        id
    }

    /// Brings what has this reference on the host to the registry, as the user of this configuration.
    pub(crate) fn push(reference: &str, docker_config: Option<&str>) {
        let mut arguments = docker_config.map(|folder| vec!["--config", folder]).unwrap_or_default();
        arguments.extend(["push", reference]);
        let said = docker(&arguments);
        assert!(said.contains("digest: sha256:"), "it was not pushed: {said}");
    }

    /// What was asked of the registry since the last time, as `GET /v2/app/manifests/1`.
    pub(crate) fn asked(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.folder.path().join("log")).expect("it is there");
        let from = std::mem::replace(&mut *self.read.lock().expect("no test of it fails"), log.len());
        // The access log in the form of Apache's: the request stands in the first quotes.
        let requests = log[from..].lines().filter_map(|line| line.split('"').nth(1));
        requests.filter_map(|request| request.strip_suffix(" HTTP/1.1")).map(str::to_owned).collect()
    }

    /// Ends the registry. Its reference stays.
    pub(crate) fn stop(&mut self) {
        self.process = None;
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        for id in self.images.get_mut().expect("no test of it fails") {
            docker(&["image", "rm", "--force", id]);
        }
    }
}

/// From `$PLUMBLINE_TOOLS`, else from `target/tools/bin`.
fn program() -> PathBuf {
    let tools = || {
        let workspace = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
        target.join("tools/bin")
    };
    let path = std::env::var_os("PLUMBLINE_TOOLS").map_or_else(tools, PathBuf::from).join("docker-registry");
    assert!(path.is_file(), "{} is not there: scripts/test brings it, run that once", path.display());
    path
}

/// A port that nobody has, now.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("it is bound").port()
}

/// Waits until something listens; false: the process has ended.
fn listens(address: &str, process: &mut Process) -> bool {
    for _ in 0..200 {
        if process.0.try_wait().expect("it is ours").is_some() {
            return false;
        }
        if TcpStream::connect(address).is_ok() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("nothing listens on {address}");
}
