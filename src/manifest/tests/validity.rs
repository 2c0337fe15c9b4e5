//! What a valid spec does not have, whether it was read or arrived over gRPC.

use super::{error, module, refused, web};
use crate::manifest::validate;
use crate::proto::v1::{ContainerSpec, ModuleSpec, Mount};

#[test]
fn members_that_exclude_or_need_each_other() {
    for (lines, parts) in [
        ("mem_limit: 1m", vec!["mem_limit: 1048576 is out of range (at least 6291456)"]),
        ("memswap_limit: 1g", vec!["memswap_limit: it needs mem_limit"]),
        (
            "mem_limit: 1g\nmemswap_limit: 512m",
            vec!["memswap_limit: it is less than mem_limit", "module.yaml:6:20"],
        ),
        ("mem_limit: 1g\nmem_reservation: 2g", vec!["mem_reservation: it is more than mem_limit"]),
        ("cpus: 0.001", vec!["cpus: 0.001 is out of range"]),
        ("cpus: 1\ncpu_quota: 50000", vec!["cpus: it excludes cpu_period and cpu_quota"]),
        ("oom_score_adj: 1001", vec!["1001 is out of range (-1000 to 1000)"]),
        ("mem_swappiness: 101", vec!["101 is out of range (-1 to 100)"]),
        ("blkio_config: {weight: 5}", vec!["blkio_config.weight: 5 is out of range (10 to 1000)"]),
        ("restart: {name: always, maximum_retry_count: 3}", vec!["it has no meaning beside always"]),
        ("restart: on-failure:-1", vec!["-1 is out of range"]),
        ("restart: always\nauto_remove: true", vec!["auto_remove: it excludes a restart policy"]),
        ("network_mode: host\nports: [80]", vec!["ports: it cannot be beside network_mode host"]),
        (
            "network_mode: container:db\nhostname: a",
            vec!["hostname: it cannot be beside network_mode container:db"],
        ),
        ("network_mode: \"container:\"", vec!["network_mode: \"container:\" names no container"]),
        ("network_mode: host\nnetworks: [bridge]", vec!["network_mode: host excludes networks"]),
        (
            "network_mode: front",
            vec!["\"front\" is not allowed", "allowed: host, none, bridge, container:NAME"],
        ),
        ("networks: {bridge: {aliases: [a]}}", vec!["networks[bridge].aliases: engines take no aliases"]),
        ("networks: [front]", vec!["\"front\" is not a network of this module", "external: true"]),
        (
            "networks: {bridge: {ipv4_address: 10.0.0.2}}",
            vec!["a static address needs a network with a declared subnet"],
        ),
        ("ulimits: {nofile: {soft: 2, hard: 1}}", vec!["the soft limit is above the hard one"]),
        ("ulimits: {nofile: {soft: 2}}", vec!["a limit needs both soft and hard"]),
        (
            "ulimits: [{name: a, soft: 1, hard: 1}, {name: a, soft: 1, hard: 1}]",
            vec!["ulimits[1]: \"a\" is there twice"],
        ),
        ("mounts: [{type: bind, target: /a}]", vec!["mounts[0].source: a bind mount needs a source"]),
        (
            "mounts: [{type: bind, source: a, target: /a}]",
            vec!["mounts[0].source: \"a\" is not an absolute path"],
        ),
        ("mounts: [{type: tmpfs, source: a, target: /a}]", vec!["a tmpfs mount has no source"]),
        (
            "mounts: [{type: volume, target: /a, bind: {}}]",
            vec!["mounts[0].bind: options of bind on a mount of type volume"],
        ),
        (
            "mounts: [{type: bind, source: /a, target: /b, moved_from: /a/}]",
            vec!["mounts[0].moved_from: \"/a/\" is where the data shall be"],
        ),
        (
            "mounts: [{type: bind, source: /a, target: /b, moved_from: /a/c}]",
            vec!["mounts[0].moved_from: one of the two places lies inside the other"],
        ),
        (
            "mounts: [{type: bind, source: /, target: /b, moved_from: /a}]",
            vec!["mounts[0].moved_from: one of the two places lies inside the other"],
        ),
        (
            "mounts: [{type: bind, source: /a, target: /b, moved_from: ./c}]",
            vec!["mounts[0].moved_from: \"./c\" is neither an absolute path nor the name of a volume"],
        ),
        (
            "mounts: [{type: tmpfs, target: /b, moved_from: /c}]",
            vec!["mounts[0].moved_from: only the data of a bind or of a named volume can be moved"],
        ),
        (
            "mounts: [{type: volume, target: /b, moved_from: /c}]",
            vec!["mounts[0].moved_from: only the data of a bind or of a named volume can be moved"],
        ),
        (
            "mounts: [{type: bind, source: /a, target: /b, moved_from: /c}, {type: bind, source: /d, target: /e, moved_from: /c}]",
            vec!["mounts[1].moved_from: \"/c\" cannot move to \"/a\" and to \"/d\""],
        ),
        (
            "mounts: [{type: bind, source: /a, target: /b, moved_from: /c}, {type: bind, source: /a, target: /e, moved_from: /d}]",
            vec!["mounts[1].moved_from: \"/c\" and \"/d\" cannot both move to \"/a\""],
        ),
        ("mounts: [{target: /a}]", vec!["mounts[0]: `type` is missing", "module.yaml:5:14"]),
        ("environment: {\"A=B\": c}", vec!["\"A=B\" is not the name of a variable"]),
        ("environment: {\"\": c}", vec!["a key is empty"]),
        ("environment: {A: b}\nunset_environment: [A]", vec!["\"A\" is in environment, too"]),
        (
            "labels: {dev.plumbline.module: x}",
            vec!["labels that begin with dev.plumbline. are Plumbline's own"],
        ),
        ("healthcheck: {test: [curl, localhost]}", vec!["\"curl\" is not a kind of check"]),
        ("dns: [one]", vec!["dns[0]: \"one\" is not an IP address"]),
        ("extra_hosts: [db]", vec!["\"db\" is not name:address"]),
        ("stop_signal: SIGNONE", vec!["\"SIGNONE\" is not a signal"]),
        ("mac_address: 02:42", vec!["is not a hardware address"]),
        ("cpuset: 3-1", vec!["is not a list of numbers and ranges"]),
        ("tmpfs: run", vec!["tmpfs[run]: \"run\" is not an absolute path"]),
        ("devices: [\"/dev/a:/dev/b:rx\"]", vec!["is not a set of the letters"]),
        ("working_dir: app", vec!["\"app\" is not an absolute path"]),
        ("container_name: -a", vec!["is not a container's name"]),
        ("pull_policy: sometimes", vec!["\"sometimes\" is not allowed", "missing, always, never"]),
        (
            "depends_on: [db]",
            vec!["depends_on[0]: \"db\" is not a container of this module", "the containers are web"],
        ),
        ("depends_on: [web]", vec!["web needs web", "a container cannot wait for itself"]),
        ("ports: [\"80:80\", \"80:80\"]", vec!["ports[1]: the same port is published twice"]),
        ("console_size: [24]", vec!["it is not two numbers"]),
    ] {
        let mut parts = parts;
        parts.push("module.yaml:");
        refused(lines, &parts);
    }
    for lines in [
        "mounts: [{type: bind, source: /a, target: /b, moved_from: data}]",
        "mounts: [{type: bind, source: /a, target: /b, moved_from: /c}, {type: bind, source: /a/, target: /d, moved_from: /c/}]",
        "mem_limit: 64m\nmemswap_limit: -1\nmem_reservation: 64m",
        "memswap_limit: -1",
        "network_mode: bridge\nnetworks: {bridge: }",
        "network_mode: host\nhostname: a",
        "ulimits: {nofile: {soft: 5, hard: -1}, core: -1}",
        "stop_signal: rtmin+3",
        "mac_address: 02-42-AC-11-00-02",
        "ports: [\"80:80\", \"81:80\", \"127.0.0.1:82:80\"]",
        "auto_remove: true\nrestart: no",
        "healthcheck: {test: [NONE]}",
        "pids_limit: -1",
    ] {
        web(lines);
    }
}

