//! `plumb remove`: take a module's containers away. Volumes stay, unless they are named.

use std::collections::BTreeMap;
use std::io::{BufRead as _, IsTerminal as _, Write as _};

use plumbline::proto::v1::node_removal::Answer;
use plumbline::proto::v1::{Action, ModuleServiceRemoveRequest, ModuleServiceRemoveResponse};

use super::client::{Client, ClientOptions};
use super::error::CliError;
use super::exit::{Exit, Tally};
use super::printer::{Printer, Tense};

/// Options of `plumb remove`.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The module.
    module: String,
    /// Only from this node; may be given several times. Else from every node that the module goes to or went to.
    #[arg(long = "node")]
    nodes: Vec<String>,
    #[command(flatten)]
    removal: RemovalOptions,
    /// Forget the module with its revisions, too, once it is on no node any more.
    #[arg(long)]
    forget: bool,
    /// Do not ask and do nothing: end with 2 if there is something to remove.
    #[arg(long, conflicts_with = "yes")]
    exit_code: bool,
    #[command(flatten)]
    client: ClientOptions,
}

/// What may be removed.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct RemovalOptions {
    /// A volume that goes, too, by its name at the engine; may be given several times. All others stay.
    #[arg(long = "volume", value_name = "NAME")]
    volumes: Vec<String>,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

impl RemovalOptions {
    /// The command line has one of them.
    pub(super) fn is_given(&self) -> bool {
        self.yes || !self.volumes.is_empty()
    }
}

pub(super) async fn run(options: Options, printer: Printer) -> Result<Exit, CliError> {
    let mut client = options.client.connect().await?;
    let request = ModuleServiceRemoveRequest {
        module: options.module,
        nodes: options.nodes,
        forget: options.forget,
        ..ModuleServiceRemoveRequest::default()
    };
    remove(&mut client, request, &options.removal, options.exit_code, printer).await
}

/// Shows what would go, asks, and removes what was shown.
pub(super) async fn remove(
    client: &mut Client,
    mut request: ModuleServiceRemoveRequest,
    options: &RemovalOptions,
    only_plan: bool,
    printer: Printer,
) -> Result<Exit, CliError> {
    request.volumes.clone_from(&options.volumes);
    if !options.yes || !options.volumes.is_empty() {
        let plan = ModuleServiceRemoveRequest { plan_only: true, ..request.clone() };
        let plan = client.modules.remove(plan).await?.into_inner();
        let shown = show(&request.module, &plan, Tense::Conditional, printer);
        if only_plan {
            let pending = shown.goes || matches!(shown.tally.exit(), Exit::Refused | Exit::Partial);
            return Ok(if pending { Exit::Pending } else { shown.tally.exit() });
        }
        let forgets = request.forget && shown.tally.exit() == Exit::Done;
        if !shown.goes && !forgets {
            return Ok(shown.tally.exit());
        }
        if !options.yes && !ask(&request.module).await? {
            printer.progress("nothing was removed");
            return Ok(Exit::Refused);
        }
        request.plan_tokens = shown.tokens;
    }
    let removed = client.modules.remove(request.clone()).await?.into_inner();
    let shown = show(&request.module, &removed, Tense::Past, printer);
    if removed.forgotten {
        printer.text(&format!("{}: forgotten, with all its revisions", request.module));
    } else if request.forget {
        printer.text(&format!(
            "{}: NOT forgotten: it is still on a node (see `plumb status {}`)",
            request.module, request.module
        ));
        return Ok(if shown.tally.exit() == Exit::Done { Exit::Partial } else { shown.tally.exit() });
    }
    Ok(shown.tally.exit())
}

struct Shown {
    tally: Tally,
    /// Something goes somewhere.
    goes: bool,
    /// What binds the plans, by node.
    tokens: BTreeMap<String, String>,
}

fn show(module: &str, answer: &ModuleServiceRemoveResponse, tense: Tense, printer: Printer) -> Shown {
    printer.json(answer);
    let mut shown = Shown { tally: Tally::default(), goes: false, tokens: BTreeMap::new() };
    if answer.nodes.is_empty() {
        printer.text(&format!("{module}: on no node: there is nothing to remove"));
    }
    for node in &answer.nodes {
        let at = format!("{module} on {}", node.node);
        match &node.answer {
            Some(Answer::Removed(removed)) => {
                printer.removal(&at, removed, tense);
                let result = removed.result.clone().unwrap_or_default();
                shown.goes |= result.action() == Action::Removed;
                shown.tokens.insert(node.node.clone(), removed.plan_token.clone());
                match removed.failure {
                    Some(_) => shown.tally.failure(),
                    None => shown.tally.outcome(result.outcome()),
                }
            }
            Some(Answer::Failure(failure)) => {
                printer.failure(&at, failure);
                shown.tally.failure();
            }
            None => {}
        }
    }
    shown
}

/// Asks on the terminal.
async fn ask(module: &str) -> Result<bool, CliError> {
    if !std::io::stdin().is_terminal() {
        return Err(CliError::NotConfirmed(module.to_owned()));
    }
    let _ = write!(std::io::stderr().lock(), "Remove {module}? [y/N] ");
    // A thread of its own, which no end of the program waits for.
    let (said, heard) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = std::io::stdin().lock().read_line(&mut line);
        said.send(line)
    });
    // One that cannot be read is no consent.
    let line = heard.await.unwrap_or_default();
    Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
