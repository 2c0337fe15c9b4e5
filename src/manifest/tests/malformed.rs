//! Ten malformed manifests, and their kin: each a clear error with line and column, or with the size.

use super::{error, refused};
use crate::manifest::{ManifestError, Source, read};

fn failure(bytes: &[u8]) -> String {
    read(&Source { name: "module.yaml", text: bytes }).expect_err("it is malformed").to_string()
}

#[test]
fn ten_malformed_manifests_are_refused_with_their_place() {
    let bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned()
        + &(b'b'..=b'i')
            .map(|name| {
                let before = format!("*{}", char::from(name - 1));
                let name = char::from(name);
                format!("{name}: &{name} [{}]\n", [before.as_str(); 9].join(", "))
            })
            .collect::<Vec<_>>()
            .concat();
    let web =
        |line: &str| format!("name: shop\ncontainers:\n  web:\n    image: nginx\n    {line}\n").into_bytes();
    let table: Vec<(&str, Vec<u8>, Vec<&str>)> = vec![
        (
            "wrong type",
            web("privileged: [yes]"),
            vec!["module.yaml:5:17: containers.web.privileged: found a list, expected true or false"],
        ),
        (
            "unknown key",
            web("volumes: [\"/a:/b\"]"),
            vec!["module.yaml:5:5: containers.web.volumes: unknown key \"volumes\": did you mean `mounts`?"],
        ),
        (
            "duplicate key",
            web("image: httpd"),
            vec!["module.yaml:5:5: ", "\"image\" is given twice: in line 4 and in line 5"],
        ),
        (
            "bad unit",
            web("mem_limit: 64q"),
            vec!["module.yaml:5:16: containers.web.mem_limit: \"64q\" is not a size", "64m"],
        ),
        (
            "bad port",
            web("ports: [\"70000:80\"]"),
            vec!["module.yaml:5:13: containers.web.ports[0]: \"70000\" is not a port (1 to 65535)"],
        ),
        ("empty file", Vec::new(), vec!["module.yaml: the file is empty", "a name and a container"]),
        ("50 MB file", vec![b'a'; 50_000_000], vec!["module.yaml: the file has 50000000 bytes", "1048576"]),
        (
            "binary",
            b"\x7fELF\x02\x01\x01\x00\xff\xfe".to_vec(),
            vec!["module.yaml: the file is not text: byte 8 is not UTF-8"],
        ),
        (
            "deep nesting",
            [vec![b'['; 100_000], vec![b']'; 100_000]].concat(),
            vec!["module.yaml:1:33: ", "nested more than 32 deep"],
        ),
        (
            "alias bomb",
            bomb.into_bytes(),
            vec!["module.yaml:", "aliases make the manifest grow by more than 1048576 bytes"],
        ),
    ];
    assert_eq!(table.len(), 10);
    for (name, bytes, parts) in table {
        let error = failure(&bytes);
        for part in parts {
            assert!(error.contains(part), "{name} gave: {error}\nwithout: {part}");
        }
    }
}

#[test]
fn other_malformed_files_are_refused_too() {
    let nested = (0..60).map(|depth| " ".repeat(depth) + "a:\n").collect::<Vec<_>>().concat();
    let hyphens = "- ".repeat(1_000) + "x";
    let mixed = format!("a:\n  b:\n    - {}x{}", "[".repeat(31), "]".repeat(31));
    let aliased_depth =
        format!("a: &a {}x{}\nb: {}*a{}\n", "[".repeat(20), "]".repeat(20), "[".repeat(20), "]".repeat(20));
    for (text, parts) in [
        ("# only a comment\n", vec!["the file is empty"]),
        ("\u{feff}", vec!["the file is empty"]),
        ("---\n", vec!["document 1 of the file is empty"]),
        ("name: a\n---\n---\nname: b\n", vec!["document 2 of the file is empty"]),
        ("null", vec!["document 1 of the file is empty"]),
        ("just text", vec!["module.yaml:1:1: found \"just text\", expected a map of fields"]),
        ("[a, b]", vec!["module.yaml:1:1: found a list, expected a map of fields"]),
        ("name: a\0b", vec!["not text: byte 7 is the control character 0x00"]),
        ("name: [a", vec!["module.yaml:", "this is not YAML"]),
        ("name: a\n  b: c", vec!["module.yaml:2:", "this is not YAML"]),
        ("name: *nothing", vec!["module.yaml:1:7", "this is not YAML"]),
        ("a: &a [*a]", vec!["module.yaml:1:8", "contains it"]),
        ("name: !secret x", vec!["module.yaml:1:", "the tag \"!secret\" is not supported"]),
        ("containers: !reset {}", vec!["the tag \"!reset\" is not supported"]),
        ("? [a, b]\n: c", vec!["found a list as a key"]),
        ("name: a\n<<: {b: c}", vec!["module.yaml:2:1", "merge keys (<<) are not supported"]),
        (nested.as_str(), vec!["module.yaml:33:", "nested more than 32 deep"]),
        (hyphens.as_str(), vec!["module.yaml:1:65", "nested more than 32 deep"]),
        (mixed.as_str(), vec!["module.yaml:3:", "nested more than 32 deep"]),
        (aliased_depth.as_str(), vec!["module.yaml:2:", "nested more than 32 deep"]),
        ("%YAML 1.2\n---\nnmae: a\n", vec!["module.yaml:3:1: nmae: unknown key", "did you mean `name`?"]),
    ] {
        let error = error(text);
        for part in parts {
            assert!(error.contains(part), "{text}\ngave: {error}\nwithout: {part}");
        }
    }
}

