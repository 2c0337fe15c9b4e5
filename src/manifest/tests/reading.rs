//! What short forms and friendly units mean.

use std::collections::BTreeMap;

use super::{module, read_all, refused, web};
use crate::proto::v1::{BindOptions, Device, ModuleSpec, Mount, Port, RestartPolicy, Ulimit, VolumeOptions};

#[test]
fn sizes_are_powers_of_1024() {
    for (text, bytes) in [
        ("536870912", 512 << 20),
        ("\"536870912\"", 512 << 20),
        ("524288k", 512 << 20),
        ("64m", 64 << 20),
        ("64M", 64 << 20),
        ("64mb", 64 << 20),
        ("64 MB", 64 << 20),
        ("1g", 1 << 30),
        ("1GiB", 1 << 30),
        ("512MiB", 512 << 20),
        ("1.5g", 3 << 29),
        ("8388608b", 8 << 20),
    ] {
        assert_eq!(web(&format!("mem_limit: {text}")).mem_limit, Some(bytes), "{text}");
    }
    assert_eq!(web("mem_limit: 64m\nmemswap_limit: -1").memswap_limit, Some(-1));
    for text in [
        "1.5",
        "m",
        "64q",
        "1e9",
        "0x10",
        "-64m",
        "1..5g",
        "64 m m",
        "064",
        "\"\"",
        "1.g",
        "99999999999999999999g",
    ] {
        refused(
            &format!("shm_size: {text}"),
            &["containers.web.shm_size", "is not a size", "module.yaml:5:15"],
        );
    }
    refused("shm_size: 99999999999p", &["out of range"]);
}

#[test]
fn durations_have_units() {
    let nanos = |text: &str| {
        let web = web(&format!("healthcheck: {{test: [NONE], interval: {text}}}"));
        let interval = web.healthcheck.unwrap().interval.unwrap();
        i128::from(interval.seconds) * 1_000_000_000 + i128::from(interval.nanos)
    };
    for (text, millis) in [
        ("1m30s", 90_000),
        ("10s", 10_000),
        ("500ms", 500),
        ("1h", 3_600_000),
        ("1.5s", 1_500),
        ("1h0.5s", 3_600_500),
        ("0s", 0),
    ] {
        assert_eq!(nanos(text), millis * 1_000_000, "{text}");
    }
    assert_eq!(nanos("1000001us"), 1_000_001_000);
    refused(
        "healthcheck: {interval: 10}",
        &["\"10\" is not a duration", "\"10s\"", "containers.web.healthcheck.interval"],
    );
    refused("stop_grace_period: 1.5s", &["not a whole number of seconds"]);
    refused("healthcheck: {interval: 10us}", &["shorter than 1ms"]);
    for text in ["10 s", "s", "1s1m", "1d", "ten", "1.0000000001s", "\"\"", "99999999999h"] {
        refused(
            &format!("stop_grace_period: {text}"),
            &["containers.web.stop_grace_period", "module.yaml:5:24"],
        );
    }
    assert_eq!(web("stop_grace_period: -1s").stop_grace_period.unwrap().seconds, -1);
}

#[test]
fn numbers_processors_modes_and_microseconds() {
    assert_eq!(web("cpus: 1.5").cpus, Some(1.5));
    assert_eq!(web("cpus: \"0.5\"").cpus, Some(0.5));
    assert_eq!(web("cpu_period: 50ms\ncpu_quota: 25000").cpu_period, Some(50_000));
    for text in ["0700", "\"0700\"", "0o700", "700"] {
        let mount = format!("mounts: [{{type: tmpfs, target: /run, tmpfs: {{mode: {text}, size: 1m}}}}]");
        assert_eq!(web(&mount).mounts[0].tmpfs.as_ref().unwrap().mode, Some(0o700), "{text}");
    }
    refused("mounts: [{type: tmpfs, target: /run, tmpfs: {mode: 0788}}]", &["is not a file mode in octal"]);
    refused("cpus: inf", &["\"inf\" is not a number"]);
    refused("pids_limit: 010", &["leading zero"]);
    refused("pids_limit: 9223372036854775808", &["out of range"]);
    refused("pids_limit: 1.5", &["\"1.5\" is not a whole number"]);
    refused("blkio_config: {weight: -1}", &["out of range (0 to 4294967295)"]);
    refused(
        "blkio_config: {device_read_iops: [{path: /dev/sda, rate: 1k}]}",
        &["device_read_iops[0].rate", "whole number"],
    );
    assert_eq!(
        web("blkio_config: {device_read_bps: [{path: /dev/sda, rate: 1m}]}")
            .blkio_config
            .unwrap()
            .device_read_bps[0]
            .rate,
        Some(1 << 20)
    );
    for text in ["yes", "\"true\"", "True", "1", "on"] {
        refused(&format!("tty: {text}"), &["expected true or false", "containers.web.tty"]);
    }
}

