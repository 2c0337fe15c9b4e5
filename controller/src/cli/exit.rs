//! Exit codes, and how the answers of several hosts become one.

use std::process::ExitCode;

use plumbline::proto::v1::apply_response::Event;
use plumbline::proto::v1::{NodeEvent, Outcome};

/// What the process ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// Everything asked for is true.
    Done,
    /// It failed.
    Error,
    /// There is something to change, and `--exit-code` asked to hear of it so.
    Pending,
    /// It was refused, or not confirmed; nothing was touched.
    Refused,
    /// Done on some hosts, not on others.
    Partial,
    /// The command line is wrong.
    Usage,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Error => 1,
            Exit::Pending => 2,
            Exit::Refused => 3,
            Exit::Partial => 4,
            Exit::Usage => 64,
        })
    }
}

/// Counts how the applies of several modules and hosts ended.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Tally {
    done: usize,
    refused: usize,
    failed: usize,
}

impl Tally {
    pub(super) fn event(&mut self, event: &NodeEvent) {
        match event.event.as_ref().and_then(|event| event.event.as_ref()) {
            Some(Event::Result(result)) => self.outcome(result.outcome()),
            Some(Event::Failure(_)) => self.failed += 1,
            Some(Event::Progress(_)) | None => {}
        }
    }

    pub(super) fn outcome(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::RefusedNeedsRecreation => self.refused += 1,
            Outcome::Applied | Outcome::Recreated => self.done += 1,
            Outcome::Unspecified => self.failed += 1,
        }
    }

    pub(super) fn failure(&mut self) {
        self.failed += 1;
    }

    pub(super) fn add(&mut self, other: Self) {
        self.done += other.done;
        self.refused += other.refused;
        self.failed += other.failed;
    }

    pub(super) fn exit(self) -> Exit {
        match (self.done, self.refused, self.failed) {
            (_, 0, 0) => Exit::Done,
            (0, _, 0) => Exit::Refused,
            (0, 0, _) => Exit::Error,
            _ => Exit::Partial,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_hosts_give_one_exit_code() {
        let exit = |done, refused, failed| Tally { done, refused, failed }.exit();
        assert_eq!(exit(0, 0, 0), Exit::Done);
        assert_eq!(exit(2, 0, 0), Exit::Done);
        assert_eq!(exit(0, 2, 0), Exit::Refused);
        assert_eq!(exit(0, 0, 1), Exit::Error);
        assert_eq!(exit(1, 1, 0), Exit::Partial);
        assert_eq!(exit(1, 0, 1), Exit::Partial);
    }
}