#[test]
fn parts_of_a_module_refer_to_each_other() {
    for (text, part) in [
        ("name: UP\n", "m.yaml"),
        ("name: Shop\n", "\"Shop\" is not a module's name"),
        ("name: -a\n", "is not a module's name"),
        ("containers: {a: {image: b}}\n", "module.yaml:1:1: `name` is missing"),
        ("name: a\ncontainers: {\"a b\": {image: b}}\n", "containers.a b: \"a b\" is not a name"),
        ("name: a\ncontainers: {a: }\n", "module.yaml:2:14: containers.a: `image` is missing"),
        (
            "name: a\nnetworks: {n: {external: true, driver: bridge}}\n",
            "networks.n: it is external and says how to be made",
        ),
        ("name: a\nvolumes: {v: {external: true, labels: {a: b}}}\n", "volumes.v: it is external"),
        (
            "name: a\nnetworks: {n: {ipam: {config: [{subnet: 10.0.0.0}]}}}\n",
            "\"10.0.0.0\" is not a range of addresses",
        ),
        (
            "name: a\ncontainers: {a: {image: x, container_name: same}, b: {image: x, container_name: same}}\n",
            "same name at the engine as a",
        ),
        (
            "name: a\ncontainers: {a: {image: x, depends_on: [b]}, b: {image: x, network_mode: container:c}, c: {image: x, volumes_from: [a:ro]}, d: {image: x, depends_on: [a]}}\n",
            "a needs b, which needs c, which needs a",
        ),
        (
            "name: a\ncontainers: {a: {image: x, links: [a-b:db]}, b: {image: x, pid: container:a}}\n",
            "a needs b, which needs a",
        ),
        (
            "name: a\ncontainers: {a: {image: x, networks: {n: {ipv4_address: \"::1\"}}}}\nnetworks: {n: {external: true}}\n",
            "is not an IPv4 address",
        ),
    ] {
        if part != "m.yaml" {
            let error = error(text);
            assert!(error.contains(part), "{text}\ngave: {error}");
        }
    }
    module(
        "name: a\ncontainers: {a: {image: x, network_mode: container:elsewhere, depends_on: [b]}, b: {image: x}}\n",
    );
}

