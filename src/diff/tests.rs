//! What the walker sees, says and keeps quiet about.

use prost_reflect::DynamicMessage;
use serde_json::json;

use super::*;
use crate::catalogue::{container_descriptor, leaves};
use crate::normal::normalise;
use crate::proto::v1::value::Kind;

const API: ApiVersion = ApiVersion { major: 1, minor: 41 };

fn container(json: &serde_json::Value) -> DynamicMessage {
    let mut message = DynamicMessage::deserialize(container_descriptor(), json).expect("a container");
    normalise(&mut message);
    message
}

fn compare(
    declared: &serde_json::Value,
    observed: &serde_json::Value,
    previous: Option<&serde_json::Value>,
) -> Vec<(String, Consequence, Cause)> {
    let (declared, observed, previous) = (container(declared), container(observed), previous.map(container));
    let comparison = Comparison {
        declared: &declared,
        desired: &declared,
        observed: &observed,
        previous: previous.as_ref(),
        as_running: None,
        api: API,
    };
    let text =
        |path: &Path| path.to_string().strip_prefix("containers.c.").expect("below the root").to_owned();
    diff(&comparison, &Path::default().field("containers").key("c"))
        .into_iter()
        .map(|change| (text(&change.path), change.consequence, change.cause))
        .collect()
}

fn one(path: &str, consequence: Consequence) -> Vec<(String, Consequence, Cause)> {
    vec![(path.to_owned(), consequence, Cause::Declared)]
}

#[test]
fn one_edit_is_one_change_with_its_consequence() {
    use Consequence::{InPlace, Recreate, Unsupported};
    for (observed, declared, path, consequence) in [
        (
            json!({"mounts": [{"type": "bind", "source": "/h/old", "target": "/srv"}]}),
            json!({"mounts": [{"type": "bind", "source": "/h/new", "target": "/srv"}]}),
            "mounts[/srv].source",
            Recreate,
        ),
        (json!({"dns": ["10.0.0.2"]}), json!({"dns": ["10.0.0.3"]}), "dns", Recreate),
        (
            json!({"environment": {"A": "1", "B": "2"}}),
            json!({"environment": {"A": "1"}}),
            "environment[B]",
            Recreate,
        ),
        (json!({"environment": {"A": "x"}}), json!({"environment": {"A": ""}}), "environment[A]", Recreate),
        (json!({"labels": {"a": "1"}}), json!({}), "labels[a]", Recreate),
        (
            json!({"healthcheck": {"interval": "10s"}}),
            json!({"healthcheck": {"interval": "30s"}}),
            "healthcheck.interval",
            Recreate,
        ),
        (json!({"tmpfs": {"/t": "size=1m"}}), json!({"tmpfs": {"/t": "size=2m"}}), "tmpfs[/t]", Recreate),
        (
            json!({"ulimits": [{"name": "nofile", "soft": 1, "hard": 2}]}),
            json!({"ulimits": [{"name": "nofile", "soft": 1, "hard": 3}]}),
            "ulimits[nofile].hard",
            Recreate,
        ),
        (
            json!({"networks": {"n": {"ipv4Address": "10.0.0.2"}}}),
            json!({"networks": {"n": {"ipv4Address": "10.0.0.3"}}}),
            "networks[n].ipv4_address",
            InPlace,
        ),
        (json!({"networks": {}}), json!({"networks": {"n": {}}}), "networks[n]", InPlace),
        (json!({"containerName": "a"}), json!({"containerName": "b"}), "container_name", InPlace),
        (json!({"memLimit": 67_108_864}), json!({"memLimit": 134_217_728}), "mem_limit", InPlace),
        (json!({"memLimit": 67_108_864}), json!({}), "mem_limit", Recreate),
        (
            json!({"memLimit": 9, "memswapLimit": 20}),
            json!({"memLimit": 9, "memswapLimit": -1}),
            "memswap_limit",
            Recreate,
        ),
        (json!({"memLimit": 64, "memswapLimit": 200}), json!({"memLimit": 64}), "memswap_limit", InPlace),
        (
            json!({"memLimit": 64, "memswapLimit": 200}),
            json!({"memLimit": 64, "memswapLimit": 128}),
            "memswap_limit",
            InPlace,
        ),
        (
            json!({"mounts": [{"type": "bind", "target": "/m"}]}),
            json!({"mounts": [{"type": "image", "target": "/m"}]}),
            "mounts[/m].type",
            Unsupported,
        ),
        (json!({"pidsLimit": 10}), json!({"pidsLimit": 0}), "pids_limit", InPlace),
        (json!({"restart": {"name": "always"}}), json!({}), "restart.name", InPlace),
        (json!({}), json!({"annotations": {"a": "1"}}), "annotations[a]", Unsupported),
        (json!({"init": true}), json!({"init": false}), "init", Recreate),
        (
            json!({"ports": [{"target": 80, "published": "8080"}]}),
            json!({"ports": [{"target": 80, "published": "8081"}]}),
            "ports[80/tcp].published",
            Recreate,
        ),
    ] {
        assert_eq!(compare(&declared, &observed, None), one(path, consequence), "{observed} -> {declared}");
    }
}