#[test]
fn a_command_line_is_split_as_a_shell_splits_words_and_nothing_more() {
    for (text, words) in [
        ("nginx -g 'daemon off;'", vec!["nginx", "-g", "daemon off;"]),
        (
            "'sh -c \"echo $HOME # no comment\" a#b #c'",
            vec!["sh", "-c", "echo $HOME # no comment", "a#b", "#c"],
        ),
        ("'a\\ b \"c\\\"d\\n\" e\"\"f'", vec!["a b", "c\"d\\n", "ef"]),
        ("[a b, 1, yes]", vec!["a b", "1", "yes"]),
        ("\"a '' b\"", vec!["a", "", "b"]),
    ] {
        assert_eq!(web(&format!("command: {text}")).command, words, "{text}");
        assert_eq!(web(&format!("entrypoint: {text}")).entrypoint.unwrap().values, words, "{text}");
    }
    refused("command: \"echo 'a\"", &["a single quote is not closed"]);
    assert_eq!(web("entrypoint: []").entrypoint.unwrap().values, Vec::<String>::new());
    assert_eq!(web("entrypoint: ~").entrypoint, None);
    assert_eq!(
        web("healthcheck: {test: curl -f localhost}").healthcheck.unwrap().test,
        ["CMD-SHELL", "curl -f localhost"]
    );
    assert_eq!(web("dns: 1.1.1.1").dns, ["1.1.1.1"]);
    assert_eq!(web("masked_paths: /proc/kcore").masked_paths.unwrap().values, ["/proc/kcore"]);
    refused("command: [echo, ~]", &["containers.web.command[1]", "found nothing"]);
}

#[test]
fn maps_of_texts_may_be_lists() {
    let expected = BTreeMap::from([("A".to_owned(), "1".to_owned()), ("B".to_owned(), "x=y".to_owned())]);
    for lines in ["environment: [A=1, B=x=y]", "environment: {A: 1, B: x=y}"] {
        assert_eq!(web(lines).environment, expected);
    }
    for field in ["labels", "annotations", "sysctls", "storage_opt"] {
        assert_eq!(web(&format!("{field}: [a.b=1]")), web(&format!("{field}: {{a.b: 1}}")), "{field}");
    }
    assert_eq!(web("logging: {options: [max-size=1m]}").logging.unwrap().options["max-size"], "1m");
    assert_eq!(web("tmpfs: /run").tmpfs, BTreeMap::from([("/run".to_owned(), String::new())]));
    for lines in ["tmpfs: [\"/run:size=1m,mode=700\"]", "tmpfs: {/run: \"size=1m,mode=700\"}"] {
        assert_eq!(web(lines).tmpfs["/run"], "size=1m,mode=700");
    }
    for lines in
        ["extra_hosts: [\"db:10.0.0.1\"]", "extra_hosts: [db=10.0.0.1]", "extra_hosts: {db: 10.0.0.1}"]
    {
        assert_eq!(web(lines).extra_hosts, ["db:10.0.0.1"]);
    }
    refused("environment: [A=1, A=2]", &["\"A\" is given twice"]);
    refused("labels: {a: [b]}", &["containers.web.labels[a]: found a list, expected text"]);
}

fn port(host_ip: Option<&str>, published: Option<&str>, target: u32, protocol: Option<&str>) -> Port {
    let text = |text: Option<&str>| text.map(str::to_owned);
    Port {
        target: Some(target),
        protocol: text(protocol),
        host_ip: text(host_ip),
        published: text(published),
    }
}

