//! A Unix socket before the engine's: notes every call, can hold one back, can answer one with an error, and can change
//! what the engine shows.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value as Json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::wrong_answer::{Counted, Waiting, Wrong, answer, with_length};

/// What the agent takes for the engine.
#[derive(Debug, Clone)]
pub(crate) struct Proxy {
    /// The path on which it listens, and the engine's socket.
    paths: Arc<[PathBuf; 2]>,
    listening: Arc<Mutex<Option<JoinHandle<()>>>>,
    calls: Arc<Mutex<Vec<String>>>,
    /// The call, by a part of its text, that is held back; and whether one is held back now.
    hold: watch::Sender<(Option<String>, bool)>,
    /// After how many more mutating calls one fails, and how.
    fault: Arc<Mutex<Option<(usize, Fault)>>>,
    lies: Arc<Mutex<Lies>>,
    /// After how many more mutating calls the agent gets no answer any more, and at which call that came.
    stall: Arc<Mutex<Option<(usize, Moment)>>>,
    stalled: watch::Sender<Option<String>>,
    /// The one call that is answered wrongly; and whether those that get no answer are let go.
    wrong: Arc<Mutex<Waiting>>,
    silent: watch::Sender<bool>,
}

/// When the agent stops to get answers, about a mutating call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The call does not reach the engine.
    Before,
    /// The engine has done it; the agent does not hear of it.
    After,
    /// The agent has heard of it, and asks for the next thing.
    Heard,
    /// That was it.
    Next,
}

type Lie = Arc<dyn Fn(&mut Json) + Send + Sync>;

