//! Wrong answers to one call of the agent: errors, none at all, and those that come too late.

use std::time::Duration;

/// Whether the engine does what it answers wrongly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    /// The call does not reach it.
    Idle,
    /// It does it.
    Does,
}

/// How a call is answered wrongly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// With this status and an engine's body.
    Status(u16, Engine),
    /// The connection is closed.
    Closed(Engine),
    /// Not at all, until all is well again.
    Silent(Engine),
    /// It is done at once, and answered so long after it came.
    AnsweredLate(Duration),
    /// It reaches the engine so long after it came, and is answered then.
    DoneLate(Duration),
}

impl Wrong {
    /// Whether the engine does it before anything is answered.
    pub(crate) fn is_done(self) -> bool {
        match self {
            Self::Status(_, engine) | Self::Closed(engine) | Self::Silent(engine) => engine == Engine::Does,
            Self::AnsweredLate(_) => true,
            Self::DoneLate(_) => false,
        }
    }
}

/// Which calls are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    All,
    Mutating,
}

/// The one call that is answered wrongly, after so many others that count.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    next: Option<(Counted, usize, Wrong)>,
    met: Option<String>,
}

impl Waiting {
    pub(crate) fn set(&mut self, counted: Counted, after: usize, wrong: Wrong) {
        *self = Self { next: Some((counted, after, wrong)), met: None };
    }

    /// No call is answered wrongly any more. Returns the one that was.
    pub(crate) fn end(&mut self) -> Option<String> {
        self.next = None;
        self.met.take()
    }

    /// How this call is answered wrongly, if it is its turn.
    pub(crate) fn turn_of(&mut self, call: &str) -> Option<Wrong> {
        let (counted, after, wrong) = self.next?;
        if counted == Counted::Mutating && call.starts_with("GET ") {
            return None;
        }
        self.next = after.checked_sub(1).map(|after| (counted, after, wrong));
        if after > 0 {
            return None;
        }
        self.met = Some(call.to_owned());
        Some(wrong)
    }
}

/// An answer with this status.
pub(crate) fn answer(status: u16) -> Vec<u8> {
    let what = if status == 404 { "No such object: " } else { "" };
    whole(status, format!(r#"{{"message":"{what}a fault of the test"}}"#).as_bytes())
}

/// What an engine answered, with its length said: it closes a connection of the older version instead.
pub(crate) fn with_length(answer: &[u8]) -> Vec<u8> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("an answer has a head");
    let head = std::str::from_utf8(&answer[..end]).expect("it is text");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    whole(status, &answer[end + 4..])
}

fn whole(status: u16, body: &[u8]) -> Vec<u8> {
    if matches!(status, 204 | 304) {
        return format!("HTTP/1.1 {status} Status\r\n\r\n").into_bytes();
    }
    let head = format!("HTTP/1.1 {status} Status\r\nContent-Type: application/json\r\nContent-Length: ");
    [format!("{head}{}\r\n\r\n", body.len()).as_bytes(), body].concat()
}
