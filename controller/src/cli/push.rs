//! `plumb push`: apply a registered module on its hosts.

use plumbline::proto::v1::ModuleServicePushRequest;

use super::accept::AcceptOptions;
use super::client::{Client, ClientOptions};
use super::error::CliError;
use super::exit::{Exit, Tally};
use super::plan::recreate_policy;
use super::printer::Printer;

/// Options of `plumb push`.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The registered module.
    module: String,
    /// The revision; else the newest.
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    revision: u64,
    /// To this node, which becomes one of the module's; may be given several times. Else to the module's nodes.
    #[arg(long = "node")]
    nodes: Vec<String>,
    /// Containers may be recreated, and those that left the declaration removed.
    #[arg(long)]
    recreate: bool,
    #[command(flatten)]
    accept: AcceptOptions,
    #[command(flatten)]
    client: ClientOptions,
}

pub(super) async fn run(options: Options, printer: Printer) -> Result<Exit, CliError> {
    let mut client = options.client.connect().await?;
    let request = ModuleServicePushRequest {
        module: options.module,
        revision: options.revision,
        nodes: options.nodes,
        recreate: recreate_policy(options.recreate).into(),
        accepted_data: options.accept.accepted,
        ..ModuleServicePushRequest::default()
    };
    Ok(push(&mut client, request, printer).await?.exit())
}

/// Pushes, and prints what comes.
pub(super) async fn push(
    client: &mut Client,
    request: ModuleServicePushRequest,
    printer: Printer,
) -> Result<Tally, CliError> {
    let mut events = client.modules.push(request).await?.into_inner();
    let mut tally = Tally::default();
    while let Some(message) = events.message().await? {
        printer.json(&message);
        if let Some(event) = &message.node_event {
            printer.node_event(event);
            tally.event(event);
        }
    }
    Ok(tally)
}