/// What is changed in the engine's answers, by the beginning of the path that is asked for.
#[derive(Default)]
struct Lies(Vec<(&'static str, Lie)>);

impl std::fmt::Debug for Lies {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Lies").finish_non_exhaustive()
    }
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It never reaches the engine.
    NotDone,
    /// The engine does it, and its answer is lost.
    DoneAndLost,
}

impl Proxy {
    /// Starts to listen on this path, before the engine behind this socket.
    pub(crate) fn listen(path: &Path, engine: &Path) -> Self {
        let proxy = Self {
            paths: Arc::new([path.to_owned(), engine.to_owned()]),
            listening: Arc::default(),
            calls: Arc::default(),
            hold: watch::Sender::new((None, false)),
            fault: Arc::default(),
            lies: Arc::default(),
            stall: Arc::default(),
            stalled: watch::Sender::new(None),
            wrong: Arc::default(),
            silent: watch::Sender::new(false),
        };
        proxy.open();
        proxy
    }

    /// Listens.
    pub(crate) fn open(&self) {
        let listener = UnixListener::bind(&self.paths[0]).expect("a socket can be made");
        let serving = self.clone();
        let listening = tokio::spawn(async move {
            while let Ok((agent, _)) = listener.accept().await {
                // One that has just ended is met as one whose connection breaks.
                if let Ok(engine) = UnixStream::connect(&serving.paths[1]).await {
                    tokio::spawn(serving.clone().carry(agent, engine));
                }
            }
        });
        *self.listening.lock().unwrap_or_else(PoisonError::into_inner) = Some(listening);
    }

    /// Nobody can connect any more, as where no engine runs. Connections last until the engine ends them.
    pub(crate) fn close(&self) {
        if let Some(listening) = self.listening.lock().unwrap_or_else(PoisonError::into_inner).take() {
            listening.abort();
        }
        std::fs::remove_file(&self.paths[0]).expect("it listened");
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

    /// Lets a mutating call fail: the one after so many others.
    pub(crate) fn fail_after(&self, calls: usize, fault: Fault) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some((calls, fault));
    }

    /// No call fails any more. True: one did.
    pub(crate) fn failed(&self) -> bool {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take().is_none()
    }

    /// Lets a call be answered wrongly: the one after so many others that count.
    pub(crate) fn answer_wrongly(&self, counted: Counted, after: usize, wrong: Wrong) {
        self.silent.send_replace(true);
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner).set(counted, after, wrong);
    }

    /// All is well again. Returns the call that was answered wrongly.
    pub(crate) fn answer_rightly(&self) -> Option<String> {
        self.silent.send_replace(false);
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner).end()
    }

    /// The calls of every kind since they were last taken.
    pub(crate) fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.calls())
    }

    /// From the mutating call after so many others on, the agent gets no answers: it is about to be killed.
    pub(crate) fn stall_after(&self, calls: usize, moment: Moment) {
        self.stalled.send_replace(None);
        *self.stall.lock().unwrap_or_else(PoisonError::into_inner) = Some((calls, moment));
    }

    /// Waits until the agent gets no answer, and says about which mutating call.
    pub(crate) async fn stalled(&self) -> String {
        let mut stalled = self.stalled.subscribe();
        let call = stalled.wait_for(Option::is_some).await.expect("it is ours");
        call.clone().unwrap_or_default()
    }

    /// Answers come again.
    pub(crate) fn answer_again(&self) {
        *self.stall.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.stalled.send_replace(None);
    }

    /// Whether this call gets no answer.
    fn stall_of(&self, call: &str) -> Option<Moment> {
        let mut waiting = self.stall.lock().unwrap_or_else(PoisonError::into_inner);
        let (calls, moment) = (*waiting)?;
        let mutates = !call.starts_with("GET ");
        *waiting = match (calls, moment) {
            (_, Moment::Next) => return Some(Moment::Next),
            (calls, moment) if !mutates => Some((calls, moment)),
            (0, Moment::Heard) => Some((0, Moment::Next)),
            // What else the agent may ask before it is killed gets no answer either.
            (0, moment) => {
                *waiting = Some((0, Moment::Next));
                return Some(moment);
            }
            (calls, moment) => Some((calls - 1, moment)),
        };
        None
    }

    /// From now on what the engine shows at paths that begin so (`/containers/`, `/version`) is changed like this.
    pub(crate) fn show(&self, path: &'static str, lie: impl Fn(&mut Json) + Send + Sync + 'static) {
        let mut lies = self.lies.lock().unwrap_or_else(PoisonError::into_inner);
        lies.0.retain(|(other, _)| *other != path);
        lies.0.push((path, Arc::new(lie)));
    }

    /// How the answer to this call is changed.
    fn lie_for(&self, call: &str) -> Option<Lie> {
        let path = call.strip_prefix("GET ").filter(|path| *path != "/containers/json")?;
        // Output of a container is no JSON.
        if path.ends_with("/logs") {
            return None;
        }
        let lies = self.lies.lock().unwrap_or_else(PoisonError::into_inner);
        lies.0.iter().find(|(start, _)| path.starts_with(start)).map(|(_, lie)| lie.clone())
    }

    /// How this call fails, if it is its turn.
    fn fault_of(&self, call: &str) -> Option<Fault> {
        let mut waiting = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        if call.starts_with("GET ") {
            return None;
        }
        match waiting.as_mut() {
            Some((0, fault)) => {
                let fault = *fault;
                *waiting = None;
                Some(fault)
            }
            Some((calls, _)) => {
                *calls -= 1;
                None
            }
            None => None,
        }
    }

    /// Before the call that came just now.
    fn last_mutation(&self) -> String {
        let calls = self.calls();
        calls.iter().rev().skip(1).find(|call| !call.starts_with("GET ")).cloned().unwrap_or_default()
    }

    fn calls(&self) -> MutexGuard<'_, Vec<String>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries one connection: requests one by one, answers as they come.
    async fn carry(self, agent: UnixStream, engine: UnixStream) {
        let (requests, answers) = agent.into_split();
        let (mut from_engine, mut to_engine) = engine.into_split();
        let answers = Arc::new(tokio::sync::Mutex::new(answers));
        let carried = answers.clone();
        tokio::spawn(async move {
            let mut piece = vec![0; 16 * 1024];
            while let Ok(length @ 1..) = from_engine.read(&mut piece).await {
                if carried.lock().await.write_all(&piece[..length]).await.is_err() {
                    return;
                }
            }
            let _ = carried.lock().await.shutdown().await;
        });
        let mut requests = BufReader::new(requests);
        while let Ok(true) = self.pass_on(&mut requests, &mut to_engine, &answers).await {}
    }

    /// Passes one request on; false: there was none.
    async fn pass_on(
        &self,
        requests: &mut BufReader<OwnedReadHalf>,
        engine: &mut OwnedWriteHalf,
        answers: &tokio::sync::Mutex<OwnedWriteHalf>,
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
        if let Some(moment) = self.stall_of(&call) {
            if moment == Moment::After {
                self.do_apart(&head, &body).await?;
            }
            let about = if moment == Moment::Next { self.last_mutation() } else { call };
            self.stalled.send_modify(|stalled| {
                stalled.get_or_insert(about);
            });
            // Until the agent is dead, or hears that its connection broke.
            let (mut nowhere, mut stalled) = (tokio::io::sink(), self.stalled.subscribe());
            tokio::select! {
                _ = tokio::io::copy(requests, &mut nowhere) => {}
                _ = stalled.wait_for(Option::is_none) => {}
            }
            return Ok(false);
        }
        if let Some(lie) = self.lie_for(&call) {
            let answer = changed(&self.do_apart(&head, &body).await?, &lie);
            answers.lock().await.write_all(&answer).await?;
            return Ok(true);
        }
        let wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner).turn_of(&call);
        if let Some(wrong) = wrong {
            return self.go_wrong(wrong, &head, &body, answers).await;
        }
        match self.fault_of(&call) {
            None => {
                engine.write_all(head.as_bytes()).await?;
                engine.write_all(&body).await?;
            }
            Some(fault) => {
                if fault == Fault::DoneAndLost {
                    self.do_apart(&head, &body).await?;
                }
                fail(&mut *answers.lock().await).await?;
            }
        }
        Ok(true)
    }

    /// Answers a request wrongly; false: the connection ends.
    async fn go_wrong(
        &self,
        wrong: Wrong,
        head: &str,
        body: &[u8],
        answers: &tokio::sync::Mutex<OwnedWriteHalf>,
    ) -> std::io::Result<bool> {
        let mut said = Vec::new();
        if wrong.is_done() {
            said = self.do_apart(head, body).await?;
        }
        let said = match wrong {
            Wrong::Status(status, _) => answer(status),
            Wrong::Closed(_) => return Ok(false),
            Wrong::Silent(_) => {
                let _ = self.silent.subscribe().wait_for(|silent| !silent).await;
                return Ok(false);
            }
            Wrong::AnsweredLate(late) => {
                tokio::time::sleep(late).await;
                with_length(&said)
            }
            Wrong::DoneLate(late) => {
                tokio::time::sleep(late).await;
                with_length(&self.do_apart(head, body).await?)
            }
        };
        answers.lock().await.write_all(&said).await?;
        Ok(true)
    }

    /// Sends a request over a connection of its own, and reads the answer to its end.
    async fn do_apart(&self, head: &str, body: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut engine = UnixStream::connect(&self.paths[1]).await?;
        // The engine closes a connection of the older version after its answer.
        engine.write_all(head.replacen("HTTP/1.1", "HTTP/1.0", 1).as_bytes()).await?;
        engine.write_all(body).await?;
        let mut answer = Vec::new();
        engine.read_to_end(&mut answer).await?;
        Ok(answer)
    }
}

/// An answer with its body changed, if it is a good one.
fn changed(answer: &[u8], lie: &Lie) -> Vec<u8> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("an answer has a head");
    let status = std::str::from_utf8(&answer[..end]).ok().and_then(|head| head.split(' ').nth(1));
    let mut json: Json = serde_json::from_slice(&answer[end + 4..]).expect("it is JSON");
    if status == Some("200") {
        lie(&mut json);
    }
    let body = json.to_string();
    let head =
        format!("HTTP/1.1 {} Changed\r\nContent-Type: application/json\r\n", status.expect("a status"));
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

async fn fail(agent: &mut (impl AsyncWrite + Unpin)) -> std::io::Result<()> {
    let body = r#"{"message":"a fault of the test"}"#;
    let head = "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nContent-Length: ";
    agent.write_all(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes()).await
}

/// Method and path, without the version and the query.
fn call_of(head: &str) -> String {
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    let bare = path.strip_prefix("/v1.").and_then(|rest| rest.find('/').map(|at| &rest[at..]));
    format!("{method} {}", bare.unwrap_or(path))
}
