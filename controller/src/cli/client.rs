//! The connection to the controller: its address, and the operator's certificate.

use std::path::{Path, PathBuf};

use plumbline::proto::v1::module_service_client::ModuleServiceClient;
use plumbline::proto::v1::node_service_client::NodeServiceClient;
use plumbline::tls::{Identity, Timeouts, connect, controller_host_name};
use plumbline_agent::serve::MESSAGE_LIMIT;
use tonic::transport::Channel;

use super::error::CliError;

/// How to reach the controller. Certificates that are not named are looked for in ~/.config/plumbline.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct ClientOptions {
    /// The controller's address.
    #[arg(long, default_value = "127.0.0.1:7442", env = "PLUMBLINE_CONTROLLER")]
    controller: String,
    /// The certificate authority's certificate; else ~/.config/plumbline/ca.pem.
    #[arg(long, env = "PLUMBLINE_CA")]
    ca: Option<PathBuf>,
    /// The operator's certificate; else ~/.config/plumbline/operator-*.pem.
    #[arg(long, env = "PLUMBLINE_CERT")]
    cert: Option<PathBuf>,
    /// The certificate's key; else the file beside it that ends in .key.
    #[arg(long, env = "PLUMBLINE_KEY")]
    key: Option<PathBuf>,
}

/// Both services of the controller, on one channel.
#[derive(Debug, Clone)]
pub(super) struct Client {
    pub(super) modules: ModuleServiceClient<Channel>,
    pub(super) nodes: NodeServiceClient<Channel>,
}

impl ClientOptions {
    /// Connects, far enough to know that the certificate is accepted.
    pub(super) async fn connect(&self) -> Result<Client, CliError> {
        let folder = configuration_folder();
        let ca = self.ca.clone().unwrap_or_else(|| folder.join("ca.pem"));
        let cert = match &self.cert {
            Some(cert) => cert.clone(),
            None => only_operator(&folder)?,
        };
        let key = self.key.clone().unwrap_or_else(|| cert.with_extension("key"));
        let identity = Identity::load(&ca, &cert, &key)?;
        Client::connect(&self.controller, &identity).await
    }
}

impl Client {
    pub(super) async fn connect(address: &str, identity: &Identity) -> Result<Self, CliError> {
        let channel = connect(address, &controller_host_name(), identity, &Timeouts::default())
            .await
            .map_err(|source| CliError::Controller { address: address.to_owned(), source })?;
        Ok(Self {
            modules: ModuleServiceClient::new(channel.clone())
                .max_decoding_message_size(MESSAGE_LIMIT)
                .max_encoding_message_size(MESSAGE_LIMIT),
            nodes: NodeServiceClient::new(channel)
                .max_decoding_message_size(MESSAGE_LIMIT)
                .max_encoding_message_size(MESSAGE_LIMIT),
        })
    }
}

/// `$XDG_CONFIG_HOME/plumbline`, else `~/.config/plumbline`.
fn configuration_folder() -> PathBuf {
    folder("XDG_CONFIG_HOME", ".config")
}

/// A folder of the XDG base directory specification, for plumbline.
pub(super) fn folder(variable: &str, below_home: &str) -> PathBuf {
    let base = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from).join(below_home);
    base.unwrap_or_else(home).join("plumbline")
}

fn only_operator(folder: &Path) -> Result<PathBuf, CliError> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let is_operator = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("operator-") && path.extension().is_some_and(|extension| extension == "pem")
    };
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_operator).collect();
    found.sort();
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(CliError::Usage(format!(
            "no operator's certificate: name one with --ca and --cert, or issue one with \
             `plumb ca issue operator NAME --write-to {}`",
            folder.display()
        ))),
        _ => Err(CliError::Usage(format!(
            "{} holds several operators' certificates: choose with --cert",
            folder.display()
        ))),
    }
}
