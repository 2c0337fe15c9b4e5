//! `plumb-agent`: the agent as a program of its own, for hosts that need nothing else.

use clap::Parser;
use plumbline_agent::server::{AgentOptions, asked_to_end, run};

/// Keeps one Docker engine's containers true to their declarations.
#[derive(Debug, Parser)]
#[command(name = "plumb-agent", version)]
struct Options {
    #[command(flatten)]
    agent: AgentOptions,
}

#[tokio::main]
async fn main() -> std::process::ExitCode {
    let options = Options::parse();
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into()),
        )
        .with_writer(std::io::stderr)
        .init();
    match run(&options.agent, asked_to_end()).await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("plumb-agent: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
