//! What somebody may have meant by a key that is not a field.

use prost_reflect::MessageDescriptor;

use super::error::{Fault, Position};
use super::node::quoted;

/// Keys of Compose files and of docker's command line whose field has another name here.
const SYNONYMS: &[(&str, &[&str])] = &[
    ("services", &["containers"]),
    ("volumes", &["mounts"]),
    ("env", &["environment"]),
    ("cmd", &["command"]),
    ("args", &["command"]),
    ("memory", &["mem_limit"]),
    ("memory_limit", &["mem_limit"]),
    ("memory_reservation", &["mem_reservation"]),
    ("memory_swap", &["memswap_limit"]),
    ("mem_swap_limit", &["memswap_limit"]),
    ("cpu_set", &["cpuset"]),
    ("cpuset_cpus", &["cpuset"]),
    ("cpu_count", &["cpus"]),
    ("net", &["network_mode"]),
    ("dns_options", &["dns_opt"]),
    ("hosts", &["extra_hosts"]),
    ("add_host", &["extra_hosts"]),
    ("log_driver", &["logging"]),
    ("log_opt", &["logging"]),
    ("restart_policy", &["restart"]),
    ("userns", &["userns_mode"]),
    ("stop_timeout", &["stop_grace_period"]),
    ("interactive", &["stdin_open"]),
    ("rm", &["auto_remove"]),
    ("workdir", &["working_dir"]),
    ("name", &["container_name"]),
    ("size_limit", &["size"]),
    ("src", &["source"]),
    ("dst", &["target"]),
    ("destination", &["target"]),
    ("path", &["target"]),
    ("readonly", &["read_only"]),
    ("ro", &["read_only"]),
    ("max_retries", &["maximum_retry_count"]),
    ("max_attempts", &["maximum_retry_count"]),
    ("host_port", &["published"]),
    ("container_port", &["target"]),
    ("internal_port", &["target"]),
    ("ip", &["host_ip", "ipv4_address"]),
];

/// Keys of Compose files that have no field here, and what to do instead.
const WITHOUT_FIELD: &[(&str, &str)] = &[
    ("version", "take it out: the fields are those of this version of Plumbline"),
    ("env_file", "nothing is read from other files: write the variables under environment"),
    ("build", "Plumbline does not build images: name one under image"),
    ("deploy", "write mem_limit, cpus, restart and update_config in the container itself"),
    ("configs", "mount the file with a bind mount under mounts"),
    ("secrets", "mount the file with a bind mount under mounts"),
    ("profiles", "make it a module of its own"),
    ("extends", "write the fields out"),
    ("disable", "write test: [NONE]"),
];

/// The fault of a key that is not a field of this message, with what may have been meant if that is asked for.
pub(super) fn unknown(descriptor: &MessageDescriptor, key: &str, at: Position, suggest: bool) -> Fault {
    let message = format!("unknown key {}", quoted(key));
    if !suggest {
        return Fault::new(at, message, "");
    }
    let names = super::walk::field_names(descriptor);
    let is_field = |name: &str| names.iter().any(|field| field == name);
    let plain = simple(key);
    let synonym = SYNONYMS
        .iter()
        .filter(|(other, _)| simple(other) == plain)
        .flat_map(|(_, fields)| fields.iter().copied())
        .find(|name| is_field(name));
    let near = || {
        let near = names.iter().map(|name| (distance(&simple(name), &plain), name)).min()?;
        (near.0 <= (plain.chars().count() / 2).clamp(1, 3)).then_some(near.1.as_str())
    };
    let without = || WITHOUT_FIELD.iter().find(|(other, _)| *other == key).map(|(_, remedy)| *remedy);
    let remedy = if let Some(name) = synonym {
        format!("did you mean `{name}`?")
    } else if let Some(remedy) = without() {
        remedy.to_owned()
    } else if let Some(name) = near() {
        format!("did you mean `{name}`?")
    } else if names.len() <= 12 {
        format!("it has {}", names.join(", "))
    } else {
        "`plumb fields` lists the fields".to_owned()
    };
    Fault::new(at, message, remedy)
}

/// Without case, hyphens and underscores.
fn simple(key: &str) -> String {
    key.chars()
        .take(64)
        .filter(char::is_ascii_alphanumeric)
        .map(|letter| letter.to_ascii_lowercase())
        .collect()
}

/// How many letters must be added, taken away, or replaced.
fn distance(one: &str, two: &str) -> usize {
    let two: Vec<char> = two.chars().collect();
    let mut row: Vec<usize> = (0..=two.len()).collect();
    for (line, letter) in one.chars().enumerate() {
        let mut diagonal = line;
        row[0] = line + 1;
        for (column, other) in two.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[two.len()]
}
