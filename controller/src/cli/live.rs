//! `plumb plan --live`: a module compared with what `docker inspect` printed, without a controller, agent or engine.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use plumbline::catalogue::ApiVersion;
use plumbline::proto::v1::node_plan::Answer;
use plumbline::proto::v1::{ModuleServicePlanResponse, ModuleSpec, NodePlan};
use plumbline_agent::pasted::{Pasted, PastedError, Planned, Question, plan};

use super::error::CliError;

/// Some ten thousand containers. What is larger is another file than was meant.
const LARGEST: u64 = 64 * 1024 * 1024;

/// Given to each option: a heading of the whole struct would go on over the options after it.
const HEADING: &str = "Without a controller";

/// Options of `plumb plan` that compare with pasted text.
#[derive(Debug, clap::Args)]
pub(super) struct LiveOptions {
    /// Compare the manifest (-f) with what `docker inspect` printed into these files (- is standard input), asking nobody.
    /// They may hold several containers, and their images, networks and volumes.
    #[arg(
        long = "live", value_name = "FILE", num_args = 1.., help_heading = HEADING,
        conflicts_with_all = ["module", "nodes", "revision", "accepted"]
    )]
    files: Vec<PathBuf>,
    /// Which declared container (KEY or MODULE/KEY) a pasted one (its name or id) stands for, where neither labels nor names say
    /// so. Without =NAME: the one that is otherwise unknown. May be given several times.
    #[arg(long = "container", value_name = "KEY[=NAME]", requires = "files", help_heading = HEADING)]
    containers: Vec<String>,
    /// The API version of the engine that the files are from, as 1.41; else the newest that fits them.
    #[arg(long, value_name = "VERSION", requires = "files", value_parser = api_version, help_heading = HEADING)]
    engine_api: Option<ApiVersion>,
}

fn api_version(text: &str) -> Result<ApiVersion, String> {
    let version: ApiVersion = text.parse()?;
    if (ApiVersion::OLDEST..=ApiVersion::NEWEST).contains(&version) {
        Ok(version)
    } else {
        Err(format!(
            "this build knows the API versions {} to {}; for a newer engine say {}",
            ApiVersion::OLDEST,
            ApiVersion::NEWEST,
            ApiVersion::NEWEST
        ))
    }
}

impl LiveOptions {
    pub(super) fn is_asked_for(&self) -> bool {
        !self.files.is_empty()
    }

    /// It needs a manifest, and standard input can be read once.
    pub(super) fn check(&self, manifest: Option<&Path>) -> Result<(), CliError> {
        if self.is_asked_for() && manifest.is_none() {
            let what = "--live compares with a manifest: name it with -f MANIFEST";
            return Err(CliError::Usage(what.to_owned()));
        }
        let all = self.files.iter().map(PathBuf::as_path).chain(manifest);
        if all.filter(|path| *path == Path::new("-")).count() > 1 {
            let what =
                "standard input (-) can be named only once, by --live or by -f: name a file for the other";
            return Err(CliError::Usage(what.to_owned()));
        }
        Ok(())
    }

    /// The plan of every module, each with what to print it under.
    pub(super) async fn plan(
        &self,
        specs: &[ModuleSpec],
        recreate: bool,
    ) -> Result<Vec<(String, ModuleServicePlanResponse)>, CliError> {
        let texts: Vec<(String, Vec<u8>)> =
            self.files.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
        let pasted = Pasted::read(&texts)?;
        let question = Question { specs, containers: &self.containers, api: self.engine_api, recreate };
        let plans = plan(&pasted, question).await?;
        let answer = |plan: Planned| {
            let answer = Some(Answer::Plan(plan.response));
            let nodes = vec![NodePlan { node: pasted.files().to_owned(), answer }];
            ModuleServicePlanResponse { nodes }
        };
        let titled = |(spec, plan): (&ModuleSpec, Planned)| {
            let title = format!("{} against {}{}", spec.name(), pasted.files(), conditions(&plan));
            (title, answer(plan))
        };
        Ok(specs.iter().zip(plans).map(titled).collect())
    }
}

/// Under which the headline holds.
fn conditions(plan: &Planned) -> String {
    let adopted = if plan.once_adopted { ", once adopted" } else { "" };
    let but_for = match plan.not_judged.as_slice() {
        [] => String::new(),
        keys => format!(", but for {}", keys.join(", ")),
    };
    format!("{adopted}{but_for}")
}

/// A file, with its name for people.
fn read(path: &Path) -> Result<(String, Vec<u8>), CliError> {
    let failed = |source| CliError::File { action: "read", path: path.to_owned(), source };
    let mut text = Vec::new();
    let name = if path == Path::new("-") {
        std::io::stdin().lock().take(LARGEST + 1).read_to_end(&mut text).map_err(failed)?;
        "standard input".to_owned()
    } else {
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(LARGEST + 1).read_to_end(&mut text).map_err(failed)?;
        path.display().to_string()
    };
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > LARGEST {
        return Err(PastedError::TooLarge { file: name, limit: LARGEST }.into());
    }
    Ok((name, text))
}
