//! Take: a container that somebody else made becomes ours by comparison, and is not touched.

use serde_json::Value;

use crate::harness::{Fleet, docker, identity};
use crate::manifests::waiting;

const IMAGE: &str = "plumbline/sample:1";
const WITH_DEFAULTS: &str = "plumbline/defaults:1";

/// Starts a container by hand.
#[track_caller]
fn by_hand(name: &str, options: &[&str], image: &str, command: &[&str]) {
    let all = [&["run", "--detach", "--name", name][..], options, &[image], command].concat();
    docker(&all);
}

/// Takes a container that nothing is registered for: a manifest is written, the plan of it is empty, and one more entry
/// in it is exactly one change. The container is as it was all the while.
#[track_caller]
fn take_and_compare(fleet: &Fleet, container: &str) -> String {
    let before = identity(container);
    let file = format!("{container}.yaml");
    fleet.engine().forget();
    let adopted = format!("{container} on host-1 equals its declaration: adopted, not touched");
    fleet.plumb(["take", "host-1", container]).ended(0).says(&[&format!("wrote {file}"), &adopted]);
    let manifest = std::fs::read_to_string(fleet.path(&file)).expect("it was written");
    for plan in [&["plan", container][..], &["plan", "-f", &file, "--node", "host-1"]] {
        let said = fleet.plumb([plan, &["--exit-code"]].concat());
        assert_eq!(said.code, 0, "{}\n--- the manifest\n{manifest}", said.all());
        assert!(said.stdout.contains("unchanged, everything is as declared"), "{}", said.stdout);
    }
    fleet.plumb(["push", container]).ended(0).says(&["unchanged"]);

    let edited = manifest.replacen("    image: ", "    domainname: edited.example\n    image: ", 1);
    fleet.write("edited.yaml", &edited);
    let said = fleet.plumb(["plan", "-f", "edited.yaml", "--node", "host-1", "-o", "json"]).ended(0);
    let changes = changes(&said.json()[0]);
    assert_eq!(changes, [format!("containers.{container}.domainname")], "{edited}");
    assert_eq!(fleet.engine().mutations(), [""; 0]);
    assert_eq!(identity(container), before);
    manifest
}

/// The paths of all changes of a plan for one node.
fn changes(plan: &Value) -> Vec<String> {
    let objects = plan["nodes"][0]["plan"]["result"]["objects"].as_array().cloned().unwrap_or_default();
    let changes = objects.iter().filter_map(|object| object["diff"]["changes"].as_array().cloned());
    changes.flatten().map(|change| change["pathText"].as_str().expect("it has a path").to_owned()).collect()
}

#[test]
fn a_container_with_ports_is_taken_untouched() {
    let fleet = Fleet::start();
    let name = fleet.module("ports");
    let ports = ["-p", "127.0.0.1::80", "-p", "127.0.0.1::81/udp", "--expose", "9000-9002", "-p", "82"];
    by_hand(&name, &ports, IMAGE, &["hold"]);
    take_and_compare(&fleet, &name);
}

#[test]
fn a_container_with_binds_and_tmpfs_is_taken_untouched() {
    let fleet = Fleet::start();
    let name = fleet.module("binds");
    let (data, conf) = (fleet.path("data"), fleet.path("conf"));
    std::fs::create_dir(&data).expect("the folder can be written");
    fleet.write("conf", "x");
    let mounts = [
        &format!("{}:/data", data.display()),
        &format!("{}:/etc/x.conf:ro", conf.display()),
        &format!("type=bind,source={},target=/shared,bind-propagation=private", data.display()),
    ];
    let options =
        ["-v", mounts[0], "-v", mounts[1], "--mount", mounts[2], "--tmpfs", "/run:size=10m,mode=1770"];
    let more = ["--mount", "type=tmpfs,target=/cache,tmpfs-size=1048576", "--shm-size", "32m", "--read-only"];
    by_hand(&name, &[&options[..], &more].concat(), IMAGE, &["hold"]);
    take_and_compare(&fleet, &name);
}

