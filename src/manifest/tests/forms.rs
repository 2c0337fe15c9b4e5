//! Two ways to write a container: the same, or not, as engines mean it. Every row goes the whole way of a manifest:
//! read, normalised, compared. What engines do was measured on 20.10, 26.1 and 28.5, or on 20.10 where it says so.

use prost_reflect::DynamicMessage;

use super::{manifest, module, refused};
use crate::catalogue::{ApiVersion, Path};
use crate::diff::{Comparison, diff};
use crate::manifest::walk::dynamic;
use crate::normal::normalise;

/// The container `web` with these lines, in normal form.
fn container(lines: &str) -> DynamicMessage {
    let text =
        manifest(lines) + "networks: {front: {external: true}, back: {external: true}}\nvolumes: {data: }\n";
    let module = dynamic(&module(&text));
    let containers = module.get_field_by_name("containers").expect("a module has containers");
    let mut containers = containers.as_map().expect("a map").values();
    let mut web = containers.next().and_then(prost_reflect::Value::as_message).expect("web").clone();
    normalise(&mut web);
    web
}

/// What differs, whichever of the two is declared.
fn differences(one: &str, other: &str) -> Vec<String> {
    let (one, other) = (container(one), container(other));
    let compare = |desired, observed| {
        let comparison = Comparison {
            declared: desired,
            desired,
            observed,
            previous: None,
            as_running: None,
            api: ApiVersion::NEWEST,
        };
        diff(&comparison, &Path::default().field("containers").key("web"))
    };
    let changes = [compare(&one, &other), compare(&other, &one)].concat();
    changes.iter().map(|change| change.path.to_string().replacen("containers.web.", "", 1)).collect()
}

#[track_caller]
fn same(pairs: &[(&str, &str)]) {
    for (one, other) in pairs {
        assert_eq!(differences(one, other), Vec::<String>::new(), "{one}\n{other}");
    }
}

#[track_caller]
fn different(pairs: &[(&str, &str, &str)]) {
    for (one, other, path) in pairs {
        assert_eq!(differences(one, other), [*path, *path], "{one}\n{other}");
    }
}

#[test]
fn ports() {
    same(&[
        ("expose: [8080]", "expose: [8080/tcp]"),
        ("expose: [8080/UDP]", "expose: [8080/udp]"),
        ("expose: [80-82/udp]", "expose: [82/udp, 80/udp, 81/udp]"),
        ("expose: [80, 81]", "expose: [81/tcp, 80, 80/tcp]"),
        ("ports: [\"8080:80\"]", "ports: [\"8080:80/tcp\"]"),
        ("ports: [\"8080:80/UDP\"]", "ports: [\"8080:80/udp\"]"),
        ("ports: [\"8080:80\"]", "ports: [{target: 80, published: 8080, protocol: tcp}]"),
        ("ports: [\"8000-8001:80-81\"]", "ports: [\"8001:81\", \"8000:80\"]"),
        ("ports: [80]", "ports: [\"0:80\"]"),
        ("ports: [\"80:80\", \"127.0.0.1:81:80\"]", "ports: [\"127.0.0.1:81:80\", \"80:80\"]"),
        ("ports: [\"80:80\"]", "ports: [{target: 80, published: 80, host_ip: }]"),
        ("ports: [\"[::1]:80:80\"]", "ports: [\"[0:0:0:0:0:0:0:1]:80:80\"]"),
        (
            "ports: [\"[2001:DB8::A]:80:80\"]",
            "ports: [{target: 80, published: 80, host_ip: \"2001:db8:0::a\"}]",
        ),
        // Measured on 20.10: it listens on 127.0.0.1.
        ("ports: [\"[::ffff:127.0.0.1]:80:80\"]", "ports: [\"127.0.0.1:80:80\"]"),
    ]);
    different(&[
        ("expose: [8080/tcp]", "expose: [8080/udp]", "expose"),
        ("ports: [\"8080:80\"]", "ports: [\"8081:80\"]", "ports[80/tcp].published"),
        ("ports: [\"8000-8010:80\"]", "ports: [\"8000:80\"]", "ports[80/tcp].published"),
        // Measured on 20.10: without an address it listens on :: as well.
        ("ports: [\"80:80\"]", "ports: [\"0.0.0.0:80:80\"]", "ports[80/tcp].host_ip"),
        ("ports: [\"0.0.0.0:80:80\"]", "ports: [\"[::]:80:80\"]", "ports[80/tcp].host_ip"),
    ]);
}

