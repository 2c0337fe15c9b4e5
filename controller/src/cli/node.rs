//! `plumb node`: hosts.

use comfy_table::Table;
use plumbline::proto::v1::{Node, NodeServiceEnrolRequest, NodeServiceListRequest, Reachability};

use super::client::ClientOptions;
use super::error::CliError;
use super::exit::Exit;
use super::printer::Printer;

/// Options of `plumb node`.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Make a host known to the controller, or change its address.
    Add {
        /// Its name, as in its agent's certificate.
        name: String,
        /// Where its agent listens, host:port.
        address: String,
        #[command(flatten)]
        client: ClientOptions,
    },
    /// Show all hosts, and whether they answer.
    List {
        #[command(flatten)]
        client: ClientOptions,
    },
}

pub(super) async fn run(options: Options, printer: Printer) -> Result<Exit, CliError> {
    match options.command {
        Command::Add { name, address, client } => {
            let mut client = client.connect().await?;
            let answer = client.nodes.enrol(NodeServiceEnrolRequest { name, address }).await?.into_inner();
            printer.json(&answer);
            let node = answer.node.unwrap_or_default();
            printer.text(&format!("{} at {}: known, {}", node.name, node.address, state(&node)));
        }
        Command::List { client } => {
            let mut client = client.connect().await?;
            let answer = client.nodes.list(NodeServiceListRequest {}).await?.into_inner();
            printer.json(&answer);
            printer.text(&table(&answer.nodes));
        }
    }
    Ok(Exit::Done)
}

/// Whether a node answers, in words.
pub(super) fn state(node: &Node) -> String {
    match node.reachability() {
        Reachability::Ready => format!(
            "ready (engine {}, API {}, agent {})",
            node.engine_version, node.engine_api_version, node.agent_version
        ),
        Reachability::EngineDown => format!("engine down: {}", node.detail),
        Reachability::AgentUnreachable => format!("agent unreachable: {}", node.detail),
        Reachability::Unspecified => "not asked".to_owned(),
    }
}

/// Nodes as a table.
pub(super) fn table(nodes: &[Node]) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(["NODE", "ADDRESS", "STATE"]);
    for node in nodes {
        table.add_row([node.name.clone(), node.address.clone(), state(node)]);
    }
    table.trim_fmt()
}