#[test]
fn a_container_with_named_and_anonymous_volumes_is_taken_untouched() {
    let fleet = Fleet::start();
    let (name, volume) = (fleet.module("volumes"), fleet.module("volumes-data"));
    let mount = format!("type=volume,source={volume},target=/other,readonly,volume-nocopy");
    let named = format!("{volume}:/data");
    by_hand(&name, &["-v", &named, "-v", "/anonymous", "--mount", &mount], IMAGE, &["hold"]);
    take_and_compare(&fleet, &name);
}

#[test]
fn a_container_with_every_kind_of_limit_is_taken_untouched() {
    let fleet = Fleet::start();
    let name = fleet.module("limits");
    let memory =
        ["--memory", "64m", "--memory-swap", "128m", "--memory-reservation", "32m", "--pids-limit", "99"];
    let cpu = ["--cpus", "0.5", "--cpu-shares", "512", "--cpuset-cpus", "0", "--blkio-weight", "300"];
    let ulimits = ["--ulimit", "nofile=1024:2048", "--ulimit", "nproc=512", "--oom-score-adj", "100"];
    by_hand(&name, &[&memory[..], &cpu, &ulimits].concat(), IMAGE, &["hold"]);
    take_and_compare(&fleet, &name);
}

#[test]
fn a_container_with_networks_an_alias_and_a_static_address_is_taken_untouched() {
    let fleet = Fleet::start();
    let (name, front, back) = (fleet.module("nets"), fleet.module("front"), fleet.module("back"));
    // A subnet of this process's own; several tests may run at once.
    let (third, fourth) = (std::process::id() / 256 % 256, std::process::id() % 16 * 16);
    let subnet = format!("10.231.{third}.{fourth}/28");
    let address = format!("10.231.{third}.{}", fourth + 10);
    docker(&["network", "create", "--subnet", &subnet, &front]);
    docker(&["network", "create", &back]);
    let first = ["--network", &front, "--network-alias", "web", "--ip", &address, "--hostname", "web1"];
    let more = ["--dns", "192.0.2.1", "--dns-search", "example.org", "--add-host", "db:192.0.2.7"];
    by_hand(&name, &[&first[..], &more].concat(), IMAGE, &["hold"]);
    docker(&["network", "connect", "--alias", "inner", &back, &name]);
    let manifest = take_and_compare(&fleet, &name);
    assert!(manifest.contains(&address) && manifest.contains("inner"), "{manifest}");
}

#[test]
fn a_container_with_capabilities_and_devices_is_taken_untouched() {
    let fleet = Fleet::start();
    let name = fleet.module("caps");
    let caps = ["--cap-add", "NET_ADMIN", "--cap-drop", "MKNOD", "--security-opt", "no-new-privileges"];
    let more = ["--device", "/dev/null:/dev/mine:r", "--sysctl", "net.ipv4.ip_forward=1", "--group-add", "7"];
    let user =
        ["--user", "0:65534", "--workdir", "/tmp", "--init", "--tty", "--interactive", "--pid", "host"];
    by_hand(&name, &[&caps[..], &more, &user].concat(), IMAGE, &["hold"]);
    take_and_compare(&fleet, &name);
}

#[test]
fn a_container_with_log_options_and_labels_is_taken_untouched() {
    let fleet = Fleet::start();
    let name = fleet.module("logs");
    let logs = ["--log-driver", "json-file", "--log-opt", "max-size=1m", "--log-opt", "max-file=3"];
    let labels = ["--label", "org.example.one=a b", "--label", "empty"];
    let restart = ["--restart", "on-failure:3", "--stop-signal", "SIGINT", "--stop-timeout", "3"];
    by_hand(&name, &[&logs[..], &labels, &restart].concat(), IMAGE, &["hold"]);
    take_and_compare(&fleet, &name);
}

#[test]
fn a_container_with_an_overridden_entrypoint_is_taken_untouched() {
    let fleet = Fleet::start();
    let name = fleet.module("entrypoint");
    let options = ["--entrypoint", "/bin/sh", "--env", "ONE=1", "--no-healthcheck"];
    by_hand(&name, &options, WITH_DEFAULTS, &["-c", "trap 'exit 0' TERM; while :; do sleep 1; done"]);
    take_and_compare(&fleet, &name);
}

