//! A Unix socket before the engine's: counts the calls, can hold one back, and can be as dead as a stopped engine. It gives
//! the engine an id of its own, for an engine has one agent of an installation, and the hosts of a fleet share the one.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const ENGINE: &str = "/var/run/docker.sock";

/// The socket that an agent takes for the engine's.
#[derive(Debug)]
pub(crate) struct EngineProxy {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    calls: Vec<String>,
    /// Both ends of every connection.
    connections: Vec<UnixStream>,
    stopped: bool,
    /// The call, by a part of its text, that is held back.
    hold: Option<String>,
    /// One is being held back now.
    holding: bool,
}

impl EngineProxy {
    pub(super) fn start(path: &Path) -> Self {
        let shared = Shared { path: path.to_owned(), inner: Mutex::default(), changed: Condvar::new() };
        let proxy = Self { shared: Arc::new(shared) };
        proxy.start_again();
        proxy
    }

    /// Stops the engine, as far as the agent can tell. A call that is held back is lost.
    pub(crate) fn stop(&self) {
        let mut inner = self.shared.lock();
        inner.stopped = true;
        inner.hold = None;
        self.shared.changed.notify_all();
        for connection in inner.connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
        let _ = std::fs::remove_file(&self.shared.path);
    }

    /// Starts it again.
    pub(crate) fn start_again(&self) {
        let listener = UnixListener::bind(&self.shared.path).expect("a socket can be made");
        self.shared.lock().stopped = false;
        let shared = self.shared.clone();
        // It ends with the test's process; a stopped one has no path by which to reach it.
        std::thread::spawn(move || {
            for agent in listener.incoming().map_while(Result::ok) {
                let shared = shared.clone();
                std::thread::spawn(move || shared.carry(&agent));
            }
        });
    }

    /// The calls that may change something, as `POST /containers/create`, since they were last forgotten.
    pub(crate) fn mutations(&self) -> Vec<String> {
        let inner = self.shared.lock();
        let may_change = |call: &&String| !call.starts_with("GET ") && !call.starts_with("HEAD ");
        inner.calls.iter().filter(may_change).cloned().collect()
    }

    /// How many calls there were in all.
    pub(crate) fn calls(&self) -> usize {
        self.shared.lock().calls.len()
    }

    pub(crate) fn forget(&self) {
        self.shared.lock().calls.clear();
    }

    /// Holds back the first call that has this in its text, as `POST /containers/create`.
    pub(crate) fn hold(&self, call: &str) {
        self.shared.lock().hold = Some(call.to_owned());
    }

    /// Waits until a call is held back.
    #[track_caller]
    pub(crate) fn wait_until_held(&self) {
        let inner = self.shared.lock();
        let wait =
            self.shared.changed.wait_timeout_while(inner, Duration::from_secs(10), |inner| !inner.holding);
        let (inner, time) = wait.unwrap_or_else(PoisonError::into_inner);
        assert!(!time.timed_out(), "no call to hold back among {:?}", inner.calls);
    }

    /// Lets the held call go on.
    pub(crate) fn release(&self) {
        self.shared.lock().hold = None;
        self.shared.changed.notify_all();
    }
}

impl Drop for EngineProxy {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries one connection: requests one by one, answers as they come.
    fn carry(&self, agent: &UnixStream) {
        let Ok(engine) = UnixStream::connect(ENGINE) else { return };
        {
            let mut inner = self.lock();
            if inner.stopped {
                return;
            }
            for end in [agent, &engine] {
                inner.connections.extend(end.try_clone());
            }
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _ = self.answers(&engine, agent);
                let _ = agent.shutdown(Shutdown::Both);
            });
            let mut requests = BufReader::new(agent);
            while let Ok(true) = self.request(&mut requests, &engine) {}
            let _ = engine.shutdown(Shutdown::Write);
        });
    }

    /// Passes answers on as they come. The id is at the beginning of one, so in one piece with it.
    fn answers(&self, mut engine: &UnixStream, mut agent: &UnixStream) -> io::Result<()> {
        const MEMBER: &[u8] = b"\r\n{\"ID\":\"";
        let name = self.path.file_stem().expect("it has a name").as_encoded_bytes();
        let mut piece = vec![0; 64 * 1024];
        loop {
            let length = engine.read(&mut piece)?;
            if length == 0 {
                return Ok(());
            }
            let found = piece[..length].windows(MEMBER.len()).position(|window| window == MEMBER);
            if let Some(id) = found.map(|at| at + MEMBER.len()) {
                piece[id..id + name.len()].copy_from_slice(name);
            }
            agent.write_all(&piece[..length])?;
        }
    }

    /// Passes one request on; false if there was none.
    fn request(&self, requests: &mut BufReader<&UnixStream>, mut engine: &UnixStream) -> io::Result<bool> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if requests.read_line(&mut head)? == 0 {
                return Ok(false);
            }
        }
        let lower = head.to_ascii_lowercase();
        assert!(!lower.contains("transfer-encoding:"), "this proxy knows bodies of a known length only");
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length = length.map_or(0, |length| length.trim().parse().expect("a length is a number"));
        let mut body = vec![0; length];
        requests.read_exact(&mut body)?;
        if !self.count(call_of(&head)) {
            return Ok(false);
        }
        engine.write_all(head.as_bytes())?;
        engine.write_all(&body)?;
        Ok(true)
    }

    /// Counts a call, and holds it back if that is meant; false if it must not go on.
    fn count(&self, call: String) -> bool {
        let mut inner = self.lock();
        let held = inner.hold.as_ref().is_some_and(|hold| call.contains(hold)) && !inner.holding;
        inner.calls.push(call);
        if held {
            inner.holding = true;
            self.changed.notify_all();
            let wait = self.changed.wait_while(inner, |inner| inner.hold.is_some());
            inner = wait.unwrap_or_else(PoisonError::into_inner);
            inner.holding = false;
        }
        !inner.stopped
    }
}

/// Method and path without the version.
fn call_of(head: &str) -> String {
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    let versioned = path.strip_prefix("/v1.").and_then(|rest| rest.split_once('/'));
    let path = versioned.map_or_else(|| path.to_owned(), |(_, rest)| format!("/{rest}"));
    format!("{method} {path}")
}
