//! What the fields of one container say about each other.

use std::net::IpAddr;

use super::Findings;
use super::module::{NAME_REMEDY, shared_container};
use crate::catalogue::Path;
use crate::manifest::node::quoted;
use crate::manifest::scalar::NO_INTERPOLATION;
use crate::manifest::short::is_name;
use crate::proto::v1::{
    ContainerSpec, DeviceRequest, Endpoint, Healthcheck, Logging, RestartPolicy, UpdateConfig,
};

/// An apply waits that long at most: who writes more means another unit.
const LONGEST_WATCH: i64 = 24 * 60 * 60;

pub(super) fn check(container: &ContainerSpec, path: &Path, findings: &mut Findings) {
    check_names(container, path, findings);
    check_environment(container, path, findings);
    check_memory(container, path, findings);
    check_processors(container, path, findings);
    check_restart(container, path, findings);
    check_networking(container, path, findings);
    check_hosts(container, path, findings);
    check_device_requests(container, path, findings);
    if let Some(healthcheck) = &container.healthcheck {
        check_healthcheck(healthcheck, &path.field("healthcheck"), findings);
    }
    if let Some(update_config) = &container.update_config {
        check_update_config(update_config, &path.field("update_config"), findings);
    }
    if let Some(logging) = &container.logging {
        check_logging(logging, &path.field("logging"), findings);
    }
    for (key, endpoint) in &container.networks {
        check_endpoint(endpoint, &path.field("networks").key(key), findings);
    }
}

fn check_names(container: &ContainerSpec, path: &Path, findings: &mut Findings) {
    if let Some(name) = &container.container_name
        && (!is_name(name) || name.len() < 2)
    {
        let message = format!("{} is not a container's name", quoted(name));
        findings.add(&path.field("container_name"), message, NAME_REMEDY);
    }
    if let Some(image) = &container.image {
        let path = path.field("image");
        if image.contains('$') {
            findings.add(&path, format!("{} is not an image", quoted(image)), NO_INTERPOLATION);
        } else if image.contains(char::is_whitespace) {
            findings.add(
                &path,
                format!("{} is not an image", quoted(image)),
                "an image's name has no spaces",
            );
        }
    }
    let modes = [
        ("network_mode", &container.network_mode),
        ("ipc", &container.ipc),
        ("pid", &container.pid),
        ("cgroup_container", &container.cgroup_container),
    ];
    for (field, mode) in modes {
        let other = shared_container(mode.as_ref());
        if other.is_some_and(|name| !is_name(name))
            || (field == "cgroup_container" && mode.is_some() && other.is_none())
        {
            let message = format!("{} names no container", quoted(mode.as_deref().unwrap_or_default()));
            findings.add(&path.field(field), message, "write container:NAME");
        }
    }
}

fn check_environment(container: &ContainerSpec, path: &Path, findings: &mut Findings) {
    for key in container.environment.keys().filter(|key| key.contains('=')) {
        let message = format!("{} is not the name of a variable", quoted(key));
        findings.add(&path.field("environment").key(key), message, "a name has no '='");
    }
    for (index, key) in container.unset_environment.iter().enumerate() {
        let path = path.field("unset_environment").key(&index.to_string());
        if key.is_empty() || key.contains('=') {
            let message = format!("{} is not the name of a variable", quoted(key));
            findings.add(&path, message, "give the name alone");
        } else if container.environment.contains_key(key) {
            findings.add(&path, format!("{} is in environment, too", quoted(key)), "keep one of them");
        }
    }
}

fn check_memory(container: &ContainerSpec, path: &Path, findings: &mut Findings) {
    let declared = |value: Option<i64>| value.filter(|value| *value != 0);
    let limit = declared(container.mem_limit);
    if let Some(swap) = declared(container.memswap_limit).filter(|swap| *swap != -1) {
        let path = path.field("memswap_limit");
        match limit {
            None => {
                findings.add(&path, "it needs mem_limit beside it", "declare mem_limit, or -1 for no limit");
            }
            Some(limit) if swap < limit => {
                let remedy = "it is memory and swap together: declare at least mem_limit, or -1 for no limit";
                findings.add(&path, "it is less than mem_limit", remedy);
            }
            Some(_) => {}
        }
    }
    if let (Some(limit), Some(reservation)) = (limit, declared(container.mem_reservation))
        && reservation > limit
    {
        findings.add(
            &path.field("mem_reservation"),
            "it is more than mem_limit",
            "declare at most mem_limit",
        );
    }
}

