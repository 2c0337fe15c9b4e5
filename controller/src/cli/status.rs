//! `plumb status`: modules, where they go, and what came of the last apply.

use comfy_table::Table;
use plumbline::proto::v1::{
    Module, ModuleApply, ModuleServiceGetRequest, ModuleServiceListRequest, ModuleServiceListResponse,
    Outcome,
};

use super::client::ClientOptions;
use super::error::CliError;
use super::exit::Exit;
use super::printer::{Printer, policy_word};

/// Options of `plumb status`.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Only this module.
    module: Option<String>,
    #[command(flatten)]
    client: ClientOptions,
}

pub(super) async fn run(options: Options, printer: Printer) -> Result<Exit, CliError> {
    let mut client = options.client.connect().await?;
    let modules = match options.module {
        Some(module) => {
            let request = ModuleServiceGetRequest { module, revision: 0 };
            let answer = client.modules.get(request).await?.into_inner();
            printer.json(&answer);
            answer.module.into_iter().collect()
        }
        None => {
            let answer: ModuleServiceListResponse =
                client.modules.list(ModuleServiceListRequest {}).await?.into_inner();
            printer.json(&answer);
            answer.modules
        }
    };
    printer.text(&table(&modules));
    Ok(Exit::Done)
}

fn table(modules: &[Module]) -> String {
    if modules.is_empty() {
        return "no modules: register one with `plumb build -f FILE`".to_owned();
    }
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(["MODULE", "POLICY", "NEWEST", "NODE", "LAST TRIED", "OUTCOME", "WHEN"]);
    for module in modules {
        let first = [
            module.name.clone(),
            policy_word(module.upgrade_policy()).to_owned(),
            module.latest_revision.to_string(),
        ];
        let left = module.applies.iter().map(|apply| &apply.node).filter(|node| !module.nodes.contains(node));
        let nodes: Vec<&String> = module.nodes.iter().chain(left).collect();
        if nodes.is_empty() {
            table.add_row(first.iter().map(String::as_str).chain(["-", "-", "-", "-"]));
        }
        for node in nodes {
            let apply = module.applies.iter().find(|apply| apply.node == *node);
            let [revision, outcome, when] = last(apply);
            let row = first.iter().cloned().chain([node.clone(), revision, outcome, when]);
            table.add_row(row);
        }
    }
    table.trim_fmt()
}

fn last(apply: Option<&ModuleApply>) -> [String; 3] {
    let Some(apply) = apply else { return ["-".to_owned(), "not sent yet".to_owned(), "-".to_owned()] };
    let outcome = match apply.outcome() {
        _ if apply.removed => "removed",
        Outcome::Applied => "applied",
        Outcome::Recreated => "recreated",
        Outcome::RefusedNeedsRecreation => "refused",
        Outcome::Unspecified => "failed",
    };
    let when = apply.finished_at.as_ref().and_then(|time| jiff::Timestamp::from_second(time.seconds).ok());
    [apply.revision.to_string(), outcome.to_owned(), when.map(|when| when.to_string()).unwrap_or_default()]
}
