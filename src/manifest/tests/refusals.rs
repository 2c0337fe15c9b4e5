//! What engines take without a word although it is nonsense, or refuse only when a container is created or started: in
//! the middle of an apply. Each row was tried on an engine 20.10. And what looks alike and is right: to refuse that
//! would be a fault as well.

use super::{manifest, read_all, web};
use crate::manifest::Problem;

fn problems(text: &str) -> Vec<Problem> {
    match read_all(text) {
        Ok(_) => panic!("{text}\nwas taken"),
        Err(error) => error.problems,
    }
}

/// The problem is at this path below the module, says this, and what to do about it, and is the only one.
#[track_caller]
fn refused_at(text: &str, path: &str, part: &str) {
    let problems = problems(text);
    let [problem] = problems.as_slice() else { panic!("{text}\ngave: {problems:?}") };
    assert_eq!(problem.path, path, "{text}\ngave: {problem}");
    assert!(problem.message.contains(part), "{text}\ngave: {problem}");
    assert!(!problem.remedy.is_empty(), "{text}\ngave no remedy: {problem}");
    assert!(problem.position.is_some(), "{text}\ngave no place: {problem}");
}

#[track_caller]
fn refused(rows: &[(&str, &str, &str)]) {
    for (lines, path, part) in rows {
        refused_at(&manifest(lines), &format!("containers.web.{path}"), part);
    }
}

#[test]
fn ports() {
    refused(&[
        // Each of these an engine publishes on all addresses.
        ("ports: [\"x:80:80\"]", "ports[0]", "is not an IP address"),
        ("ports: [{target: 80, host_ip: x}]", "ports[0].host_ip", "is not an IP address"),
        ("ports: [{target: 80, host_ip: 127.1}]", "ports[0].host_ip", "is not an IP address"),
        ("ports: [{target: 80, host_ip: 127.0.0.1/8}]", "ports[0].host_ip", "is not an IP address"),
        ("ports: [{target: 80, host_ip: \"fe80::1%eth0\"}]", "ports[0].host_ip", "is not an IP address"),
        // Nobody can listen there.
        ("ports: [\"[fe80::1]:80:80\"]", "ports[0].host_ip", "of one link only"),
        ("ports: [{target: 80, published: 70000}]", "ports[0].published", "is not a port"),
        ("ports: [{target: 80, published: 90-80}]", "ports[0].published", "is not a port"),
        ("ports: [{target: 80, published: http}]", "ports[0].published", "is not a port"),
        ("ports: [{target: 0}]", "ports[0].target", "out of range"),
        ("ports: [{target: 80, protocol: icmp}]", "ports[0].protocol", "is not allowed"),
        ("expose: [80/x]", "expose[0]", "is not a container port"),
        ("expose: [82-80]", "expose[0]", "is not a range of ports"),
    ]);
}

#[test]
fn a_port_of_the_host_is_published_once() {
    for (one, other) in [
        ("80:1", "80:2"),
        ("80:1", "127.0.0.1:80:2"),
        ("80:1", "0.0.0.0:80:2"),
        ("80:1", "[::]:80:2"),
        ("80:1", "[::1]:80:2"),
        ("0.0.0.0:80:1", "127.0.0.1:80:2"),
        ("[::]:80:1", "[::1]:80:2"),
        ("127.0.0.1:80:1", "[::ffff:127.0.0.1]:80:2"),
        ("127.0.0.1:80:1", "127.0.0.1:80-80:2"),
        ("80:1/udp", "127.0.0.1:80:2/UDP"),
    ] {
        for (first, second) in [(one, other), (other, one)] {
            let text = manifest(&format!("ports: [\"{first}\", \"{second}\"]"));
            refused_at(&text, "containers.web.ports[1]", "containers.web.ports[0] publishes on port 80/");
            let text = format!(
                "name: shop\ncontainers:\n  a: {{image: x, ports: [\"{first}\"]}}\n  b: {{image: x, ports: [\"1:1\", \"{second}\"]}}\n"
            );
            refused_at(&text, "containers.b.ports[1]", "containers.a.ports[0] publishes on port 80/");
        }
    }
    for (one, other) in [
        ("80:1", "81:1"),
        ("80:1/tcp", "80:1/udp"),
        ("127.0.0.1:80:1", "127.0.0.2:80:2"),
        ("127.0.0.1:80:1", "[::1]:80:1"),
        ("0.0.0.0:80:1", "[::]:80:1"),
        ("0.0.0.0:80:1", "[::1]:80:1"),
        ("[::]:80:1", "127.0.0.1:80:1"),
        // Left to the engine.
        ("80-81:1", "80-81:2"),
        ("80-81:1", "80:2"),
        ("1", "2"),
        ("0:1", "0:2"),
    ] {
        web(&format!("ports: [\"{one}\", \"{other}\"]"));
    }
    refused(&[
        ("ports: [80, 80]", "ports[1]", "published twice"),
        ("ports: [\"1:80\", \"1:80\"]", "ports[1]", "published twice"),
    ]);
}