#[test]
fn paths_mounts_and_devices() {
    same(&[
        ("working_dir: /app/", "working_dir: /app"),
        ("working_dir: //app/./x/..", "working_dir: /app"),
        ("mounts: [\"/srv/:/data/\"]", "mounts: [\"/srv:/data\"]"),
        ("mounts: [\"//srv/./a/../b:/data//x\"]", "mounts: [\"/srv/b:/data/x:rw\"]"),
        (
            "mounts: [\"/srv:/data:ro\"]",
            "mounts: [{type: bind, source: /srv, target: /data, read_only: true}]",
        ),
        ("mounts: [\"/srv:/data\"]", "mounts: [{type: bind, source: /srv, target: /data, read_only: false}]"),
        ("mounts: [\"/srv:/data:rprivate\"]", "mounts: [\"/srv:/data\"]"),
        ("mounts: [\"data:/data\"]", "mounts: [{type: volume, source: data, target: /data, volume: {}}]"),
        ("mounts: [/a, \"data:/b\"]", "mounts: [\"data:/b\", /a]"),
        ("tmpfs: /run", "tmpfs: [/run]"),
        ("tmpfs: /run", "tmpfs: {/run: }"),
        ("tmpfs: [\"/run:size=1m\"]", "tmpfs: {/run/: size=1m}"),
        (
            "mounts: [{type: tmpfs, target: /run, tmpfs: {mode: 0700, size: 1m}}]",
            "mounts: [{type: tmpfs, target: /run, tmpfs: {mode: \"0700\", size: 1048576}}]",
        ),
        (
            "mounts: [{type: tmpfs, target: /run, tmpfs: {mode: 700}}]",
            "mounts: [{type: tmpfs, target: /run, tmpfs: {mode: 0o700}}]",
        ),
        ("devices: [/dev/fuse]", "devices: [\"/dev/fuse:/dev/fuse:rwm\"]"),
        (
            "devices: [\"/dev/fuse:mr\"]",
            "devices: [{source: /dev/fuse, target: /dev//fuse, permissions: rm}]",
        ),
        ("devices: [/dev/a, /dev/b]", "devices: [/dev/b, /dev/a]"),
        ("masked_paths: [/a, /b]", "masked_paths: [/b, /a]"),
    ]);
    different(&[
        ("working_dir: /app", "working_dir: /App", "working_dir"),
        ("mounts: [\"/srv:/data\"]", "mounts: [\"/srv:/data:ro\"]", "mounts[/data].read_only"),
        ("mounts: [\"/srv:/data\"]", "mounts: [\"/srv:/data:cached\"]", "mounts[/data].consistency"),
        ("tmpfs: {/run: size=1m}", "tmpfs: {/run: size=2m}", "tmpfs[/run]"),
        ("devices: [/dev/fuse]", "devices: [\"/dev/fuse:r\"]", "devices[/dev/fuse].permissions"),
    ]);
    refused("working_dir: app", &["containers.web.working_dir", "begin it with /"]);
    refused("mounts: [\"srv/a:/data\"]", &["containers.web.mounts[0]", "write the whole path"]);
}

