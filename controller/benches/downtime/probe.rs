//! Who asks all the time, and notes who answered when.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between an answer, or its lack, and the next question.
const PAUSE: Duration = Duration::from_millis(1);
/// For the connection, and for the answer. An answer takes a few milliseconds on a busy machine.
const PATIENCE: Duration = Duration::from_millis(100);
/// For an answer before and after the change.
const DEADLINE: Duration = Duration::from_secs(60);

/// A good answer: when it was there, and its text.
type Answer = (Instant, String);

/// A thread that asks a web server without end.
pub(crate) struct Probe {
    answers: Receiver<Answer>,
    stop: Sender<()>,
    thread: JoinHandle<()>,
    old: String,
    /// The first answers, until there was the old one.
    seen: Vec<Answer>,
}

impl Probe {
    /// Begins to ask on this port of the loopback interface. When it returns, there was the old answer.
    pub(crate) fn start(port: u16, old: &str) -> Self {
        let (answered, answers) = channel();
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            while matches!(stopped.recv_timeout(PAUSE), Err(RecvTimeoutError::Timeout)) {
                if let Some(text) = ask(port) {
                    // Whoever listened has failed, and says why.
                    let _ = answered.send((Instant::now(), text));
                }
            }
        });
        let mut probe = Self { answers, stop, thread, old: old.to_owned(), seen: Vec::new() };
        probe.wait_for(old);
        probe
    }

    /// Waits for the new answer, if it has not come yet, and returns how long nobody answered.
    pub(crate) fn end(mut self, new: &str) -> Duration {
        self.seen.extend(self.answers.try_iter());
        if self.old == new {
            // Nothing tells them apart: the longest time without an answer it was. One answer more closes it.
            self.wait_for(new);
        } else if !self.seen.iter().any(|(_, text)| text == new) {
            self.wait_for(new);
        }
        drop(self.stop);
        self.thread.join().expect("asking does not fail");
        self.seen.extend(self.answers.try_iter());
        downtime(&self.seen, &self.old, new)
    }

    fn wait_for(&mut self, text: &str) {
        let end = Instant::now() + DEADLINE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let answer = self.answers.recv_timeout(left);
            let answer = answer.unwrap_or_else(|_| panic!("no answer `{text}` within {DEADLINE:?}"));
            let is_it = answer.1 == text;
            self.seen.push(answer);
            if is_it {
                return;
            }
        }
    }
}

fn downtime(answers: &[Answer], old: &str, new: &str) -> Duration {
    if old == new {
        let gaps = answers.windows(2).map(|pair| pair[1].0 - pair[0].0);
        return gaps.max().expect("there was an answer before and after");
    }
    let last = answers.iter().rfind(|(_, text)| text == old).expect("the old one answered");
    let first = answers.iter().find(|(_, text)| text == new).expect("the new one answered");
    assert!(last.0 < first.0, "the old one answered after the new one");
    first.0 - last.0
}

/// One question. `None`: no answer in time, or no good one.
fn ask(port: u16) -> Option<String> {
    let mut stream =
        TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_nodelay(true).ok()?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.split(' ').nth(1).is_some_and(|status| status == "200").then(|| body.trim().to_owned())
}
