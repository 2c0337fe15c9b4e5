//! What the kernel, or the runtime in its name, refuses when the container starts: limits, device rules, settings, the
//! host name. An engine creates the container all the same (measured on 20.10).

use super::Findings;
use crate::catalogue::Path;
use crate::manifest::node::quoted;
use crate::proto::v1::ContainerSpec;

/// The limits of setrlimit(2).
const LIMITS: [&str; 16] = [
    "as",
    "core",
    "cpu",
    "data",
    "fsize",
    "locks",
    "memlock",
    "msgqueue",
    "nice",
    "nofile",
    "nproc",
    "rss",
    "rtprio",
    "rttime",
    "sigpending",
    "stack",
];
/// Most bytes of a host name: `__NEW_UTS_LEN`.
const LONGEST_HOST_NAME: usize = 64;

pub(super) fn check(container: &ContainerSpec, path: &Path, findings: &mut Findings) {
    check_limits(container, &path.field("ulimits"), findings);
    check_sysctls(container, &path.field("sysctls"), findings);
    for (index, rule) in container.device_cgroup_rules.iter().enumerate() {
        if !is_device_rule(rule) {
            let path = path.field("device_cgroup_rules").key(&index.to_string());
            let remedy =
                "write TYPE MAJOR:MINOR LETTERS, as c 10:229 rwm: a type of a, b or c, * for any number";
            findings.add(&path, format!("{} is not a rule for devices", quoted(rule)), remedy);
        }
    }
    if let Some(name) = &container.hostname {
        let path = path.field("hostname");
        if name.len() > LONGEST_HOST_NAME {
            let message = format!("it has {} bytes, and Linux takes {LONGEST_HOST_NAME}", name.len());
            findings.add(&path, message, "give a shorter name");
        }
        // An engine takes them, and /etc/hosts then says something else.
        if name.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
            let remedy = "use letters, digits, hyphens and dots";
            findings.add(&path, format!("{} is not a host's name", quoted(name)), remedy);
        }
    }
}

fn check_limits(container: &ContainerSpec, path: &Path, findings: &mut Findings) {
    for (index, limit) in container.ulimits.iter().enumerate() {
        let path = path.key(&index.to_string());
        if let Some(name) = limit.name.as_deref().filter(|name| !name.is_empty())
            && !LIMITS.contains(&name.to_ascii_lowercase().as_str())
        {
            let message = format!("{} is not a limit that Linux has", quoted(name));
            findings.add(&path.field("name"), message, format!("the limits are {}", LIMITS.join(", ")));
        }
        match (limit.soft, limit.hard) {
            (Some(soft), Some(hard)) => {
                if hard != -1 && (soft > hard || soft == -1) {
                    findings.add(&path, "the soft limit is above the hard one", "raise hard, or lower soft");
                }
            }
            _ => findings.add(&path, "a limit needs both soft and hard", "declare both"),
        }
    }
}

/// `c 10:229 rwm`, letter by letter as engines take it.
fn is_device_rule(rule: &str) -> bool {
    let number = |text: &str| {
        text == "*" || (text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u32>().is_ok())
    };
    let [kind, numbers, letters] = rule.split(' ').collect::<Vec<_>>()[..] else { return false };
    matches!(kind, "a" | "b" | "c")
        && numbers.split_once(':').is_some_and(|(major, minor)| number(major) && number(minor))
        && (1..=3).contains(&letters.len())
        && letters.bytes().all(|letter| b"rwm".contains(&letter))
}

/// Which settings there are depends on kernel and runtime; how a name looks, and which namespace it needs, does not.
fn check_sysctls(container: &ContainerSpec, path: &Path, findings: &mut Findings) {
    let is_host = |mode: &Option<String>| mode.as_deref() == Some("host");
    for name in container.sysctls.keys().filter(|name| !name.is_empty()) {
        let path = path.key(name);
        let dotted = name.replace('/', ".");
        let is_part = |part: &str| !part.is_empty() && !part.contains(char::is_whitespace);
        if !dotted.contains('.') || !dotted.split('.').all(is_part) {
            let message = format!("{} is not the name of a kernel setting", quoted(name));
            findings.add(&path, message, "write it as net.ipv4.ip_forward");
        } else if dotted == "kernel.hostname" {
            findings.add(&path, "a runtime sets the host name itself", "declare hostname instead");
        } else if dotted.starts_with("net.") && is_host(&container.network_mode) {
            let remedy = "set it on the host, or give the container a network of its own";
            findings.add(&path, "it would be the host's, with network_mode host", remedy);
        } else if is_of_ipc(&dotted) && is_host(&container.ipc) {
            let remedy = "set it on the host, or take ipc host out";
            findings.add(&path, "it would be the host's, with ipc host", remedy);
        }
    }
}

fn is_of_ipc(name: &str) -> bool {
    const OF_KERNEL: [&str; 3] = ["kernel.msg", "kernel.sem", "kernel.shm"];
    name.starts_with("fs.mqueue.") || OF_KERNEL.iter().any(|prefix| name.starts_with(prefix))
}
