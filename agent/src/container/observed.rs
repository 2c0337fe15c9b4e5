//! From an inspect answer to the observed spec.

use std::collections::BTreeMap;
use std::time::Duration;

use plumbline::catalogue::container_descriptor;
use plumbline::engine_form::{FormError, from_engine};
use plumbline::normal::normalise;
use prost_reflect::DynamicMessage;
use serde_json::{Map, Value as Json, json};

use super::{
    LABEL_CONTAINER, LABEL_INSTALLATION, LABEL_MODULE, LABEL_PREFIX, binds, is_generated_name, ports,
};

/// The longest that a stop is waited for.
const FOR_EVER: Duration = Duration::from_secs(24 * 3600);

/// A container as the engine shows it.
#[derive(Debug, Clone)]
pub struct Observed {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The id of the image it was made from; it does not follow the tag.
    pub image_id: String,
    /// It runs, or is paused.
    pub running: bool,
    /// It is paused.
    pub paused: bool,
    /// Its first process, as the host counts; 0: there is none.
    pub pid: u64,
    /// It lives in a namespace of another container that ended since: that one was started after it.
    pub is_stranded: bool,
    /// The exit code of its last run.
    pub exit_code: i64,
    /// When it was last started, in the engine's words.
    pub started_at: String,
    /// The installation, module and key in its labels, if it was made by Plumbline.
    pub owner: Option<(String, String, String)>,
    /// The generated names of its anonymous volumes, by target. One that was carried over is named in its settings.
    pub anonymous_volumes: BTreeMap<String, String>,
    /// The volumes that the engine made for this very container.
    pub made_volumes: Vec<String>,
    /// Everything that is mounted in it, whoever asked for it, by target.
    pub mounted: BTreeMap<String, Mounted>,
    /// Its settings in normal form.
    pub spec: DynamicMessage,
}

/// One mount, as the engine made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    /// bind, volume, tmpfs, image, ...
    pub kind: String,
    /// The host path; empty where the engine shows none.
    pub source: String,
    /// Of a volume: its name.
    pub volume: String,
}

impl Mounted {
    /// It may keep data when the container is gone.
    pub fn keeps_data(&self) -> bool {
        matches!(self.kind.as_str(), "bind" | "volume")
    }

    /// For people: a volume by its name, all else by its path.
    pub fn name(&self) -> &str {
        if self.volume.is_empty() { &self.source } else { &self.volume }
    }
}

impl Observed {
    /// A job that is done: its policy is to restart it on failure, and it ended well. Any other container that is declared
    /// is meant to run: nothing that inspect shows tells one that ended by itself from one that somebody stopped.
    pub fn is_finished(&self) -> bool {
        let policy = self
            .spec
            .get_field_by_name("restart")
            .and_then(|restart| restart.as_message()?.get_field_by_name("name")?.as_str().map(str::to_owned))
            .unwrap_or_default();
        !self.running && self.exit_code == 0 && !self.started_at.starts_with("0001") && policy == "on-failure"
    }

    /// It should run and does not.
    pub fn is_down(&self) -> bool {
        self.paused || self.is_stranded || (!self.running && !self.is_finished())
    }

    /// How long the engine waits between the stop signal and the kill, if the container says so.
    pub fn stop_grace(&self) -> Option<Duration> {
        if !self.spec.has_field_by_name("stop_grace_period") {
            return None;
        }
        let period = self.spec.get_field_by_name("stop_grace_period")?;
        let seconds = period.as_message()?.get_field_by_name("seconds")?.as_i64()?;
        // Below zero it waits for ever; nobody else does.
        Some(u64::try_from(seconds).map_or(FOR_EVER, Duration::from_secs))
    }

    /// The engine removes it when it stops.
    pub fn removes_itself(&self) -> bool {
        self.spec.get_field_by_name("auto_remove").and_then(|value| value.as_bool()).unwrap_or_default()
    }
}

