//! How a container ended that did not come up, told to whoever asked.

use plumbline::proto::v1::ContainerFailure;

use super::ApplyError;
use super::health::Sight;
use crate::engine::Engine;
use crate::secrets::Secrets;

/// How many of its last lines are told.
const LINES: u32 = 10;

/// The most characters of a line.
const LONGEST_LINE: usize = 500;

/// The error with all that is known of the container, looked at right now: what was before is put back next.
pub(super) async fn of_container(engine: &Engine, id: &str, sight: Sight, source: ApplyError) -> ApplyError {
    let mut failure = sight.failure();
    let text = engine.last_lines(id, LINES).await.unwrap_or_default();
    failure.last_lines = text.lines().map(str::to_owned).collect();
    ApplyError::OfContainer { source: Box::new(source), failure: Box::new(failure) }
}

/// Without the module's secrets, and in lines of a length that can be read. What is cut first would keep the beginning of a
/// secret.
pub(crate) fn presentable(failure: ContainerFailure, secrets: &Secrets) -> ContainerFailure {
    let ContainerFailure { exit_code, error, last_lines, health, health_output, oom_killed } = failure;
    // A secret may have several lines.
    let lines = secrets.mask(&last_lines.join("\n"));
    let probes = health_output.iter().map(|output| secrets.mask(output));
    ContainerFailure {
        exit_code,
        error: cut(&secrets.mask(&error)),
        last_lines: lines.lines().map(cut).collect(),
        health,
        health_output: probes.map(|output| cut(&output)).collect(),
        oom_killed,
    }
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(LONGEST_LINE) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}

#[cfg(test)]
mod tests {
    use plumbline::proto::v1::{ContainerSpec, ModuleSpec};

    use super::*;

    #[test]
    fn secrets_are_masked_before_lines_are_cut() {
        let secret = "s3cret".repeat(100);
        let key = "-----BEGIN KEY-----\nMIIabcdef\n-----END KEY-----";
        let environment = [("TOKEN".to_owned(), secret.clone()), ("KEY".to_owned(), key.to_owned())].into();
        let container = ContainerSpec { environment, ..ContainerSpec::default() };
        let containers = [("c".to_owned(), container)].into();
        let secrets = Secrets::of(&ModuleSpec { containers, ..ModuleSpec::default() });
        let failure = ContainerFailure {
            exit_code: Some(3),
            error: format!("exec {secret}"),
            last_lines: vec!["MIIabcdef".to_owned(), format!("token {secret}!"), "ä".repeat(600)],
            health: "none".to_owned(),
            health_output: vec![format!("{} {secret}", "x".repeat(490))],
            oom_killed: true,
        };
        let shown = presentable(failure, &secrets);
        assert_eq!((shown.exit_code, shown.health.as_str(), shown.oom_killed), (Some(3), "none", true));
        assert_eq!(shown.error, "exec (secret)");
        let long = format!("{}…", "ä".repeat(500));
        assert_eq!(shown.last_lines, ["(secret)", "token (secret)!", long.as_str()]);
        assert_eq!(shown.health_output, [format!("{} (secret)", "x".repeat(490))]);
    }
}
