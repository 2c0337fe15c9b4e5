//! A host for one test: the real engine, an agent's state of its own, and names that nobody else uses.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use plumbline::guard::verdict_named;
use plumbline::manifest::{Source, read};
use plumbline::proto::v1::{
    Action, ApplyRequest, Change, DataAcceptance, ModuleResult, ModuleSpec, ObjectResult, Phase, PlanRequest,
    PlanResponse, RecreatePolicy,
};
use plumbline_agent::apply::{self, Applied, ApplyError, Report};
use plumbline_agent::engine::Engine;
use plumbline_agent::guard::HostFiles;
use plumbline_agent::settings::Settings;
use plumbline_agent::state::State;
use serde_json::{Value as Json, json};

/// How long a started container must stay up. Tests that do not say so are not about that.
pub(crate) const MONITOR: Duration = Duration::from_secs(1);

/// The engine that tests use: `PLUMBLINE_ENGINE` (a Unix socket), else the host's.
pub(crate) fn socket() -> String {
    std::env::var("PLUMBLINE_ENGINE").unwrap_or_else(|_| "/var/run/docker.sock".to_owned())
}

/// One test's host.
pub(crate) struct Site {
    pub(crate) engine: Engine,
    pub(crate) state: Arc<State>,
    /// What the agent takes for the host's files.
    pub(crate) files: HostFiles,
    pub(crate) installation: String,
    /// The module's name, and before every other name.
    pub(crate) name: String,
    /// The engine's socket.
    pub(crate) socket: String,
    folder: tempfile::TempDir,
}

pub(crate) struct Silent;

impl Report for Silent {
    fn progress(&self, _phase: Phase, _object: &str, _detail: &str) {}
    fn pulling(&self, _image: &str, _done: u64, _total: u64) {}
    fn moving(&self, _to: &str, _done: u64, _total: u64) {}
}

impl Site {
    /// A host for the test of this name. It needs an engine and the sample images, and fails without.
    pub(crate) async fn new(test: &str) -> Self {
        Self::on(test, socket()).await
    }

    /// The same on the engine behind this socket.
    pub(crate) async fn on(test: &str, socket: String) -> Self {
        let engine = Engine::new(Path::new(&socket));
        for image in ["plumbline/sample:1", "plumbline/sample:2", "plumbline/defaults:1"] {
            let found = engine.image(image).await.expect("a Docker engine is needed: see scripts/test");
            if found.is_none() {
                make_sample_images(&socket);
            }
        }
        let name = format!("{test}-{}", std::process::id());
        let folder = tempfile::tempdir().expect("a folder");
        let state = Arc::new(State::open(&folder.path().join("state")).expect("a state"));
        let installation = format!("test-{name}");
        Self { engine, state, files: HostFiles::default(), installation, name, socket, folder }
    }

    /// What the agent's options would say.
    pub(crate) fn settings(&self) -> Settings {
        Settings { files: self.files.clone(), monitor: MONITOR }
    }

    /// A folder of the host, made for this test.
    pub(crate) fn host_folder(&self, name: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        path.display().to_string()
    }

    /// A module from the form of a manifest, under this test's name.
    pub(crate) fn module(&self, mut module: Json) -> ModuleSpec {
        module["name"] = json!(self.name);
        let text = module.to_string();
        let mut specs =
            read(&Source { name: "test", text: text.as_bytes() }).unwrap_or_else(|error| panic!("{error}"));
        specs.remove(0)
    }

    /// A module of one container `c` that holds, with these settings.
    pub(crate) fn holding(&self, settings: &Json) -> ModuleSpec {
        self.module(json!({ "containers": { "c": hold(settings) } }))
    }

    pub(crate) async fn try_apply(&self, spec: &ModuleSpec, allow: bool) -> Applied {
        self.apply_request(&ApplyRequest { recreate: policy(allow).into(), ..request(spec, &[]) }).await
    }

