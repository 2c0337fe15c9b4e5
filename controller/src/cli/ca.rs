//! `plumb ca`: the certificate authority, and the certificates it issues.

use std::path::PathBuf;
use std::time::Duration;

use plumbline::tls::{Authority, Role};

use super::error::CliError;
use super::exit::Exit;
use super::printer::Printer;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Options of `plumb ca`.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Make a certificate authority. One stands for one installation: keep its key offline.
    Init {
        /// Where its files go.
        #[arg(long, default_value = "plumbline-ca")]
        dir: PathBuf,
        /// Its name, as certificates show it.
        #[arg(long, default_value = "plumbline")]
        name: String,
    },
    /// Issue a certificate, and write it with its key and the authority's certificate.
    Issue {
        /// agent, controller or operator.
        role: Role,
        /// Whose it is: the node's name for an agent, the person's for an operator.
        name: String,
        /// Where the authority's files are.
        #[arg(long, default_value = "plumbline-ca")]
        dir: PathBuf,
        /// Where the new files go.
        #[arg(long, default_value = ".")]
        write_to: PathBuf,
        /// A further DNS name or address that a server's certificate is good for; may be given several times.
        #[arg(long = "san")]
        names: Vec<String>,
        /// How many days it is good for.
        #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
        days: u32,
        /// Replace files that are there already.
        #[arg(long)]
        overwrite: bool,
    },
}

pub(super) fn run(options: Options, printer: Printer) -> Result<Exit, CliError> {
    match options.command {
        Command::Init { dir, name } => {
            let authority = Authority::init(&dir, &name)?;
            printer.progress(&format!(
                "made the certificate authority of installation {} in {}; whoever has {} can issue certificates",
                authority.installation(),
                dir.display(),
                dir.join("ca.key").display()
            ));
            let answer = serde_json::json!({ "installation": authority.installation(), "dir": dir });
            printer.value(&answer);
        }
        Command::Issue { role, name, dir, write_to, names, days, overwrite } => {
            let issued = Authority::open(&dir)?.issue(role, &name, &names, DAY * days)?;
            let paths = issued.write(&write_to, overwrite)?;
            printer.text(&format!(
                "issued a certificate for {} until {}",
                issued.identity,
                issued.not_after.date()
            ));
            printer.text(&format!("  --ca   {}", paths.ca.display()));
            printer.text(&format!("  --cert {}", paths.certificate.display()));
            printer.text(&format!("  --key  {}", paths.key.display()));
            printer
                .value(&serde_json::json!({ "ca": paths.ca, "cert": paths.certificate, "key": paths.key }));
        }
    }
    Ok(Exit::Done)
}