#[test]
fn ports_have_a_short_form() {
    for (text, ports) in [
        ("8080", vec![port(None, None, 8080, None)]),
        ("8080:80/udp", vec![port(None, Some("8080"), 80, Some("udp"))]),
        ("127.0.0.1:8080:80", vec![port(Some("127.0.0.1"), Some("8080"), 80, None)]),
        ("127.0.0.1::80", vec![port(Some("127.0.0.1"), None, 80, None)]),
        ("127.0.0.1:80", vec![port(Some("127.0.0.1"), None, 80, None)]),
        ("\"[::1]:8080:80\"", vec![port(Some("::1"), Some("8080"), 80, None)]),
        ("8000-8001:80-81", vec![port(None, Some("8000"), 80, None), port(None, Some("8001"), 81, None)]),
        ("80-81/udp", vec![port(None, None, 80, Some("udp")), port(None, None, 81, Some("udp"))]),
        ("8000-8010:80", vec![port(None, Some("8000-8010"), 80, None)]),
        (
            "{target: 80, published: 8080, host_ip: 127.0.0.1}",
            vec![port(Some("127.0.0.1"), Some("8080"), 80, None)],
        ),
    ] {
        assert_eq!(web(&format!("ports: [{text}]")).ports, ports, "{text}");
    }
    assert_eq!(web("ports: 8080").ports, [port(None, None, 8080, None)]);
    for (text, part) in [
        ("70000", "\"70000\" is not a port (1 to 65535)"),
        ("0", "\"0\" is not a port"),
        ("80:0", "\"0\" is not a port"),
        ("abc:80", "\"abc\" is not a port"),
        ("8000-8002:80-81", "ranges of different lengths"),
        ("8000:80-81", "ranges of different lengths"),
        ("81-80", "not a range of ports"),
        ("999.0.0.1:80:80", "\"999.0.0.1\" is not an IP address"),
        ("localhost:80:80", "\"localhost\" is not an IP address"),
        ("\"::1:80:80\"", "is not"),
        ("80/icmp", "\"icmp\" is not allowed"),
        ("1:2:3:4", "is not an IP address"),
        ("{target: 80, host_ip: nowhere}", "\"nowhere\" is not an IP address"),
        ("{target: 70000}", "70000 is out of range (1 to 65535)"),
        ("{target: 80, published: 99999}", "\"99999\" is not a port"),
        ("{published: 80}", "`target` is missing"),
        ("080:80", "\"080\" is not a port"),
    ] {
        refused(&format!("ports: [{text}]"), &[part, "containers.web.ports[0]", "module.yaml:5:"]);
    }
    assert_eq!(web("expose: [8080, 53/udp]").expose, ["8080", "53/udp"]);
    assert_eq!(web("expose: [8080-8082/UDP, 90-90]").expose, ["8080/UDP", "8081/UDP", "8082/UDP", "90"]);
    for text in ["99999", "80/icmp", "a-b", "80-"] {
        refused(&format!("expose: [{text}]"), &["containers.web.expose[0]", "is not a container port"]);
    }
    for (text, part) in
        [("82-80", "not a range of ports"), ("0-5", "not a port"), ("80-99999", "\"99999\" is not a port")]
    {
        refused(&format!("expose: [{text}]"), &["containers.web.expose[0]", part, "module.yaml:5:"]);
    }
    refused("expose: [1-60000, 1-60000]", &["ranges make the manifest grow", "declare fewer ports"]);
}

