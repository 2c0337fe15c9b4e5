//! Specs with any field in any state, led by the descriptors: a new field is in them the moment it exists.

use std::collections::HashMap;

use proptest::prelude::*;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value};

use crate::catalogue::{is_duration, is_string_list, module_descriptor, rule};
use crate::proto::v1::{FieldRule, Form, ModuleSpec, Unit};

/// Texts that some reader of YAML would take for something else, and all others.
pub(crate) fn odd_text() -> BoxedStrategy<String> {
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

/// Texts in the forms that a field takes, equal ones in several spellings among them, and any other text.
fn text(rule: &FieldRule) -> BoxedStrategy<String> {
    let some = |texts: &[&str]| {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        proptest::sample::select(texts).boxed()
    };
    let of_form = match rule.form() {
        Form::Unspecified | Form::Limit if rule.engine_default.is_empty() => return odd_text(),
        Form::Unspecified | Form::Limit => Just(rule.engine_default.clone()).boxed(),
        Form::Capability => {
            some(&["net_admin", "CAP_NET_ADMIN", "Cap_Net_Admin", "all", "CAP_ALL", "CAP_CAP_X", "cap_"])
        }
        // No ranges: a manifest has one element for each of their ports.
        Form::Port => some(&["80", "80/tcp", "80/TCP", "80/udp", "53/Udp", "80/", "/tcp"]),
        Form::Path => "(/{1,2}(a|b|\\.|\\.\\.|c d)){0,4}/?".boxed(),
        Form::Cpuset => "([0-9](-[0-9]{1,2})?,){0,3}[0-9]{1,2}".boxed(),
        Form::Ip => some(&[
            "192.0.2.1",
            "::ffff:192.0.2.1",
            "::FFFF:c000:201",
            "::1",
            "0:0:0:0:0:0:0:1",
            "2001:DB8::0",
            "2001:db8::",
            "0.0.0.0",
            "127.1",
        ]),
        Form::Signal => {
            "(?i:SIG){0,2}([0-9]{1,2}|kill|KILL|CLD|CHLD|RTMIN\\+[0-9]{1,2}|rtmax-[0-9]{1,2})?".boxed()
        }
        Form::Mac => some(&["02-42-AC-11-00-02", "02:42:ac:11:00:02", "02:42:AC:11:00:03"]),
        Form::Letters => "[rwm]{0,4}".boxed(),
        Form::Platform => some(&["linux/amd64", "Linux/X86_64", "linux/x86-64", "linux/aarch64/v8", "linux"]),
        Form::Lowercase => "[a-cA-C]{1,2}".boxed(),
    };
    prop_oneof![4 => of_form, 1 => odd_text()].boxed()
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
        Kind::String => text(rule).prop_map(Value::String).boxed(),
        Kind::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        Kind::Double => {
            any::<f64>().prop_filter("finite", |value| value.is_finite()).prop_map(Value::F64).boxed()
        }
        Kind::Int64 if rule.unit() == Unit::Bytes => {
            let default = rule.engine_default.parse().unwrap_or_default();
            prop_oneof![Just(-1), Just(default), 0..i64::MAX, (0..4_096_i64).prop_map(|size| size << 20)]
                .prop_map(Value::I64)
                .boxed()
        }
        Kind::Int64 => prop_oneof![any::<i64>(), -2..4_i64].prop_map(Value::I64).boxed(),
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
        Kind::Message(message) if is_string_list(&message) => proptest::collection::vec(text(rule), 0..3)
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

/// Any value of a field; `counts`: the numbers in it are counts, whatever unit their fields have elsewhere.
pub(crate) fn any_field(field: &FieldDescriptor, counts: bool) -> BoxedStrategy<Value> {
    if field.is_map() {
        let Kind::Message(entry) = field.kind() else { panic!("a map has entries") };
        let value = match entry.map_entry_value_field().kind() {
            Kind::Message(message) => any_message(&message, false),
            _ => odd_text().prop_map(Value::String).boxed(),
        };
        let key = text(rule(field)).prop_filter("short", |text| text.len() <= 1_024).prop_map(MapKey::String);
        return proptest::collection::vec((key, value), 1..4)
            .prop_map(|entries| Value::Map(entries.into_iter().collect::<HashMap<_, _>>()))
            .boxed();
    }
    let value = scalar(field, counts);
    if field.is_list() { proptest::collection::vec(value, 1..3).prop_map(Value::List).boxed() } else { value }
}

/// A message with a few of its fields, in any state.
pub(crate) fn any_message(descriptor: &MessageDescriptor, counts: bool) -> BoxedStrategy<Value> {
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

/// Any module, valid or not.
pub(crate) fn any_module() -> impl Strategy<Value = ModuleSpec> {
    any_message(&module_descriptor(), false).prop_map(|value| match value {
        Value::Message(message) => message.transcode_to().unwrap(),
        other => panic!("{other:?}"),
    })
}
