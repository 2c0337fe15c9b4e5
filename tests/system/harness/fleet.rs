//! The fleet: one authority, one controller, its agents, and an operator.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use plumbline::proto::v1::module_service_client::ModuleServiceClient;
use plumbline::tls::{Identity, Timeouts, connect, controller_host_name};
use tempfile::TempDir;
use tonic::transport::Channel;

use super::certificates::{Authority, Certificate, utf8};
use super::engine::remove_all;
use super::engine_proxy::EngineProxy;
use super::process::Server;
use super::said::{Running, Said, command};
use crate::tools::{run, workspace};

/// An agent, and the way to its engine.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) name: String,
    pub(crate) server: Server,
    pub(crate) engine: EngineProxy,
}

/// A fleet on this machine's engine.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) controller: Server,
    pub(crate) agents: Vec<Agent>,
    authority: Authority,
    operator: Certificate,
    /// Stands in the name of everything that is this fleet's.
    own: String,
    folder: TempDir,
}

impl Fleet {
    /// One host.
    pub(crate) fn start() -> Self {
        Self::of(1)
    }

    /// Several hosts. They share the one engine, so a module must be on one of them only.
    pub(crate) fn of(agents: usize) -> Self {
        let images = run(&mut Command::new(workspace().join("scripts/sample-image")), "");
        assert!(images.ok, "{}{}", images.stdout, images.stderr);
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let own = folder.path().file_name().expect("it has a name").to_string_lossy();
        let own: String = own.chars().filter(char::is_ascii_alphanumeric).collect();
        let own = format!("t{}", own.to_ascii_lowercase());

        let authority = Authority::init(&folder.path().join("authority"));
        let operator = authority.issue("operator", "olga");
        let agents: Vec<Agent> =
            (1..=agents).map(|number| agent(&authority, folder.path(), &format!("host-{number}"))).collect();
        let certificate = authority.issue("controller", "main");
        let data = folder.path().join("controller");
        let arguments = [&["controller", "--data-dir", utf8(&data)][..], &certificate.options()].concat();
        let controller = Server::start(&arguments, &folder.path().join("controller.log"));
        let fleet = Self { controller, agents, authority, operator, own, folder };
        for agent in &fleet.agents {
            fleet.plumb(["node", "add", &agent.name, &agent.server.address()]).ended(0).says(&["ready"]);
        }
        fleet
    }

    /// A name that is this fleet's alone, for a module, a container, a network, or a volume.
    pub(crate) fn module(&self, name: &str) -> String {
        format!("{name}-{}", self.own)
    }

    /// The first node.
    pub(crate) fn node(&self) -> &str {
        &self.agents[0].name
    }

    /// What the first node's agent takes for its engine.
    pub(crate) fn engine(&self) -> &EngineProxy {
        &self.agents[0].engine
    }

    pub(crate) fn operator(&self) -> &Certificate {
        &self.operator
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    pub(crate) fn controller_address(&self) -> String {
        self.controller.address()
    }

    /// Where the first node's agent listens.
    pub(crate) fn agent_address(&self) -> String {
        self.agents[0].server.address()
    }

    /// A path in the folder where the operator works.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file in the folder where the operator works.
    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), contents).expect("the folder can be written");
    }

    /// Runs `plumb` as the operator.
    pub(crate) fn plumb<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Said {
        Said::of(&mut self.command(arguments), "")
    }

    /// Starts `plumb` as the operator, beside the test.
    pub(crate) fn spawn<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Running {
        Running::start(&mut self.command(arguments))
    }

    /// The command that [`Self::plumb`] runs.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut plumb = command();
        plumb
            .args(arguments)
            .current_dir(self.folder.path())
            .env("PLUMBLINE_CONTROLLER", self.controller.address())
            .env("PLUMBLINE_CA", &self.operator.ca)
            .env("PLUMBLINE_CERT", &self.operator.cert)
            .env("PLUMBLINE_KEY", &self.operator.key);
        plumb
    }

    /// Writes `NAME.yaml` and registers it.
    #[track_caller]
    pub(crate) fn register(&self, module: &str, manifest: &str) {
        let file = format!("{module}.yaml");
        self.write(&file, manifest);
        self.plumb(["build", "-f", &file]).ended(0);
    }

    /// A gRPC client of the controller, with the operator's certificate. To be called within a Tokio runtime.
    pub(crate) async fn modules(&self) -> ModuleServiceClient<Channel> {
        let Certificate { ca, cert, key } = &self.operator;
        let identity = Identity::load(ca, cert, key).expect("it was issued for this");
        let address = self.controller.address();
        let channel = connect(&address, &controller_host_name(), &identity, &Timeouts::default()).await;
        ModuleServiceClient::new(channel.expect("the controller runs"))
    }
}

fn agent(authority: &Authority, folder: &Path, name: &str) -> Agent {
    let engine = EngineProxy::start(&folder.join(format!("{name}.sock")));
    let certificate = authority.issue("agent", name);
    let (data, socket) = (folder.join(name), folder.join(format!("{name}.sock")));
    let own = ["agent", "--data-dir", utf8(&data), "--engine", utf8(&socket)];
    let arguments = [&own[..], &certificate.options()].concat();
    let server = Server::start(&arguments, &folder.join(format!("{name}.log")));
    Agent { name: name.to_owned(), server, engine }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the controller's log\n{}", self.controller.log());
            for agent in &self.agents {
                eprintln!("--- the log of {}\n{}", agent.name, agent.server.log());
            }
        }
        self.controller.kill();
        for agent in &mut self.agents {
            agent.server.kill();
            agent.engine.stop();
        }
        remove_all(&self.own);
    }
}
