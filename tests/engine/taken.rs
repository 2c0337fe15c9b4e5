//! Containers that somebody made by hand, in varied shapes: observed, adopted and compared, and never touched.
//!
//! The declaration of each holds what was asked for and nothing that the image or the engine fills in; the plan right
//! after the adoption is empty; one edit is one change.

use plumbline::proto::v1::{Action, ModuleSpec};
use prost_reflect::ReflectMessage as _;

use crate::free::{free_ports, own_subnet};
use crate::served::{Served, lines};
use crate::site::{changes, docker, object, text};

const SAMPLE: &str = "plumbline/sample:1";
const DEFAULTS: &str = "plumbline/defaults:1";

/// Runs `docker run` with these options, and takes what it made. `declares`: the fields of the declaration.
async fn take(test: &str, options: &[&str], declares: &[&str]) -> (Served, ModuleSpec) {
    let host = Served::new(test).await;
    let spec = take_on(&host, options, SAMPLE, &["hold"], declares).await;
    (host, spec)
}

async fn take_on(
    host: &Served,
    options: &[&str],
    image: &str,
    command: &[&str],
    declares: &[&str],
) -> ModuleSpec {
    let name = host.container();
    let all = [&["run", "--detach", "--name", &name][..], options, &[image], command].concat();
    assert_eq!(docker(&all).len(), 64, "docker {}", all.join(" "));
    let before = host.site.inspect("c").await;
    assert_eq!(before["State"]["Running"], true, "{}", before["State"]);

    let observed = host.observe(&name).await;
    assert_eq!((observed.engine_id, observed.started_at), id_and_start(&before));
    assert!(observed.running && observed.module.is_empty());
    let spec = observed.declaration.expect("a declaration");
    let (key, container) = spec.containers.iter().next().expect("a container");
    let declared = container.transcode_to_dynamic();
    let mut fields: Vec<String> = declared.fields().map(|(field, _)| field.name().to_owned()).collect();
    // Its name is somebody's choice, too.
    assert_eq!(container.container_name(), name);
    fields.retain(|field| field != "container_name");
    fields.sort();
    assert_eq!(fields, declares, "{declared}");

    let adopted = host.adopt(&name, &spec).await;
    let result = adopted.result.expect("a comparison");
    assert!(adopted.adopted, "{:?}", lines(&changes(&result)));
    assert_eq!(result.action(), Action::Unchanged);
    host.settled(&spec).await;
    assert_eq!(host.observe(&name).await.module, spec.name());

    let mut edited = spec.clone();
    let container = edited.containers.get_mut(key).expect("it has that");
    container.labels.insert("edited".to_owned(), "yes".to_owned());
    let planned = host.plan(&edited).await;
    assert_eq!(
        lines(&changes(object(&planned, key))),
        ["labels[edited]: absent -> yes (RECREATE, DECLARED)"]
    );

    let after = host.site.inspect("c").await;
    assert_eq!(id_and_start(&after), id_and_start(&before), "it was not touched");
    assert_eq!(after["State"]["Pid"], before["State"]["Pid"]);
    spec
}

