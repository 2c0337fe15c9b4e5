//! `plumb plan`: what a push would do.

use std::path::PathBuf;

use plumbline::proto::v1::node_plan::Answer;
use plumbline::proto::v1::{Action, ModuleServicePlanRequest, RecreatePolicy};

use super::client::ClientOptions;
use super::error::CliError;
use super::exit::{Exit, Tally};
use super::manifests::read_file;
use super::printer::{Printer, Tense};

/// Options of `plumb plan`.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The registered module.
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    module: Option<String>,
    /// Plan the modules of this manifest instead, without registering them.
    #[arg(short = 'f', long)]
    file: Option<PathBuf>,
    /// The revision; else the newest.
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    revision: u64,
    /// Only on this node; may be given several times. Else on the module's nodes.
    #[arg(long = "node")]
    nodes: Vec<String>,
    /// Plan as if containers may be recreated.
    #[arg(long)]
    recreate: bool,
    /// End with 2 if there is something to change.
    #[arg(long)]
    exit_code: bool,
    #[command(flatten)]
    client: ClientOptions,
}

pub(super) fn recreate_policy(recreate: bool) -> RecreatePolicy {
    if recreate { RecreatePolicy::Allow } else { RecreatePolicy::Refuse }
}

pub(super) async fn run(options: Options, printer: Printer) -> Result<Exit, CliError> {
    let specs = match &options.file {
        Some(path) => read_file(path)?.into_iter().map(Some).collect(),
        None => vec![None],
    };
    let mut client = options.client.connect().await?;
    let mut tally = Tally::default();
    let mut pending = false;
    for spec in specs {
        let module =
            spec.as_ref().map(|spec| spec.name().to_owned()).or(options.module.clone()).unwrap_or_default();
        let request = ModuleServicePlanRequest {
            module: module.clone(),
            revision: options.revision,
            nodes: options.nodes.clone(),
            recreate: recreate_policy(options.recreate).into(),
            spec,
        };
        let plan = client.modules.plan(request).await?.into_inner();
        printer.json(&plan);
        for node in &plan.nodes {
            let at = format!("{module} on {}", node.node);
            match &node.answer {
                Some(Answer::Plan(plan)) => {
                    let result = plan.result.clone().unwrap_or_default();
                    printer.module_result(&at, &result, Tense::Conditional);
                    pending |= result.action() != Action::Unchanged;
                    // A plan that says "would be refused" is an answer, not a refusal.
                    tally.outcome(plumbline::proto::v1::Outcome::Applied);
                }
                Some(Answer::Failure(failure)) => {
                    printer.failure(&at, failure);
                    tally.failure();
                }
                None => {}
            }
        }
    }
    Ok(match tally.exit() {
        Exit::Done if pending && options.exit_code => Exit::Pending,
        exit => exit,
    })
}