#[test]
fn mounts_have_a_short_form_that_never_makes_host_paths() {
    let bind = Mount {
        r#type: Some("bind".to_owned()),
        source: Some("/srv".to_owned()),
        target: Some("/data".to_owned()),
        ..Mount::default()
    };
    let options = BindOptions {
        propagation: Some("rslave".to_owned()),
        selinux: Some("Z".to_owned()),
        ..BindOptions::default()
    };
    let volume = Mount {
        r#type: Some("volume".to_owned()),
        source: None,
        target: Some("/data".to_owned()),
        ..Mount::default()
    };
    let nocopy = VolumeOptions { nocopy: Some(true), ..VolumeOptions::default() };
    for (text, mount) in [
        ("/srv:/data", bind.clone()),
        ("/srv:/data:rw", bind.clone()),
        ("/srv:/data:ro", Mount { read_only: Some(true), ..bind.clone() }),
        ("/srv:/data:Z,rslave", Mount { bind: Some(options), ..bind.clone() }),
        ("/srv:/data:cached", Mount { consistency: Some("cached".to_owned()), ..bind }),
        ("/data", volume.clone()),
        ("data:/data:nocopy", Mount { source: Some("data".to_owned()), volume: Some(nocopy), ..volume }),
    ] {
        let text = super::manifest(&format!("mounts: [\"{text}\"]")) + "volumes: {data: }\n";
        assert_eq!(module(&text).containers["web"].mounts, [mount], "{text}");
    }
    for (text, part) in [
        ("./data:/data", "neither an absolute path nor the name of a volume"),
        ("~/data:/data", "write the whole path"),
        ("a/b:/data", "neither an absolute path"),
        ("/srv:data", "\"data\" is not an absolute path"),
        ("data", "is not an absolute path"),
        ("/srv:/data:rx", "\"rx\" is not a mode"),
        ("/srv:/data:ro,rw", "exclude each other"),
        ("/srv:/data:nocopy", "one of volumes"),
        ("data:/data:z", "one of host paths"),
        ("/a:/b:ro:x", "is not a mount"),
        ("/a::ro", "a part of it is empty"),
        ("/srv:/", "over the whole container"),
        ("data:/data", "\"data\" is not a volume of this module"),
    ] {
        refused(&format!("mounts: [\"{text}\"]"), &[part, "containers.web.mounts[0]", "module.yaml:5:"]);
    }
    refused(
        "mounts: [\"/a:/data\", \"/b:/data/\"]",
        &["mounts[1].target: \"/data\" is already the target of containers.web.mounts[0].target"],
    );
    refused("mounts: [\"/a:/run\"]\ntmpfs: /run/./x/..", &["is already the target"]);
}

#[test]
fn restart_devices_limits_and_networks_have_short_forms() {
    for (text, name, count) in [
        ("no", "no", None),
        ("always", "always", None),
        ("unless-stopped", "unless-stopped", None),
        ("on-failure:3", "on-failure", Some(3)),
        ("{name: on-failure, maximum_retry_count: 3}", "on-failure", Some(3)),
    ] {
        let expected = RestartPolicy { name: Some(name.to_owned()), maximum_retry_count: count };
        assert_eq!(web(&format!("restart: {text}")).restart, Some(expected), "{text}");
    }
    for text in ["false", "sometimes", "on-failure:x", "always:3", "\"on-failure:\""] {
        refused(&format!("restart: {text}"), &["containers.web.restart", "module.yaml:5:14"]);
    }
    let device = |source: &str, target: &str, permissions: Option<&str>| Device {
        source: Some(source.to_owned()),
        target: Some(target.to_owned()),
        permissions: permissions.map(str::to_owned),
    };
    assert_eq!(
        web("devices: [/dev/fuse, \"/dev/sda:/dev/xvda:r\", \"/dev/kvm:rw\"]").devices,
        [
            device("/dev/fuse", "/dev/fuse", None),
            device("/dev/sda", "/dev/xvda", Some("r")),
            device("/dev/kvm", "/dev/kvm", Some("rw"))
        ]
    );
    let limit = |soft, hard| Ulimit { name: Some("nofile".to_owned()), soft: Some(soft), hard: Some(hard) };
    assert_eq!(web("ulimits: {nofile: 1024}").ulimits, [limit(1024, 1024)]);
    assert_eq!(web("ulimits: {nofile: {soft: 1, hard: -1}}").ulimits, [limit(1, -1)]);
    assert_eq!(web("ulimits: [{name: nofile, soft: 1, hard: 2}]").ulimits, [limit(1, 2)]);
    for networks in ["[front, back]", "{front: , back: {}}", "{front: null, back: {aliases: []}}"] {
        let text = super::manifest(&format!("networks: {networks}")) + "networks: {front: , back: {}}\n";
        let spec = module(&text);
        assert_eq!(spec.containers["web"].networks.keys().collect::<Vec<_>>(), ["back", "front"]);
        assert_eq!(spec.networks.len(), 2);
    }
}

#[test]
fn a_file_may_hold_several_modules_and_anchors() {
    let text = "name: one\ncontainers:\n  a: &web {image: nginx, labels: {x: y}}\n  b: *web\n---\nname: two\ncontainers: {a: {image: !!str 7}}\n...\n";
    let specs = read_all(text).unwrap();
    assert_eq!(specs.iter().map(ModuleSpec::name).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(specs[0].containers["a"], specs[0].containers["b"]);
    assert_eq!(specs[1].containers["a"].image(), "7");
}

#[test]
fn null_means_not_declared() {
    assert_eq!(web("hostname: \ncommand: ~\nhealthcheck: null\nmem_limit:\nports:\nenvironment:"), web(""));
}
