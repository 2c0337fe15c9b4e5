//! The engine is restarted at every step of a recreation, and of one that dies and is rolled back: asked to (it stops its
//! containers, and starts those again whose restart policy says so) or killed, with an agent that lives on and must end its
//! apply truthfully, and with one that is killed at the same moment.
//!
//! Afterwards, without anybody asking for anything, the same holds as after a kill of the agent alone, and this engine holds
//! no volume that it did not hold before.
//!
//! One round, as in CI, is one of the combinations, at every step or at every third. With `PLUMBLINE_KILL_ROUNDS` of 2 and
//! more every combination is run at every step that often.

use std::time::Duration;

use plumbline::proto::v1::apply_response::Event;
use serde_json::json;
use tokio::task::block_in_place;

use crate::kill_harness::{Cut, Kills, Kind, MANY, rounds};
use crate::own_engine::{End, OwnEngine};
use crate::served::Served;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agent {
    LivesOn,
    IsKilled,
}

/// How long the engine is away: an agent that lives on meets nobody.
const AWAY: Duration = Duration::from_millis(300);

struct Restarts {
    kills: Kills,
    volumes: String,
    // Ends after its containers were removed.
    engine: OwnEngine,
}

impl Restarts {
    async fn new(test: &str, kind: Kind) -> Self {
        let engine = block_in_place(|| OwnEngine::new(test));
        let host = Served::killable_on(test, engine.socket()).await;
        let kills = Kills::new(host, kind).await;
        let volumes = kills.host.site.docker(&["volume", "ls", "-q"]);
        assert_eq!(volumes.lines().count(), 1, "{volumes}");
        Self { kills, volumes, engine }
    }

    /// Restarts the engine at every call, or at each so many.
    async fn everywhere(&mut self, end: End, agent: Agent, cut: Cut, each: usize) -> Result<(), String> {
        for calls in (0..MANY).step_by(each) {
            let before = self.kills.edit().await;
            let Some(apply) = self.kills.cut_at(calls, cut).await else {
                assert!(calls > 5, "a recreation has more calls than {calls}");
                return Ok(());
            };
            if agent == Agent::IsKilled {
                self.kills.kill();
            }
            self.kills.host.engine.close();
            block_in_place(|| self.engine.end(end));
            self.kills.host.engine.answer_again();
            tokio::time::sleep(AWAY).await;
            block_in_place(|| self.engine.start());
            self.kills.host.engine.open();
            let at = format!("{end:?}, {agent:?}, {cut:?} {calls}");
            let ended = match agent {
                Agent::LivesOn => {
                    Some(apply.await.expect("it ends").ok_or(format!("{at}: the apply has no end"))?)
                }
                Agent::IsKilled => {
                    self.kills.host.start_again().await;
                    None
                }
            };
            self.kills.is_well().await.map_err(|found| format!("{at}: {found}"))?;
            let volumes = self.kills.host.site.docker(&["volume", "ls", "-q"]);
            if volumes != self.volumes {
                return Err(format!("{at}: its volumes are {volumes}"));
            }
            // What the agent said is so.
            let edit = self.kills.edit().await;
            let said = match &ended {
                Some(Event::Result(_)) => Some(json!(self.kills.edits.to_string())),
                Some(Event::Failure(failure)) if failure.rolled_back => Some(before),
                _ => None,
            };
            if said.is_some_and(|said| said != edit) {
                return Err(format!("{at}: the edit {edit} runs, and the agent said {ended:?}"));
            }
        }
        Err(format!("more than {MANY} calls"))
    }
}

const ALL: [(Agent, Cut); 6] = [
    (Agent::LivesOn, Cut::Before),
    (Agent::LivesOn, Cut::After),
    (Agent::LivesOn, Cut::Heard),
    (Agent::IsKilled, Cut::Before),
    (Agent::IsKilled, Cut::After),
    (Agent::IsKilled, Cut::Heard),
];

/// In a single round only the combination with this number, and only each so many steps.
async fn restarted(test: &str, kind: Kind, end: End, (one, each): (usize, usize)) {
    let mut restarts = Restarts::new(test, kind).await;
    let (rounds, combinations, each) = match rounds() {
        0 | 1 => (1, &ALL[one..=one], each),
        more => (more, &ALL[..], 1),
    };
    let cuts: Vec<String> =
        combinations.iter().map(|(agent, cut)| format!("{cut:?}, the agent {agent:?}")).collect();
    let what = match end {
        End::Asked => "the engine is restarted (SIGTERM)",
        End::Killed => "the engine is killed (SIGKILL) and started again",
    };
    let mut violations = Vec::new();
    'all: for round in 0..rounds {
        for (agent, cut) in combinations {
            if let Err(found) = restarts.everywhere(end, *agent, *cut, each).await {
                violations.push(found);
                break 'all;
            }
        }
        // Many rounds take an hour: whoever ends them before has what came of those that were made.
        restarts.kills.write(test, &cuts, what, round + 1, &violations).await;
    }
    if violations.is_empty() {
        restarts.kills.can_go_on().await;
    }
    restarts.kills.report(test, &cuts, what, rounds, &violations).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_and_the_engine_restarted() {
    restarted("restartreplaced", Kind::Replaced, End::Asked, (0, 1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_and_the_engine_killed() {
    restarted("crashreplaced", Kind::Replaced, End::Killed, (2, 3)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rolled_back_and_the_engine_restarted() {
    restarted("restartdies", Kind::Dies, End::Asked, (5, 3)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rolled_back_and_the_engine_killed() {
    restarted("crashdies", Kind::Dies, End::Killed, (4, 1)).await;
}