#[test]
fn a_container_that_says_nothing_is_taken_untouched() {
    let fleet = Fleet::start();
    let name = fleet.module("plain");
    by_hand(&name, &[], WITH_DEFAULTS, &[]);
    let manifest = take_and_compare(&fleet, &name);
    // Name and image; and the anonymous volume that the image asked for.
    for inherited in
        ["IMAGE_ONE", "healthcheck", "org.example", "user", "working_dir", "entrypoint", "command"]
    {
        assert!(!manifest.contains(inherited), "{inherited} is declared:\n{manifest}");
    }
}

/// H41: after import the first plan replaces everything.
#[test]
fn h41_cpus_cpuset_labels_and_healthcheck_give_an_empty_plan() {
    let fleet = Fleet::start();
    let name = fleet.module("h41");
    let limits = ["--cpus", "1.5", "--cpuset-cpus", "0-1", "--label", "a=b"];
    let health = ["--health-cmd", "test -e /version", "--health-interval", "1m30s", "--health-retries", "5"];
    by_hand(&name, &[&limits[..], &health].concat(), IMAGE, &["hold"]);
    take_and_compare(&fleet, &name);
}

/// H42: after import, engine defaults show as changes. This engine has no log options of its own; what can be had
/// without another engine is every other default, and a driver that is named without options.
#[test]
fn h42_what_the_engine_fills_in_is_no_change() {
    let fleet = Fleet::start();
    let name = fleet.module("h42");
    by_hand(&name, &["--log-driver", "json-file", "--memory", "64m"], IMAGE, &["hold"]);
    let manifest = take_and_compare(&fleet, &name);
    for default in
        ["runtime", "cgroup", "masked_paths", "readonly_paths", "shm_size", "mac_address", "logging"]
    {
        assert!(!manifest.contains(default), "{default} is declared:\n{manifest}");
    }
}

/// H43: the exported file has the image's environment, `$` breaks interpolation, named volumes are missing.
#[test]
fn h43_environment_and_volumes_are_written_as_they_are() {
    let fleet = Fleet::start();
    let (name, volume) = (fleet.module("h43"), fleet.module("h43-data"));
    let values = [
        r"PS1=$(whoami)\$ ",
        "BRACES=${HOME} $$ {{ }}",
        r#"QUOTES="double" 'single' `back`"#,
        "UNICODE=grüße, 世界 🚢",
        "LINES=first\nsecond\n\n  indented: yes\n",
        "EMPTY=",
        "LOOKS_LIKE=0644",
        "NO=no",
        "COMMENT=a # b: c",
    ];
    let environment: Vec<&str> = values.iter().flat_map(|value| ["--env", value]).collect();
    let data = format!("{volume}:/data");
    by_hand(&name, &[&environment[..], &["-v", &data]].concat(), WITH_DEFAULTS, &[]);
    let manifest = take_and_compare(&fleet, &name);
    assert!(manifest.contains(&volume) && !manifest.contains("IMAGE_ONE"), "{manifest}");

    // What is made from the manifest has the same environment.
    docker(&["rm", "--force", "--volumes", &name]);
    fleet.plumb(["push", &name]).ended(0).says(&["created"]);
    let made = crate::tools::inspect(&name);
    let made: Vec<&str> =
        made["Config"]["Env"].as_array().expect("it has some").iter().filter_map(Value::as_str).collect();
    for value in values {
        assert!(made.contains(&value), "{value:?} is not among {made:?}");
    }
}

#[test]
fn a_container_that_differs_from_the_registered_module_is_not_adopted() {
    let fleet = Fleet::start();
    let module = fleet.module("differs");
    let container = format!("{module}-app");
    by_hand(&container, &["--dns", "192.0.2.1"], IMAGE, &["hold"]);
    let before = identity(&container);
    fleet.register(&module, &waiting(&module, &["dns: [192.0.2.2]"]));
    let take = ["take", "host-1", &container, "--as", &module];
    let differs = ["NOT adopted, not touched", "~ containers.app.dns: [\"192.0.2.1\"] -> [\"192.0.2.2\"]"];
    fleet.plumb(take).ended(3).says(&differs);
    // It is nobody's still: an apply names the way, and does not take it by its name.
    fleet.plumb(["push", &module, "--node", "host-1", "--recreate"]).ended(3).says(&["plumb take"]);
    assert_eq!(identity(&container), before);

    fleet.register(&module, &waiting(&module, &["dns: [192.0.2.1]"]));
    fleet.plumb(take).ended(0).says(&["adopted, not touched"]);
    fleet.plumb(["plan", &module, "--exit-code"]).ended(0).says(&["unchanged"]);
    assert_eq!(identity(&container), before);
}

