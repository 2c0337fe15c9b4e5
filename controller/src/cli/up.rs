//! `plumb up`: one host, no set-up. A certificate authority of its own, controller and agent in this process, everything
//! over mutual TLS on the loopback interface, as in a fleet.

use std::path::{Path, PathBuf};
use std::time::Duration;

use plumbline::proto::v1::{
    ModuleServicePlanRequest, ModuleServicePushRequest, ModuleServiceRemoveRequest, ModuleSpec,
    NodeServiceEnrolRequest, Reachability,
};
use plumbline::tls::{Authority, Identity, Role};
use plumbline_agent::engine::Engine;
use plumbline_agent::serve::listen;
use plumbline_agent::server::{AgentError, asked_to_end, serve_agent};
use plumbline_agent::settings::{MonitorOption, Settings};
use tokio::sync::watch;

use super::accept::AcceptOptions;
use super::build::build;
use super::client::{Client, folder};
use super::error::CliError;
use super::exit::{Exit, Tally};
use super::manifests::Manifests;
use super::plan::{plan, recreate_policy};
use super::printer::Printer;
use super::push::push;
use super::remove::{RemovalOptions, remove};
use crate::server::{ControllerError, serve_controller};

type Server<E> = tokio::task::JoinHandle<Result<(), E>>;

/// The node that this host is.
const NODE: &str = "local";
const VALIDITY: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Options of `plumb up`.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    manifests: Manifests,
    /// Instead of applying anything, take this module's containers away. Volumes stay, unless they are named.
    #[arg(long, value_name = "MODULE", conflicts_with_all = ["files", "recreate"])]
    remove: Option<String>,
    #[command(flatten)]
    removal: RemovalOptions,
    /// Containers may be recreated, and those that left the declaration removed.
    #[arg(long)]
    recreate: bool,
    #[command(flatten)]
    accept: AcceptOptions,
    /// Say what would be done, and do nothing.
    #[arg(long, conflicts_with = "remove")]
    dry_run: bool,
    /// Where certificates and what is known of this host are kept; else ~/.local/share/plumbline.
    #[arg(long, env = "PLUMBLINE_DATA")]
    data_dir: Option<PathBuf>,
    /// The engine's Unix socket.
    #[arg(long, default_value = "/var/run/docker.sock", env = "PLUMBLINE_ENGINE")]
    engine: PathBuf,
    #[command(flatten)]
    monitor: MonitorOption,
}

pub(super) async fn run(options: Options, printer: Printer) -> Result<Exit, CliError> {
    if options.remove.is_none() && options.removal.is_given() {
        return Err(CliError::Usage("--volume and --yes go with --remove MODULE".to_owned()));
    }
    let specs = options.manifests.read()?;
    options.accept.check(&specs)?;
    let data_dir = options.data_dir.clone().unwrap_or_else(|| folder("XDG_DATA_HOME", ".local/share"));
    let _lock = lock(&data_dir)?;
    let identities = Identities::prepare(&data_dir, printer)?;

    // Both end when the sender is dropped, at the end of this function.
    let (running, stop) = watch::channel(());
    let stopped = |mut stop: watch::Receiver<()>| async move {
        let _ = stop.changed().await;
    };
    let loopback = || async { listen("127.0.0.1:0").await.map_err(ControllerError::from) };
    let (agent_listener, controller_listener) = (loopback().await?, loopback().await?);
    let address = |listener: &tokio::net::TcpListener| {
        listener.local_addr().map(|address| address.to_string()).map_err(|source| CliError::File {
            action: "listened on",
            path: PathBuf::from("127.0.0.1"),
            source,
        })
    };
    let (agent_address, controller_address) = (address(&agent_listener)?, address(&controller_listener)?);
    let agent = tokio::spawn({
        let (engine, data_dir, identity) =
            (Engine::new(&options.engine), data_dir.join("agent"), identities.agent.clone());
        let stop = stopped(stop.clone());
        let settings = Settings { monitor: options.monitor.monitor, ..Settings::default() };
        async move { serve_agent(agent_listener, engine, settings, &data_dir, &identity, stop).await }
    });
    let controller = tokio::spawn({
        let (data_dir, identity) = (data_dir.join("controller"), identities.controller.clone());
        let stop = stopped(stop);
        async move { serve_controller(controller_listener, &data_dir, &identity, stop).await }
    });

    let work = async {
        let mut client = Client::connect(&controller_address, &identities.operator).await?;
        enrol(&mut client, agent_address).await?;
        match options.remove.clone() {
            None if options.dry_run => {
                dry_run(&mut client, specs, options.recreate, &options.accept, printer).await
            }
            None => apply(&mut client, specs, options.recreate, &options.accept, printer).await,
            Some(module) => {
                let nodes = vec![NODE.to_owned()];
                let request = ModuleServiceRemoveRequest { module, nodes, ..Default::default() };
                remove(&mut client, request, &options.removal, false, printer).await
            }
        }
    };
    tokio::pin!(work);
    let (mut agent, mut controller) = (agent, controller);
    let done = tokio::select! {
        done = &mut work => done,
        error = first_fault(&mut agent, &mut controller) => return Err(error),
        () = asked_to_end() => Err(CliError::Interrupted),
    };
    if matches!(done, Err(CliError::Controller { .. } | CliError::Lost { .. } | CliError::Status(_))) {
        // A server that could not start says why better than the connection that failed for it.
        let fault = first_fault(&mut agent, &mut controller);
        if let Ok(error) = tokio::time::timeout(Duration::from_secs(1), fault).await {
            return Err(error);
        }
    }
    drop(running);
    let ended = async { (agent.await, controller.await) };
    if matches!(done, Err(CliError::Interrupted)) {
        // No container is left half-way, unless whoever interrupts insists.
        printer.progress("finishing what is being applied; interrupt again to leave it as it is");
        tokio::select! {
            _ = ended => {}
            () = asked_to_end() => {}
        }
    } else {
        let _ = tokio::time::timeout(Duration::from_secs(5), ended).await;
    }
    done
}

