//! The one place that decides what is printed, and where: results on standard output, progress and errors on standard
//! error.

use std::io::Write as _;

use plumbline::contents;
use plumbline::guard::word;
use plumbline::proto::v1::apply_response::Event;
use plumbline::proto::v1::value::Kind;
use plumbline::proto::v1::{
    Action, BuildAnnouncement, BuildRegistered, Cause, Change, Consequence, ContainerFailure, Failure,
    ModuleResult, MountVerdict, NodeEvent, ObjectKind, ObjectResult, Outcome, Phase, Progress, RefusalReason,
    RemoveResponse, UpgradePolicy, Value,
};
use prost_reflect::ReflectMessage;

use super::error::CliError;

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Output {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Prints what commands return.
#[derive(Debug, Clone, Copy)]
pub(super) struct Printer {
    output: Output,
    quiet: bool,
}

impl Printer {
    pub(super) fn new(output: Output) -> Self {
        Self { output, quiet: false }
    }

    /// One that prints nothing for people; programs get every message all the same.
    pub(super) fn without_text(self) -> Self {
        Self { quiet: true, ..self }
    }

    pub(super) fn is_json(self) -> bool {
        self.output == Output::Json
    }

    /// A message as one line of JSON, in json mode only.
    pub(super) fn json(self, message: &impl ReflectMessage) {
        if self.is_json() {
            let text = serde_json::to_string(&message.transcode_to_dynamic());
            print_line(&text.unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}")));
        }
    }

    /// A value that is no RPC's answer, as JSON, in json mode only.
    pub(super) fn value(self, value: &serde_json::Value) {
        if self.is_json() {
            print_line(&value.to_string());
        }
    }

    /// A line for people.
    pub(super) fn text(self, line: &str) {
        if !self.is_json() && !self.quiet {
            print_line(line);
        }
    }

    /// A line of progress.
    pub(super) fn progress(self, line: &str) {
        if !self.is_json() {
            let _ = writeln!(std::io::stderr().lock(), "{line}");
        }
    }

    /// Why the command failed.
    pub(super) fn error(self, error: &CliError) {
        let mut stderr = std::io::stderr().lock();
        if self.is_json() {
            let code = error.code().map(|code| format!("{code:?}"));
            let json = serde_json::json!({ "error": { "code": code, "message": error.to_string() } });
            let _ = writeln!(stderr, "{json}");
        } else {
            let _ = writeln!(stderr, "plumb: {error}");
        }
    }

    /// What a build is about to do. It stands before anything is sent.
    pub(super) fn announcement(self, announcement: &BuildAnnouncement) {
        for intent in &announcement.intents {
            let policy = policy_word(intent.upgrade_policy());
            self.text(&match (intent.will_be_sent, intent.upgrade_policy()) {
                (true, _) => format!(
                    "{}: policy {policy}: will be DEPLOYED AT ONCE to {}",
                    intent.module,
                    intent.receivers.join(", ")
                ),
                (false, UpgradePolicy::RollOut) => {
                    format!(
                        "{}: policy {policy}: registered only (--register-only, or it has no nodes)",
                        intent.module
                    )
                }
                (false, _) => format!("{}: policy {policy}: registered only", intent.module),
            });
        }
    }

    pub(super) fn registered(self, registered: &BuildRegistered) {
        let what = if registered.unchanged { "is registered already" } else { "registered" };
        self.text(&format!("{}: revision {} {what}", registered.module, registered.revision));
    }

    /// What an agent says.
    pub(super) fn node_event(self, event: &NodeEvent) {
        let at = format!("{} on {}", event.module, event.node);
        match event.event.as_ref().and_then(|event| event.event.as_ref()) {
            Some(Event::Progress(progress)) => self.phase(&at, progress),
            Some(Event::Result(result)) => self.module_result(&at, result, Tense::Past),
            Some(Event::Failure(failure)) => self.failure(&at, failure),
            None => {}
        }
    }

    fn phase(self, at: &str, progress: &Progress) {
        let phase = match progress.phase() {
            Phase::Unspecified | Phase::Accepted | Phase::Planned => return,
            phase @ (Phase::Pulling | Phase::Moving) if progress.done_bytes > 0 => {
                let doing = if phase == Phase::Pulling { "pulling" } else { "moving data" };
                let percent = progress.done_bytes * 100 / progress.total_bytes.max(1);
                self.progress(&format!(
                    "{at}: {} {doing}, {percent} % of {} bytes",
                    progress.object, progress.total_bytes
                ));
                return;
            }
            Phase::Pulling => "pulling",
            Phase::Moving => "moving data",
            Phase::Moved => "data moved",
            Phase::Created => "created",
            Phase::Updated => "changed in place",
            Phase::Stopped => "stopped",
            Phase::Started => "started",
            Phase::Healthy => "came up",
            Phase::Verified => "verified",
            Phase::Removed => "removed",
            Phase::RolledBack => "rolled back",
            Phase::Recovered => "recovered",
        };
        let detail =
            if progress.detail.is_empty() { String::new() } else { format!(" ({})", progress.detail) };
        self.progress(&format!("{at}: {} {phase}{detail}", progress.object));
    }

    pub(super) fn failure(self, at: &str, failure: &Failure) {
        self.text(&format!("{at}: FAILED: {}", failure.message));
        self.notes(failure.reached.as_ref());
        for object in failure.reached.iter().flat_map(|reached| &reached.objects) {
            if let Some(failure) = &object.failure {
                for line in failure_lines(&object.engine_name, failure) {
                    self.text(&line);
                }
            }
        }
    }

    /// The diff and the outcome.
    pub(super) fn module_result(self, at: &str, result: &ModuleResult, tense: Tense) {
        self.text(&format!("{at}: {}", outcome_words(result.outcome(), result.action(), tense)));
        self.notes(Some(result));
        for object in &result.objects {
            self.object(object, tense);
        }
    }

    /// What was done before it was asked for.
    fn notes(self, result: Option<&ModuleResult>) {
        for note in result.iter().flat_map(|result| &result.notes) {
            self.text(&format!("  note: before this, {note}"));
        }
    }

    /// What was, or would be, removed, what stays, and what the volumes hold.
    pub(super) fn removal(self, at: &str, removed: &RemoveResponse, tense: Tense) {
        let result = removed.result.clone().unwrap_or_default();
        match &removed.failure {
            Some(failure) => self.failure(at, failure),
            None if result.action() == Action::Unchanged => self.text(&format!("{at}: nothing to remove")),
            None if result.action() == Action::Removed => {
                self.text(&format!(
                    "{at}: {}",
                    action_words(Action::Removed, RefusalReason::Unspecified, tense)
                ));
            }
            None => self.text(&format!("{at}: {}", outcome_words(result.outcome(), result.action(), tense))),
        }
        for object in &result.objects {
            let word = match object.action() {
                Action::Unchanged => "stays".to_owned(),
                Action::Unspecified => "FAILED".to_owned(),
                action => action_words(action, object.reason(), tense),
            };
            let volume = removed.volumes.iter().find(|volume| volume.name == object.engine_name);
            let volume = volume.filter(|_| object.kind() == ObjectKind::Volume);
            let holds = volume.map(|volume| format!(" ({})", contents::words(volume))).unwrap_or_default();
            self.text(&format!("  {} {}{holds}: {word}", noun(object.kind()), object.engine_name));
            if !object.detail.is_empty() {
                self.text(&format!("    -> {}", object.detail));
            }
        }
    }

    /// One object of a result.
    pub(super) fn object(self, object: &ObjectResult, tense: Tense) {
        let diff = object.diff.clone().unwrap_or_default();
        let kind = noun(object.kind());
        let stays = object.action() == Action::Unchanged && object.kind() != ObjectKind::Container;
        if stays && object.detail.is_empty() {
            return;
        }
        let word =
            if stays { "stays".to_owned() } else { action_words(object.action(), object.reason(), tense) };
        self.text(&format!("  {kind} {}: {word}", object.engine_name));
        for change in &diff.changes {
            self.text(&format!("    {}", change_line(change, object.action())));
        }
        for mount in &object.mounts {
            self.text(&format!("    {}", mount_line(mount)));
        }
        if diff.ignored > 0 {
            self.text(&format!("    {} changes ignored, as the module says", diff.ignored));
        }
        if !object.detail.is_empty() {
            self.text(&format!("    -> {}", object.detail));
        }
        for residue in &object.residue {
            self.text(&format!(
                "    residue {}: declared {}, the engine shows {}",
                residue.path_text,
                value_text(residue.declared.as_ref()),
                value_text(residue.observed.as_ref())
            ));
        }
    }
}

/// What a container wrote that did not come up. How it ended stands in the message before.
fn failure_lines(name: &str, failure: &ContainerFailure) -> Vec<String> {
    let told = |title: String, lines: &[String]| {
        let lines = lines.iter().flat_map(|text| text.lines()).map(|line| format!("    | {line}"));
        std::iter::once(title).chain(lines).collect::<Vec<_>>()
    };
    let mut lines = if failure.last_lines.is_empty() {
        vec![format!("  {name} wrote nothing")]
    } else {
        told(format!("  the last lines of {name}:"), &failure.last_lines)
    };
    if !failure.health_output.is_empty() {
        let title = format!("  the last answers of its health check ({}):", failure.health);
        lines.extend(told(title, &failure.health_output));
    }
    lines
}

fn noun(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Network => "network",
        ObjectKind::Volume => "volume",
        ObjectKind::Container | ObjectKind::Unspecified => "container",
    }
}

