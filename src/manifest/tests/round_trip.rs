//! What is written is read as exactly the same spec, whatever text is in it.

use proptest::prelude::*;

use super::module;
use crate::any_spec::{any_module, odd_text};
use crate::manifest::error::Problems;
use crate::manifest::{emit, parse, spell, walk, write};
use crate::proto::v1::ModuleSpec;

/// Reads without asking whether the spec is valid.
fn parsed(text: &str) -> ModuleSpec {
    let mut problems = Problems::default();
    let documents = parse::documents(text.as_bytes(), &mut problems);
    let [document] = <[_; 1]>::try_from(documents).unwrap_or_else(|_| panic!("{text}\n{problems:?}"));
    let walked = walk::module(document, &mut problems);
    walked.unwrap_or_else(|| panic!("{text}\n{problems:?}")).spec
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_spec_at_all_is_read_as_it_was_written(spec in any_module()) {
        let text = emit::emit(&spell::module(&spec));
        prop_assert_eq!(parsed(&text), spec, "{}", text);
    }

    #[test]
    fn any_environment_is_read_as_it_was_written(
        environment in proptest::collection::btree_map("[^=\\x00]{1,20}", odd_text(), 0..8),
        command in proptest::collection::vec(odd_text(), 0..5),
        labels in proptest::collection::btree_map("[a-z .:~-]{1,20}", odd_text(), 0..4),
    ) {
        let mut spec = module("name: shop\ncontainers: {web: {image: nginx}}\n");
        let web = spec.containers.get_mut("web").unwrap();
        web.environment = environment;
        web.command = command;
        web.labels = labels;
        let texts = web.environment.values().chain(&web.command).chain(web.labels.values());
        let nul = texts.clone().any(|text| text.contains('\0'));
        match write(&spec) {
            Ok(text) => prop_assert_eq!(module(&text), spec),
            Err(error) => prop_assert!(nul, "{}", error),
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = super::read(&super::Source { name: "m.yaml", text: &bytes });
    }

    #[test]
    fn any_text_of_yaml_signs_is_read_or_refused(text in "[a-c:\\-?\\[\\]{},#&*!|>'\"%@ \\n]{0,80}") {
        let _ = super::read_all(&text);
    }
}

const FULL: &str = r#"name: shop
containers:
  db:
    image: postgres:17
    environment:
      A: "0644"
      B: "it's \"quoted\""
      LINES: "one\ntwo\n"
      PS1: "$(whoami)\\$ "
      SAID: 'say "yes"'
    restart: unless-stopped
    networks: [back]
    mounts: [data:/var/lib/postgresql/data]
  web:
    image: nginx:1.27
    depends_on: [db]
    expose: ["8080"]
    command: [nginx, "-g", "daemon off;"]
    entrypoint: []
    healthcheck:
      test: curl -f localhost
      interval: 1m30s
      timeout: 500ms
    stop_grace_period: 10s
    mem_limit: 64m
    cpus: 1.5
    ulimits:
      core: -1
      nofile:
        soft: 1024
        hard: 2048
    devices: [/dev/fuse:/dev/fuse]
    restart: on-failure:3
    networks:
      back:
        aliases: [web]
      front:
        ipv4_address: "172.31.250.9"
    ports: ["8080:80", "127.0.0.1:8443:443/tcp", "[::1]:9000:9000", "9090"]
    mounts:
      - /srv/www:/usr/share/nginx/html:ro
      - type: tmpfs
        target: /scratch
        tmpfs:
          size: 16m
          mode: "0700"
    tmpfs:
      /run: ""
networks:
  back: {}
  front:
    ipam:
      config:
        - subnet: "172.31.250.0/24"
volumes:
  data: {}
"#;

#[test]
fn a_written_manifest_is_what_a_person_would_write() {
    let text = FULL.replace("/dev/fuse:/dev/fuse", "/dev/fuse");
    assert_eq!(write(&module(&text)).unwrap(), text);
}

#[test]
fn a_spec_that_is_not_valid_is_not_written() {
    let mut spec = module(FULL);
    spec.containers.get_mut("web").unwrap().mem_limit = Some(1);
    let error = write(&spec).unwrap_err().to_string();
    let expected = "shop: containers.web.mem_limit: 1 is out of range (at least 6291456): declare one in that range, or take it out";
    assert_eq!(error, expected);
}

#[test]
fn a_text_that_any_reader_of_yaml_could_take_for_something_else_is_quoted() {
    let mut spec = module("name: shop\ncontainers: {web: {image: nginx}}\n");
    for text in [
        "",
        "~",
        "null",
        "no",
        "Yes",
        "on",
        "y",
        "true",
        "0644",
        "1:59",
        "2122:22",
        "1e3",
        "0x1f",
        ".5",
        ".inf",
        "1_000",
        "2024-01-01",
        "$HOME",
        " a",
        "a ",
        "a: b",
        "a:",
        "a #b",
        "- a",
        "*a",
        "&a",
        "!a",
        "[a]",
        "{a}",
        "a, b",
        "%a",
        "@a",
        "`a`",
        "|",
        ">",
        "=",
        "<<",
        "---",
        "...",
        "a\nb",
        "a\tb",
        "\u{85}",
        "\u{2028}",
        "\u{feff}",
        "\u{202e}",
        "caf\u{e9}",
    ] {
        spec.containers.get_mut("web").unwrap().environment = [("A".to_owned(), text.to_owned())].into();
        let written = write(&spec).unwrap();
        let value = written.lines().find_map(|line| line.trim().strip_prefix("A: ")).unwrap();
        assert!(value.starts_with(['"', '\'']), "{text:?} was written as {value}");
        assert!(value.is_ascii() || text == "caf\u{e9}", "{text:?} was written as {value}");
    }
    for text in ["a", "nginx:1.27", "/srv/www", "say hello", "a=b", "user@host", "x+y", "_"] {
        spec.containers.get_mut("web").unwrap().environment = [("A".to_owned(), text.to_owned())].into();
        assert!(write(&spec).unwrap().contains(&format!("A: {text}\n")), "{text}");
    }
}