/// Why one of the servers ended by itself; waits for ever if none does.
async fn first_fault(agent: &mut Server<AgentError>, controller: &mut Server<ControllerError>) -> CliError {
    tokio::select! {
        Ok(Err(error)) = agent => error.into(),
        Ok(Err(error)) = controller => error.into(),
        else => std::future::pending().await,
    }
}

/// Tells the controller where the agent is.
async fn enrol(client: &mut Client, agent_address: String) -> Result<(), CliError> {
    let enrol = NodeServiceEnrolRequest { name: NODE.to_owned(), address: agent_address };
    let node = client.nodes.enrol(enrol).await?.into_inner().node.unwrap_or_default();
    if node.reachability() != Reachability::Ready {
        return Err(CliError::Status(tonic::Status::unavailable(node.detail)));
    }
    Ok(())
}

/// Asks only. Nothing is registered either.
async fn dry_run(
    client: &mut Client,
    specs: Vec<ModuleSpec>,
    recreate: bool,
    accept: &AcceptOptions,
    printer: Printer,
) -> Result<Exit, CliError> {
    let mut tally = Tally::default();
    for spec in specs {
        let request = ModuleServicePlanRequest {
            module: spec.name().to_owned(),
            nodes: vec![NODE.to_owned()],
            recreate: recreate_policy(recreate).into(),
            accepted_data: accept.of(&spec),
            spec: Some(spec),
            ..ModuleServicePlanRequest::default()
        };
        tally.add(plan(client, request, printer).await?.1);
    }
    Ok(tally.exit())
}

async fn apply(
    client: &mut Client,
    specs: Vec<ModuleSpec>,
    recreate: bool,
    accept: &AcceptOptions,
    printer: Printer,
) -> Result<Exit, CliError> {
    let modules: Vec<_> = specs.iter().map(|spec| (spec.name().to_owned(), accept.of(spec))).collect();
    // Registering is no news here: all of it is applied right after.
    build(client, specs, true, false, printer.without_text()).await?;
    let mut tally = Tally::default();
    for (module, accepted_data) in modules {
        let request = ModuleServicePushRequest {
            module,
            nodes: vec![NODE.to_owned()],
            recreate: recreate_policy(recreate).into(),
            accepted_data,
            ..ModuleServicePushRequest::default()
        };
        tally.add(push(client, request, printer).await?);
    }
    Ok(tally.exit())
}

/// Only one at a time works with a data directory: it is taken before anything in it is read or made.
fn lock(data_dir: &Path) -> Result<std::fs::File, CliError> {
    use std::os::unix::fs::DirBuilderExt as _;

    let path = data_dir.join("up.lock");
    let failed = |source| CliError::File { action: "opened", path: path.clone(), source };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data_dir).map_err(failed)?;
    let file =
        std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
    file.try_lock().map_err(|_| CliError::InUse(data_dir.to_owned()))?;
    Ok(file)
}

struct Identities {
    controller: Identity,
    agent: Identity,
    operator: Identity,
}

impl Identities {
    /// Makes what is not there yet. Certificates that no longer load are issued anew: the authority is here.
    fn prepare(data_dir: &Path, printer: Printer) -> Result<Self, CliError> {
        let folder = data_dir.join("ca");
        let authority = if folder.join("ca.pem").exists() {
            Authority::open(&folder)?
        } else {
            let authority = Authority::init(&folder, "plumbline local")?;
            printer.progress(&format!("made a certificate authority for this host in {}", folder.display()));
            authority
        };
        let load = |role: Role| -> Result<Identity, CliError> {
            let (ca, pem) = (folder.join("ca.pem"), folder.join(format!("{role}-{NODE}.pem")));
            let key = pem.with_extension("key");
            if let Ok(identity) = Identity::load(&ca, &pem, &key) {
                return Ok(identity);
            }
            authority.issue(role, NODE, &[], VALIDITY)?.write(&folder, true)?;
            Ok(Identity::load(&ca, &pem, &key)?)
        };
        Ok(Self {
            controller: load(Role::Controller)?,
            agent: load(Role::Agent)?,
            operator: load(Role::Operator)?,
        })
    }
}
