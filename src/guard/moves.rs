//! Data that the agent is asked to move: what the verdict on its mount becomes.

use super::acceptance;
use crate::proto::v1::{DataGuardVerdict as Verdict, DataMove, MountVerdict, MoveWay};

/// The data is brought there when the container is stopped.
pub fn to_be_moved(judged: &mut MountVerdict, data_move: DataMove) {
    let DataMove { from, to, .. } = &data_move;
    judged.detail = match data_move.way() {
        MoveWay::Copy => format!(
            "{} (entries: {}) are copied from {from} to {to} and compared, while the container is stopped; the original is kept",
            bytes_in_words(data_move.bytes),
            data_move.entries
        ),
        MoveWay::Rename | MoveWay::Unspecified => {
            format!("{from} is renamed to {to} while the container is stopped")
        }
    };
    judged.set_verdict(Verdict::ToBeMoved);
    judged.refused = false;
    judged.data_move = Some(data_move);
}

/// The data cannot be moved as the mount asks for. Without it nobody meant to put the container there: what would be a
/// first use is refused as well.
pub fn not_to_be_moved(judged: &mut MountVerdict, why: &str) {
    if judged.verdict() == Verdict::FirstUse {
        judged.set_verdict(Verdict::Unknown);
        judged.detail = format!(
            "nothing is moved; if that is meant, accept it with --accept-data {}",
            acceptance(judged)
        );
    }
    judged.refused = true;
    judged.detail = format!("moved_from is not followed: {why}; {}", judged.detail);
}

/// The data may be moved, but others have one of the two places and would lose sight of what is there.
pub fn used_by_others(judged: &mut MountVerdict, place: &str, users: &[String]) {
    let from = from(judged);
    judged.refused = true;
    judged.detail = format!(
        "{from} is not moved, for {place} or a part of it is mounted in {} too, whatever is accepted: remove that \
         container, or let the same module recreate it on the new place",
        users.join(", ")
    );
}

/// The data may be moved, but not in the same apply as that.
pub fn overlaps_another(judged: &mut MountVerdict, other: &str) {
    let from = from(judged);
    judged.refused = true;
    judged.detail = format!(
        "{from} is not moved, for {other} is moved in the same apply and one lies in the way of the other, whatever is \
         accepted: stop the container, move them by hand, and take moved_from out"
    );
}

fn from(judged: &MountVerdict) -> String {
    judged.data_move.as_ref().map(|data_move| data_move.from.clone()).unwrap_or_default()
}

/// As `3.2 MiB`.
pub fn bytes_in_words(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(power, _)| bytes >> power > 0) {
        Some((power, unit)) => {
            let tenths = (u128::from(bytes) * 10) >> power;
            format!("{}.{} {unit}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} bytes"),
    }
}
