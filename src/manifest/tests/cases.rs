//! The faults of `cases.tsv` that concern the reading and writing of manifests.

use super::{error, module, refused, web};
use crate::manifest::write;
use crate::proto::v1::Port;

#[test]
fn h43_a_written_manifest_keeps_dollars_as_they_are_and_names_its_volumes() {
    let text = "name: forge\ncontainers:\n  app:\n    image: app\n    environment:\n      PS1: \"$(whoami)\\\\$ \"\n      HOME: $HOME\n    mounts: [\"data:/data\"]\nvolumes:\n  data: {}\n";
    let spec = module(text);
    assert_eq!(spec.containers["app"].environment["PS1"], "$(whoami)\\$ ");
    assert_eq!(spec.containers["app"].environment["HOME"], "$HOME");
    let written = write(&spec).unwrap();
    assert_eq!(module(&written), spec);
    assert!(
        written.contains("$(whoami)") && written.contains("data:/data") && !written.contains("$$"),
        "{written}"
    );
}

#[test]
fn h46_a_port_written_plain_stays_text() {
    let port = |published: &str, target| Port {
        target: Some(target),
        protocol: None,
        host_ip: None,
        published: Some(published.to_owned()),
    };
    let expected = vec![port("2122", 22), port("1", 59), port("49100", 22)];
    assert_eq!(web("ports: [2122:22, 1:59, 49100:22]").ports, expected);
    assert_eq!(web("ports:\n- 2122:22\n- 1:59\n- 49100:22").ports, expected);
}

#[test]
fn h46_what_looks_like_another_type_stays_text_where_the_field_is_text() {
    let lines = "environment: {A: 0644, B: no, C: yes, D: 1.0, E: 1:59, F: 0x10, G: 2024-01-01, H: true, I: 1e3, J: off}\nuser: 0644\nhostname: no\nstop_signal: 15";
    let web = web(lines);
    let values: Vec<&str> = web.environment.values().map(String::as_str).collect();
    assert_eq!(values, ["0644", "no", "yes", "1.0", "1:59", "0x10", "2024-01-01", "true", "1e3", "off"]);
    assert_eq!((web.user(), web.hostname(), web.stop_signal()), ("0644", "no", "15"));
}

#[test]
fn h47_nothing_is_interpolated() {
    for (lines, path) in [
        ("image: app:${TAG}", "containers.web.image"),
        ("image: app:$TAG", "containers.web.image"),
        ("image: nginx\n    mounts: [\"${DATA:-/srv}:/data\"]", "containers.web.mounts[0]"),
        (
            "image: nginx\n    mounts: [{type: bind, source: \"/srv/${X}\", target: /data}]",
            "containers.web.mounts[0].source",
        ),
        ("image: nginx\n    ports: [\"${PORT}:80\"]", "containers.web.ports[0]"),
        ("image: nginx\n    mem_limit: ${MEMORY}", "containers.web.mem_limit"),
    ] {
        let error = error(&format!("name: shop\ncontainers:\n  web:\n    {lines}\n"));
        assert!(
            error.contains(path) && error.contains("interpolation is not supported; write the value"),
            "{error}"
        );
    }
}

#[test]
fn h47_nothing_is_taken_from_the_callers_shell() {
    for lines in [
        "environment: [PATH]",
        "environment: {PATH: }",
        "environment: {PATH: null}",
        "environment: {PATH: ~}",
    ] {
        refused(lines, &["\"PATH\" has no value", "unset_environment", "caller's shell", "module.yaml:5:"]);
    }
    assert_eq!(web("environment: [PATH=]").environment["PATH"], "");
    assert_eq!(web("environment: {PATH: \"\"}").environment["PATH"], "");
}
