//! A Unix socket before the engine's: notes every call, and can hold one back.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

use crate::site::socket;

/// What the agent takes for the engine.
#[derive(Debug, Clone)]
pub(crate) struct Proxy {
    calls: Arc<Mutex<Vec<String>>>,
    /// The call, by a part of its text, that is held back; and whether one is held back now.
    hold: watch::Sender<(Option<String>, bool)>,
}

impl Proxy {
    /// Starts to listen on this path.
    pub(crate) fn listen(path: &Path) -> Self {
        let listener = UnixListener::bind(path).expect("a socket can be made");
        let proxy = Self { calls: Arc::default(), hold: watch::Sender::new((None, false)) };
        let serving = proxy.clone();
        tokio::spawn(async move {
            while let Ok((agent, _)) = listener.accept().await {
                let engine = UnixStream::connect(socket()).await.expect("a Docker engine is needed");
                tokio::spawn(serving.clone().carry(agent, engine));
            }
        });
        proxy
    }

    /// The calls that may change something, as `POST /containers/create`, since they were last taken.
    pub(crate) fn take_mutations(&self) -> Vec<String> {
        let calls = std::mem::take(&mut *self.calls());
        calls.into_iter().filter(|call| !call.starts_with("GET ")).collect()
    }

    /// Holds back the first call that has this in its text.
    pub(crate) fn hold(&self, call: &str) {
        self.hold.send_replace((Some(call.to_owned()), false));
    }

    /// Waits until it is held back.
    pub(crate) async fn held(&self) {
        self.hold.subscribe().wait_for(|(_, held)| *held).await.expect("it is ours");
    }

    /// Lets it go on.
    pub(crate) fn release(&self) {
        self.hold.send_replace((None, false));
    }

    fn calls(&self) -> MutexGuard<'_, Vec<String>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries one connection: requests one by one, answers as they come.
    async fn carry(self, agent: UnixStream, engine: UnixStream) {
        let (requests, mut answers) = agent.into_split();
        let (mut from_engine, mut to_engine) = engine.into_split();
        tokio::spawn(async move { tokio::io::copy(&mut from_engine, &mut answers).await });
        let mut requests = BufReader::new(requests);
        while let Ok(true) = self.pass_on(&mut requests, &mut to_engine).await {}
    }

    /// Passes one request on; false: there was none.
    async fn pass_on(
        &self,
        requests: &mut BufReader<OwnedReadHalf>,
        engine: &mut OwnedWriteHalf,
    ) -> std::io::Result<bool> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if requests.read_line(&mut head).await? == 0 {
                return Ok(false);
            }
        }
        let lower = head.to_ascii_lowercase();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length:"));
        let mut body = vec![0; length.map_or(0, |length| length.trim().parse().expect("a number"))];
        requests.read_exact(&mut body).await?;

        let call = call_of(&head);
        self.calls().push(call.clone());
        let is_held = self.hold.borrow().0.as_ref().is_some_and(|hold| call.contains(hold));
        if is_held {
            self.hold.send_modify(|(_, held)| *held = true);
            let _ = self.hold.subscribe().wait_for(|(hold, _)| hold.is_none()).await;
        }
        engine.write_all(head.as_bytes()).await?;
        engine.write_all(&body).await?;
        Ok(true)
    }
}

/// Method and path, without the version and the query.
fn call_of(head: &str) -> String {
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    let bare = path.strip_prefix("/v1.").and_then(|rest| rest.find('/').map(|at| &rest[at..]));
    format!("{method} {}", bare.unwrap_or(path))
}
