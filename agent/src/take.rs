//! From a running container to the declaration that compares equal: what the image and the engine would fill in anyway
//! is subtracted, all the rest is declared.

use plumbline::catalogue::container_descriptor;
use plumbline::engine_form::FormError;
use plumbline::proto::v1::{ContainerSpec, ModuleSpec, NetworkSpec, VolumeSpec};
use prost_reflect::{DynamicMessage, MapKey, Value};
use serde_json::Value as Json;

use crate::container::{Observed, desired};

/// Masked by every engine from 20.10 on; newer ones mask more.
const ALWAYS_MASKED: [&str; 4] = ["/proc/asound", "/proc/acpi", "/proc/kcore", "/sys/firmware"];
/// Read only on every engine from 20.10 on.
const ALWAYS_READ_ONLY: [&str; 3] = ["/proc/bus", "/proc/fs", "/proc/sysrq-trigger"];

/// What the engine fills in where a container says nothing.
#[derive(Debug, Clone, Default)]
pub struct EngineDefaults {
    /// The runtime.
    pub runtime: String,
    /// The log driver.
    pub log_driver: String,
    /// Options of the log driver, from the engine's own settings file; empty where it cannot be read.
    pub log_options: Vec<(String, String)>,
    /// The namespace of control groups: host (version 1) or private (version 2).
    pub cgroup_namespace: String,
}

impl EngineDefaults {
    /// From GET /info, and from the engine's settings file where this process can read it: no call shows the options
    /// that the engine adds to its log driver.
    pub fn read(info: &Json, settings: Option<&Json>) -> Self {
        let text = |name: &str| info[name].as_str().unwrap_or_default().to_owned();
        let options = settings.and_then(|settings| settings["log-opts"].as_object()).into_iter().flatten();
        Self {
            runtime: text("DefaultRuntime"),
            log_driver: text("LoggingDriver"),
            log_options: options
                .map(|(key, value)| {
                    (key.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned))
                })
                .collect(),
            cgroup_namespace: if text("CgroupVersion") == "2" { "private" } else { "host" }.to_owned(),
        }
    }
}

/// The module, with this one container, that declares exactly what runs.
pub fn declaration(
    observed: &Observed,
    image: Option<&Json>,
    defaults: &EngineDefaults,
    module: &str,
    key: &str,
) -> Result<ModuleSpec, FormError> {
    let nothing = DynamicMessage::new(container_descriptor());
    let from_image = desired(&nothing, image)?;
    let mut declared = observed.spec.clone();
    subtract_image(&mut declared, &from_image);
    subtract_engine(&mut declared, defaults);
    if declared.get_field_by_name("container_name").as_deref()
        == Some(&Value::String(format!("{module}-{key}")))
    {
        declared.clear_field_by_name("container_name");
    }
    let container: ContainerSpec = declared.transcode_to().unwrap_or_default();
    let mut spec = ModuleSpec { name: Some(module.to_owned()), ..ModuleSpec::default() };
    for name in container.networks.keys().filter(|name| *name != "bridge") {
        spec.networks.insert(name.clone(), NetworkSpec { external: Some(true), ..NetworkSpec::default() });
    }
    for mount in container.mounts.iter().filter(|mount| mount.r#type() == "volume") {
        if let Some(name) = &mount.source {
            spec.volumes.insert(name.clone(), VolumeSpec { external: Some(true), ..VolumeSpec::default() });
        }
    }
    spec.containers.insert(key.to_owned(), container);
    Ok(spec)
}

fn get(message: &DynamicMessage, name: &str) -> Option<Value> {
    message
        .has_field_by_name(name)
        .then(|| message.get_field_by_name(name).map(std::borrow::Cow::into_owned))?
}

fn entries(message: &DynamicMessage, name: &str) -> Vec<(MapKey, Value)> {
    match get(message, name) {
        Some(Value::Map(entries)) => entries.into_iter().collect(),
        _ => Vec::new(),
    }
}