/// Reads an inspect answer. `image`: the inspect answer of the image it was made from, if the engine still has it.
/// `name_of`: the name of a container by its id, for namespaces that are shared with another.
pub fn observe(
    inspect: &Json,
    image: Option<&Json>,
    host_name: &str,
    name_of: impl Fn(&str) -> Option<String>,
) -> Result<Observed, FormError> {
    let text = |json: &Json| json.as_str().unwrap_or_default().to_owned();
    let labels = &inspect["Config"]["Labels"];
    let label = |name: &str| labels[name].as_str().map(str::to_owned);
    let owner = label(LABEL_INSTALLATION).zip(label(LABEL_MODULE)).zip(label(LABEL_CONTAINER));
    Ok(Observed {
        id: text(&inspect["Id"]),
        name: text(&inspect["Name"]).trim_start_matches('/').to_owned(),
        image_id: text(&inspect["Image"]),
        running: inspect["State"]["Running"] == json!(true),
        paused: inspect["State"]["Paused"] == json!(true),
        pid: inspect["State"]["Pid"].as_u64().unwrap_or_default(),
        mounted: mounted(inspect),
        is_stranded: false,
        exit_code: inspect["State"]["ExitCode"].as_i64().unwrap_or_default(),
        started_at: text(&inspect["State"]["StartedAt"]),
        owner: owner.map(|((installation, module), container)| (installation, module, container)),
        anonymous_volumes: anonymous_volumes(inspect),
        made_volumes: made_volumes(inspect),
        spec: observe_spec(inspect, image, host_name, name_of)?,
    })
}

/// The generated names of volumes by the targets at which an inspect answer shows them.
fn anonymous_volumes(inspect: &Json) -> BTreeMap<String, String> {
    let mounts = inspect["Mounts"].as_array().into_iter().flatten();
    let anonymous = mounts.filter_map(|mount| {
        let (name, target) = (mount["Name"].as_str()?, mount["Destination"].as_str()?);
        is_generated_name(name).then(|| (binds::clean(target), name.to_owned()))
    });
    anonymous.collect()
}

/// The volumes that the engine made for this very container: no setting names them.
pub fn made_volumes(inspect: &Json) -> Vec<String> {
    let named = named_sources(&inspect["HostConfig"]);
    let anonymous = anonymous_volumes(inspect).into_values();
    anonymous.filter(|name| !named.contains(&name.as_str())).collect()
}

/// The memory file systems of `HostConfig.Tmpfs` do not show among the others.
fn mounted(inspect: &Json) -> BTreeMap<String, Mounted> {
    let text = |json: &Json| json.as_str().unwrap_or_default().to_owned();
    let tmpfs = inspect["HostConfig"]["Tmpfs"].as_object().into_iter().flatten().map(|(target, _)| {
        let (kind, source, volume) = ("tmpfs".to_owned(), String::new(), String::new());
        (binds::clean(target), Mounted { kind, source, volume })
    });
    let mounts = inspect["Mounts"].as_array().into_iter().flatten().filter_map(|mount| {
        let (kind, source) = (text(&mount["Type"]), text(&mount["Source"]));
        let volume = if kind == "volume" { text(&mount["Name"]) } else { String::new() };
        Some((binds::clean(mount["Destination"].as_str()?), Mounted { kind, source, volume }))
    });
    tmpfs.chain(mounts).collect()
}

/// What the settings name as the source of a mount.
fn named_sources(host: &Json) -> Vec<&str> {
    let list = |name: &str| host[name].as_array().into_iter().flatten();
    let binds = list("Binds").filter_map(|bind| bind.as_str()?.split(':').next());
    list("Mounts").filter_map(|mount| mount["Source"].as_str()).chain(binds).collect()
}

/// The settings of an inspect answer as a spec in normal form.
pub fn observe_spec(
    inspect: &Json,
    image: Option<&Json>,
    host_name: &str,
    name_of: impl Fn(&str) -> Option<String>,
) -> Result<DynamicMessage, FormError> {
    let reshaped = reshape(inspect, image, host_name, name_of);
    let mut spec = from_engine(&container_descriptor(), &reshaped)?;
    normalise(&mut spec);
    Ok(spec)
}