#[test]
fn a_swap_limit_that_nobody_declares_is_shown_as_twice_the_memory() {
    let shown = |observed: &serde_json::Value, desired: &serde_json::Value| {
        let (desired, observed) = (container(desired), container(observed));
        let comparison = Comparison {
            declared: &desired,
            desired: &desired,
            observed: &observed,
            previous: None,
            as_running: None,
            api: API,
        };
        let changes = diff(&comparison, &Path::default()).into_iter();
        let swaps = changes.filter(|change| change.path.to_string() == "memswap_limit");
        swaps.map(|change| (change.before, change.after)).collect::<Vec<_>>()
    };
    let number = |number| Some(Value::I64(number));
    let (plain, more) = (json!({"memLimit": 64}), json!({"memLimit": 64, "memswapLimit": 200}));
    assert_eq!(shown(&plain, &more), [(number(128), number(200))]);
    assert_eq!(shown(&more, &plain), [(number(200), number(128))]);
    assert_eq!(shown(&json!({}), &more), [(None, number(200))]);
    assert_eq!(shown(&more, &json!({})), [(number(200), None)]);
    // The limit stays what it is while the memory doubles: nothing to be shown.
    assert_eq!(shown(&json!({"memLimit": 100, "memswapLimit": 128}), &plain), []);
    assert_eq!(shown(&plain, &json!({"memLimit": 100, "memswapLimit": 128})), []);
}

#[test]
fn an_added_mount_is_all_its_leaves() {
    let added = compare(
        &json!({"mounts": [{"type": "bind", "source": "/h/t", "target": "/extra", "readOnly": true}]}),
        &json!({}),
        None,
    );
    let paths: Vec<&str> = added.iter().map(|(path, ..)| path.as_str()).collect();
    assert_eq!(
        paths,
        ["mounts[/extra].type", "mounts[/extra].source", "mounts[/extra].target", "mounts[/extra].read_only"]
    );
}

#[test]
fn what_the_engine_chooses_is_compared_only_where_it_was_declared() {
    let observed = json!({"runtime": "runc", "networks": {"n": {"macAddress": "02:42:00:00:00:01"}}});
    let silent = json!({"networks": {"n": {}}});
    assert_eq!(compare(&silent, &observed, None), []);
    assert_eq!(compare(&silent, &observed, Some(&json!({"runtime": "crun"}))), []);
    assert_eq!(
        compare(&silent, &observed, Some(&json!({"runtime": "runc"}))),
        one("runtime", Consequence::Recreate),
        "a value that was taken out of the spec is noticed"
    );
    let asks = json!({"runtime": "crun", "networks": {"n": {}}});
    assert_eq!(compare(&asks, &observed, None), one("runtime", Consequence::Recreate));
}

