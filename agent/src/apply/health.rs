//! The window in which a started container has to prove itself: become healthy where it has a health check, else stay up.
//!
//! Whatever was before is kept until it is over. All that decides is pure: what to wait for ([`Window`]), and what one look at
//! inspect means ([`Sight::judge`]).

use std::time::Duration;

use plumbline::proto::v1::{ContainerFailure, UpdateConfig};
use serde_json::Value as Json;

use crate::engine::End;

/// What engines take where a health check does not say (Docker Engine API, `HealthConfig`: 0 means inherit, and where nothing
/// is inherited the engine's own 30 s, 30 s and 3; measured on 20.10).
const INTERVAL: Duration = Duration::from_secs(30);
const TIMEOUT: Duration = Duration::from_secs(30);
const RETRIES: u32 = 3;

/// The least that is derived from a health check: one with short intervals says nothing of how long the program needs to load.
const LEAST_LIMIT: Duration = Duration::from_secs(30);

/// The most last probes that are told.
const PROBES: usize = 3;

/// What a container has to do to count as started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Window {
    /// Stay up that long.
    Up(Duration),
    /// Become healthy within that time.
    Healthy(Duration),
}

impl Window {
    /// `check` is `Config.Healthcheck` of the container itself, with what its image brings. `monitor` is the agent's.
    pub(super) fn of(check: &Json, declared: &UpdateConfig, monitor: Duration) -> Self {
        let declared_as = |duration: Option<prost_types::Duration>| {
            duration
                .and_then(|duration| Duration::try_from(duration).ok())
                .filter(|duration| !duration.is_zero())
        };
        if has_check(check) {
            Self::Healthy(declared_as(declared.healthy_deadline).unwrap_or_else(|| derived_limit(check)))
        } else {
            Self::Up(declared_as(declared.monitor).unwrap_or(monitor))
        }
    }
}

impl std::fmt::Display for Window {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Up(time) => write!(formatter, "it has to stay up for {}", seconds(*time)),
            Self::Healthy(limit) => write!(formatter, "it has to become healthy within {}", seconds(*limit)),
        }
    }
}

fn has_check(check: &Json) -> bool {
    match check["Test"][0].as_str() {
        None | Some("" | "NONE") => false,
        Some(_) => true,
    }
}

/// Later than the moment at which the engine itself calls a container unhealthy that fails from the start, so that it is the
/// engine that decides: the start period, then as many probes as may fail and one more, each as late and as long as it may be.
fn derived_limit(check: &Json) -> Duration {
    let time = |member: &str| Duration::from_nanos(check[member].as_u64().unwrap_or_default());
    let or = |time: Duration, default| if time.is_zero() { default } else { time };
    let retries = check["Retries"].as_u64().and_then(|retries| u32::try_from(retries).ok());
    let probes = retries.filter(|retries| *retries > 0).unwrap_or(RETRIES).saturating_add(1);
    let probe = or(time("Interval"), INTERVAL).saturating_add(or(time("Timeout"), TIMEOUT));
    time("StartPeriod").saturating_add(probe.saturating_mul(probes)).max(LEAST_LIMIT)
}

/// What has become of a container's process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Life {
    /// The engine does not have the container any more: it removed itself.
    #[default]
    Gone,
    Running,
    /// It ended, and the engine is about to start it again.
    Restarting,
    Ended,
    /// The engine could not even clear it away.
    Dead,
}

/// A container at one moment of its window, from inspect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sight {
    life: Life,
    /// Of a process that ended. Inspect does not tell it of one that was started again.
    exit_code: Option<i32>,
    oom_killed: bool,
    /// The engine's words.
    error: String,
    started_at: String,
    restarts: i64,
    /// starting, healthy, unhealthy; empty without a health check.
    health: String,
    /// How often in a row the health check has failed.
    failing: u64,
    /// What its last probes wrote.
    probes: Vec<String>,
}

/// A container came through its window: how, in words.
pub(super) type Came = String;

