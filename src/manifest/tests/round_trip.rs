//! What is written is read as exactly the same spec, whatever text is in it.

use std::collections::HashMap;

use proptest::prelude::*;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value};

use super::module;
use crate::catalogue::{is_duration, is_string_list, module_descriptor, rule};
use crate::manifest::error::Problems;
use crate::manifest::{emit, parse, spell, walk, write};
use crate::proto::v1::{ModuleSpec, Unit};

/// Reads without asking whether the spec is valid.
fn parsed(text: &str) -> ModuleSpec {
    let mut problems = Problems::default();
    let documents = parse::documents(text.as_bytes(), &mut problems);
    let [document] = <[_; 1]>::try_from(documents).unwrap_or_else(|_| panic!("{text}\n{problems:?}"));
    let walked = walk::module(document, &mut problems);
    walked.unwrap_or_else(|| panic!("{text}\n{problems:?}")).spec
}

/// Texts that some reader of YAML would take for something else, and all others.
pub(super) fn odd_text() -> BoxedStrategy<String> {
    let odd = [
        "",
        " ",
        "~",
        "null",
        "Null",
        "no",
        "yes",
        "on",
        "Off",
        "y",
        "true",
        "False",
        "0644",
        "0o17",
        "0x1f",
        "1e3",
        "1:59",
        "2122:22",
        "1_000",
        ".5",
        ".inf",
        "-.INF",
        ".nan",
        "+1",
        "-",
        "- a",
        "-1",
        "?",
        "? a",
        ":",
        "a:",
        "a: b",
        "a:b",
        "a #b",
        "#a",
        "a#",
        "&a",
        "*a",
        "!a",
        "!!str a",
        "|",
        ">",
        ">-",
        "%a",
        "@a",
        "`a`",
        "'",
        "''",
        "\"",
        "\"a\"",
        "it's",
        "{a}",
        "{",
        "}",
        "[a]",
        "[",
        "]",
        ",",
        "a, b",
        "<<",
        "=",
        "---",
        "...",
        "--- a",
        "$HOME",
        "${HOME}",
        "$$",
        "a\\",
        "\\n",
        "\n",
        "a\n",
        "\na",
        "a\n\nb\n",
        "\r",
        "a\r\nb",
        "\t",
        "a\tb",
        " a",
        "a ",
        "a  b",
        "\u{0}",
        "\u{1}",
        "\u{7f}",
        "\u{85}",
        "\u{a0}",
        "\u{ad}",
        "\u{2028}",
        "\u{202e}x",
        "\u{feff}",
        "\u{fffe}",
        "\u{ffff}",
        "é",
        "日本",
        "🦀",
        "\u{e0001}",
        "2024-01-01",
        "2024-01-01T00:00:00Z",
        "a=b",
        "=b",
        "/a b/c:d",
    ];
    let long = "x".repeat(3_000);
    prop_oneof![
        3 => proptest::sample::select(odd.map(str::to_owned).to_vec()),
        2 => any::<String>(),
        2 => "[ -~\\n\\t]{0,40}",
        2 => "[a-z/:=. ]{1,12}",
        1 => Just(long),
    ]
    .boxed()
}

