//! What an operation reports becomes events for those who watch it.

use std::sync::Arc;

use plumbline::proto::v1::apply_response::Event;
use plumbline::proto::v1::{Phase, Progress};

use super::Operation;
use crate::apply::Report;
use crate::secrets::Secrets;

pub(super) struct Reporter {
    pub(super) operation: Arc<Operation>,
    pub(super) secrets: Secrets,
}

impl Report for Reporter {
    fn progress(&self, phase: Phase, object: &str, detail: &str) {
        let detail = self.secrets.mask(detail);
        tracing::info!(operation = self.operation.id, ?phase, object, detail);
        self.operation.push(Event::Progress(progress(phase, object, &detail)), false);
    }

    fn moving(&self, to: &str, done: u64, total: u64) {
        let mut event = progress(Phase::Moving, to, "");
        (event.done_bytes, event.total_bytes) = (done, total);
        self.operation.push(Event::Progress(event), false);
    }

    fn pulling(&self, image: &str, done: u64, total: u64) {
        let mut event = progress(Phase::Pulling, image, "");
        (event.done_bytes, event.total_bytes) = (done, total);
        self.operation.push(Event::Progress(event), false);
    }
}

pub(super) fn progress(phase: Phase, object: &str, detail: &str) -> Progress {
    let now = std::time::SystemTime::now();
    Progress {
        phase: phase.into(),
        object: object.to_owned(),
        detail: detail.to_owned(),
        done_bytes: 0,
        total_bytes: 0,
        time: Some(now.into()),
    }
}
