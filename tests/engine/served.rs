//! The same host behind its server: the agent in this process, asked over mutual TLS, with a proxy before the engine.

use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use plumbline::proto::v1::agent_service_client::AgentServiceClient;
use plumbline::proto::v1::apply_response::Event;
use plumbline::proto::v1::value::Kind;
use plumbline::proto::v1::{
    Action, AdoptRequest, AdoptResponse, ApplyRequest, ApplyResponse, Change, Failure, ModuleResult,
    ModuleSpec, ObserveRequest, ObserveResponse, PlanRequest, RecreatePolicy, Value,
};
use plumbline::tls::{Authority, Identity, IssuedPaths, Role, Timeouts, agent_host_name, connect};
use plumbline_agent::engine::Engine;
use plumbline_agent::server::serve_agent;
use plumbline_agent::settings::Settings;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::transport::Channel;

use crate::proxy::Proxy;
use crate::site::{MONITOR, Site, acceptances, changes, docker, object};

/// As long as agents wait for the engine unless they are told otherwise.
const PATIENT: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// A host whose agent is asked from outside. `site` gives names and looks at the engine; its own state is not used.
pub(crate) struct Served {
    pub(crate) site: Site,
    pub(crate) engine: Proxy,
    pub(crate) channel: Channel,
    agent: Option<Running>,
    identities: [Arc<Identity>; 2],
    /// The agent's certificate.
    issued: IssuedPaths,
    folder: tempfile::TempDir,
}

/// An agent that runs.
enum Running {
    /// In this process. It ends when it is told to, or its teller is dropped.
    Here(oneshot::Sender<()>, JoinHandle<()>),
    /// As a process of its own.
    Apart(Process),
    /// In a container of this name.
    Contained(String),
}

/// Where the agent runs.
enum How<'a> {
    /// With this much patience for the engine.
    Here {
        deadline: Duration,
    },
    Apart {
        docker_config: &'a Path,
    },
    Contained {
        host_root: bool,
    },
}