#[test]
fn numbers_in_any_unit() {
    same(&[
        ("mem_limit: 1g", "mem_limit: 1024m"),
        ("mem_limit: 1g", "mem_limit: 1073741824"),
        ("mem_limit: 1GiB", "mem_limit: \"1048576k\""),
        ("mem_limit: 0", ""),
        ("mem_limit: 1g\nmemswap_limit: 2g", "mem_limit: 1g"),
        ("shm_size: 64m", ""),
        ("stop_grace_period: 90s", "stop_grace_period: 1m30s"),
        ("healthcheck: {interval: 1.5s}", "healthcheck: {interval: 1500ms}"),
        ("healthcheck: {interval: 0s}", ""),
        ("cpus: 1", "cpus: \"1.0\""),
        ("cpus: 0.1", "cpus: 0.1000000001"),
        ("cpu_period: 50ms", "cpu_period: 50000"),
        ("cpuset: 0-2", "cpuset: \"2,0,1\""),
        ("cpuset: 0-1,1", "cpuset: 0-1"),
        ("pids_limit: -1", "pids_limit: 0"),
        ("pids_limit: -1", ""),
        ("mem_swappiness: -1", ""),
        ("ulimits: {nofile: 1024}", "ulimits: {nofile: {soft: 1024, hard: 1024}}"),
        (
            "ulimits: {nofile: 1024, core: -1}",
            "ulimits: [{name: core, soft: -1, hard: -1}, {name: NOFILE, soft: 1024, hard: 1024}]",
        ),
    ]);
    different(&[
        ("mem_limit: 1g", "mem_limit: 1025m", "mem_limit"),
        ("mem_limit: 1g\nmemswap_limit: -1", "mem_limit: 1g", "memswap_limit"),
        ("stop_grace_period: 0s", "", "stop_grace_period"),
        ("mem_swappiness: 0", "", "mem_swappiness"),
        ("ulimits: {nofile: 1024}", "ulimits: {nofile: {soft: 1024, hard: 2048}}", "ulimits[nofile].hard"),
    ]);
}

#[test]
fn nothing_and_what_is_not_declared() {
    same(&[
        ("dns: ", "dns: []"),
        ("dns: []", ""),
        ("environment: {}", "environment: "),
        ("hostname: ~", ""),
        ("hostname: \"\"", ""),
        ("user: \"\"", ""),
        ("command: []", ""),
        ("entrypoint: ~", ""),
        ("healthcheck: {}", ""),
        ("networks: {front: }", "networks: {front: {aliases: []}}"),
        ("restart: no", ""),
        ("restart: {name: no}", "restart: {}"),
        ("restart: on-failure", "restart: {name: on-failure, maximum_retry_count: 0}"),
        ("privileged: false", ""),
        ("tty: false\nread_only: false\nauto_remove: false\nstdin_open: false", ""),
        ("oom_kill_disable: false", ""),
        ("network_disabled: false\npublish_all_ports: false", ""),
        ("ipc: private", ""),
        (
            "mounts: [{type: bind, source: /a, target: /b, bind: {non_recursive: false}}]",
            "mounts: [\"/a:/b\"]",
        ),
        ("mounts: [{type: volume, target: /b, volume: {nocopy: false}}]", "mounts: [/b]"),
    ]);
    different(&[
        // The engine's own setting stands in for what is not declared.
        ("init: false", "", "init"),
        // An empty list takes the image's away.
        ("entrypoint: []", "", "entrypoint"),
        ("environment: {A: \"\"}", "", "environment[A]"),
        ("labels: {a: \"\"}", "", "labels[a]"),
        ("networks: [front]", "", "networks[front]"),
        ("restart: always", "restart: unless-stopped", "restart.name"),
    ]);
}