fn print_line(line: &str) {
    // A closed pipe is no fault of ours, and there is nobody to tell.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// Whether something was done or would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tense {
    Past,
    Conditional,
}

pub(super) fn policy_word(policy: UpgradePolicy) -> &'static str {
    match policy {
        UpgradePolicy::RollOut => "roll_out",
        UpgradePolicy::Record | UpgradePolicy::Unspecified => "record",
    }
}

fn outcome_words(outcome: Outcome, action: Action, tense: Tense) -> &'static str {
    match (outcome, action, tense) {
        (Outcome::RefusedNeedsRecreation, _, Tense::Past) => "REFUSED, nothing was touched",
        (Outcome::RefusedNeedsRecreation, _, Tense::Conditional) => {
            "would be REFUSED, nothing would be touched"
        }
        (Outcome::Recreated, _, Tense::Past) => "recreated",
        (Outcome::Recreated, _, Tense::Conditional) => "would be recreated",
        (_, Action::Unchanged, _) => "unchanged, everything is as declared",
        (_, _, Tense::Past) => "applied",
        (_, _, Tense::Conditional) => "would be applied",
    }
}

fn action_words(action: Action, reason: RefusalReason, tense: Tense) -> String {
    let would = if tense == Tense::Conditional { "would be " } else { "" };
    let word = match action {
        Action::Unchanged => return "unchanged".to_owned(),
        Action::Created => "created",
        Action::Updated => "changed in place",
        Action::Recreated => "recreated",
        Action::Removed => "removed",
        Action::Started => "started",
        Action::Refused | Action::Unspecified => {
            let reason =
                reason.as_str_name().trim_start_matches("REFUSAL_REASON_").to_lowercase().replace('_', " ");
            return format!("{would}refused ({reason})");
        }
    };
    format!("{would}{word}")
}