impl Sight {
    pub(super) fn of(inspect: Option<&Json>) -> Self {
        let Some(inspect) = inspect else { return Self::default() };
        let state = &inspect["State"];
        let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
        let is = |member: &str| state[member].as_bool().unwrap_or_default();
        let health = text(&state["Health"]["Status"]);
        let probes = state["Health"]["Log"].as_array().into_iter().flatten();
        let mut probes: Vec<String> = probes.map(|probe| printable(&text(&probe["Output"]))).collect();
        probes.retain(|probe| !probe.is_empty());
        let life = match (is("Dead"), is("Restarting"), is("Running")) {
            (true, _, _) => Life::Dead,
            // Engines say beside it that it runs.
            (_, true, _) => Life::Restarting,
            (_, _, true) => Life::Running,
            (false, false, false) => Life::Ended,
        };
        let exit_code = state["ExitCode"].as_i64().and_then(|code| i32::try_from(code).ok());
        Self {
            life,
            exit_code: (life != Life::Running).then(|| exit_code.unwrap_or_default()),
            oom_killed: is("OOMKilled"),
            error: text(&state["Error"]),
            started_at: text(&state["StartedAt"]),
            restarts: inspect["RestartCount"].as_i64().unwrap_or_default(),
            health: if health == "none" { String::new() } else { health },
            failing: state["Health"]["FailingStreak"].as_u64().unwrap_or_default(),
            probes: probes.split_off(probes.len().saturating_sub(PROBES)),
        }
    }

    /// What this look means, `after` that time in the window. `first`: the first look at it. `None`: it is not over yet.
    pub(super) fn judge(
        &self,
        window: Window,
        first: &First,
        after: Duration,
    ) -> Option<Result<Came, NotUp>> {
        let (exit_code, oom_killed) = (self.exit_code, self.oom_killed);
        match self.life {
            Life::Gone => return Some(Err(NotUp::Gone { after, exit_code, oom_killed })),
            Life::Restarting => return Some(Err(NotUp::Restarted { after, exit_code, oom_killed })),
            _ if self.was_restarted(first) => {
                return Some(Err(NotUp::Restarted { after, exit_code, oom_killed }));
            }
            Life::Ended if exit_code == Some(0) && !oom_killed => {
                return Some(Ok(format!("it ended by itself with exit code 0 after {}", seconds(after))));
            }
            Life::Ended | Life::Dead => {
                return Some(Err(NotUp::Ended { after, exit_code, oom_killed, error: self.error.clone() }));
            }
            Life::Running => {}
        }
        match window {
            Window::Up(time) => (after >= time).then(|| Ok(format!("up for {}", seconds(time)))),
            Window::Healthy(limit) => match self.health.as_str() {
                "healthy" => Some(Ok(format!("healthy after {}", seconds(after)))),
                "unhealthy" => Some(Err(NotUp::Unhealthy { after })),
                _ if after >= limit => Some(Err(NotUp::NotHealthy { limit })),
                _ => None,
            },
        }
    }

    fn was_restarted(&self, first: &First) -> bool {
        self.restarts > first.restarts || self.started_at != first.started_at
    }

    /// Whether its process ended and inspect says no more how: it runs again, or the container removed itself.
    pub(super) fn ended_unseen(&self, first: &First) -> bool {
        match self.life {
            Life::Gone => true,
            Life::Running => self.was_restarted(first),
            Life::Restarting | Life::Ended | Life::Dead => false,
        }
    }

    /// How it ended, from another source than inspect.
    pub(super) fn ended(&mut self, end: End) {
        self.exit_code = end.exit_code;
        self.oom_killed |= end.oom_killed;
    }

    /// News for whoever waits: the health check failed more often than `before`.
    pub(super) fn news(&self, before: &Self) -> Option<String> {
        let times =
            if self.failing == 1 { "once".to_owned() } else { format!("{} times in a row", self.failing) };
        (self.failing > before.failing).then(|| format!("its health check failed {times}"))
    }

