//! `plumb build`: register modules, and say first what that will do.

use plumbline::proto::v1::module_service_build_response::Event;
use plumbline::proto::v1::{ModuleServiceBuildRequest, ModuleSpec};

use super::client::{Client, ClientOptions};
use super::error::CliError;
use super::exit::{Exit, Tally};
use super::manifests::Manifests;
use super::plan::recreate_policy;
use super::printer::Printer;

/// Options of `plumb build`.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    manifests: Manifests,
    /// Only register, whatever the policies say. Nothing is sent to any host.
    #[arg(long)]
    register_only: bool,
    /// For modules that are rolled out: containers may be recreated.
    #[arg(long)]
    recreate: bool,
    #[command(flatten)]
    client: ClientOptions,
}

pub(super) async fn run(options: Options, printer: Printer) -> Result<Exit, CliError> {
    let specs = options.manifests.read()?;
    let mut client = options.client.connect().await?;
    build(&mut client, specs, options.register_only, options.recreate, printer).await
}

/// Registers, and prints what comes.
pub(super) async fn build(
    client: &mut Client,
    specs: Vec<ModuleSpec>,
    register_only: bool,
    recreate: bool,
    printer: Printer,
) -> Result<Exit, CliError> {
    let request =
        ModuleServiceBuildRequest { specs, register_only, recreate: recreate_policy(recreate).into() };
    let mut events = client.modules.build(request).await?.into_inner();
    let mut tally = Tally::default();
    while let Some(message) = events.message().await? {
        printer.json(&message);
        match &message.event {
            Some(Event::Announcement(announcement)) => printer.announcement(announcement),
            Some(Event::Registered(registered)) => printer.registered(registered),
            Some(Event::NodeEvent(event)) => {
                printer.node_event(event);
                tally.event(event);
            }
            None => {}
        }
    }
    Ok(tally.exit())
}