#[test]
fn options_that_the_engine_adds_are_its_own() {
    let observed =
        json!({"logging": {"driver": "json-file", "options": {"max-size": "10m", "max-file": "3"}}});
    assert_eq!(compare(&json!({}), &observed, None), []);
    let declared = json!({"logging": {"options": {"max-size": "20m"}}});
    assert_eq!(compare(&declared, &observed, None), one("logging.options[max-size]", Consequence::Recreate));
}

#[test]
fn a_change_by_hand_is_told_from_a_changed_declaration() {
    let (declared, observed) = (json!({"memLimit": 64}), json!({"memLimit": 128}));
    let by_hand = compare(&declared, &observed, Some(&json!({"memLimit": 64})));
    assert_eq!(by_hand[0].2, Cause::ChangedByHand);
    let undeclared = compare(&json!({}), &json!({"memLimit": 128}), Some(&json!({})));
    assert_eq!(undeclared[0].2, Cause::ChangedByHand, "nobody declares it, and nobody did");
    let by_declaration = compare(&declared, &observed, Some(&json!({"memLimit": 128})));
    assert_eq!(by_declaration[0].2, Cause::Declared);
}

/// The image that the object runs had `old` as its label, the declared one has `new`.
#[test]
fn what_another_image_brings_is_told_from_what_a_hand_or_a_declaration_does() {
    let label = |value: &str| container(&json!({"labels": {"l": value}}));
    let (nothing, old, new, mine) = (container(&json!({})), label("old"), label("new"), label("mine"));
    for (declared, desired, observed, previous, as_running, cause) in [
        (&nothing, &new, &old, Some(&old), Some(&old), Cause::ImageDefault),
        // It has no default any more, and brings one that was not there.
        (&nothing, &nothing, &old, Some(&old), Some(&old), Cause::ImageDefault),
        (&nothing, &new, &nothing, Some(&nothing), Some(&nothing), Cause::ImageDefault),
        // The new image was seen already, and left alone.
        (&nothing, &new, &old, Some(&new), Some(&old), Cause::ImageDefault),
        (&nothing, &new, &old, None, Some(&old), Cause::ImageDefault),
        // What is declared is no default, whatever the images say.
        (&mine, &mine, &old, Some(&old), Some(&mine), Cause::Declared),
        (&nothing, &new, &mine, Some(&mine), Some(&old), Cause::Declared),
        (&nothing, &old, &mine, Some(&mine), None, Cause::Declared),
        (&nothing, &old, &mine, Some(&old), None, Cause::ChangedByHand),
        (&nothing, &old, &mine, None, None, Cause::ImageDefault),
    ] {
        let comparison = Comparison { declared, desired, observed, previous, as_running, api: API };
        let changes = diff(&comparison, &Path::default());
        assert_eq!(changes.iter().map(|change| change.cause).collect::<Vec<_>>(), [cause], "{comparison:?}");
    }
}

#[test]
fn a_secret_travels_as_a_hash() {
    let (declared, observed) = (container(&json!({"environment": {"P": "hunter2"}})), container(&json!({})));
    let comparison = Comparison {
        declared: &declared,
        desired: &declared,
        observed: &observed,
        previous: None,
        as_running: None,
        api: API,
    };
    let hasher = SecretHasher::new(&[7; 32]);
    let wire = to_wire(&diff(&comparison, &Path::default())[0], &hasher);
    let Some(Kind::SecretValue(secret)) = wire.after.and_then(|value| value.kind) else {
        panic!("not hashed")
    };
    assert_eq!(secret.hash, hasher.hash("hunter2"));
    assert_ne!(secret.hash, SecretHasher::new(&[8; 32]).hash("hunter2"));
}

