//! `--accept-data`: what stands behind a mount, and is meant.

use plumbline::guard::verdict_named;
use plumbline::proto::v1::{DataAcceptance, DataGuardVerdict, ModuleSpec};

use super::error::CliError;

/// The option of `plumb plan`, `push` and `up`.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct AcceptOptions {
    /// Put a container on what stands behind this mount, though the data guard refuses it: the container's key (else every
    /// container with that target), the target, and the verdict that a plan shows, as /data=empty. May be given several
    /// times.
    #[arg(long = "accept-data", value_name = "[CONTAINER:]TARGET=VERDICT", value_parser = acceptance)]
    pub(super) accepted: Vec<DataAcceptance>,
}

impl AcceptOptions {
    /// Every container that is named is one of these modules'.
    pub(super) fn check(&self, specs: &[ModuleSpec]) -> Result<(), CliError> {
        let is_known = |one: &&DataAcceptance| {
            one.container.is_empty() || specs.iter().any(|spec| spec.containers.contains_key(&one.container))
        };
        match self.accepted.iter().find(|one| !is_known(one)) {
            None => Ok(()),
            Some(one) => {
                let container = &one.container;
                Err(CliError::Usage(format!(
                    "--accept-data {container}:{}: no container `{container}` is declared",
                    one.target
                )))
            }
        }
    }

    /// What concerns this one of several modules.
    pub(super) fn of(&self, spec: &ModuleSpec) -> Vec<DataAcceptance> {
        let is_its =
            |one: &&DataAcceptance| one.container.is_empty() || spec.containers.contains_key(&one.container);
        self.accepted.iter().filter(is_its).cloned().collect()
    }
}

fn acceptance(text: &str) -> Result<DataAcceptance, String> {
    let (mount, word) = text
        .rsplit_once('=')
        .ok_or("it has no `=`: name the target and the verdict that a plan shows, as /data=empty")?;
    let verdict = verdict_named(word).ok_or_else(|| {
        let all = (1..).map_while(|number| DataGuardVerdict::try_from(number).ok());
        let words: Vec<String> = all.map(plumbline::guard::word).collect();
        format!("`{word}` is no verdict: it is one of {}", words.join(", "))
    })?;
    let (container, target) = match mount.split_once(':') {
        Some((container, target)) if !mount.starts_with('/') => (container, target),
        _ => ("", mount),
    };
    if !target.starts_with('/') {
        return Err(format!("`{target}` is no target: it is the path in the container, as /data=empty"));
    }
    Ok(DataAcceptance {
        container: container.to_owned(),
        target: plumbline::normal::clean_path(target),
        verdict: verdict.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_named_with_or_without_its_container() {
        for (text, container, target, verdict) in [
            ("/data=empty", "", "/data", DataGuardVerdict::Empty),
            ("web:/data/=first_use", "web", "/data", DataGuardVerdict::FirstUse),
            ("/a:b=c=missing", "", "/a:b=c", DataGuardVerdict::Missing),
        ] {
            let (container, target) = (container.to_owned(), target.to_owned());
            let expected = DataAcceptance { container, target, verdict: verdict.into() };
            assert_eq!(acceptance(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_names_no_mount_or_no_verdict_is_an_error_that_says_what_would() {
        for (text, expected) in [
            ("/data", "as /data=empty"),
            ("/data=gone", "same, moved, different, empty, missing, first_use, unknown, removed"),
            ("data=empty", "`data` is no target"),
            ("web:data=empty", "`data` is no target"),
        ] {
            let said = acceptance(text).expect_err("it is none");
            assert!(said.contains(expected), "{text}: {said}");
        }
    }
}