fn change_line(change: &Change, action: Action) -> String {
    let (before, after) = (value_text(change.before.as_ref()), value_text(change.after.as_ref()));
    let added = matches!(change.before.as_ref().and_then(|value| value.kind.as_ref()), Some(Kind::Absent(_)));
    let removed =
        matches!(change.after.as_ref().and_then(|value| value.kind.as_ref()), Some(Kind::Absent(_)));
    let what = match (added, removed) {
        (true, _) => format!("+ {}: {after}", change.path_text),
        (_, true) => format!("- {}: {before}", change.path_text),
        _ => format!("~ {}: {before} -> {after}", change.path_text),
    };
    if action == Action::Created {
        return what;
    }
    let consequence = match change.consequence() {
        Consequence::InPlace => "in place",
        Consequence::Recreate => "needs recreation",
        Consequence::Unsupported => "this engine cannot hold it",
        Consequence::Unspecified => "",
    };
    let cause = match change.cause() {
        Cause::ChangedByHand => ", changed by hand",
        Cause::ImageDefault => ", the image's default",
        Cause::EngineDefault => ", the engine's default",
        Cause::Declared | Cause::Unspecified => "",
    };
    format!("{what}  [{consequence}{cause}]")
}

/// What stands behind a mount.
fn mount_line(mount: &MountVerdict) -> String {
    let mark = match (mount.refused, mount.accepted) {
        (true, _) => "!",
        (false, true) => "accepted:",
        (false, false) => "data",
    };
    format!("{mark} {} {}: {}", mount.target, word(mount.verdict()), mount.detail)
}

/// A value for people.
pub(super) fn value_text(value: Option<&Value>) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    match value.and_then(|value| value.kind.as_ref()) {
        None | Some(Kind::Absent(_)) => "(none)".to_owned(),
        Some(Kind::BoolValue(value)) => value.to_string(),
        Some(Kind::Int64Value(value)) => value.to_string(),
        Some(Kind::Uint64Value(value)) => value.to_string(),
        Some(Kind::DoubleValue(value)) => value.to_string(),
        Some(Kind::StringValue(value)) => quoted(value),
        Some(Kind::BytesValue(value)) => format!("{} bytes", value.len()),
        Some(Kind::DurationValue(value)) => value.to_string(),
        Some(Kind::ListValue(list)) => {
            format!("[{}]", list.values.iter().map(|value| quoted(value)).collect::<Vec<_>>().join(", "))
        }
        Some(Kind::SecretValue(secret)) => {
            format!("(secret {})", &secret.hash.get(..8).unwrap_or(&secret.hash))
        }
    }
}