fn check_processors(container: &ContainerSpec, path: &Path, findings: &mut Findings) {
    let declared = |value: Option<i64>| value.is_some_and(|value| value != 0);
    if let Some(cpus) = container.cpus.filter(|cpus| *cpus != 0.0) {
        let path = path.field("cpus");
        if !(0.01..=1_000_000.0).contains(&cpus) {
            findings.add(&path, format!("{cpus} is out of range (at least 0.01)"), "write it as 0.5");
        }
        if declared(container.cpu_period) || declared(container.cpu_quota) {
            findings.add(&path, "it excludes cpu_period and cpu_quota", "keep cpus, or the two others");
        }
    }
    if let Some(quota) = container.cpu_quota
        && !(quota == 0 || quota == -1 || quota >= 1_000)
    {
        let message = format!("{quota} is out of range (at least 1000, or -1)");
        findings.add(&path.field("cpu_quota"), message, "write microseconds of each cpu_period, or 50ms");
    }
}

fn check_restart(container: &ContainerSpec, path: &Path, findings: &mut Findings) {
    let Some(RestartPolicy { name, maximum_retry_count }) = &container.restart else { return };
    let name = name.as_deref().unwrap_or("no");
    if maximum_retry_count.is_some_and(|count| count != 0) && name != "on-failure" {
        let path = path.field("restart").field("maximum_retry_count");
        findings.add(&path, format!("it has no meaning beside {name}"), "take it out, or write on-failure");
    }
    if container.auto_remove == Some(true) && name != "no" {
        findings.add(&path.field("auto_remove"), "it excludes a restart policy", "keep one of them");
    }
}

/// What an engine refuses, or drops without a word, for a container without a network of its own.
fn check_networking(container: &ContainerSpec, path: &Path, findings: &mut Findings) {
    let Some(mode) = container.network_mode.as_deref() else { return };
    if mode != "bridge" && !container.networks.is_empty() {
        let remedy = "keep one of them";
        findings.add(&path.field("network_mode"), format!("{mode} excludes networks"), remedy);
    }
    let shared = mode.starts_with("container:");
    let alone = shared || matches!(mode, "host" | "none");
    let conflicts = [
        ("ports", alone && !container.ports.is_empty()),
        ("publish_all_ports", alone && container.publish_all_ports == Some(true)),
        ("links", (shared || mode == "host") && !container.links.is_empty()),
        ("hostname", shared && container.hostname.is_some()),
        ("mac_address", shared && container.mac_address.is_some()),
        ("dns", shared && !container.dns.is_empty()),
        ("dns_opt", shared && !container.dns_opt.is_empty()),
        ("dns_search", shared && !container.dns_search.is_empty()),
        ("extra_hosts", shared && !container.extra_hosts.is_empty()),
        ("expose", shared && !container.expose.is_empty()),
    ];
    for (field, conflict) in conflicts {
        if conflict {
            let message = format!("it cannot be beside network_mode {mode}");
            findings.add(&path.field(field), message, "take it out: there is no network of its own");
        }
    }
}