#[test]
fn keys_of_compose_and_slips_of_the_pen_are_answered_with_the_key_that_was_meant() {
    for (line, meant) in [
        ("volumes: []", "mounts"),
        ("env: {}", "environment"),
        ("mem_swap_limit: 1g", "memswap_limit"),
        ("containerName: x", "container_name"),
        ("cap-add: []", "cap_add"),
        ("enviroment: {}", "environment"),
        ("restart_policy: always", "restart"),
        ("name: x", "container_name"),
        ("cmd: x", "command"),
        ("healtcheck: {}", "healthcheck"),
    ] {
        refused(line, &["module.yaml:5:5", &format!("did you mean `{meant}`?")]);
    }
    refused("env_file: .env", &["nothing is read from other files"]);
    refused("build: .", &["does not build images"]);
    refused("deploy: {update_config: {monitor: 10s}}", &["update_config in the container itself"]);
    refused("update_config: {order: start-first}", &["it has monitor, healthy_deadline"]);
    refused("update_config: {monitor: 10}", &["\"10\" is not a duration", "\"10s\""]);
    refused("zzzzzzzz: 1", &["unknown key \"zzzzzzzz\"", "`plumb fields`"]);
    refused("restart: {when: always}", &["it has name, maximum_retry_count"]);
    assert!(error("name: a\nservices: {}\n").contains("did you mean `containers`?"));
}

#[test]
fn all_problems_are_reported_in_the_order_of_the_text_up_to_twenty() {
    let error = read(&Source {
        name: "m.yaml",
        text: b"name: UP\ncontainers:\n  web: {tty: maybe, user: [a], x: 1}\n",
    });
    let places: Vec<_> =
        error.expect_err("it is wrong").problems.into_iter().map(|problem| problem.path).collect();
    assert_eq!(places, ["containers.web.tty", "containers.web.user", "containers.web.x"]);

    let many = (0..30).map(|number| format!("a{number}: 1\n")).collect::<Vec<_>>().concat();
    let error = read(&Source { name: "m.yaml", text: many.as_bytes() }).expect_err("it is wrong");
    assert_eq!((error.problems.len(), error.omitted), (20, 10));
    assert!(error.to_string().ends_with("m.yaml: and 10 more problems"));
}

#[test]
fn a_file_need_not_be_loaded_to_be_too_large() {
    let error = ManifestError::too_large("big.yaml", 50_000_000).to_string();
    assert!(
        error.starts_with("big.yaml: the file has 50000000 bytes; a manifest has at most 1048576"),
        "{error}"
    );
}

#[test]
fn no_text_makes_the_reader_panic() {
    let good = super::manifest(
        "ports: [\"80:8080\"]\nmounts: [\"/a:/b:ro\"]\nrestart: on-failure:3\nmem_limit: 64m",
    );
    for cut in 0..good.len() {
        let _ = read(&Source { name: "m.yaml", text: &good.as_bytes()[..cut] });
        for odd in [&b"{"[..], b"]", b"\"", b"&a ", b"*a", b": ", b"- ", b"\n", b"\xc3", b"!", b"|", b"%"] {
            let text = [&good.as_bytes()[..cut], odd, &good.as_bytes()[cut..]].concat();
            let _ = read(&Source { name: "m.yaml", text: &text });
        }
    }
}

#[test]
fn aliases_and_keys_cannot_make_a_manifest_grow_without_bound() {
    let aliases = format!("a: &a {}\nb: [{}]", "x".repeat(500_000), ["*a"; 3].join(","));
    assert!(
        error(&aliases)
            .contains("module.yaml:2:11: aliases make the manifest grow by more than 1048576 bytes")
    );
    let key = format!("name: a\ncontainers:\n  ? {}\n  : {{image: x}}\n", "k".repeat(1_025));
    assert!(error(&key).contains("module.yaml:3:5: the key \"kkk"));
}

#[test]
fn ranges_cannot_make_a_manifest_grow_without_bound() {
    refused(
        "ports: [1-65535]\nexpose: [80]\ndevices: []\nprivileged: 1",
        &["found \"1\", expected true or false"],
    );
    refused("ports: [1-65535, 1-65535]", &["ranges make the manifest grow by more than 65535"]);
}
