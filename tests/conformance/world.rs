//! What the samples stand on: an engine, networks, peers, folders; and the agent's library, called directly.

use std::collections::BTreeMap;
use std::path::PathBuf;

use plumbline::catalogue::ApiVersion;
use plumbline::manifest::{ManifestError, Source, read};
use plumbline::proto::v1::{
    ApplyRequest, Change, DataAcceptance, ModuleSpec, MountVerdict, ObjectResult, Phase, PlanRequest,
    RecreatePolicy, RefusalReason,
};
use plumbline_agent::apply::{self, Host, Report};
use plumbline_agent::engine::Engine;
use plumbline_agent::guard::HostFiles;
use plumbline_agent::state::State;
use serde_json::{Value as Json, json};

use crate::checks;
use crate::free::{free_ports, own_subnet};
use crate::gaps::Gaps;

/// How many checks have addresses of their own.
pub(crate) const LANES: usize = 8;

/// Networks that the samples name.
const NETWORKS: [&str; 2] = ["plc-net", "plc-other"];

pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) host: Host,
    pub(crate) state: State,
    /// What is known to differ on this engine.
    pub(crate) gaps: Gaps,
    /// Before every name of this run.
    pub(crate) prefix: String,
    /// What stands in place of names in the samples.
    places: BTreeMap<String, String>,
    /// The first parts of the addresses in each network of the samples: IPv4, IPv6.
    subnets: Vec<(String, String)>,
    installation: String,
    _folder: tempfile::TempDir,
}

struct Silent;

impl Report for Silent {
    fn progress(&self, _phase: Phase, _object: &str, _detail: &str) {}
    fn pulling(&self, _image: &str, _done: u64, _total: u64) {}
    fn moving(&self, _to: &str, _done: u64, _total: u64) {}
}