#[test]
fn names_and_other_texts() {
    same(&[
        ("cap_add: [CAP_NET_ADMIN]", "cap_add: [net_admin]"),
        ("cap_drop: [all]", "cap_drop: [ALL]"),
        ("cap_add: [NET_ADMIN, SYS_TIME]", "cap_add: [SYS_TIME, NET_ADMIN, net_admin]"),
        ("mac_address: 02:42:AC:11:00:02", "mac_address: 02-42-ac-11-00-02"),
        ("stop_signal: 9", "stop_signal: kill"),
        ("stop_signal: SIGKILL", "stop_signal: sigkill"),
        ("stop_signal: SIGIOT", "stop_signal: 6"),
        ("stop_signal: 35", "stop_signal: RTMIN+1"),
        ("stop_signal: 63", "stop_signal: SIGRTMAX-1"),
        ("platform: linux/amd64", "platform: Linux/X86_64"),
        ("dns: [\"2001:DB8::1\"]", "dns: [\"2001:db8:0:0:0:0:0:1\"]"),
        ("security_opt: [a, b]", "security_opt: [b, a]"),
        ("links: [\"a:b\", \"c:d\"]", "links: [\"c:d\", \"a:b\"]"),
        ("networks: [front, back]", "networks: {back: , front: {}}"),
        ("networks: {front: {aliases: [a, b]}}", "networks: {front: {aliases: [b, a, a]}}"),
        (
            "networks: {front: {ipv6_address: \"FD00::00A\"}}",
            "networks: {front: {ipv6_address: \"fd00:0:0:0:0:0:0:a\"}}",
        ),
        ("depends_on: []", ""),
    ]);
    different(&[
        ("user: \"0\"", "user: root", "user"),
        // The process sees it letter by letter (measured on 20.10).
        ("hostname: Web", "hostname: web", "hostname"),
        ("cap_add: [ALL]", "cap_add: [NET_ADMIN]", "cap_add"),
        ("stop_signal: SIGTERM", "stop_signal: SIGINT", "stop_signal"),
        ("security_opt: [a]", "security_opt: [A]", "security_opt"),
        ("platform: linux/amd64", "platform: linux/arm64", "platform"),
    ]);
}

#[test]
fn lists_maps_and_their_order() {
    same(&[
        ("environment: [A=1, B=2]", "environment: {B: 2, A: \"1\"}"),
        ("environment: {A: yes}", "environment: [A=yes]"),
        ("labels: [a=1]", "labels: {a: 1}"),
        ("sysctls: [net.core.somaxconn=1024]", "sysctls: {net.core.somaxconn: 1024}"),
        ("logging: {options: [max-size=1m, max-file=3]}", "logging: {options: {max-file: 3, max-size: 1m}}"),
        ("extra_hosts: [\"a:192.0.2.1\"]", "extra_hosts: [a=192.0.2.1]"),
        ("extra_hosts: [\"a:::1\"]", "extra_hosts: [\"a=[::1]\"]"),
        ("extra_hosts: {a: \"::1\"}", "extra_hosts: [\"a:[::1]\"]"),
        ("command: run --fast 'a b'", "command: [run, --fast, a b]"),
        ("healthcheck: {test: curl -f x}", "healthcheck: {test: [CMD-SHELL, curl -f x]}"),
        ("dns: 192.0.2.1", "dns: [192.0.2.1]"),
    ]);
    different(&[
        ("command: [a, b]", "command: [b, a]", "command"),
        ("command: \"a b\"", "command: [a b]", "command"),
        ("dns: [192.0.2.1, 192.0.2.2]", "dns: [192.0.2.2, 192.0.2.1]", "dns"),
        ("dns_search: [a, b]", "dns_search: [b, a]", "dns_search"),
        ("group_add: [a, b]", "group_add: [b, a]", "group_add"),
        (
            "device_cgroup_rules: [a *:* r, b *:* w]",
            "device_cgroup_rules: [b *:* w, a *:* r]",
            "device_cgroup_rules",
        ),
        ("extra_hosts: [a=192.0.2.1, a=192.0.2.2]", "extra_hosts: [a=192.0.2.2, a=192.0.2.1]", "extra_hosts"),
    ]);
}