fn id_and_start(inspect: &serde_json::Value) -> (String, String) {
    (text(&inspect["Id"]), text(&inspect["State"]["StartedAt"]))
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_in_several_forms() {
    let (port, ports) = (free_ports(), free_ports());
    let (fixed, range) = (format!("127.0.0.1:{port}:80"), format!("{ports}-{}:90-92", ports + 2));
    let published = ["-p", &fixed, "-p", "127.0.0.1::81/udp", "-p", &range];
    let options = [&published[..], &["-p", "82", "--expose", "9000-9002", "--expose", "9100/udp"]].concat();
    let (_host, spec) = take("tports", &options, &["command", "expose", "image", "ports"]).await;
    let container = spec.containers.values().next().expect("a container");
    assert_eq!((container.ports.len(), container.expose.len()), (6, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn binds_tmpfs_and_a_read_only_root() {
    let host = Served::new("tbinds").await;
    let folder = host.site.host_folder("data");
    let (plain, read_only) = (format!("{folder}:/data"), format!("{folder}:/conf/:ro"));
    let typed = format!("type=bind,source={folder},target=/typed,bind-propagation=private");
    let options = ["-v", &plain, "-v", &read_only, "--mount", &typed, "--tmpfs", "/run:size=10m,mode=1770"];
    let memory = ["--mount", "type=tmpfs,target=/cache,tmpfs-size=1048576,tmpfs-mode=0700"];
    let options = [&options[..], &memory, &["--read-only", "--shm-size", "32m"]].concat();
    let declares = ["command", "image", "mounts", "read_only", "shm_size", "tmpfs"];
    take_on(&host, &options, SAMPLE, &["hold"], &declares).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn named_and_anonymous_volumes() {
    let host = Served::new("tvolumes").await;
    let volume = format!("{}-data", host.site.name);
    let (named, nocopy) = (format!("{volume}:/data"), format!("{volume}:/again:ro,nocopy"));
    let typed = format!("type=volume,source={volume},target=/typed,volume-nocopy,readonly");
    let options = ["-v", &named, "-v", &nocopy, "--mount", &typed, "-v", "/anonymous"];
    let spec = take_on(&host, &options, SAMPLE, &["hold"], &["command", "image", "mounts"]).await;
    assert_eq!(spec.volumes.keys().collect::<Vec<_>>(), [&volume], "the anonymous one has no name");
    assert!(spec.volumes[&volume].external(), "it is not this module's to make");
}

#[tokio::test(flavor = "multi_thread")]
async fn h41_environment_and_every_kind_of_limit() {
    let memory = ["--memory", "64m", "--memory-reservation", "32m", "--pids-limit", "99"];
    let processors = ["--cpus", "1.5", "--cpu-shares", "512", "--cpuset-cpus", "0-1"];
    let more = ["--ulimit", "nofile=100:200", "--ulimit", "core=0", "--oom-score-adj", "100"];
    let environment = ["--env", "ONE=1", "--env", "EMPTY=", "--env", r"PS1=$(whoami)\$ ", "--label", "a=b"];
    let options = [&memory[..], &processors, &more, &environment].concat();
    let declares = [
        "command",
        "cpu_shares",
        "cpus",
        "cpuset",
        "environment",
        "image",
        "labels",
        "mem_limit",
        "mem_reservation",
        "oom_score_adj",
        "pids_limit",
        "ulimits",
    ];
    let (_host, spec) = take("tlimits", &options, &declares).await;
    assert_eq!(spec.containers.values().next().expect("a container").environment["PS1"], r"$(whoami)\$ ");
}

#[tokio::test(flavor = "multi_thread")]
async fn user_networks_with_alias_and_static_address() {
    let host = Served::new("tnets").await;
    let (front, back) = (format!("{}-front", host.site.name), format!("{}-back", host.site.name));
    let subnet = own_subnet();
    let address = format!("{subnet}.10");
    docker(&["network", "create", "--subnet", &format!("{subnet}.0/24"), &front]);
    docker(&["network", "create", &back]);
    let network = ["--network", &front, "--network-alias", "web", "--ip", &address];
    let names = ["--hostname", "web1", "--domainname", "example.org", "--add-host", "db:192.0.2.7"];
    let resolver = ["--dns", "192.0.2.1", "--dns-search", "example.org", "--dns-option", "ndots:2"];
    let options = [&network[..], &names, &resolver].concat();
    let declares = [
        "command",
        "dns",
        "dns_opt",
        "dns_search",
        "domainname",
        "extra_hosts",
        "hostname",
        "image",
        "networks",
    ];
    let spec = take_on(&host, &options, SAMPLE, &["hold"], &declares).await;
    assert!(spec.networks[&front].external());
    let endpoint = &spec.containers.values().next().expect("a container").networks[&front];
    // Engines before API 1.45 add the host name to the aliases.
    assert!(endpoint.aliases.contains(&"web".to_owned()), "{endpoint:?}");
    assert_eq!(endpoint.ipv4_address(), address);

    // A network that is connected behind our back is a change, and is the only one.
    docker(&["network", "connect", "--alias", "inner", &back, &host.container()]);
    let key = spec.containers.keys().next().expect("a container").clone();
    let changes = changes(object(&host.plan(&spec).await, &key));
    assert_eq!(
        lines(&changes),
        [
            format!("networks[{back}]: true -> absent (IN_PLACE, CHANGED_BY_HAND)"),
            format!("networks[{back}].aliases: [inner] -> absent (IN_PLACE, CHANGED_BY_HAND)"),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn h42_health_restart_and_log_options() {
    let health = ["--health-cmd", "test -e /version", "--health-interval", "1m30s", "--health-retries", "5"];
    let restart = ["--restart", "on-failure:3", "--stop-signal", "INT", "--stop-timeout", "3"];
    let logs = ["--log-opt", "max-size=1m", "--log-opt", "labels=a,b"];
    let options = [&health[..], &restart, &logs].concat();
    let declares =
        ["command", "healthcheck", "image", "logging", "restart", "stop_grace_period", "stop_signal"];
    let (_host, spec) = take("thealth", &options, &declares).await;
    let logging = spec.containers.values().next().expect("a container").logging.clone().expect("declared");
    let options: Vec<&str> = logging.options.keys().map(String::as_str).collect();
    assert_eq!((logging.driver, options), (None, vec!["labels", "max-size"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn capabilities_devices_and_namespaces() {
    let caps = ["--cap-add", "NET_ADMIN", "--cap-add", "cap_sys_time", "--cap-drop", "MKNOD"];
    let device = ["--device", "/dev/null:/dev/mine:rm", "--device-cgroup-rule", "c 10:229 rwm"];
    let more =
        ["--sysctl", "net.ipv4.ip_forward=1", "--group-add", "7", "--security-opt", "no-new-privileges"];
    let spaces = ["--pid", "host", "--uts", "host", "--ipc", "shareable", "--init", "--userns", "host"];
    let options = [&caps[..], &device, &more, &spaces].concat();
    let declares = [
        "cap_add",
        "cap_drop",
        "command",
        "device_cgroup_rules",
        "devices",
        "group_add",
        "image",
        "init",
        "ipc",
        "pid",
        "security_opt",
        "sysctls",
        "userns_mode",
        "uts",
    ];
    take("tcaps", &options, &declares).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overridden_entrypoint_user_and_terminal() {
    let host = Served::new("tentry").await;
    let options =
        ["--entrypoint", "/bin/sh", "--user", "0:65534", "--workdir", "/var", "-i", "-t", "--no-healthcheck"];
    let command = ["-c", "trap 'exit 0' QUIT TERM; while :; do sleep 1; done"];
    let declares =
        ["command", "entrypoint", "healthcheck", "image", "stdin_open", "tty", "user", "working_dir"];
    take_on(&host, &options, DEFAULTS, &command, &declares).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hosts_network() {
    take("thostnet", &["--network", "host"], &["command", "image", "network_mode"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_network() {
    take("tnonet", &["--network", "none"], &["command", "image", "network_mode"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_containers_namespaces() {
    let host = Served::new("tshared").await;
    let owner = format!("{}-owner", host.site.name);
    docker(&["run", "-d", "--name", &owner, "--ipc", "shareable", SAMPLE, "hold"]);
    let shared = format!("container:{owner}");
    let options = ["--network", &shared, "--ipc", &shared, "--pid", &shared];
    let spec =
        take_on(&host, &options, SAMPLE, &["hold"], &["command", "image", "ipc", "network_mode", "pid"])
            .await;
    let container = spec.containers.values().next().expect("a container");
    assert_eq!(container.network_mode(), shared, "by name: an id would be another after each recreation");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_the_image_says() {
    let host = Served::new("tplain").await;
    let spec = take_on(&host, &[], DEFAULTS, &[], &["image"]).await;
    assert!(spec.volumes.is_empty() && spec.networks.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn links_and_the_mounts_of_another() {
    let host = Served::new("tlinks").await;
    let owner = format!("{}-owner", host.site.name);
    docker(&["run", "-d", "--name", &owner, "-v", "/shared", SAMPLE, "hold"]);
    let (link, from) = (format!("{owner}:db"), format!("{owner}:ro"));
    let options = ["--link", &link, "--volumes-from", &from, "-P"];
    let declares = ["command", "image", "links", "publish_all_ports", "volumes_from"];
    take_on(&host, &options, SAMPLE, &["hold"], &declares).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rarer_limits() {
    let processors = ["--cpu-period", "50000", "--cpu-quota", "25000", "--cpuset-mems", "0"];
    let memory = ["-m", "64m", "--memory-swap", "-1", "--memory-swappiness", "10", "--oom-kill-disable"];
    let more =
        ["--cgroup-parent", "/plumbline-test", "--ulimit", "nofile=100", "--stop-timeout", "0", "--rm"];
    let options = [&processors[..], &memory, &more].concat();
    let declares = [
        "auto_remove",
        "cgroup_parent",
        "command",
        "cpu_period",
        "cpu_quota",
        "cpuset_mems",
        "image",
        "mem_limit",
        "mem_swappiness",
        "memswap_limit",
        "oom_kill_disable",
        "stop_grace_period",
        "ulimits",
    ];
    take("trare", &options, &declares).await;
}

/// What is asked for in the image's or the engine's own words cannot be told from what they fill in.
#[tokio::test(flavor = "multi_thread")]
async fn what_equals_a_default_is_not_declared() {
    let host = Served::new("tequal").await;
    let image = ["--env", "IMAGE_ONE=first", "--label", "org.example.one=first", "--expose", "7000"];
    let engine = ["--log-driver", "json-file", "--restart", "no", "--ipc", "private", "--runtime", "runc"];
    let more =
        ["--shm-size", "64m", "--memory-swappiness", "-1", "--cgroupns", "host", "--network", "bridge"];
    let health = ["--health-interval", "5s", "--user", "nobody", "--workdir", "/tmp", "-v", "/imgvol"];
    let options = [&image[..], &engine, &more, &health].concat();
    take_on(&host, &options, DEFAULTS, &[], &["image"]).await;
}

/// A container that differs is not adopted, and the answer shows where.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_differs_is_not_adopted() {
    let host = Served::new("tdiffers").await;
    docker(&["run", "-d", "--name", &host.container(), "--dns", "192.0.2.1", SAMPLE, "hold"]);
    let before = host.site.identity("c").await;
    host.engine.take_mutations();
    let spec = host.site.holding(&serde_json::json!({ "dns": ["192.0.2.2"] }));
    let answer = host.adopt(&host.container(), &spec).await;
    let result = answer.result.expect("a comparison");
    assert!(!answer.adopted);
    assert_eq!(result.action(), Action::Refused);
    assert_eq!(lines(&changes(&result)), ["dns: [192.0.2.1] -> [192.0.2.2] (RECREATE, DECLARED)"]);
    let applied = host.apply(&spec, true).await;
    assert_eq!(applied.action(), Action::Refused, "it is a stranger still");
    assert_eq!(host.engine.take_mutations(), [""; 0]);
    assert_eq!(host.site.identity("c").await, before);
}
