//! `plumb plan --live`: which pasted container is which declared one, whose it is, and what is judged.

use crate::harness::docker;
use crate::live::{nothing, paste, plan};
use crate::manifests::waiting;

#[test]
fn a_container_of_plumb_up_is_told_by_its_labels_whatever_its_name_is() {
    let host = nothing();
    let (module, renamed) = (host.module("up"), host.module("renamed"));
    let manifest = |source: &str| waiting(&module, &[&format!("mounts: ['{source}:/data:ro']")]);
    host.write("module.yaml", manifest("/tmp"));
    host.plumb(["up", "-f", "module.yaml", "--data-dir", "up"]).ended(0);
    let file = paste(&host, "c.json", &["inspect", &format!("{module}-app")]);
    let said = plan(&host, &manifest("/tmp"), &[&file], &[]).ended(0).says(&["everything is as declared"]);
    assert!(!said.stderr.contains("label"), "{said:?}");
    let change = "    ~ containers.app.mounts[/data].source: \"/tmp\" -> \"/var/tmp\"  [needs recreation]";
    let offline = plan(&host, &manifest("/var/tmp"), &[&file], &[]).ended(2);
    let refused = host.plumb(["up", "-f", "module.yaml", "--data-dir", "up"]).ended(3);
    for said in [&offline, &refused] {
        let changes: Vec<&str> = said.stdout.lines().filter(|line| line.contains("containers.")).collect();
        assert_eq!(changes, [change], "{said:?}");
    }
    docker(&["rename", &format!("{module}-app"), &renamed]);
    let file = paste(&host, "c.json", &["inspect", &renamed]);
    plan(&host, &manifest("/tmp"), &[&file], &[])
        .ended(2)
        .says(&[&format!("~ containers.app.container_name: \"{renamed}\" -> \"{module}-app\"  [in place]")]);
    // What left the declaration is removed by an apply: no error, and not passed over.
    let left = plan(&host, &manifest("/tmp").replace("  app:", "  web:"), &[&file], &[]).ended(2);
    left.says(&[&format!("container {renamed}: would be refused (needs removal)"), "web: would be created"]);
    let none = format!("name: {module}\ncontainers: {{}}\n");
    let removal = format!("container {renamed}: would be refused (needs removal)");
    plan(&host, &none, &[&file], &[]).ended(2).says(&[&removal]);
    host.write("module.yaml", &none);
    host.plumb(["up", "-f", "module.yaml", "--data-dir", "up"])
        .ended(3)
        .says(&[&format!("container {renamed}: refused (needs removal)")]);
    plan(&host, &none, &[&file], &["--container", "job"])
        .ended(1)
        .says(&["container job (it declares none)"]);
    // Labels are what an agent goes by.
    let two = format!("{}  job:\n    image: plumbline/sample:1\n", manifest("/tmp"));
    plan(&host, &two, &[&file], &["--container", "job"]).ended(1).says(&["is known by its labels"]);
}

#[test]
fn who_is_who_is_found_asked_for_or_an_error_that_says_what_to_do() {
    let host = nothing();
    let module = host.module("who");
    let (web, other) = (format!("{module}-web"), host.module("other"));
    for name in [&web, &other] {
        docker(&["run", "--detach", "--name", name, "plumbline/sample:1", "hold"]);
    }
    docker(&["stop", &web]);
    let file = paste(&host, "c.json", &["inspect", &web, &other]);
    let container = |key: &str| format!("  {key}:\n    image: plumbline/sample:1\n    command: [hold]\n");
    let three = ["web", "db", "log"].map(container).concat();
    let manifest = format!("name: {module}\ncontainers:\n{three}");
    let said = plan(&host, &manifest, &[&file], &[]).ended(1);
    let said = said.says(&[&format!("the container {other} ("), "--container KEY", "db, log"]);
    assert!(said.stdout.is_empty(), "{said:?}");
    let said = plan(&host, &manifest, &[&file], &["--container", "db"]).ended(2);
    said.says(&[
        &format!("container {module}-db: would be changed in place"),
        &format!("~ containers.db.container_name: \"{other}\" -> \"{module}-db\"  [in place]"),
        &format!("{module} against {file}, once adopted, but for log: would be applied"),
        &format!("container {module}-log: would be created"),
        &format!("-> not in {file}, so not compared"),
        &format!("container {web}: would be started"),
    ]);
    plan(&host, &manifest, &[&file], &["--container", "cache"])
        .ended(1)
        .says(&["declares no container cache"]);
    plan(&host, &manifest, &[&file], &["--container", "web"]).ended(1).says(&["already, by its name"]);
    // One of each is left.
    let two = ["web", "db"].map(container).concat();
    plan(&host, &format!("name: {module}\ncontainers:\n{two}"), &[&file], &[])
        .ended(2)
        .says(&[&format!("{other} is compared with db: no other is left")]);
    // Each by its name, whatever it is called.
    let (db, log) = (format!("db={web}"), format!("log={other}"));
    plan(&host, &manifest, &[&file], &["--container", &db, "--container", &log]).ended(2).says(&[
        &format!("~ containers.db.container_name: \"{web}\" -> \"{module}-db\""),
        &format!("~ containers.log.container_name: \"{other}\" -> \"{module}-log\""),
    ]);
}

#[test]
fn a_declared_container_that_was_not_pasted_is_named_and_decides_nothing() {
    let host = nothing();
    let module = host.module("absent");
    let name = format!("{module}-app");
    docker(&["run", "--detach", "--name", &name, "plumbline/sample:1", "hold"]);
    let file = paste(&host, "c.json", &["inspect", &name]);
    let db = "  db:\n    image: plumbline/sample:1\n    mounts: ['/tmp:/data']\n";
    let said = plan(&host, &format!("{}{db}", waiting(&module, &[])), &[&file], &[]).ended(0);
    assert_eq!(
        said.stdout.lines().collect::<Vec<_>>(),
        [
            format!(
                "{module} against {file}, once adopted, but for db: unchanged, everything is as declared"
            ),
            format!("  container {name}: unchanged"),
            format!("  container {module}-db: would be created"),
            format!("    -> not in {file}, so not compared"),
        ],
        "{said:?}"
    );
}