#[test]
fn limits() {
    refused(&[
        ("mem_limit: 5m", "mem_limit", "at least 6291456"),
        ("mem_reservation: 5m", "mem_reservation", "at least 6291456"),
        ("mem_limit: 64m\nmemswap_limit: 63m", "memswap_limit", "less than mem_limit"),
        ("memswap_limit: 64m", "memswap_limit", "needs mem_limit"),
        ("mem_limit: 64m\nmem_reservation: 65m", "mem_reservation", "more than mem_limit"),
        ("cpus: 1\ncpu_period: 50000", "cpus", "excludes"),
        ("cpus: 1\ncpu_quota: 50000", "cpus", "excludes"),
        ("cpus: 0.001", "cpus", "out of range"),
        ("cpu_quota: 999", "cpu_quota", "out of range"),
        ("cpu_period: 999", "cpu_period", "out of range"),
        ("oom_score_adj: 1001", "oom_score_adj", "out of range"),
        ("oom_score_adj: -1001", "oom_score_adj", "out of range"),
        ("pids_limit: -2", "pids_limit", "out of range"),
        ("shm_size: -1", "shm_size", "out of range"),
        ("ulimits: {files: 1}", "ulimits[0].name", "not a limit that Linux has"),
        ("ulimits: {nofile: {soft: 2, hard: 1}}", "ulimits[0]", "above the hard one"),
        ("ulimits: {nofile: {soft: -1, hard: 1}}", "ulimits[0]", "above the hard one"),
        ("device_requests: [{}]", "device_requests[0]", "asks for nothing"),
        ("restart: always:3", "restart.maximum_retry_count", "no meaning beside always"),
        ("restart: unless-stopped:3", "restart.maximum_retry_count", "no meaning beside unless-stopped"),
        ("restart: on-failure:-1", "restart.maximum_retry_count", "out of range"),
        ("restart: sometimes", "restart.name", "not allowed"),
    ]);
    let all =
        "as core cpu data fsize locks memlock msgqueue nice nofile NPROC rss rtprio rttime sigpending stack";
    for name in all.split(' ') {
        web(&format!("ulimits: {{{name}: 100}}"));
    }
    for lines in [
        "mem_limit: 6m\nmem_reservation: 6m\nmemswap_limit: 6m",
        "cpu_period: 1000\ncpu_quota: 1000",
        "oom_score_adj: -1000",
        "pids_limit: 0",
        "shm_size: 1",
        "restart: on-failure:0",
        "restart: {name: always, maximum_retry_count: 0}",
        "device_requests: [{count: -1, capabilities: [[gpu]]}]",
    ] {
        web(lines);
    }
}