fn subtract_image(declared: &mut DynamicMessage, image: &DynamicMessage) {
    for name in ["environment", "labels"] {
        let mut own = entries(declared, name);
        let inherited = entries(image, name);
        own.retain(|entry| !inherited.contains(entry));
        if own.is_empty() {
            declared.clear_field_by_name(name);
        } else {
            declared.set_field_by_name(name, Value::Map(own.into_iter().collect()));
        }
    }
    for name in ["user", "working_dir", "stop_signal"] {
        if get(declared, name) == get(image, name) {
            declared.clear_field_by_name(name);
        }
    }
    // A declared entrypoint drops the image's command, so the two go together.
    let same_entrypoint = get(declared, "entrypoint") == get(image, "entrypoint");
    let same_command = get(declared, "command") == get(image, "command");
    let command_gone = get(declared, "command").is_none() && !same_command;
    if same_entrypoint && !command_gone {
        declared.clear_field_by_name("entrypoint");
        if same_command {
            declared.clear_field_by_name("command");
        }
    }
    for name in ["expose", "mounts"] {
        if let (Some(Value::List(mut own)), Some(Value::List(inherited))) =
            (get(declared, name), get(image, name))
        {
            own.retain(|element| !inherited.contains(element));
            if own.is_empty() {
                declared.clear_field_by_name(name);
            } else {
                declared.set_field_by_name(name, Value::List(own));
            }
        }
    }
    if let (Some(Value::Message(mut own)), Some(Value::Message(inherited))) =
        (get(declared, "healthcheck"), get(image, "healthcheck"))
    {
        for (member, value) in inherited.fields() {
            if own.has_field(&member) && own.get_field(&member).as_ref() == value {
                own.clear_field(&member);
            }
        }
        let any = own.fields().next().is_some();
        if any {
            declared.set_field_by_name("healthcheck", Value::Message(own));
        } else {
            declared.clear_field_by_name("healthcheck");
        }
    }
    // Attached to the default bridge, and nothing said about it: what a container without networks gets.
    if get(&without_generated(declared), "networks") == get(image, "networks") {
        declared.clear_field_by_name("networks");
    }
}

/// Endpoints show addresses of hardware that the engine generated.
fn without_generated(declared: &DynamicMessage) -> DynamicMessage {
    let mut declared = declared.clone();
    if let Some(Value::Map(mut networks)) = get(&declared, "networks") {
        for endpoint in networks.values_mut().filter_map(Value::as_message_mut) {
            endpoint.clear_field_by_name("mac_address");
        }
        declared.set_field_by_name("networks", Value::Map(networks));
    }
    declared
}

fn subtract_engine(declared: &mut DynamicMessage, defaults: &EngineDefaults) {
    *declared = without_generated(declared);
    declared.clear_field_by_name("platform");
    declared.clear_field_by_name("console_size");
    for (name, default) in [("runtime", &defaults.runtime), ("cgroup", &defaults.cgroup_namespace)] {
        if get(declared, name).as_ref().and_then(Value::as_str) == Some(default) {
            declared.clear_field_by_name(name);
        }
    }
    if let Some(Value::Message(mut logging)) = get(declared, "logging") {
        let own_driver = get(&logging, "driver");
        if own_driver.as_ref().and_then(Value::as_str) == Some(&defaults.log_driver) {
            logging.clear_field_by_name("driver");
            let mut options = entries(&logging, "options");
            options.retain(|(key, value)| {
                !defaults
                    .log_options
                    .iter()
                    .any(|(name, default)| key.as_str() == Some(name) && value.as_str() == Some(default))
            });
            if options.is_empty() {
                logging.clear_field_by_name("options");
            } else {
                logging.set_field_by_name("options", Value::Map(options.into_iter().collect()));
            }
        }
        let any = logging.fields().next().is_some();
        if any {
            declared.set_field_by_name("logging", Value::Message(logging));
        } else {
            declared.clear_field_by_name("logging");
        }
    }
    for (name, always) in [("masked_paths", &ALWAYS_MASKED[..]), ("readonly_paths", &ALWAYS_READ_ONLY[..])] {
        let own = get(declared, name).and_then(|list| get(list.as_message()?, "values"));
        let engines = |path: &&str| {
            own.iter().flat_map(|own| own.as_list().unwrap_or_default()).any(|own| own.as_str() == Some(path))
        };
        if always.iter().all(engines) {
            declared.clear_field_by_name(name);
        }
    }
    let is = |name: &str, value: &str| get(declared, name).as_ref().and_then(Value::as_str) == Some(value);
    let privileged = get(declared, "privileged") == Some(Value::Bool(true));
    if (privileged || is("pid", "host") || is("ipc", "host"))
        && let Some(Value::List(mut options)) = get(declared, "security_opt")
    {
        options.retain(|option| option.as_str() != Some("label=disable"));
        declared.set_field_by_name("security_opt", Value::List(options));
    }
}

/// A name for a module or container made from an engine's: lower-case letters, digits and hyphens.
pub fn module_name(engine_name: &str) -> String {
    let lower = engine_name.to_ascii_lowercase();
    let name: String = lower
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() { character } else { '-' })
        .collect();
    let name: String = name.trim_matches('-').chars().take(63).collect();
    if name.is_empty() { "module".to_owned() } else { name }
}