fn scalar(field: &FieldDescriptor, counts: bool) -> BoxedStrategy<Value> {
    let rule = rule(field);
    // A short form of these would not be recognised again, or the text is one that the reader rewrites.
    if field.name() == "extra_hosts" {
        return "[a-z]{1,5}:[0-9.]{1,9}".prop_map(Value::String).boxed();
    }
    match field.kind() {
        Kind::String if !rule.allowed.is_empty() => {
            let allowed = proptest::sample::select(rule.allowed.clone());
            allowed
                .prop_map(|text| Value::String(if text.ends_with(':') { text + "db" } else { text }))
                .boxed()
        }
        Kind::String => odd_text().prop_map(Value::String).boxed(),
        Kind::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        Kind::Double => {
            any::<f64>().prop_filter("finite", |value| value.is_finite()).prop_map(Value::F64).boxed()
        }
        Kind::Int64 if rule.unit() == Unit::Bytes => {
            prop_oneof![Just(-1), 0..i64::MAX, (0..4_096_i64).prop_map(|size| size << 20)]
                .prop_map(Value::I64)
                .boxed()
        }
        Kind::Int64 => any::<i64>().prop_map(Value::I64).boxed(),
        Kind::Uint64 if counts => any::<u64>().prop_map(Value::U64).boxed(),
        Kind::Uint64 => {
            prop_oneof![any::<u64>(), (0..64_u64).prop_map(|size| size << 30)].prop_map(Value::U64).boxed()
        }
        Kind::Uint32 if rule.unit() == Unit::FileMode => (0..=0o7777_u32).prop_map(Value::U32).boxed(),
        Kind::Uint32 => prop_oneof![any::<u32>(), 0..70_000_u32].prop_map(Value::U32).boxed(),
        Kind::Message(message) if is_duration(&message) => {
            let whole = rule.unit() == Unit::Seconds;
            prop_oneof![any::<i64>(), (0..100_000_i64).prop_map(|second| second * 500_000_000)]
                .prop_map(move |nanos| {
                    let mut value = DynamicMessage::new(message.clone());
                    value.set_field_by_name("seconds", Value::I64(nanos / 1_000_000_000));
                    let part = i32::try_from(nanos % 1_000_000_000).unwrap();
                    value.set_field_by_name("nanos", Value::I32(if whole { 0 } else { part }));
                    Value::Message(value)
                })
                .boxed()
        }
        Kind::Message(message) if is_string_list(&message) => proptest::collection::vec(odd_text(), 0..3)
            .prop_map(move |values| {
                let mut list = DynamicMessage::new(message.clone());
                list.set_field_by_name(
                    "values",
                    Value::List(values.into_iter().map(Value::String).collect()),
                );
                Value::Message(list)
            })
            .boxed(),
        Kind::Message(message) => any_message(&message, field.name().ends_with("_iops")),
        kind => panic!("{} has a kind that no manifest can say: {kind:?}", field.full_name()),
    }
}

fn any_field(field: &FieldDescriptor, counts: bool) -> BoxedStrategy<Value> {
    if field.is_map() {
        let Kind::Message(entry) = field.kind() else { panic!("a map has entries") };
        let value = match entry.map_entry_value_field().kind() {
            Kind::Message(message) => any_message(&message, false),
            _ => odd_text().prop_map(Value::String).boxed(),
        };
        let key = odd_text().prop_map(MapKey::String);
        return proptest::collection::vec((key, value), 1..4)
            .prop_map(|entries| Value::Map(entries.into_iter().collect::<HashMap<_, _>>()))
            .boxed();
    }
    let value = scalar(field, counts);
    if field.is_list() { proptest::collection::vec(value, 1..3).prop_map(Value::List).boxed() } else { value }
}

/// A message with a few of its fields, in any state.
fn any_message(descriptor: &MessageDescriptor, counts: bool) -> BoxedStrategy<Value> {
    let descriptor = descriptor.clone();
    let fields: Vec<FieldDescriptor> = descriptor.fields().collect();
    let most = fields.len().min(8);
    let few = proptest::sample::subsequence(fields, 0..=most);
    few.prop_flat_map(move |fields| {
        fields.into_iter().map(|field| (Just(field.clone()), any_field(&field, counts))).collect::<Vec<_>>()
    })
    .prop_map(move |values| {
        let mut message = DynamicMessage::new(descriptor.clone());
        for (field, value) in values {
            message.set_field(&field, value);
        }
        Value::Message(message)
    })
    .boxed()
}

fn any_module() -> impl Strategy<Value = ModuleSpec> {
    any_message(&module_descriptor(), false).prop_map(|value| match value {
        Value::Message(message) => message.transcode_to().unwrap(),
        other => panic!("{other:?}"),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

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
    assert_eq!(error, "shop: containers.web.mem_limit: 1 is out of range (at least 6291456)");
}