    pub(crate) async fn apply_request(&self, request: &ApplyRequest) -> Applied {
        let Self { engine, state, installation, .. } = self;
        apply::apply(engine, state, installation, &self.settings(), request, &Silent).await
    }

    /// Applies with permission to recreate and to put containers on these mounts (`/data=empty`), expecting a result.
    pub(crate) async fn apply_accepting(&self, spec: &ModuleSpec, accepted: &[&str]) -> ModuleResult {
        let applied = self.apply_request(&request(spec, accepted)).await;
        if let Some(error) = applied.error {
            panic!("the apply failed: {error}");
        }
        applied.result.expect("a result")
    }

    /// Applies, expecting a result.
    pub(crate) async fn apply(&self, spec: &ModuleSpec, allow: bool) -> ModuleResult {
        let applied = self.try_apply(spec, allow).await;
        if let Some(error) = applied.error {
            panic!("the apply failed: {error}");
        }
        applied.result.expect("a result")
    }

    /// Applies, expecting a failure.
    pub(crate) async fn fails(&self, spec: &ModuleSpec) -> ApplyError {
        let Applied { result, error } = self.try_apply(spec, true).await;
        error.unwrap_or_else(|| panic!("the apply did not fail: {result:?}"))
    }

    pub(crate) async fn plan(&self, spec: &ModuleSpec, allow: bool) -> PlanResponse {
        self.plan_accepting(spec, allow, &[]).await
    }

    pub(crate) async fn plan_accepting(
        &self,
        spec: &ModuleSpec,
        allow: bool,
        accepted: &[&str],
    ) -> PlanResponse {
        let request = PlanRequest {
            spec: Some(spec.clone()),
            recreate: policy(allow).into(),
            accepted_data: acceptances(accepted),
            ..PlanRequest::default()
        };
        let Self { engine, state, installation, files, .. } = self;
        apply::plan(engine.reader(), state, installation, files, &request).await.expect("a plan")
    }

    /// What differs on the container `c`.
    pub(crate) async fn differs(&self, spec: &ModuleSpec) -> Vec<Change> {
        changes(object(&self.plan(spec, false).await.result.expect("a result"), "c"))
    }

    /// The container with this key, as the engine shows it.
    pub(crate) async fn inspect(&self, key: &str) -> Json {
        self.inspect_name(&format!("{}-{key}", self.name)).await
    }

    pub(crate) async fn inspect_name(&self, name: &str) -> Json {
        self.engine.container(name).await.expect("the engine answers").unwrap_or_default()
    }

    /// Id and start of a container: both stay when nothing is touched.
    pub(crate) async fn identity(&self, key: &str) -> (String, String) {
        let inspect = self.inspect(key).await;
        (text(&inspect["Id"]), text(&inspect["State"]["StartedAt"]))
    }

    /// What Docker's own command line prints, about this engine.
    pub(crate) fn docker(&self, arguments: &[&str]) -> String {
        docker_at(&self.socket, arguments)
    }

    /// The same with what it prints on standard error.
    pub(crate) fn docker_says(&self, arguments: &[&str]) -> String {
        docker_says_at(&self.socket, arguments)
    }

    /// Every container of this test, by name.
    pub(crate) fn containers(&self) -> Vec<String> {
        let listed =
            self.docker(&["ps", "-a", "--filter", &format!("name=^{}", self.name), "--format", "{{.Names}}"]);
        let mut names: Vec<String> = listed.lines().map(str::to_owned).collect();
        names.sort();
        names
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let named = format!("name=^{}", self.name);
        let mut volumes = String::new();
        for id in self.docker(&["ps", "-aq", "--filter", &named]).lines() {
            volumes += &self.docker(&["inspect", "-f", "{{range .Mounts}}{{println .Name}}{{end}}", id]);
            volumes.push('\n');
            self.docker(&["rm", "-f", "-v", id]);
        }
        // Anonymous volumes that were carried over have become named ones, which no removal of a container takes along.
        for volume in volumes.lines().filter(|name| plumbline_agent::container::is_generated_name(name)) {
            self.docker(&["volume", "rm", volume]);
        }
        for id in self.docker(&["network", "ls", "-q", "--filter", &named]).lines() {
            self.docker(&["network", "rm", id]);
        }
        for id in self.docker(&["volume", "ls", "-q", "--filter", &named]).lines() {
            self.docker(&["volume", "rm", id]);
        }
    }
}