fn check_hosts(container: &ContainerSpec, path: &Path, findings: &mut Findings) {
    for (index, line) in container.extra_hosts.iter().enumerate() {
        let is_address = |text: &str| text == "host-gateway" || text.parse::<IpAddr>().is_ok();
        let is_host = |name: &str| !name.is_empty() && !name.contains(char::is_whitespace);
        if !line.split_once(':').is_some_and(|(name, address)| is_host(name) && is_address(address)) {
            let path = path.field("extra_hosts").key(&index.to_string());
            findings.add(&path, format!("{} is not name:address", quoted(line)), "write it as db:192.0.2.1");
        }
    }
    for (index, address) in container.dns.iter().enumerate() {
        if address.is_empty() {
            findings.add(&path.field("dns").key(&index.to_string()), "it is empty", "give an address");
        }
    }
    if container.uts.as_deref() == Some("host") && container.hostname.is_some() {
        findings.add(&path.field("hostname"), "it cannot be beside uts host", "take one of them out");
    }
    if !matches!(container.console_size.len(), 0 | 2) {
        findings.add(&path.field("console_size"), "it is not two numbers", "give rows and columns");
    }
}

fn check_device_requests(container: &ContainerSpec, path: &Path, findings: &mut Findings) {
    for (index, request) in container.device_requests.iter().enumerate() {
        if *request == DeviceRequest::default() {
            let path = path.field("device_requests").key(&index.to_string());
            findings.add(
                &path,
                "it asks for nothing",
                "say which driver, capabilities or device_ids, or take it out",
            );
        }
        if request.count.is_some_and(|count| count != 0) && !request.device_ids.is_empty() {
            let path = path.field("device_requests").key(&index.to_string());
            findings.add(&path, "count and device_ids exclude each other", "keep one of them");
        }
    }
}

fn check_healthcheck(healthcheck: &Healthcheck, path: &Path, findings: &mut Findings) {
    let path = path.field("test");
    match healthcheck.test.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] | ["NONE"] | ["CMD", _, ..] | ["CMD-SHELL", _] => {}
        ["NONE", ..] => findings.add(&path, "NONE stands alone", "write [NONE]"),
        ["CMD"] => findings.add(&path, "no program is named", "write [CMD, program, argument]"),
        ["CMD-SHELL", ..] => findings.add(&path, "CMD-SHELL takes one line", "write [CMD-SHELL, line]"),
        [first, ..] => {
            let message = format!("{} is not a kind of check", quoted(first));
            findings.add(
                &path,
                message,
                "begin with CMD, CMD-SHELL or NONE; a text alone is a line for the shell",
            );
        }
    }
}

/// What is negative, or shorter than a millisecond, is found with all other durations.
fn check_update_config(config: &UpdateConfig, path: &Path, findings: &mut Findings) {
    let UpdateConfig { monitor, healthy_deadline } = config;
    for (field, duration) in [("monitor", monitor), ("healthy_deadline", healthy_deadline)] {
        let Some(duration) = duration else { continue };
        let path = path.field(field);
        if duration.seconds == 0 && duration.nanos == 0 {
            let remedy = "declare how long, as 10s, or take it out for the default";
            findings.add(&path, "no container can be watched for 0s", remedy);
        } else if duration.seconds > LONGEST_WATCH || duration.seconds == LONGEST_WATCH && duration.nanos > 0
        {
            findings.add(&path, "it is longer than 24h", "declare at most 24h: the apply lasts that long");
        }
    }
}

fn check_endpoint(endpoint: &Endpoint, path: &Path, findings: &mut Findings) {
    for (index, alias) in endpoint.aliases.iter().enumerate() {
        if alias.is_empty() || alias.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
            let path = path.field("aliases").key(&index.to_string());
            let message = format!("{} is a name that nobody can ask for", quoted(alias));
            findings.add(&path, message, "use letters, digits, hyphens and dots, or take it out");
        }
    }
}

/// A driver of the engine, or a plugin by its reference, as example/driver:1.0.
fn check_logging(logging: &Logging, path: &Path, findings: &mut Findings) {
    let Some(driver) = logging.driver.as_deref() else { return };
    let name = driver.split(':').next().unwrap_or_default();
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    let is_reference = driver.contains('/') && !driver.contains(char::is_whitespace);
    if !driver.is_empty() && !is_reference && (name.is_empty() || !name.bytes().all(is_letter)) {
        let message = format!("{} is not the name of a log driver", quoted(driver));
        findings.add(&path.field("driver"), message, "write it as json-file, local or journald");
    }
}