impl World {
    /// Finds the engine and makes what the samples need, under names of this test.
    pub(crate) async fn prepare(test: &str) -> Self {
        let socket = std::env::var("PLUMBLINE_ENGINE").unwrap_or_else(|_| "/var/run/docker.sock".to_owned());
        let engine = match asked_api() {
            Some(api) => Engine::new(&PathBuf::from(socket)).at_most(api),
            None => Engine::new(&PathBuf::from(socket)),
        };
        let prefix = format!("plc{}{test}", std::process::id());
        let installation = format!("conformance-{prefix}");
        let host = Host::ask(engine.reader(), &installation)
            .await
            .expect("a Docker engine is needed: see scripts/test");
        for image in ["plumbline/sample:1", "plumbline/sample:2"] {
            let found = engine.image(image).await.expect("the engine answers");
            assert!(found.is_some(), "the image {image} is needed: run scripts/sample-image");
        }
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["a", "b"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        let state = State::open(&folder.path().join("state")).expect("a state");
        let places = BTreeMap::from(
            [
                ("DIR", folder.path().display().to_string()),
                ("PEER", format!("{prefix}-peer")),
                ("NETPEER", format!("{prefix}-netpeer")),
                ("BLKDEV", block_device()),
                ("BLKDEV2", "/dev/loop0".to_owned()),
            ]
            .map(|(place, name)| (place.to_owned(), name)),
        );
        let subnets = NETWORKS.map(|_| {
            let v4 = own_subnet();
            let v6 = format!("fd00:{}", v4.split_once('.').expect("four parts").1.replace('.', ":"));
            (v4, v6)
        });
        let subnets = subnets.to_vec();
        let gaps = Gaps::of_engine(host.version.is_podman());
        let world =
            Self { engine, host, state, gaps, prefix, places, subnets, installation, _folder: folder };
        world.make_peers().await;
        world
    }

    async fn make_peers(&self) {
        for (name, (v4, v6)) in NETWORKS.iter().zip(&self.subnets) {
            // What the engine chooses itself stays below the addresses that the samples declare.
            let v4 = json!({ "Subnet": format!("{v4}.0/24"), "IPRange": format!("{v4}.0/25") });
            let body = json!({
                "Name": self.network(name), "EnableIPv6": true,
                "IPAM": { "Config": [v4, { "Subnet": format!("{v6}::/64") }] }
            });
            self.engine.create_network(&body).await.expect("a network of the samples");
        }
        let hold = |host: Json| json!({ "Image": "plumbline/sample:1", "Cmd": ["hold"], "HostConfig": host });
        let volume = format!("{}-sub", self.prefix);
        let fill = json!({
            "Image": "plumbline/sample:1", "Entrypoint": ["mkdir", "/v/sub", "/v/sub2"],
            "HostConfig": { "Mounts": [{ "Type": "volume", "Source": volume, "Target": "/v" }] }
        });
        for (name, body) in [
            (
                "peer",
                hold(json!({ "IpcMode": "shareable", "Mounts": [{ "Type": "volume", "Target": "/pv" }] })),
            ),
            ("netpeer", hold(json!({ "NetworkMode": self.network("plc-net") }))),
            ("fill", fill),
        ] {
            let name = format!("{}-{name}", self.prefix);
            let id = self.engine.create_container(&name, None, &body).await.expect("a peer of the samples");
            self.engine.start(&id).await.expect("a peer of the samples starts");
        }
    }

    /// Takes everything of this run away.
    pub(crate) async fn clean_up(&self) {
        for name in ["peer", "netpeer", "fill"] {
            self.remove(&format!("{}-{name}", self.prefix)).await;
        }
        for name in NETWORKS {
            let _ = self.engine.remove_network(&self.network(name)).await;
        }
        let _ = self.engine.remove_volume(&format!("{}-sub", self.prefix)).await;
    }

    /// Takes a container away, and the anonymous volumes that it alone had.
    pub(crate) async fn remove(&self, name: &str) {
        let Ok(Some(inspect)) = self.engine.container(name).await else { return };
        let _ = self.engine.remove_container(name).await;
        for mount in inspect["Mounts"].as_array().into_iter().flatten() {
            let volume = mount["Name"].as_str().unwrap_or_default();
            if plumbline_agent::container::is_generated_name(volume) {
                let _ = self.engine.remove_volume(volume).await;
            }
        }
    }

    /// What stands in place of names in the samples of one lane: lanes are checked side by side.
    pub(crate) fn places(&self, lane: usize) -> BTreeMap<String, String> {
        assert!(lane < LANES, "there are addresses for {LANES} lanes");
        let mut places = self.places.clone();
        let (v4, v6) = &self.subnets[0];
        let port = free_ports();
        for (offset, side) in ["A", "B"].into_iter().enumerate() {
            let number = 2 * lane + offset;
            places.insert(format!("IP4_{side}"), format!("{v4}.{}", 130 + number));
            places.insert(format!("IP6_{side}"), format!("{v6}::f{number:03}"));
            places.insert(format!("PORT_{side}"), (usize::from(port) + offset).to_string());
            places.insert(format!("NAME_{side}"), format!("{}-named-{lane}{side}", self.prefix));
        }
        for number in 0..5 {
            places.insert(format!("SUBNET_{number}"), own_subnet());
        }
        let v6 = own_subnet().split_once('.').expect("four parts").1.replace('.', ":");
        places.insert("SUBNET6".to_owned(), format!("fd00:{v6}"));
        places
    }

    /// Takes away what a mixture declared.
    pub(crate) async fn remove_module(&self, module: &str) {
        let labels = [("dev.plumbline.module", module)];
        for id in self.engine.containers_with(&labels).await.unwrap_or_default() {
            self.remove(&id).await;
        }
        let own = format!("{module}_n");
        let _ = self.engine.remove_network(&own).await;
        let _ = self.engine.remove_volume(&own).await;
    }

    /// The name at the engine of a network that the samples name.
    pub(crate) fn network(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    /// A module of this one container, with the networks and volumes that it names.
    pub(crate) fn module(&self, name: &str, container: &Json, volumes: &Json) -> ModuleSpec {
        read_module(&self.manifest(name, container, volumes))
            .unwrap_or_else(|error| panic!("a sample is no manifest: {error}\n{container}"))
    }

    /// The same in the form of a manifest.
    pub(crate) fn manifest(&self, name: &str, container: &Json, volumes: &Json) -> Json {
        let used = container["networks"].as_object().into_iter().flatten();
        let networks: serde_json::Map<String, Json> = used
            .map(|(key, _)| (key.clone(), json!({ "external": true, "name": self.network(key) })))
            .collect();
        let mut volumes = volumes.clone();
        for volume in volumes.as_object_mut().into_iter().flatten() {
            volume.1["name"] = json!(format!("{}-sub", self.prefix));
        }
        json!({ "name": name, "containers": { "c": container }, "networks": networks, "volumes": volumes })
    }

    /// Applies a module; the object that is looked at (its key, `c` or `n`).
    pub(crate) async fn apply(&self, spec: &ModuleSpec, allow: bool) -> Result<ObjectResult, String> {
        object(self.objects(spec, allow).await?)
    }

    /// Applies a module; all of its objects. The samples are not about data: what the data guard refuses is meant.
    pub(crate) async fn objects(&self, spec: &ModuleSpec, allow: bool) -> Result<Vec<ObjectResult>, String> {
        let objects = self.applied(spec, allow, Vec::new()).await?;
        match refused_data(&objects) {
            none if none.is_empty() => Ok(objects),
            accepted => self.applied(spec, allow, accepted).await,
        }
    }

    async fn applied(
        &self,
        spec: &ModuleSpec,
        allow: bool,
        accepted_data: Vec<DataAcceptance>,
    ) -> Result<Vec<ObjectResult>, String> {
        let request = ApplyRequest {
            operation_id: "conformance".to_owned(),
            spec: Some(spec.clone()),
            recreate: policy(allow).into(),
            accepted_data,
            ..ApplyRequest::default()
        };
        let files = HostFiles::default();
        let applied =
            apply::apply(&self.engine, &self.state, &self.installation, &files, &request, &Silent).await;
        match applied.error {
            Some(error) => Err(error.to_string()),
            None => Ok(applied.result.unwrap_or_default().objects),
        }
    }

    /// What an apply would do.
    pub(crate) async fn plan(&self, spec: &ModuleSpec, allow: bool) -> Result<ObjectResult, String> {
        object(self.planned(spec, allow).await?)
    }

    /// Everything that differs.
    pub(crate) async fn changes(&self, spec: &ModuleSpec) -> Result<Vec<Change>, String> {
        let objects = self.planned(spec, false).await?;
        Ok(objects.iter().flat_map(checks::changes).collect())
    }

    async fn planned(&self, spec: &ModuleSpec, allow: bool) -> Result<Vec<ObjectResult>, String> {
        let mut request = PlanRequest {
            spec: Some(spec.clone()),
            recreate: policy(allow).into(),
            ..PlanRequest::default()
        };
        let (reader, files) = (self.engine.reader(), HostFiles::default());
        let plan = async |request: &PlanRequest| {
            let plan = apply::plan(reader, &self.state, &self.installation, &files, request).await;
            let result = plan.map_err(|error| error.to_string())?.result;
            Ok::<_, String>(result.unwrap_or_default().objects)
        };
        let objects = plan(&request).await?;
        request.accepted_data = refused_data(&objects);
        if request.accepted_data.is_empty() { Ok(objects) } else { plan(&request).await }
    }

    /// Id, start and process of a container: what must not change when nothing is touched.
    pub(crate) async fn identity(&self, name: &str) -> (String, String, i64) {
        let inspect = self.engine.container(name).await.ok().flatten().unwrap_or_default();
        let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
        (
            text(&inspect["Id"]),
            text(&inspect["State"]["StartedAt"]),
            inspect["State"]["Pid"].as_i64().unwrap_or_default(),
        )
    }
}

/// A module from the form of a manifest (JSON is YAML).
pub(crate) fn read_module(module: &Json) -> Result<ModuleSpec, ManifestError> {
    let text = module.to_string();
    read(&Source { name: "sample", text: text.as_bytes() }).map(|mut specs| specs.remove(0))
}

/// In which API version the engine is asked, if not in the newest (`PLUMBLINE_ENGINE_API`).
pub(crate) fn asked_api() -> Option<ApiVersion> {
    let text = std::env::var("PLUMBLINE_ENGINE_API").ok()?;
    Some(text.parse().expect("PLUMBLINE_ENGINE_API is an API version, as 1.41"))
}

/// What it takes to accept every mount for which the data guard refused.
fn refused_data(objects: &[ObjectResult]) -> Vec<DataAcceptance> {
    let refused = objects.iter().filter(|object| object.reason() == RefusalReason::DataGuard);
    let mounts = refused.flat_map(|object| &object.mounts).filter(|mount| mount.refused);
    let accept = |mount: &MountVerdict| DataAcceptance {
        container: mount.container.clone(),
        target: mount.target.clone(),
        verdict: mount.verdict,
    };
    mounts.map(accept).collect()
}

fn policy(allow: bool) -> RecreatePolicy {
    if allow { RecreatePolicy::Allow } else { RecreatePolicy::Refuse }
}

fn object(objects: Vec<ObjectResult>) -> Result<ObjectResult, String> {
    objects.into_iter().find(|object| matches!(object.key.as_str(), "c" | "n")).ok_or("no object".to_owned())
}

/// A whole block device of this host.
fn block_device() -> String {
    let mut names: Vec<String> = std::fs::read_dir("/sys/block")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| !name.starts_with("loop") && !name.starts_with("zram") && !name.starts_with("ram"))
        .collect();
    names.sort();
    format!("/dev/{}", names.first().map_or("vda", String::as_str))
}

/// Can a container on this host be privileged? The engine gives it every capability that the kernel knows, which fails
/// where the host itself runs with fewer.
pub(crate) fn has_all_capabilities() -> bool {
    let last: u32 = std::fs::read_to_string("/proc/sys/kernel/cap_last_cap")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or_default();
    let bounding = std::fs::read_to_string("/proc/1/status").ok().and_then(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("CapBnd:").map(str::to_owned))?;
        u64::from_str_radix(line.trim(), 16).ok()
    });
    bounding.is_some_and(|bounding| bounding.count_ones() == last + 1)
}
