//! `plumb policy`: what a build does to a module, and where the module goes.

use plumbline::proto::v1::{ModuleServiceSetPolicyRequest, UpgradePolicy};

use super::client::ClientOptions;
use super::error::CliError;
use super::exit::Exit;
use super::printer::{Printer, policy_word};

/// What a build does.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Policy {
    /// Registers only.
    Record,
    /// Is sent to the module's nodes at once.
    #[value(name = "roll_out", alias = "roll-out")]
    RollOut,
}

/// Options of `plumb policy`.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The module; it need not have been built yet.
    module: String,
    /// What a build does to it; else as it was.
    policy: Option<Policy>,
    /// Where it goes, in place of where it went; may be given several times.
    #[arg(long = "node")]
    nodes: Vec<String>,
    #[command(flatten)]
    client: ClientOptions,
}

pub(super) async fn run(options: Options, printer: Printer) -> Result<Exit, CliError> {
    let upgrade_policy = match options.policy {
        Some(Policy::Record) => UpgradePolicy::Record,
        Some(Policy::RollOut) => UpgradePolicy::RollOut,
        None if options.nodes.is_empty() => {
            return Err(CliError::Usage("say what to set: record, roll_out, or --node NODE".to_owned()));
        }
        None => UpgradePolicy::Unspecified,
    };
    let mut client = options.client.connect().await?;
    let request = ModuleServiceSetPolicyRequest {
        module: options.module,
        upgrade_policy: upgrade_policy.into(),
        replace_nodes: !options.nodes.is_empty(),
        nodes: options.nodes,
    };
    let answer = client.modules.set_policy(request).await?.into_inner();
    printer.json(&answer);
    let module = answer.module.unwrap_or_default();
    let nodes = if module.nodes.is_empty() { "no node yet".to_owned() } else { module.nodes.join(", ") };
    printer.text(&format!(
        "{}: policy {}, goes to {nodes}",
        module.name,
        policy_word(module.upgrade_policy())
    ));
    Ok(Exit::Done)
}
