//! Which written forms are one and the same, and which are not.

use prost_reflect::{DynamicMessage, ReflectMessage as _};
use serde_json::json;

use super::*;
use crate::catalogue::container_descriptor;

fn message(json: serde_json::Value) -> DynamicMessage {
    let mut message = DynamicMessage::deserialize(container_descriptor(), json).expect("a container");
    normalise(&mut message);
    message
}

fn container(json: serde_json::Value) -> serde_json::Value {
    serde_json::to_value(message(json)).expect("JSON")
}

#[test]
fn forms_that_mean_the_same_become_one() {
    for (left, right) in [
        (
            json!({"capAdd": ["net_admin", "CAP_SYS_TIME"]}),
            json!({"capAdd": ["SYS_TIME", "NET_ADMIN", "NET_ADMIN"]}),
        ),
        (
            json!({"expose": ["8080", "9000-9002/udp"]}),
            json!({"expose": ["9002/UDP", "9001/udp", "9000/udp", "8080/tcp"]}),
        ),
        (json!({"workingDir": "/tmp/../var/"}), json!({"workingDir": "/var"})),
        (json!({"cpuset": "1,0"}), json!({"cpuset": "0-1"})),
        (json!({"stopSignal": "9"}), json!({"stopSignal": "kill"})),
        (json!({"stopSignal": "SIGCLD"}), json!({"stopSignal": "chld"})),
        (json!({"stopSignal": "34"}), json!({"stopSignal": "SIGRTMIN"})),
        (json!({"stopSignal": "37"}), json!({"stopSignal": "RTMIN+3"})),
        (json!({"stopSignal": "50"}), json!({"stopSignal": "sigrtmax-14"})),
        (json!({"stopSignal": "64"}), json!({"stopSignal": "SIGRTMAX"})),
        (json!({"dns": ["::ffff:192.0.2.1"]}), json!({"dns": ["192.0.2.1"]})),
        (json!({"cpus": 0.1}), json!({"cpus": 0.100_000_000_1})),
        (json!({"pidsLimit": -1}), json!({})),
        (json!({"memLimit": 64, "memswapLimit": 128}), json!({"memLimit": 64})),
        (json!({"restart": {"name": "no"}}), json!({})),
        (json!({"dns": []}), json!({"dns": null})),
        (json!({"shmSize": 67_108_864, "privileged": false, "ipc": "private"}), json!({})),
        (json!({"memSwappiness": -1}), json!({})),
        (
            json!({"ulimits": [{"name": "nproc", "soft": 1}, {"name": "NOFILE", "soft": 2}]}),
            json!({"ulimits": [{"name": "nofile", "soft": 2}, {"name": "nproc", "soft": 1}]}),
        ),
        (
            json!({"ports": [{"target": 80, "protocol": "tcp", "published": "0"}]}),
            json!({"ports": [{"target": 80}]}),
        ),
        (
            json!({"devices": [{"source": "/dev/a", "target": "/dev/a/", "permissions": "mwr"}]}),
            json!({"devices": [{"source": "/dev/a", "target": "/dev/a"}]}),
        ),
        (
            json!({"mounts": [{"type": "bind", "source": "/h//d/", "target": "/data/", "bind": {"propagation": "rprivate"}}]}),
            json!({"mounts": [{"type": "bind", "source": "/h/d", "target": "/data"}]}),
        ),
        (json!({"tmpfs": {"/run/": "size=1m"}}), json!({"tmpfs": {"/run": "size=1m"}})),
    ] {
        assert_eq!(container(left.clone()), container(right.clone()), "{left} and {right}");
    }
}

#[test]
fn forms_that_mean_something_else_stay_apart() {
    for (left, right) in [
        (json!({"entrypoint": {"values": []}}), json!({})),
        (json!({"init": false}), json!({})),
        (json!({"capAdd": ["CAP_CAP_KILL"]}), json!({"capAdd": ["CAP_KILL"]})),
        (json!({"capAdd": ["CAP_ALL"]}), json!({"capAdd": ["ALL"]})),
        (json!({"stopSignal": "SIGSIGKILL"}), json!({"stopSignal": "SIGKILL"})),
        (json!({"expose": ["9-1"]}), json!({})),
        (json!({"cpuset": "3-1"}), json!({})),
        (json!({"stopGracePeriod": "0s"}), json!({})),
        (json!({"memSwappiness": 0}), json!({})),
        (json!({"maskedPaths": {"values": []}}), json!({})),
        (json!({"environment": {"A": ""}}), json!({})),
        (json!({"dns": ["192.0.2.1", "192.0.2.2"]}), json!({"dns": ["192.0.2.2", "192.0.2.1"]})),
        (json!({"networks": {"a": {}}}), json!({})),
        (json!({"ports": [{"target": 80, "hostIp": "127.0.0.1"}]}), json!({"ports": [{"target": 80}]})),
    ] {
        assert_ne!(container(left.clone()), container(right.clone()), "{left} and {right}");
    }
}

#[test]
fn doing_it_twice_changes_nothing_more() {
    let once =
        message(json!({"capAdd": ["cap_net_admin"], "expose": ["1-3"], "cpus": 0.3, "cpuset": "3,1,2"}));
    let mut twice = once.clone();
    normalise(&mut twice);
    assert_eq!(once, twice);
    // More processors than a number can count in units of 1e-9: as they are.
    for cpus in [1e16, 1.234_567_890_123e9, 1e300] {
        assert_eq!(container(json!({"cpus": cpus})), json!({"cpus": cpus}));
    }
    let typed: crate::proto::v1::ContainerSpec = once.transcode_to().expect("a container");
    assert_eq!(typed.transcode_to_dynamic(), once);
}