#[test]
fn what_the_kernel_is_asked_for() {
    for rule in [
        "c 10:229",
        "x 1:1 r",
        "a",
        "c 10:229 rwmx",
        "C 10:229 rwm",
        "c  10:229 rwm",
        "c 10:229 rwm ",
        "b 7:-1 r",
        "p 1:1 r",
        "c 99999999999:1 r",
        "c 1 r",
        "c 1: r",
        "",
    ] {
        refused(&[(&format!("device_cgroup_rules: [\"{rule}\"]"), "device_cgroup_rules[0]", "not a rule")]);
    }
    for rule in ["c 10:229 rwm", "a *:* rwm", "b 7:* mrw", "c *:5 r"] {
        web(&format!("device_cgroup_rules: [\"{rule}\"]"));
    }
    let long = format!("hostname: {}", "a".repeat(65));
    refused(&[
        ("sysctls: {foo: 1}", "sysctls[foo]", "not the name of a kernel setting"),
        ("sysctls: {net..x: 1}", "sysctls[net..x]", "not the name of a kernel setting"),
        ("sysctls: {net.ipv4.: 1}", "sysctls[net.ipv4.]", "not the name of a kernel setting"),
        ("sysctls: {\"net.ipv4.ip_forward \": 1}", "sysctls[net.ipv4.ip_forward ]", "not the name"),
        ("sysctls: {kernel.hostname: x}", "sysctls[kernel.hostname]", "sets the host name itself"),
        ("sysctls: {net.core.somaxconn: 9}\nnetwork_mode: host", "sysctls[net.core.somaxconn]", "the host's"),
        ("sysctls: {net/core/somaxconn: 9}\nnetwork_mode: host", "sysctls[net/core/somaxconn]", "the host's"),
        ("sysctls: {kernel.msgmax: 9}\nipc: host", "sysctls[kernel.msgmax]", "the host's"),
        ("sysctls: {fs.mqueue.msg_max: 9}\nipc: host", "sysctls[fs.mqueue.msg_max]", "the host's"),
        (&long, "hostname", "65 bytes"),
        ("hostname: a b", "hostname", "not a host's name"),
        ("hostname: \"a\\n\"", "hostname", "not a host's name"),
        ("cap_add: [CAP_ALL]", "cap_add[0]", "not a capability"),
        ("cap_add: [CAP_CAP_KILL]", "cap_add[0]", "not a capability"),
        ("cap_drop: [\"\"]", "cap_drop[0]", "not a capability"),
        ("stop_signal: SIGFOO", "stop_signal", "not a signal"),
        ("stop_signal: RTMIN+16", "stop_signal", "not a signal"),
        ("stop_signal: RTMAX-15", "stop_signal", "not a signal"),
        ("stop_signal: SIGUNUSED", "stop_signal", "not a signal"),
        ("stop_signal: SIG9", "stop_signal", "not a signal"),
        ("stop_signal: 65", "stop_signal", "not a signal"),
        ("stop_signal: 0", "stop_signal", "not a signal"),
        ("mac_address: ff:ff:ff:ff:ff:ff", "mac_address", "of one device"),
        ("mac_address: 03:42:ac:11:00:02", "mac_address", "of one device"),
    ]);
    let longest = format!("hostname: {}", "a".repeat(64));
    for lines in [
        longest.as_str(),
        "hostname: a_b.example",
        "sysctls: {net/ipv4/ip_forward: 1, kernel.shmmax: 1, kernel.domainname: x}",
        "sysctls: {net.core.somaxconn: 9}\nnetwork_mode: container:other",
        "sysctls: {kernel.msgmax: 9}\nnetwork_mode: host",
        "stop_signal: RTMIN+15",
        "stop_signal: sigrtmax-14",
        "stop_signal: 64",
        "cap_add: [CAP_KILL, all]",
    ] {
        web(lines);
    }
}

#[test]
fn mounts() {
    refused(&[
        (
            "mounts: [{type: volume, target: /a, read_only: true}]",
            "mounts[0].read_only",
            "no anonymous volume",
        ),
        ("mounts: [/a, /a/]", "mounts[1].target", "already the target"),
        ("mounts: [/a, //a]", "mounts[1].target", "already the target"),
        ("mounts: [/a, /b/../a]", "mounts[1].target", "already the target"),
        ("mounts: [/a]\ntmpfs: /a/.", "tmpfs[/a/.]", "already the target"),
        ("tmpfs: [/a, /a/]", "tmpfs[/a/]", "already the target"),
        ("mounts: [\"/srv:/\"]", "mounts[0].target", "over the whole container"),
        ("mounts: [\"/srv:/a/..\"]", "mounts[0].target", "over the whole container"),
        ("tmpfs: a", "tmpfs[a]", "not an absolute path"),
    ]);
    for lines in [
        "mounts: [/a, /A]",
        "mounts: [/a, /a/b]",
        "mounts: [{type: volume, target: /a, read_only: false}]",
        "mounts: [{type: tmpfs, target: /a, read_only: true}]",
    ] {
        web(lines);
    }
}