/// A process that ends when this is dropped.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Served {
    /// A host for the test of this name.
    pub(crate) async fn new(test: &str) -> Self {
        Self::with(test, &How::Here { deadline: PATIENT }).await
    }

    /// The same with an agent that waits only so long for the engine.
    pub(crate) async fn impatient(test: &str, deadline: Duration) -> Self {
        Self::with(test, &How::Here { deadline }).await
    }

    /// The same with the agent in a container, with the host's root mounted or not.
    pub(crate) async fn contained(test: &str, host_root: bool) -> Self {
        Self::with(test, &How::Contained { host_root }).await
    }

    /// The same with the agent as a process of its own, whose user has this folder for the configuration of Docker's
    /// command line.
    pub(crate) async fn with_docker_config(test: &str, docker_config: &Path) -> Self {
        Self::with(test, &How::Apart { docker_config }).await
    }

    async fn with(test: &str, how: &How<'_>) -> Self {
        Self::at(Site::new(test).await, how).await
    }

    async fn at(site: Site, how: &How<'_>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::init(&folder.path().join("ca"), "test").expect("an authority");
        let issue = |role, name: &str| {
            let issued = authority.issue(role, name, &[], HOUR).expect("a certificate");
            issued.write(&folder.path().join(name), false).expect("it can be written")
        };
        let (agent, controller) = (issue(Role::Agent, "host"), issue(Role::Controller, "main"));
        let load = |paths: &IssuedPaths| {
            let identity = Identity::load(&paths.ca, &paths.certificate, &paths.key);
            Arc::new(identity.expect("it can be read"))
        };
        let identities = [load(&agent), load(&controller)];
        let engine = Proxy::listen(&folder.path().join("engine.sock"), Path::new(&site.socket));
        let issued_agent = agent;
        let (agent, address) = match how {
            How::Here { deadline } => start_here(folder.path(), identities[0].clone(), *deadline).await,
            How::Apart { docker_config } => start_apart(folder.path(), &issued_agent, docker_config),
            How::Contained { host_root } => {
                start_contained(folder.path(), &issued_agent, &site.name, *host_root)
            }
        };
        let channel = channel_to(&address, &identities[1]).await;
        Self { site, engine, channel, agent: Some(agent), identities, issued: issued_agent, folder }
    }

    /// Ends the agent and starts it again, with or without what it knew.
    pub(crate) async fn restart(&mut self, forgetful: bool) {
        let folder = self.folder.path();
        let here = self.identities[0].clone();
        match self.agent.take() {
            Some(Running::Here(end, ended)) => {
                drop(end);
                ended.await.expect("the agent ends");
            }
            Some(Running::Apart(process)) => drop(process),
            Some(Running::Contained(name)) => drop(docker(&["rm", "-f", &name])),
            None => {}
        }
        if forgetful {
            std::fs::remove_dir_all(folder.join("data")).expect("it was there");
        }
        let (agent, address) = start_here(folder, here, PATIENT).await;
        self.channel = channel_to(&address, &self.identities[1]).await;
        self.agent = Some(agent);
    }

    /// A host whose agent is a process that can be killed.
    pub(crate) async fn killable(test: &str) -> Self {
        Self::with(test, &How::Apart { docker_config: Path::new("/nonexistent") }).await
    }

    /// The same on the engine behind this socket.
    pub(crate) async fn killable_on(test: &str, socket: String) -> Self {
        Self::at(Site::on(test, socket).await, &How::Apart { docker_config: Path::new("/nonexistent") }).await
    }

    /// Kills the agent's process (SIGKILL).
    pub(crate) fn kill(&mut self) {
        assert!(matches!(self.agent, Some(Running::Apart(_))), "it is a process of its own");
        self.agent = None;
    }

    /// Starts the process again, on the same data.
    pub(crate) async fn start_again(&mut self) {
        let (agent, address) = start_apart(self.folder.path(), &self.issued, Path::new("/nonexistent"));
        self.channel = channel_to(&address, &self.identities[1]).await;
        self.agent = Some(agent);
    }

    /// What comes of another agent with the same certificate, that is given the engine's own socket and a data directory of
    /// its own: whether it ended well, and what it said.
    pub(crate) fn second_agent(&self) -> (bool, String) {
        let folder = self.folder.path().join("second");
        std::fs::create_dir(&folder).expect("a folder");
        std::os::unix::fs::symlink(&self.site.socket, folder.join("engine.sock")).expect("a link");
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb-agent"));
        let said = command.args(options(&folder, &self.issued)).env("NO_COLOR", "1").output();
        let said = said.expect("the agent starts");
        (said.status.success(), String::from_utf8_lossy(&said.stderr).into_owned())
    }

    /// The agent's data directory.
    pub(crate) fn data(&self) -> std::path::PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn client(&self) -> AgentServiceClient<Channel> {
        AgentServiceClient::new(self.channel.clone())
    }

    /// The name of the container `c` at the engine.
    pub(crate) fn container(&self) -> String {
        format!("{}-c", self.site.name)
    }

    pub(crate) async fn plan(&self, spec: &ModuleSpec) -> ModuleResult {
        let request = PlanRequest { spec: Some(spec.clone()), ..PlanRequest::default() };
        let answer = self.client().plan(request).await.expect("a plan");
        answer.into_inner().result.expect("a plan has a result")
    }

    /// An apply under an id of its own.
    pub(crate) fn request(&self, id: &str, spec: &ModuleSpec, allow: bool) -> ApplyRequest {
        let recreate = if allow { RecreatePolicy::Allow } else { RecreatePolicy::Refuse };
        ApplyRequest {
            operation_id: format!("{}-{id}", self.site.name),
            spec: Some(spec.clone()),
            recreate: recreate.into(),
            ..ApplyRequest::default()
        }
    }

    /// All events of one apply.
    pub(crate) async fn events(&self, request: ApplyRequest) -> Vec<ApplyResponse> {
        let stream = self.client().apply(tokio_stream::once(request)).await.expect("the stream opens");
        let mut stream = stream.into_inner();
        let mut events = Vec::new();
        while let Some(event) = stream.message().await.expect("an event") {
            events.push(event);
        }
        events
    }

    /// Applies with permission to recreate and to put containers on these mounts (`/data=empty`), expecting a result.
    pub(crate) async fn apply_accepting(&self, spec: &ModuleSpec, accepted: &[&str]) -> ModuleResult {
        let id = uuid::Uuid::new_v4().to_string();
        let request = ApplyRequest { accepted_data: acceptances(accepted), ..self.request(&id, spec, true) };
        match self.events(request).await.pop().and_then(|last| last.event) {
            Some(Event::Result(result)) => result,
            other => panic!("the apply has no result: {other:?}"),
        }
    }

    async fn end(&self, spec: &ModuleSpec, allow: bool) -> Option<Event> {
        let id = uuid::Uuid::new_v4().to_string();
        self.events(self.request(&id, spec, allow)).await.pop().expect("an apply has an end").event
    }

    /// Applies, expecting a result.
    pub(crate) async fn apply(&self, spec: &ModuleSpec, allow: bool) -> ModuleResult {
        match self.end(spec, allow).await {
            Some(Event::Result(result)) => result,
            Some(Event::Failure(failure)) => panic!("the apply failed: {}", failure.message),
            other => panic!("the apply has no end: {other:?}"),
        }
    }

    /// Applies with permission to recreate, expecting a failure.
    pub(crate) async fn fails(&self, spec: &ModuleSpec) -> Failure {
        self.fails_with(spec, true).await
    }

    /// Applies, expecting a failure.
    pub(crate) async fn fails_with(&self, spec: &ModuleSpec, allow: bool) -> Failure {
        match self.end(spec, allow).await {
            Some(Event::Failure(failure)) => failure,
            other => panic!("the apply did not fail: {other:?}"),
        }
    }

    /// Nothing differs, and an apply does nothing, by the answers and by the calls.
    #[track_caller]
    pub(crate) fn settled<'a>(&'a self, spec: &'a ModuleSpec) -> impl Future<Output = ()> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            self.engine.take_mutations();
            let result = self.apply(spec, true).await;
            for object in &result.objects {
                assert_eq!(object.action(), Action::Unchanged, "{caller}: {} {object:?}", object.key);
                assert_eq!(lines(&changes(object)), [""; 0], "{caller}");
            }
            assert_eq!(self.engine.take_mutations(), [""; 0], "{caller}");
        }
    }

    /// What differs on the container `c`, a line a leaf.
    pub(crate) async fn differs(&self, spec: &ModuleSpec) -> Vec<String> {
        lines(&changes(object(&self.plan(spec).await, "c")))
    }

    pub(crate) async fn observe(&self, container: &str) -> ObserveResponse {
        let request = ObserveRequest { container: container.to_owned() };
        self.client().observe(request).await.expect("it is there").into_inner()
    }

    pub(crate) async fn adopt(&self, container: &str, spec: &ModuleSpec) -> AdoptResponse {
        let key = spec.containers.keys().next().expect("a container").clone();
        let request = AdoptRequest {
            container: container.to_owned(),
            spec: Some(spec.clone()),
            key,
            ..AdoptRequest::default()
        };
        self.client().adopt(request).await.expect("it can be compared").into_inner()
    }
}