    /// What is known of a container that did not come up, without what it wrote.
    pub(super) fn failure(self) -> ContainerFailure {
        ContainerFailure {
            exit_code: self.exit_code,
            error: self.error,
            last_lines: Vec::new(),
            health: if self.health.is_empty() { "none".to_owned() } else { self.health },
            health_output: self.probes,
            oom_killed: self.oom_killed,
        }
    }
}

/// What was there at the first look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct First {
    started_at: String,
    restarts: i64,
}

impl First {
    /// An engine counts restarts from 0 at every start; but one that was only unpaused has its old count. `before`: when it
    /// was started, as far as it was there before.
    pub(super) fn of(sight: &Sight, before: Option<&str>) -> Self {
        let was_started_before = before == Some(sight.started_at.as_str());
        let restarts = if was_started_before { sight.restarts } else { 0 };
        Self { started_at: sight.started_at.clone(), restarts }
    }
}

/// Why a started container does not count as up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotUp {
    /// Its process ended in failure.
    #[error("it did not stay up: it ended after {}{}{}", seconds(*.after), how(*.exit_code, *.oom_killed), words(.error))]
    Ended {
        /// After that time.
        after: Duration,
        /// Of the process.
        exit_code: Option<i32>,
        /// Its memory limit was reached.
        oom_killed: bool,
        /// The engine's words.
        error: String,
    },
    /// Its process ended, however, and the engine started it again.
    #[error("it did not stay up: it was started again within {}, having ended{}", seconds(*.after), how(*.exit_code, *.oom_killed))]
    Restarted {
        /// After that time.
        after: Duration,
        /// Of the process, if the engine still knows it.
        exit_code: Option<i32>,
        /// Its memory limit was reached.
        oom_killed: bool,
    },
    /// It ended and removed itself, as it was told to.
    #[error(
        "it did not stay up: it ended after {}{} and removed itself (auto_remove), with all that it wrote",
        seconds(*.after), how(*.exit_code, *.oom_killed)
    )]
    Gone {
        /// After that time.
        after: Duration,
        /// Of the process, if the engine still knows it.
        exit_code: Option<i32>,
        /// Its memory limit was reached.
        oom_killed: bool,
    },
    /// Its health check failed as often as it may.
    #[error("its health check says after {} that it is unhealthy", seconds(*.after))]
    Unhealthy {
        /// After that time.
        after: Duration,
    },
    /// Its health check did not succeed in time.
    #[error("it did not become healthy within {}; `update_config.healthy_deadline` in its declaration gives it longer", seconds(*.limit))]
    NotHealthy {
        /// The time.
        limit: Duration,
    },
}

impl NotUp {
    /// The error in one word, for programs.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Ended { .. } | Self::Restarted { .. } | Self::Gone { .. } => "DID_NOT_STAY_UP",
            Self::Unhealthy { .. } | Self::NotHealthy { .. } => "NOT_HEALTHY",
        }
    }
}

fn how(exit_code: Option<i32>, oom_killed: bool) -> String {
    let code = exit_code.map(|code| format!(" with exit code {code}")).unwrap_or_default();
    let oom = if oom_killed { " (out of memory: the kernel killed it at its mem_limit)" } else { "" };
    format!("{code}{oom}")
}

fn words(error: &str) -> String {
    if error.is_empty() { String::new() } else { format!(": {error}") }
}

/// As `2.1 s`, `30 s`.
fn seconds(time: Duration) -> String {
    let tenths = (time.as_millis() + 50) / 100;
    let part = if tenths.is_multiple_of(10) { String::new() } else { format!(".{}", tenths % 10) };
    format!("{}{part} s", tenths / 10)
}

fn printable(text: &str) -> String {
    let kept = |character: &char| matches!(character, '\n' | '\t') || !character.is_control();
    text.chars().filter(kept).collect::<String>().trim().to_owned()
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;
