//! Everything at once: containers that declare as many fields as work together on this engine.

use plumbline::catalogue::container_descriptor;
use plumbline::proto::v1::{Action, ModuleSpec};
use prost_reflect::ReflectMessage as _;
use serde_json::json;

use crate::served::{Served, free_ports, own_subnet};
use crate::site::hold;

fn everything(host: &Served) -> ModuleSpec {
    let folder = host.site.host_folder("data");
    let (subnet, port) = (own_subnet(), free_ports());
    host.site.module(json!({
        "networks": {
            "front": { "ipam": { "config": [{ "subnet": format!("{subnet}.0/24") }] }, "labels": { "n": "1" } },
            "back": { "internal": true }
        },
        "volumes": { "data": { "labels": { "v": "1" } } },
        "containers": {
            "wide": hold(&json!({
                "platform": "linux/amd64", "pull_policy": "never", "container_name": format!("{}-named", host.site.name),
                "hostname": "host-a", "domainname": "a.example", "user": "0:0", "attach_stdin": true,
                "attach_stdout": true, "attach_stderr": true, "tty": true, "stdin_open": true, "stdin_once": true,
                "expose": ["8080", "8081/udp"], "environment": { "A": "1", "EMPTY": "" }, "unset_environment": ["GONE"],
                "entrypoint": ["/bin/entry"], "command": ["sleep", "3600"], "working_dir": "/tmp",
                "healthcheck": {
                    "test": ["CMD", "true"], "interval": "20s", "timeout": "3s", "retries": 2, "start_period": "6s"
                },
                "mac_address": "02:42:ac:11:00:0a", "on_build": ["RUN true"], "labels": { "k.a": "1", "k.b": "" },
                "stop_signal": "SIGINT", "stop_grace_period": "5s", "shell": ["/bin/sh", "-c"], "cpu_shares": 512,
                "mem_limit": "64m", "mem_reservation": "32m", "memswap_limit": "96m", "mem_swappiness": 10,
                "cpus": 0.5, "cpuset": "0", "cpuset_mems": "0", "pids_limit": 100, "oom_kill_disable": true,
                "oom_score_adj": 100, "ulimits": { "nofile": { "soft": 100, "hard": 200 } },
                "devices": [{ "source": "/dev/zero", "target": "/dev/plf0", "permissions": "rw" }],
                "device_cgroup_rules": ["c 10:229 rwm"], "init": true,
                "restart": { "name": "on-failure", "maximum_retry_count": 3 },
                "logging": { "driver": "local", "options": { "max-file": "3", "max-size": "1m" } },
                "networks": {
                    "front": { "aliases": ["al-a"], "ipv4_address": format!("{subnet}.10"), "links": ["deep:px"] },
                    "back": { "aliases": ["al-b", "al-c"], "driver_opts": { "com.example.k": "1" } }
                },
                "ports": [format!("127.0.0.1:{port}:8080"), "8082"], "dns": ["192.0.2.1"], "dns_opt": ["ndots:2"],
                "dns_search": ["a.example"], "extra_hosts": ["one:192.0.2.1"],
                "mounts": [
                    { "type": "bind", "source": folder, "target": "/m", "read_only": true, "consistency": "cached",
                      "bind": { "propagation": "private", "non_recursive": true } },
                    { "type": "volume", "source": "data", "target": "/v", "volume": { "nocopy": true } },
                    { "type": "volume", "target": "/anonymous" },
                    { "type": "tmpfs", "target": "/cache", "tmpfs": { "size": "1m", "mode": "0700" } }
                ],
                "tmpfs": { "/t": "rw,noexec,size=65536k" }, "cap_add": ["NET_ADMIN"], "cap_drop": ["MKNOD"],
                "read_only": true, "security_opt": ["no-new-privileges"], "group_add": ["2000"], "ipc": "shareable",
                "userns_mode": "host", "cgroup": "private", "cgroup_parent": format!("/{}", host.site.name),
                "shm_size": "32m", "sysctls": { "net.ipv4.ip_forward": "1" }, "runtime": "runc",
                "masked_paths": ["/proc/kcore"], "readonly_paths": []
            })),
            "deep": hold(&json!({
                "cpu_period": 50_000, "cpu_quota": 25_000, "auto_remove": true, "publish_all_ports": true,
                "networks": { "front": {} }, "volume_driver": "local", "masked_paths": [], "entrypoint": [],
                "command": ["/bin/hold"]
            })),
            "guest": hold(&json!({
                "network_mode": "container:wide", "ipc": "container:wide", "pid": "container:wide",
                "volumes_from": [format!("{}-named:ro", host.site.name)]
            })),
            "linked": hold(&json!({ "links": ["host:dl"], "uts": "host", "pid": "host" })),
            "host": hold(&json!({ "network_mode": "bridge", "restart": "unless-stopped" })),
            "apart": hold(&json!({ "network_disabled": true, "network_mode": "none" }))
        }
    }))
}

/// Leaves that no engine of this age holds, that no container has beside the rest, or that need what this host lacks.
const LEFT_OUT: [&str; 8] = [
    "annotations",
    "blkio_config",
    "cgroup_container",
    "console_size",
    "cpu_rt_period",
    "cpu_rt_runtime",
    "device_requests",
    "privileged",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_module_that_declares_nearly_everything_is_created_once_and_at_rest() {
    let host = Served::new("broad").await;
    let spec = everything(&host);
    let declared: Vec<String> = spec
        .containers
        .values()
        .flat_map(|container| {
            let container = container.transcode_to_dynamic();
            container.fields().map(|(field, _)| field.name().to_owned()).collect::<Vec<_>>()
        })
        .collect();
    let missing: Vec<String> = container_descriptor()
        .fields()
        .map(|field| field.name().to_owned())
        .filter(|name| !declared.contains(name) && !LEFT_OUT.contains(&name.as_str()))
        .collect();
    assert_eq!(missing, ["depends_on", "storage_opt"], "add it to the spec above, or to what is left out");

    let result = host.apply(&spec, false).await;
    for object in &result.objects {
        assert_eq!(object.action(), Action::Created, "{}", object.key);
        let residue: Vec<&String> = object.residue.iter().map(|residue| &residue.path_text).collect();
        assert_eq!(residue, Vec::<&String>::new(), "read back differently");
    }
    host.settled(&spec).await;
}