async fn start_here(folder: &Path, identity: Arc<Identity>, deadline: Duration) -> (Running, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let (end, asked) = oneshot::channel::<()>();
    let (socket, data) = (folder.join("engine.sock"), folder.join("data"));
    let ended = tokio::spawn(async move {
        let asked = async { drop(asked.await) };
        let settings = Settings { monitor: MONITOR, ..Settings::default() };
        let engine = Engine::new(&socket).deadline(deadline);
        serve_agent(listener, engine, settings, &data, &identity, asked).await.expect("the agent serves");
    });
    (Running::Here(end, ended), address)
}

/// The agent's options, for a process of its own.
fn options(folder: &Path, agent: &IssuedPaths) -> Vec<String> {
    let (engine, data) = (folder.join("engine.sock"), folder.join("data"));
    let paths = [
        ("--engine", &engine),
        ("--data-dir", &data),
        ("--ca", &agent.ca),
        ("--cert", &agent.certificate),
        ("--key", &agent.key),
    ];
    let options = paths.into_iter().flat_map(|(name, path)| [name.to_owned(), path.display().to_string()]);
    ["--listen", "127.0.0.1:0", "--monitor", "1s"].map(str::to_owned).into_iter().chain(options).collect()
}

/// The host's own libraries take the place of the image's, for the agent is linked to them.
fn start_contained(folder: &Path, agent: &IssuedPaths, name: &str, host_root: bool) -> (Running, String) {
    let (name, program) =
        (format!("{name}-agent"), format!("{}:/agent:ro", env!("CARGO_BIN_EXE_plumb-agent")));
    let own = format!("{0}:{0}", folder.display());
    let mut command = vec!["run", "-d", "--name", &name, "--network", "host", "-e", "NO_COLOR=1"];
    command.extend(["--cap-add", "SYS_PTRACE", "--security-opt", "apparmor=unconfined"]);
    for mount in ["/lib:/lib:ro", "/lib64:/lib64:ro", "/usr/lib:/usr/lib:ro", &program, &own] {
        command.extend(["-v", mount]);
    }
    if host_root {
        command.extend(["-v", "/:/host:ro", "-e", "PLUMBLINE_HOST_ROOT=/host"]);
    }
    command.extend(["--entrypoint", "/agent", "plumbline/sample:1"]);
    let options = options(folder, agent);
    command.extend(options.iter().map(String::as_str));
    docker(&command);
    let address = address_in(|| crate::site::docker_says(&["logs", &name]));
    (Running::Contained(name), address)
}