/// P1: for every leaf of the contract, a spec that differs in this leaf alone gives a change at it. The values are made
/// from the descriptors, so a new field is tested from the moment it exists.
#[test]
fn no_leaf_can_be_left_out_of_the_comparison() {
    let mut seen = 0;
    for leaf in leaves() {
        if leaf.rule.means() == Means::Instruction {
            continue;
        }
        let root = leaf.path.split('.').next().expect("a path has a root");
        let descriptor = match root {
            "container" => container_descriptor(),
            "network" => crate::catalogue::network_descriptor(),
            _ => crate::catalogue::volume_descriptor(),
        };
        let mut with = sample::message_with(&descriptor, leaf.path.split('.').skip(1));
        normalise(&mut with);
        let without = DynamicMessage::new(descriptor);
        let comparison = Comparison {
            declared: &with,
            desired: &with,
            observed: &without,
            previous: None,
            as_running: None,
            api: ApiVersion::NEWEST,
        };
        let changes = diff(&comparison, &Path::default());
        let name = leaf.field.name();
        let of_leaf = |change: &LeafChange| std::ptr::eq(change.rule, leaf.rule);
        assert!(changes.iter().any(of_leaf), "{}: a value of {name} is not seen: {changes:?}", leaf.path);
        let same = Comparison { observed: &with, ..comparison };
        assert!(diff(&same, &Path::default()).is_empty(), "{}: equals itself", leaf.path);
        seen += 1;
    }
    assert!(seen > 120, "only {seen} leaves");
}

/// Samples made from descriptors.
mod sample {
    use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value};

    use crate::catalogue::{is_duration, is_string_list, rule};

    /// A message in which the leaf at this path, and what it stands in, has a value.
    pub(super) fn message_with<'a>(
        descriptor: &MessageDescriptor,
        mut path: impl Iterator<Item = &'a str>,
    ) -> DynamicMessage {
        let mut message = DynamicMessage::new(descriptor.clone());
        let step = path.next().expect("a leaf has a field");
        let name = step.trim_end_matches("[]").trim_end_matches("[*]");
        let field = descriptor.get_field_by_name(name).expect("a path names fields");
        let rest: Vec<&str> = path.collect();
        let value = if rest.is_empty() {
            leaf(&field)
        } else if field.is_map() {
            let Kind::Message(entry) = field.kind() else { unreachable!() };
            let Kind::Message(inner) = entry.map_entry_value_field().kind() else { unreachable!() };
            map(Value::Message(message_with(&inner, rest.into_iter())))
        } else {
            let Kind::Message(inner) = field.kind() else { unreachable!() };
            let inner = Value::Message(message_with(&inner, rest.into_iter()));
            if field.is_list() { Value::List(vec![inner]) } else { inner }
        };
        message.set_field(&field, value);
        message
    }

    fn map(value: Value) -> Value {
        Value::Map([(MapKey::String("key".to_owned()), value)].into())
    }

    fn leaf(field: &FieldDescriptor) -> Value {
        if field.is_map() {
            let Kind::Message(entry) = field.kind() else { unreachable!() };
            return map(scalar(&entry.map_entry_value_field()));
        }
        let one = scalar(field);
        if field.is_list() { Value::List(vec![one]) } else { one }
    }

    fn scalar(field: &FieldDescriptor) -> Value {
        match field.kind() {
            Kind::Bool => Value::Bool(rule_default(field) != "true"),
            Kind::Int64 => Value::I64(7),
            Kind::Uint32 => Value::U32(7),
            Kind::Uint64 => Value::U64(7),
            Kind::Double => Value::F64(0.7),
            Kind::String => Value::String("sample".to_owned()),
            Kind::Message(message) => {
                let mut value = DynamicMessage::new(message.clone());
                if is_duration(&message) {
                    value.set_field_by_name("seconds", Value::I64(7));
                } else if is_string_list(&message) {
                    value.set_field_by_name("values", Value::List(vec![Value::String("sample".to_owned())]));
                }
                Value::Message(value)
            }
            kind => panic!("no sample for {kind:?}"),
        }
    }

    fn rule_default(field: &FieldDescriptor) -> &str {
        if field.parent_message().is_map_entry() { "" } else { &rule(field).engine_default }
    }
}
