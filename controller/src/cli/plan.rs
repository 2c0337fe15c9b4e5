//! `plumb plan`: what a push would do.
//!
//! Asked of a controller, which asks agents; or, with `--live`, of what `docker inspect` printed.

use std::path::PathBuf;

use plumbline::proto::v1::node_plan::Answer;
use plumbline::proto::v1::{
    Action, ModuleServicePlanRequest, ModuleServicePlanResponse, ModuleSpec, RecreatePolicy,
};

use super::accept::AcceptOptions;
use super::client::{Client, ClientOptions};
use super::error::CliError;
use super::exit::{Exit, Tally};
use super::live::LiveOptions;
use super::manifests::read_file;
use super::printer::{Printer, Tense};

/// Options of `plumb plan`.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The registered module.
    #[arg(conflicts_with = "file")]
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
    #[command(flatten)]
    accept: AcceptOptions,
    /// End with 2 if there is something to change.
    #[arg(long)]
    exit_code: bool,
    #[command(flatten)]
    live: LiveOptions,
    #[command(flatten)]
    client: ClientOptions,
}

pub(super) fn recreate_policy(recreate: bool) -> RecreatePolicy {
    if recreate { RecreatePolicy::Allow } else { RecreatePolicy::Refuse }
}

pub(super) async fn run(options: Options, printer: Printer) -> Result<Exit, CliError> {
    options.live.check(options.file.as_deref())?;
    let specs = match (&options.file, &options.module) {
        (Some(path), _) => {
            let specs = read_file(path)?;
            options.accept.check(&specs)?;
            specs.into_iter().map(Some).collect()
        }
        (None, Some(_)) => vec![None],
        (None, None) => {
            let what = "name a registered module, or a manifest with -f MANIFEST";
            return Err(CliError::Usage(what.to_owned()));
        }
    };
    if options.live.is_asked_for() {
        let specs: Vec<ModuleSpec> = specs.into_iter().flatten().collect();
        let answers = options.live.plan(&specs, options.recreate).await?;
        let pending = answers.iter().map(|(title, answer)| show(|_| title.clone(), answer, printer).0);
        let pending = pending.fold(false, |any, one| any | one);
        return Ok(if pending && options.exit_code { Exit::Pending } else { Exit::Done });
    }
    let mut client = options.client.connect().await?;
    let mut tally = Tally::default();
    let mut pending = false;
    for spec in specs {
        let module =
            spec.as_ref().map(|spec| spec.name().to_owned()).or(options.module.clone()).unwrap_or_default();
        let accepted_data = match &spec {
            Some(spec) => options.accept.of(spec),
            None => options.accept.accepted.clone(),
        };
        let request = ModuleServicePlanRequest {
            module,
            revision: options.revision,
            nodes: options.nodes.clone(),
            recreate: recreate_policy(options.recreate).into(),
            spec,
            accepted_data,
        };
        let (is_pending, of_nodes) = plan(&mut client, request, printer).await?;
        pending |= is_pending;
        tally.add(of_nodes);
    }
    Ok(match tally.exit() {
        Exit::Done if pending && options.exit_code => Exit::Pending,
        exit => exit,
    })
}

/// Asks what would be done with one module, and prints it. True: there is something to do.
pub(super) async fn plan(
    client: &mut Client,
    request: ModuleServicePlanRequest,
    printer: Printer,
) -> Result<(bool, Tally), CliError> {
    let module = request.module.clone();
    let plan = client.modules.plan(request).await?.into_inner();
    Ok(show(|node| format!("{module} on {node}"), &plan, printer))
}

/// Prints what would be done on each node, under a title. True: there is something to do.
fn show(title: impl Fn(&str) -> String, plan: &ModuleServicePlanResponse, printer: Printer) -> (bool, Tally) {
    printer.json(plan);
    let (mut pending, mut tally) = (false, Tally::default());
    for node in &plan.nodes {
        let at = title(&node.node);
        match &node.answer {
            Some(Answer::Plan(plan)) => {
                for note in &plan.notes {
                    printer.progress(&format!("note: {note}"));
                }
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
    (pending, tally)
}