fn start_apart(folder: &Path, agent: &IssuedPaths, docker_config: &Path) -> (Running, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb-agent"));
    command.args(options(folder, agent)).env("DOCKER_CONFIG", docker_config).env("NO_COLOR", "1");
    let log = folder.join("agent.log");
    let file = std::fs::File::create(&log).expect("a file");
    let child = command.stderr(file).spawn().expect("the agent starts");
    let agent = Running::Apart(Process(child));
    (agent, address_in(|| std::fs::read_to_string(&log).expect("it is there")))
}

/// The address that an agent says it listens on.
fn address_in(log: impl Fn() -> String) -> String {
    for _ in 0..100 {
        let said = log();
        let address = said.split("address=").nth(1).and_then(|rest| rest.split_whitespace().next());
        if let Some(address) = address {
            return address.to_owned();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the agent does not listen: {}", log());
}

async fn channel_to(address: &str, controller: &Identity) -> Channel {
    let host = agent_host_name("host");
    connect(address, &host, controller, &Timeouts::default()).await.expect("a connection")
}

/// Changes, a line each: `dns: [192.0.2.1] -> absent (RECREATE, DECLARED)`, with the path below the object.
pub(crate) fn lines(changes: &[Change]) -> Vec<String> {
    let line = |change: &Change| {
        let path = change.path_text.splitn(3, '.').nth(2).unwrap_or(&change.path_text);
        let (before, after) = (words(change.before.as_ref()), words(change.after.as_ref()));
        let (consequence, cause) = (change.consequence().as_str_name(), change.cause().as_str_name());
        let consequence = consequence.trim_start_matches("CONSEQUENCE_");
        format!("{path}: {before} -> {after} ({consequence}, {})", cause.trim_start_matches("CAUSE_"))
    };
    changes.iter().map(line).collect()
}

/// A value in words.
pub(crate) fn words(value: Option<&Value>) -> String {
    match value.and_then(|value| value.kind.as_ref()) {
        None => "NOTHING".to_owned(),
        Some(Kind::Absent(_)) => "absent".to_owned(),
        Some(Kind::BoolValue(value)) => value.to_string(),
        Some(Kind::Int64Value(value)) => value.to_string(),
        Some(Kind::Uint64Value(value)) => value.to_string(),
        Some(Kind::DoubleValue(value)) => value.to_string(),
        Some(Kind::StringValue(value)) => value.clone(),
        Some(Kind::BytesValue(value)) => format!("{value:?}"),
        Some(Kind::DurationValue(value)) => value.to_string(),
        Some(Kind::ListValue(list)) => format!("[{}]", list.values.join(", ")),
        Some(Kind::SecretValue(_)) => "secret".to_owned(),
    }
}