#[test]
fn it_never_writes_over_a_file() {
    let fleet = Fleet::start();
    let name = fleet.module("keeps");
    by_hand(&name, &[], IMAGE, &["hold"]);
    let file = format!("{name}.yaml");
    fleet.write(&file, "precious");
    for take in [&["take", "host-1", &name][..], &["take", "host-1", &name, "--write-to", &file]] {
        fleet.plumb(take).ended(1).says(&[&file, "exists already", "--write-to"]);
    }
    assert_eq!(std::fs::read_to_string(fleet.path(&file)).expect("it is there"), "precious");
    fleet.plumb(["status"]).ended(0).says(&["no modules"]);
    fleet.plumb(["take", "host-1", &name, "--write-to", "other.yaml"]).ended(0).says(&["wrote other.yaml"]);
}

#[test]
fn containers_of_one_module_are_taken_one_by_one() {
    let fleet = Fleet::start();
    let (module, web, db) = (fleet.module("two"), fleet.module("by-hand-web"), fleet.module("by-hand-db"));
    for name in [&web, &db] {
        by_hand(name, &[], IMAGE, &["hold"]);
    }
    let before = [identity(&web), identity(&db)];
    let container = |key: &str, name: &str| {
        format!("  {key}: {{image: {IMAGE}, command: [hold], container_name: {name}}}\n")
    };
    let containers = container("web", &web) + &container("db", &db);
    fleet.register(&module, &format!("name: {module}\ncontainers:\n{containers}"));
    // By the name that the module gives it, and by the key that the operator names.
    fleet.plumb(["take", "host-1", &web, "--as", &module]).ended(0).says(&["adopted, not touched"]);
    fleet.plumb(["plan", &module]).ended(0).says(&["would be REFUSED", &db, "plumb take"]);
    fleet.plumb(["take", "host-1", &db, "--as", &format!("{module}/db")]).ended(0).says(&["adopted"]);
    fleet.plumb(["plan", &module, "--exit-code"]).ended(0).says(&["unchanged"]);
    assert_eq!([identity(&web), identity(&db)], before);
    // Now that they are ours, they are changed like any other.
    let edited = containers.replacen("command: [hold]", "command: [hold], init: true", 1);
    fleet.register(&module, &format!("name: {module}\ncontainers:\n{edited}"));
    fleet.plumb(["push", &module]).ended(3).says(&["+ containers.web.init: true"]);
    fleet.plumb(["push", &module, "--recreate"]).ended(0).says(&["recreated"]);
    assert_eq!(crate::tools::inspect(&web)["HostConfig"]["Init"], true);
    assert_eq!(identity(&db), before[1]);
}

#[test]
fn a_container_in_the_namespaces_of_others_is_taken_untouched() {
    let fleet = Fleet::start();
    let (name, owner) = (fleet.module("namespaces"), fleet.module("owner"));
    by_hand(&owner, &["--ipc", "shareable"], IMAGE, &["hold"]);
    let (network, ipc) = (format!("container:{owner}"), format!("container:{owner}"));
    by_hand(&name, &["--network", &network, "--ipc", &ipc, "--uts", "host"], IMAGE, &["hold"]);
    take_and_compare(&fleet, &name);
}

#[test]
fn a_stopped_container_is_not_started_by_being_taken() {
    let fleet = Fleet::start();
    let name = fleet.module("stopped");
    by_hand(&name, &["-p", "127.0.0.1::8080"], IMAGE, &["hold"]);
    docker(&["kill", &name]);
    let before = identity(&name);
    fleet.plumb(["take", "host-1", &name]).ended(0).says(&["adopted, not touched"]);
    assert_eq!(identity(&name), before);
    fleet.plumb(["plan", &name, "--exit-code"]).ended(2).says(&["would be started"]);
}