#[test]
fn a_long_chain_of_containers_is_no_danger() {
    let count = 20_000;
    let mut spec = ModuleSpec { name: Some("chain".to_owned()), ..ModuleSpec::default() };
    for number in 0..count {
        let container = ContainerSpec {
            image: Some("x".to_owned()),
            depends_on: vec![format!("c{}", (number + 1) % count)],
            ..ContainerSpec::default()
        };
        spec.containers.insert(format!("c{number}"), container);
    }
    let violations = validate(&spec).unwrap_err();
    assert_eq!(violations.len(), 1);
    assert!(violations[0].message.contains("which needs"));
}

#[test]
fn a_spec_that_never_was_a_manifest_is_checked_as_well() {
    let mut spec = module("name: shop\ncontainers: {web: {image: nginx}}\n");
    let web = spec.containers.get_mut("web").unwrap();
    web.mounts.push(Mount {
        r#type: Some("bind".to_owned()),
        target: Some("data".to_owned()),
        ..Mount::default()
    });
    web.environment.insert("A".to_owned(), "nul\0".to_owned());
    web.cpus = Some(f64::NAN);
    web.stop_grace_period = Some(prost_types::Duration { seconds: 1, nanos: -1 });
    let mut paths: Vec<_> =
        validate(&spec).unwrap_err().into_iter().map(|violation| violation.path).collect();
    paths.sort();
    assert_eq!(
        paths,
        [
            "containers.web.cpus",
            "containers.web.environment[A]",
            "containers.web.mounts[0].source",
            "containers.web.mounts[0].target",
            "containers.web.stop_grace_period",
        ]
    );
}
