//! The agent is killed (SIGKILL) at every step of a recreation, and of one that fails and is rolled back.
//!
//! A proxy before the engine says when: before a mutating call was announced in the journal, before the call reaches the
//! engine (its announcement is in the journal by then), when the engine has done it and the agent has not heard, and when it
//! has heard, has written that down, and looks. After the agent is started again, without anybody asking for anything: exactly one
//! container of the module exists and runs, under its name, with the data of the first; the journal is empty; no two ran at
//! the same time.
//!
//! `PLUMBLINE_KILL_ROUNDS`: how often each; what was found is in `target/kill`. scripts/kill-test runs them all.

use std::time::Duration;

use crate::kill_harness::{Cut, Kills, Kind, MANY, RECOVERY, rounds};
use crate::served::Served;

/// Kills it at every call; then once more while it recovers.
async fn everywhere(kills: &mut Kills, cut: Cut) -> Vec<String> {
    for round in 0..rounds() {
        for calls in 0..MANY {
            if kills.cut_at(calls, cut).await.is_none() {
                assert!(calls > 5, "a recreation has more calls than {calls}");
                break;
            }
            kills.kill();
            // A second kill, at another call of the recovery each time.
            let again = (calls + round) % 4;
            kills.host.engine.stall_after(again, cut.moment());
            kills.host.start_again().await;
            let found = tokio::select! {
                _ = kills.host.engine.stalled() => {
                    kills.kill();
                    kills.again += 1;
                    kills.recovers().await.map_err(|found| format!("again at {again}: {found}"))
                }
                found = kills.is_well() => {
                    kills.host.engine.answer_again();
                    found
                }
            };
            if let Err(found) = found {
                return vec![format!("{cut:?} {calls}, {found}")];
            }
        }
    }
    kills.can_go_on().await;
    Vec::new()
}

async fn killed(test: &str, kind: Kind, cut: Cut) -> Kills {
    let mut kills = Kills::new(Served::killable(test).await, kind).await;
    let violations = everywhere(&mut kills, cut).await;
    let what = "the agent is killed (SIGKILL), and once more while it recovers";
    kills.report(test, &[format!("{cut:?}")], what, rounds(), &violations).await;
    kills
}

/// The journal's last record at every cut but those of what undoes a change, which is not announced.
fn records(kills: &Kills) -> Vec<&str> {
    let mut records: Vec<&str> =
        kills.steps.iter().filter_map(|step| step.split(", journal: ").nth(1)).collect();
    records.dedup();
    records
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_and_killed_before_each_announcement() {
    let kills = killed("killunannounced", Kind::Replaced, Cut::Unannounced).await;
    assert_eq!(records(&kills), ["begin", "made", "hold_down", "stop", "set_aside", "put_in", "committed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_and_killed_before_each_call() {
    let kills = killed("killbefore", Kind::Replaced, Cut::Before).await;
    assert_eq!(records(&kills), ["make", "hold_down", "stop", "set_aside", "put_in", "start", "remove"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_and_killed_after_each_call() {
    let kills = killed("killafter", Kind::Replaced, Cut::After).await;
    assert_eq!(records(&kills), ["make", "hold_down", "stop", "set_aside", "put_in", "start", "remove"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_and_killed_when_each_call_was_heard() {
    let kills = killed("killheard", Kind::Replaced, Cut::Heard).await;
    // After the last call it looks once more, unless it has ended before.
    assert_eq!(records(&kills)[..6], ["made", "hold_down", "stop", "set_aside", "put_in", "start"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rolled_back_and_killed_before_each_announcement() {
    killed("backunannounced", Kind::RolledBack, Cut::Unannounced).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rolled_back_and_killed_before_each_call() {
    killed("backbefore", Kind::RolledBack, Cut::Before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rolled_back_and_killed_after_each_call() {
    killed("backafter", Kind::RolledBack, Cut::After).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rolled_back_and_killed_when_each_call_was_heard() {
    killed("backheard", Kind::RolledBack, Cut::Heard).await;
}

/// The end of the journal may not have reached the disk, whatever the agent was told; or all of it is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_lost_records_leaves_one_container_running() {
    let mut kills = Kills::new(Served::killable("killtorn").await, Kind::Replaced).await;
    // Before the new one is started, and before the old one is removed.
    for calls in [5, 6] {
        for kept in 0..6 {
            assert!(kills.cut_at(calls, Cut::Before).await.is_some());
            kills.kill();
            let path = kills.journal();
            let whole = std::fs::read_to_string(&path).expect("there is a journal");
            let lines: Vec<&str> = whole.lines().collect();
            assert!(lines.len() > 6, "{whole}");
            match kept {
                0 => std::fs::remove_file(&path).expect("removed"),
                // Some records, and half of the next.
                kept => {
                    let kept = lines.len() * kept / 6;
                    let torn = &lines[kept][..lines[kept].len() / 2];
                    let text = format!("{}\n{torn}", lines[..kept].join("\n"));
                    std::fs::write(&path, text).expect("written");
                }
            }
            kills.host.engine.answer_again();
            kills.host.start_again().await;
            let until = tokio::time::Instant::now() + RECOVERY;
            while let Err(found) = kills.runs_alone().await {
                assert!(
                    tokio::time::Instant::now() < until,
                    "before call {calls}, {kept} of 6 kept: {found}"
                );
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            // What else was left is gone after the next apply.
            kills.edits += 1;
            kills.host.apply(&kills.spec(Kind::Replaced), true).await;
            kills.is_well().await.expect("one container is left");
        }
    }
    let what = "the agent is killed (SIGKILL), and its journal is torn at each sixth of its length, or lost";
    kills.report("killtorn", &[format!("{:?}", Cut::Before)], what, 1, &[]).await;
}