fn reshape(
    inspect: &Json,
    image: Option<&Json>,
    host_name: &str,
    name_of: impl Fn(&str) -> Option<String>,
) -> Json {
    let mut json = inspect.clone();
    let id = inspect["Id"].as_str().unwrap_or_default();
    let short_id = id.get(..12).unwrap_or(id);
    let mode = inspect["HostConfig"]["NetworkMode"].as_str().unwrap_or_default().to_owned();

    let mounts = binds::merge(&json);
    if json["HostConfig"].is_object() {
        json["HostConfig"]["Mounts"] = mounts;
        json["HostConfig"]["NetworkMode"] = network_mode(&mode, &name_of);
        for member in ["IpcMode", "PidMode"] {
            let value = json["HostConfig"][member].as_str().unwrap_or_default();
            json["HostConfig"][member] =
                json!(shared_with(value, &name_of).unwrap_or_else(|| value.to_owned()));
        }
        json["HostConfig"]["Links"] = links(&json["HostConfig"]["Links"]);
    }
    ports::reshape(&mut json);
    if let Some(name) = json["Name"].as_str() {
        json["Name"] = json!(name.trim_start_matches('/'));
    }
    json["Platform"] = platform(inspect, image);
    if json["Config"].is_object() {
        let uts_host = inspect["HostConfig"]["UTSMode"] == "host";
        let host_name_taken = uts_host
            || mode.starts_with("container:")
            || (mode == "host" && json["Config"]["Hostname"] == host_name);
        if json["Config"]["Hostname"] == short_id || host_name_taken {
            json["Config"]["Hostname"] = Json::Null;
        }
        if mode.starts_with("container:") {
            // Copied from the container that owns the namespace.
            json["Config"]["Domainname"] = Json::Null;
        }
        let image_entrypoint = image.and_then(|image| image["Config"]["Entrypoint"].as_array());
        if image_entrypoint.is_some_and(|words| !words.is_empty()) && json["Config"]["Entrypoint"].is_null() {
            // Taken away with [""], which engines store as null: as much as a declared empty list.
            json["Config"]["Entrypoint"] = json!([]);
        }
        let (set, unset) = environment(&json["Config"]["Env"]);
        json["Config"]["Env"] = Json::Object(set);
        json["Config"]["Env[]"] = Json::Array(unset);
        if let Some(labels) = json["Config"]["Labels"].as_object_mut() {
            labels.retain(|key, _| !key.starts_with(LABEL_PREFIX));
        }
        // A healthcheck that is switched off is, without one in the image, the same as none.
        let image_has_one = image.is_some_and(|image| image["Config"]["Healthcheck"]["Test"].is_array());
        if !image_has_one && json["Config"]["Healthcheck"]["Test"] == json!(["NONE"]) {
            json["Config"]["Healthcheck"] = Json::Null;
        }
    }
    if json["NetworkSettings"].is_object() {
        json["NetworkSettings"]["Networks"] = networks(&json["NetworkSettings"]["Networks"], short_id, &mode);
    }
    json
}

/// Inspect shows only the operating system; the image knows the architecture.
fn platform(inspect: &Json, image: Option<&Json>) -> Json {
    let Some(image) = image else { return inspect["Platform"].clone() };
    let part = |name: &str| image[name].as_str().filter(|part| !part.is_empty());
    let parts: Vec<&str> =
        [part("Os"), part("Architecture"), part("Variant")].into_iter().flatten().collect();
    json!(parts.join("/"))
}

/// Attachment is shown by the networks; the mode counts only where there is none.
fn network_mode(mode: &str, name_of: &impl Fn(&str) -> Option<String>) -> Json {
    match mode {
        "host" | "none" => json!(mode),
        mode => shared_with(mode, name_of).map_or(Json::Null, Json::String),
    }
}

/// `container:<id>` becomes `container:<name>`, which stays the same when that container is recreated. A container that
/// is gone keeps its id, and so differs from every declaration.
fn shared_with(mode: &str, name_of: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let id = mode.strip_prefix("container:")?;
    Some(format!("container:{}", name_of(id).unwrap_or_else(|| id.to_owned())))
}

/// `/target:/self/alias` becomes `target:alias`.
fn links(links: &Json) -> Json {
    let read = |link: &str| {
        let (target, alias) = link.split_once(':')?;
        Some(format!("{}:{}", target.trim_start_matches('/'), alias.rsplit('/').next()?))
    };
    Json::Array(
        links
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|link| read(link.as_str()?))
            .map(Json::String)
            .collect(),
    )
}

/// `KEY=value` entries, the last of a key winning as in the process, and entries without `=`.
fn environment(entries: &Json) -> (Map<String, Json>, Vec<Json>) {
    let (mut set, mut unset) = (Map::new(), Vec::new());
    for entry in entries.as_array().into_iter().flatten().filter_map(Json::as_str) {
        match entry.split_once('=') {
            Some((key, value)) => {
                set.insert(key.to_owned(), json!(value));
            }
            None => unset.push(json!(entry)),
        }
    }
    (set, unset)
}

/// The attachments that somebody can declare. Engine 20.10, and newer ones asked in an API below 1.45, add the short id
/// to the aliases after start.
fn networks(networks: &Json, short_id: &str, mode: &str) -> Json {
    let mut kept = Map::new();
    if mode.starts_with("container:") {
        return Json::Object(kept);
    }
    for (name, endpoint) in networks.as_object().into_iter().flatten() {
        if matches!(name.as_str(), "host" | "none") {
            continue;
        }
        let mut endpoint = endpoint.clone();
        if let Some(aliases) = endpoint["Aliases"].as_array_mut() {
            aliases.retain(|alias| alias != short_id);
        }
        kept.insert(name.clone(), endpoint);
    }
    Json::Object(kept)
}
