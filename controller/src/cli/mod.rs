//! The operators' command `plumb`: one file a command, one printer for what they return.

mod accept;
mod build;
mod ca;
mod client;
mod error;
mod exit;
mod fields;
mod live;
mod manifests;
mod node;
mod plan;
mod policy;
mod printer;
mod push;
mod remove;
mod status;
mod take;
mod up;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use plumbline_agent::server::{AgentOptions, asked_to_end};

use self::error::CliError;
use self::exit::Exit;
use self::printer::{Output, Printer};
use crate::server::ControllerOptions;

/// Keeps containers on a fleet of Docker hosts true to their declarations.
///
/// Exit codes: 0 done, 1 error, 2 changes pending (only with --exit-code), 3 refused or not confirmed, 4 some hosts only,
/// 64 usage.
#[derive(Debug, Parser)]
#[command(name = "plumb", version, max_term_width = 110)]
struct Options {
    /// How to print what came of it. json is the JSON mapping of the RPC's answer, a line for each message of a stream.
    #[arg(short, long, global = true, value_enum, default_value = "text")]
    output: Output,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Apply modules to this host's engine, without any set-up.
    Up(up::Options),
    /// Register modules; those with the policy `roll_out` are sent to their hosts at once.
    Build(build::Options),
    /// Show what a push would do. Nothing is touched.
    Plan(plan::Options),
    /// Apply a registered module on its hosts.
    Push(push::Options),
    /// Take a module's containers away. Volumes stay, unless they are named.
    Remove(remove::Options),
    /// Adopt a running container, by comparison, without touching it.
    Take(take::Options),
    /// Show modules, where they go, and what came of the last apply.
    Status(status::Options),
    /// Set what a build does to a module, and where the module goes.
    Policy(policy::Options),
    /// Hosts.
    Node(node::Options),
    /// Show the catalogue: every field, and what a change of it takes.
    Fields(fields::Options),
    /// The certificate authority.
    Ca(ca::Options),
    /// Run the controller.
    Controller(ControllerOptions),
    /// Run an agent on this host.
    Agent(AgentOptions),
}

/// Runs the command line, to the exit code.
pub async fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() };
        }
    };
    let serves = matches!(options.command, Command::Controller(_) | Command::Agent(_));
    let default_filter = if serves { "info" } else { "error" };
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| default_filter.into()),
        )
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let printer = Printer::new(options.output);
    match run(options.command, printer).await {
        Ok(exit) => exit.into(),
        Err(error) => {
            printer.error(&error);
            error.exit().into()
        }
    }
}

async fn run(command: Command, printer: Printer) -> Result<Exit, CliError> {
    match command {
        Command::Up(options) => up::run(options, printer).await,
        Command::Build(options) => build::run(options, printer).await,
        Command::Plan(options) => plan::run(options, printer).await,
        Command::Push(options) => push::run(options, printer).await,
        Command::Remove(options) => remove::run(options, printer).await,
        Command::Take(options) => take::run(options, printer).await,
        Command::Status(options) => status::run(options, printer).await,
        Command::Policy(options) => policy::run(options, printer).await,
        Command::Node(options) => node::run(options, printer).await,
        Command::Fields(options) => fields::run(options, printer).await,
        Command::Ca(options) => ca::run(options, printer),
        Command::Controller(options) => {
            crate::server::run(&options, asked_to_end()).await?;
            Ok(Exit::Done)
        }
        Command::Agent(options) => {
            plumbline_agent::server::run(&options, asked_to_end()).await?;
            Ok(Exit::Done)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn no_two_options_of_a_command_share_a_name() {
        super::Options::command().debug_assert();
    }
}