#[test]
fn what_is_not_labelled_is_compared_as_if_it_were_adopted_and_that_stands_in_the_headline() {
    let host = nothing();
    let module = host.module("stranger");
    let (name, network) = (format!("{module}-app"), format!("{module}_front"));
    docker(&["network", "create", &network]);
    let run = ["run", "--detach", "--name", &name, "--network", &network, "plumbline/sample:1", "hold"];
    docker(&run);
    let external = format!("networks: {{front: {{external: true, name: {network}}}}}\n");
    let attached = ["networks: {front: {}}", "mem_limit: 64m"];
    let manifest = format!("{}{external}", waiting(&module, &attached));
    let file = paste(&host, "c.json", &["inspect", &name, &network]);
    plan(&host, &manifest, &[&file], &[]).ended(2).says(&[
        &format!("{module} against {file}, once adopted: would be applied"),
        &format!("container {name}: would be changed in place"),
        &format!("note: {name} bears no label of Plumbline: it is compared as if it were adopted"),
        "unless it was, no apply touches it",
    ]);
    host.write("module.yaml", &manifest);
    let up = ["up", "-f", "module.yaml", "--data-dir", "up"];
    host.plumb(up).ended(3).says(&[&format!("container {name}: refused (not ours)")]);
    // Networks and volumes cannot be adopted: what an apply says of them is said here.
    let own = format!("{}networks: {{front: {{}}}}\n", waiting(&module, &attached));
    let refused =
        format!("a network named {network} exists and is not this module's: declare it with `external");
    plan(&host, &own, &[&file], &[]).ended(2).says(&[&refused]);
    host.write("module.yaml", &own);
    host.plumb(up).ended(3).says(&[&refused]);
}

#[test]
fn containers_of_docker_compose_are_known_by_their_service_and_their_labels_are_explained() {
    let host = nothing();
    let module = host.module("compose");
    let name = |service: &str| format!("{module}-{service}-1");
    for service in ["app", "db"] {
        let label = |label: &str, value: &str| format!("--label=com.docker.compose.{label}={value}");
        let (project, service_label) = (label("project", &module), label("service", service));
        let run = ["run", "--detach", "--name", &name(service), &project, &service_label];
        docker(&[&run[..], &["plumbline/sample:1", "hold"]].concat());
    }
    let containers = paste(&host, "c.json", &["inspect", &name("db"), &name("app")]);
    let image = paste(&host, "i.json", &["image", "inspect", "plumbline/sample:1"]);
    let container = |key: &str, more: &str| {
        let name = name(key);
        format!(
            "  {key}:\n    image: plumbline/sample:1\n    command: [hold]\n    container_name: {name}-old\n{more}"
        )
    };
    let manifest = |more: &str| {
        format!("name: {module}\ncontainers:\n{}{}", container("app", more), container("db", more))
    };
    let said = plan(&host, &manifest(""), &[&containers, &image], &[]).ended(2).says(&[
        &format!("note: {} is compared with app: it is Docker Compose's service app", name("app")),
        &format!("- containers.app.labels[com.docker.compose.project]: \"{module}\"  [needs recreation"),
        "note: Docker Compose's own labels (com.docker.compose.*) are a difference like any other (app 2, db 2): on a node \
         `plumb take` writes",
    ]);
    // The path that the note names is one that can be written so.
    let start = said.stderr.find("ignore_paths: [").expect("the note has it");
    let line = said.stderr[start..].split('`').next().expect("a line").to_owned();
    let ignored = "ignore_paths: ['containers.app.labels', 'containers.db.labels']\n";
    let said = plan(&host, &format!("{}{ignored}", manifest("")), &[&containers, &image], &[]).ended(2);
    assert!(!said.all().contains("com.docker.compose."), "{said:?}");
    let one = plan(&host, &format!("{}{line}\n", manifest("")), &[&containers, &image], &[]).ended(2);
    assert!(!one.stdout.contains("containers.app.labels[com.docker.compose.project]"), "{one:?}");
    one.says(&["containers.app.labels[com.docker.compose.service]", "(app 1, db 2)"]);
}

#[test]
fn a_shared_namespace_is_known_by_name_once_its_container_is_pasted_too() {
    let host = nothing();
    let module = host.module("ns");
    let (guest, owner) = (format!("{module}-app"), host.module("owner"));
    docker(&["run", "--detach", "--name", &owner, "plumbline/sample:1", "hold"]);
    let mode = format!("container:{owner}");
    docker(&["run", "--detach", "--name", &guest, "--network", &mode, "plumbline/sample:1", "hold"]);
    let manifest = waiting(&module, &[&format!("network_mode: container:{owner}")]);
    let alone = paste(&host, "guest.json", &["inspect", &guest]);
    plan(&host, &manifest, &[&alone], &[]).ended(0).says(&[
        "note: app was not compared where it names a container by an id that is not in",
        "network_mode",
    ]);
    let elsewhere = waiting(&module, &["network_mode: host"]);
    plan(&host, &elsewhere, &[&alone], &[]).ended(2).says(&["~ containers.app.network_mode: \"container:"]);
    let owner = paste(&host, "owner.json", &["inspect", &owner]);
    plan(&host, &manifest, &[&alone, &owner], &[]).ended(0).says(&["everything is as declared"]);
}
