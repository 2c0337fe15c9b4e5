//! `plumb plan --live`: a module compared with what `docker inspect` printed, without a controller, agent or engine.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use plumbline::catalogue::ApiVersion;
use plumbline::proto::v1::node_plan::Answer;
use plumbline::proto::v1::{ModuleServicePlanResponse, ModuleSpec, NodePlan};
use plumbline_agent::pasted::{Pasted, PastedError, Question, plan};

use super::error::CliError;

/// Some ten thousand containers. What is larger is another file than was meant.
const LARGEST: u64 = 64 * 1024 * 1024;

/// Options of `plumb plan` that compare with pasted text.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Without a controller")]
pub(super) struct LiveOptions {
    /// Compare the manifest (-f) with what `docker inspect` printed into this file (- is standard input), asking nobody. May
    /// hold several containers, and their images, networks and volumes. May be given several times.
    #[arg(long = "live", value_name = "FILE", requires = "file", conflicts_with_all = ["module", "nodes", "revision", "accepted"])]
    files: Vec<PathBuf>,
    /// Which declared container (KEY or MODULE/KEY) the one in the file stands for, where neither its labels nor its name say
    /// so.
    #[arg(long, value_name = "KEY", requires = "files")]
    container: Option<String>,
    /// The API version of the engine that the file is from, as 1.41; else the newest that fits the file.
    #[arg(long, value_name = "VERSION", requires = "files", value_parser = api_version)]
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

    /// Standard input can be read once.
    pub(super) fn check(&self, manifest: Option<&Path>) -> Result<(), CliError> {
        let all = self.files.iter().map(PathBuf::as_path).chain(manifest);
        if all.filter(|path| *path == Path::new("-")).count() > 1 {
            let what =
                "standard input (-) can be named only once, by --live or by -f: name a file for the other";
            return Err(CliError::Usage(what.to_owned()));
        }
        Ok(())
    }

    /// The plan of every module, with its name.
    pub(super) async fn plan(
        &self,
        specs: &[ModuleSpec],
        recreate: bool,
    ) -> Result<Vec<(String, ModuleServicePlanResponse)>, CliError> {
        let texts: Vec<(String, Vec<u8>)> =
            self.files.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
        let pasted = Pasted::read(&texts)?;
        let question =
            Question { specs, container: self.container.as_deref(), api: self.engine_api, recreate };
        let plans = plan(&pasted, question).await?;
        let answer = |plan| NodePlan { node: pasted.files().to_owned(), answer: Some(Answer::Plan(plan)) };
        let answers = plans.into_iter().map(|plan| ModuleServicePlanResponse { nodes: vec![answer(plan)] });
        Ok(specs.iter().map(|spec| spec.name().to_owned()).zip(answers).collect())
    }
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
