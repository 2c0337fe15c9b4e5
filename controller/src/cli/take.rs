//! `plumb take`: adopt a running container by comparison, without touching it.

use std::io::Write as _;
use std::path::PathBuf;

use plumbline::manifest::write;
use plumbline::proto::v1::module_service_take_response::Answer;
use plumbline::proto::v1::{AdoptResponse, ModuleServiceTakeRequest, ModuleServiceTakeResponse, ModuleSpec};

use super::build::build;
use super::client::{Client, ClientOptions};
use super::error::CliError;
use super::exit::Exit;
use super::manifests::read_file;
use super::printer::{Printer, Tense};

/// Options of `plumb take`.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The node it runs on.
    node: String,
    /// Its name or id at the engine.
    container: String,
    /// The module, and the container's key in it if that has several containers; else named after the container.
    #[arg(long = "as", value_name = "MODULE[/KEY]")]
    target: Option<String>,
    /// With no such module registered yet: where to write its manifest; else MODULE.yaml in the current directory.
    #[arg(long, value_name = "FILE")]
    write_to: Option<PathBuf>,
    /// Take a container that another installation of Plumbline made. Only if that one is gone: two would fight over it.
    #[arg(long)]
    from_other_installation: bool,
    #[command(flatten)]
    client: ClientOptions,
}

pub(super) async fn run(options: Options, printer: Printer) -> Result<Exit, CliError> {
    let mut client = options.client.connect().await?;
    let target = options.target.as_deref().unwrap_or_default();
    let (module, key) = target.split_once('/').unwrap_or((target, ""));
    let request = ModuleServiceTakeRequest {
        node: options.node.clone(),
        container: options.container.clone(),
        module: module.to_owned(),
        key: key.to_owned(),
        from_other_installation: options.from_other_installation,
    };
    let answer = take(&mut client, request.clone(), printer).await?;
    let declaration = match answer.answer {
        Some(Answer::Adopted(adopted)) => return Ok(show(&options, &adopted, printer)),
        Some(Answer::Declaration(declaration)) => declaration,
        None => return Ok(Exit::Error),
    };
    // What is registered is what stands in the file, so that the file is what compares equal.
    let path =
        options.write_to.clone().unwrap_or_else(|| PathBuf::from(format!("{}.yaml", declaration.name())));
    write_new(&path, &declaration)?;
    printer.text(&format!("wrote {}: the manifest that equals {}", path.display(), options.container));
    let specs = read_file(&path)?;
    let module = declaration.name().to_owned();
    build(&mut client, specs, true, false, printer).await?;
    match take(&mut client, ModuleServiceTakeRequest { module, ..request }, printer).await?.answer {
        Some(Answer::Adopted(adopted)) => Ok(show(&options, &adopted, printer)),
        Some(Answer::Declaration(_)) | None => Ok(Exit::Error),
    }
}

async fn take(
    client: &mut Client,
    request: ModuleServiceTakeRequest,
    printer: Printer,
) -> Result<ModuleServiceTakeResponse, CliError> {
    let answer = client.modules.take(request).await?.into_inner();
    printer.json(&answer);
    Ok(answer)
}

fn show(options: &Options, adopted: &AdoptResponse, printer: Printer) -> Exit {
    let result = adopted.result.clone().unwrap_or_default();
    if adopted.adopted {
        printer.text(&format!(
            "{} on {} equals its declaration: adopted, not touched",
            options.container, options.node
        ));
        return Exit::Done;
    }
    printer.text(&format!(
        "{} on {} differs from its declaration: NOT adopted, not touched",
        options.container, options.node
    ));
    printer.object(&result, Tense::Past);
    Exit::Refused
}

/// Writes a manifest, and never over another file.
fn write_new(path: &PathBuf, spec: &ModuleSpec) -> Result<(), CliError> {
    use std::os::unix::fs::OpenOptionsExt as _;

    let text = write(spec)?;
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        // The environment of a container may hold secrets.
        .mode(0o600)
        .open(path)
        .map_err(|source| match source.kind() {
            std::io::ErrorKind::AlreadyExists => CliError::Exists(path.clone()),
            _ => CliError::File { action: "written", path: path.clone(), source },
        })?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(|source| CliError::File {
        action: "written",
        path: path.clone(),
        source,
    })
}
