//! `plumb fields`: the catalogue, for this build or for what a node's engine can hold.

use comfy_table::Table;
use plumbline::catalogue::leaves;
use plumbline::proto::v1::{
    Consequence, Default as DefaultKind, FieldSupport, GetNodeResponse, NodeServiceGetRequest,
};

use super::client::ClientOptions;
use super::error::CliError;
use super::exit::Exit;
use super::printer::Printer;

/// Options of `plumb fields`.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// What this node's engine can hold; else what this version knows.
    #[arg(long)]
    node: Option<String>,
    #[command(flatten)]
    client: ClientOptions,
}

pub(super) async fn run(options: Options, printer: Printer) -> Result<Exit, CliError> {
    let answer = match options.node {
        None => GetNodeResponse {
            fields: leaves().iter().map(|leaf| leaf.to_wire(None)).collect(),
            ..GetNodeResponse::default()
        },
        Some(name) => {
            let mut client = options.client.connect().await?;
            let answer = client.nodes.get(NodeServiceGetRequest { name }).await?.into_inner();
            match answer.agent {
                Some(agent) => agent,
                None => {
                    let detail = answer.node.unwrap_or_default().detail;
                    return Err(CliError::Status(tonic::Status::unavailable(detail)));
                }
            }
        }
    };
    printer.json(&answer);
    if !printer.is_json() {
        printer.text(&table(&answer.fields));
    }
    Ok(Exit::Done)
}

fn table(fields: &[FieldSupport]) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(["FIELD", "A CHANGE", "SINCE API", "DEFAULT", "ENGINE PATH"]);
    for field in fields {
        let rule = field.rule.clone().unwrap_or_default();
        let change = match field.consequence() {
            Consequence::Unsupported => "not on this engine",
            Consequence::InPlace => "in place",
            Consequence::Recreate => "needs recreation",
            Consequence::Unspecified => "is not compared",
        };
        let default = match rule.default() {
            DefaultKind::Unspecified => rule.engine_default.clone(),
            DefaultKind::Image => "the image's".to_owned(),
            DefaultKind::ImageMerged => "merged with the image's".to_owned(),
            DefaultKind::EngineChoice => "the engine's choice".to_owned(),
            DefaultKind::EngineMerged => "merged with the engine's".to_owned(),
        };
        table.add_row([
            field.path.clone(),
            change.to_owned(),
            rule.since,
            default,
            field.engine_path.clone(),
        ]);
    }
    table.trim_fmt()
}