#[test]
fn names_and_texts() {
    refused(&[
        ("environment: {\"\": x}", "environment[]", "a key is empty"),
        ("environment: {\"A=B\": x}", "environment[A=B]", "not the name of a variable"),
        ("environment: {\"A\\0\": x}", "environment[A\0]", "NUL"),
        ("environment: {A: \"x\\0\"}", "environment[A]", "NUL"),
        ("unset_environment: [\"A=\"]", "unset_environment[0]", "not the name of a variable"),
        ("labels: {dev.plumbline.module: x}", "labels[dev.plumbline.module]", "Plumbline's own"),
        ("logging: {driver: JSON-FILE}", "logging.driver", "not the name of a log driver"),
        ("logging: {driver: json file}", "logging.driver", "not the name of a log driver"),
        ("extra_hosts: [\"a b:192.0.2.1\"]", "extra_hosts[0]", "not name:address"),
        ("extra_hosts: [\"a:x\"]", "extra_hosts[0]", "not name:address"),
        ("healthcheck: {test: [curl, x]}", "healthcheck.test", "not a kind of check"),
        ("healthcheck: {test: [NONE, x]}", "healthcheck.test", "stands alone"),
        ("healthcheck: {test: [CMD]}", "healthcheck.test", "no program"),
        ("healthcheck: {test: [CMD-SHELL, a, b]}", "healthcheck.test", "takes one line"),
        ("healthcheck: {interval: 999us}", "healthcheck.interval", "shorter than 1ms"),
        ("healthcheck: {timeout: 1ns}", "healthcheck.timeout", "shorter than 1ms"),
        ("healthcheck: {start_period: -1s}", "healthcheck.start_period", "shorter than 1ms"),
        ("healthcheck: {start_interval: 1us}", "healthcheck.start_interval", "shorter than 1ms"),
        ("healthcheck: {retries: -1}", "healthcheck.retries", "out of range"),
        ("update_config: {monitor: 0s}", "update_config.monitor", "for 0s"),
        ("update_config: {monitor: -5s}", "update_config.monitor", "shorter than 1ms"),
        ("update_config: {monitor: 1us}", "update_config.monitor", "shorter than 1ms"),
        ("update_config: {monitor: 24h1s}", "update_config.monitor", "longer than 24h"),
        ("update_config: {healthy_deadline: 0s}", "update_config.healthy_deadline", "for 0s"),
        ("update_config: {healthy_deadline: 24h1ms}", "update_config.healthy_deadline", "longer than 24h"),
    ]);
    for lines in [
        "environment: {\"A B\": \"=\", a.b-c: x}",
        "labels: {dev.plumblines: x}",
        "logging: {driver: json-file}",
        "logging: {driver: none}",
        "logging: {driver: \"loki:latest\"}",
        "logging: {driver: \"Registry.example:5000/some/driver:V1\"}",
        "extra_hosts: [\"a:host-gateway\"]",
        "healthcheck: {interval: 1ms, timeout: 0s}",
        "update_config: {monitor: 24h, healthy_deadline: 1ms}",
    ] {
        web(lines);
    }
}

/// A module with two containers on one network of its own.
fn two_on_a_network(a: &str, b: &str) -> String {
    let pools = "[{subnet: 172.31.77.0/24, gateway: 172.31.77.1}, {subnet: \"fd00:77::/64\"}]";
    format!(
        "name: shop\ncontainers:\n  a: {{image: x, networks: {{n: {a}}}}}\n  b: {{image: x, networks: {{n: {b}, m: {{ipv4_address: 10.0.0.1}}}}}}\nnetworks: {{n: {{ipam: {{config: {pools}}}}}, m: {{external: true}}}}\n"
    )
}

#[test]
fn addresses_and_aliases_on_networks() {
    for (a, b, path, part) in [
        (
            "{ipv4_address: 172.31.77.9}",
            "{ipv4_address: 172.31.77.9}",
            "b.networks[n].ipv4_address",
            "a.networks[n].ipv4_address is",
        ),
        (
            "{ipv6_address: \"fd00:77::9\"}",
            "{ipv6_address: \"FD00:77:0::9\"}",
            "b.networks[n].ipv6_address",
            "fd00:77::9, too",
        ),
        ("{ipv4_address: 172.31.78.9}", "{}", "a.networks[n].ipv4_address", "in no subnet of n"),
        ("{ipv6_address: \"fd00:78::9\"}", "{}", "a.networks[n].ipv6_address", "in no subnet of n"),
        ("{ipv4_address: 172.31.77.1}", "{}", "a.networks[n].ipv4_address", "the gateway of n"),
        ("{ipv4_address: \"fd00:77::9\"}", "{}", "a.networks[n].ipv4_address", "not an IPv4 address"),
        ("{ipv6_address: 172.31.77.9}", "{}", "a.networks[n].ipv6_address", "not an IPv6 address"),
        ("{aliases: [\"\"]}", "{}", "a.networks[n].aliases[0]", "nobody can ask for"),
        ("{aliases: [x, a b]}", "{}", "a.networks[n].aliases[1]", "nobody can ask for"),
    ] {
        refused_at(&two_on_a_network(a, b), &format!("containers.{path}"), part);
    }
    for (a, b) in [
        ("{ipv4_address: 172.31.77.9}", "{ipv4_address: 172.31.77.10}"),
        ("{ipv4_address: 172.31.77.9, ipv6_address: \"fd00:77::9\"}", "{}"),
        // Of a network that exists already nothing is known: m has this address, too.
        ("{}", "{}"),
        ("{aliases: [same]}", "{aliases: [same]}"),
    ] {
        super::module(&two_on_a_network(a, b));
    }
    let names = "name: shop\ncontainers: {a: {image: x, container_name: shop-b}, b: {image: x}}\n";
    refused_at(names, "containers.b", "same name at the engine as a");
}