/// Makes the sample images. Several tests may do so at once: the script lets one after the other through.
pub(crate) fn make_sample_images(socket: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/sample-image");
    let made = Command::new(script).env("DOCKER_HOST", format!("unix://{socket}")).output();
    let made = made.expect("scripts/sample-image can be run");
    assert!(made.status.success(), "scripts/sample-image: {}", String::from_utf8_lossy(&made.stderr));
}

/// A container that runs until it is told to stop, with these settings.
pub(crate) fn hold(settings: &Json) -> Json {
    let mut container = json!({ "image": "plumbline/sample:1", "command": ["hold"] });
    for (key, value) in settings.as_object().into_iter().flatten() {
        container[key] = value.clone();
    }
    container
}

/// What Docker's own command line prints.
pub(crate) fn docker(arguments: &[&str]) -> String {
    docker_at(&socket(), arguments)
}

fn docker_at(socket: &str, arguments: &[&str]) -> String {
    let output = Command::new("docker")
        .arg("-H")
        .arg(format!("unix://{socket}"))
        .args(arguments)
        .output()
        .expect("docker's command line is needed");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The same with what it prints on standard error, where a container's log goes, too.
pub(crate) fn docker_says(arguments: &[&str]) -> String {
    docker_says_at(&socket(), arguments)
}

fn docker_says_at(socket: &str, arguments: &[&str]) -> String {
    let mut command = Command::new("docker");
    let output = command.arg("-H").arg(format!("unix://{socket}")).args(arguments).output();
    let output = output.expect("docker's command line is needed");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

pub(crate) fn text(json: &Json) -> String {
    json.as_str().unwrap_or_default().to_owned()
}

/// A request that allows a recreation, and these verdicts.
pub(crate) fn request(spec: &ModuleSpec, accepted: &[&str]) -> ApplyRequest {
    ApplyRequest {
        operation_id: "test".to_owned(),
        spec: Some(spec.clone()),
        recreate: RecreatePolicy::Allow.into(),
        accepted_data: acceptances(accepted),
        ..ApplyRequest::default()
    }
}

/// From `/data=empty`: on whichever container has that target.
pub(crate) fn acceptances(accepted: &[&str]) -> Vec<DataAcceptance> {
    let read = |text: &&str| {
        let (target, word) = text.split_once('=').expect("a target and a verdict");
        let verdict = verdict_named(word).expect("a verdict").into();
        DataAcceptance { container: String::new(), target: target.to_owned(), verdict }
    };
    accepted.iter().map(read).collect()
}

fn policy(allow: bool) -> RecreatePolicy {
    if allow { RecreatePolicy::Allow } else { RecreatePolicy::Refuse }
}

/// The object with this key.
pub(crate) fn object<'a>(result: &'a ModuleResult, key: &str) -> &'a ObjectResult {
    result.objects.iter().find(|object| object.key == key).expect("an object of this key")
}

/// What was done with every object, in order.
pub(crate) fn actions(result: &ModuleResult) -> Vec<(String, Action)> {
    result.objects.iter().map(|object| (object.key.clone(), object.action())).collect()
}

pub(crate) fn changes(object: &ObjectResult) -> Vec<Change> {
    object.diff.clone().unwrap_or_default().changes
}

/// The paths of changes, below the container.
pub(crate) fn paths(changes: &[Change]) -> Vec<&str> {
    let short = |change: &'_ Change| change.path_text.splitn(3, '.').nth(2).map(str::len).unwrap_or_default();
    changes.iter().map(|change| &change.path_text[change.path_text.len() - short(change)..]).collect()
}
