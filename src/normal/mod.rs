//! The one form of each value that means the same to the engine.
//!
//! Both sides of a comparison go through [`normalise`] first, so the walker in [`crate::diff`] compares plain values.
//! What is not declared, what an engine shows when a field was not sent (`engine_default`), and the zero value of a
//! type all become "absent", except where the rule says that zero is a value of its own. Which of these hold for a
//! field is in its rule; the only facts here are how written forms relate ([`forms`]) and the two pairs of fields of
//! which the engine derives one from the other.

mod forms;

use std::collections::HashMap;

use prost_reflect::{DynamicMessage, FieldDescriptor, MapKey, MessageDescriptor, ReflectMessage as _, Value};

use crate::catalogue::{Shape, is_string_list, rule, shape};
use crate::proto::v1::{FieldRule, Form, Order};

/// Brings a spec, or any message inside one, into its normal form. Doing it twice changes nothing more.
pub fn normalise(message: &mut DynamicMessage) {
    clear_unset(message);
    for field in message.descriptor().fields() {
        if !message.has_field(&field) {
            continue;
        }
        let rule = rule(&field);
        let value = message.get_field(&field).into_owned();
        match normal_value(&field, rule, value) {
            Some(value) => message.set_field(&field, value),
            None => message.clear_field(&field),
        }
    }
    if message.descriptor().full_name() == "plumbline.v1.ContainerSpec" {
        clear_derived(message);
    }
}

/// An empty list, or a zero without presence, that was set is stored although it is not "there": messages with and
/// without it would not be equal.
fn clear_unset(message: &mut DynamicMessage) {
    for field in message.descriptor().fields() {
        if !message.has_field(&field) {
            message.clear_field(&field);
        }
    }
}

fn normal_value(field: &FieldDescriptor, rule: &FieldRule, value: Value) -> Option<Value> {
    match (shape(field), value) {
        (Shape::Leaf, value) => normal_leaf(rule, value),
        (Shape::LeafMap, Value::Map(entries)) => {
            // Keys that mean the same are one: the same of them is taken every time.
            let mut entries: Vec<_> = entries.into_iter().collect();
            entries.sort_by(|(one, _), (two, _)| one.as_str().cmp(&two.as_str()));
            let entries: HashMap<_, _> = entries
                .into_iter()
                .map(|(key, value)| match key {
                    MapKey::String(key) => (MapKey::String(forms::text(rule.form(), &key)), value),
                    key => (key, value),
                })
                .collect();
            (!entries.is_empty()).then_some(Value::Map(entries))
        }
        (Shape::Message(_), Value::Message(mut inner)) => {
            normalise(&mut inner);
            let declared = inner.fields().next().is_some();
            declared.then_some(Value::Message(inner))
        }
        (Shape::MessageMap(_), Value::Map(mut entries)) => {
            for inner in entries.values_mut().filter_map(Value::as_message_mut) {
                normalise(inner);
            }
            (!entries.is_empty()).then_some(Value::Map(entries))
        }
        (Shape::MessageList(element), Value::List(mut values)) => {
            for inner in values.iter_mut().filter_map(Value::as_message_mut) {
                normalise(inner);
            }
            if rule.order() == Order::Keyed {
                values.sort_by_cached_key(|value| {
                    let message = value.as_message();
                    (message.map(|message| element_key(&element, rule, message)), whole_text(value))
                });
            }
            (!values.is_empty()).then_some(Value::List(values))
        }
        (_, value) => Some(value),
    }
}

/// The key of an element of a keyed list, as it stands in a path: the key members, joined by a slash.
pub fn element_key(
    descriptor: &MessageDescriptor,
    list_rule: &FieldRule,
    element: &DynamicMessage,
) -> String {
    let member = |name: &String| {
        let field = descriptor.get_field_by_name(name).expect("build.rs checked the key members");
        if !element.has_field(&field) {
            return rule(&field).engine_default.clone();
        }
        match element.get_field(&field).as_ref() {
            Value::String(text) => text.clone(),
            Value::U32(number) => number.to_string(),
            other => format!("{other:?}"),
        }
    };
    list_rule.key.iter().map(member).collect::<Vec<_>>().join("/")
}

fn normal_leaf(rule: &FieldRule, value: Value) -> Option<Value> {
    let form = rule.form();
    let value = match value {
        Value::String(text) => Value::String(forms::text(form, &text)),
        Value::F64(number) => Value::F64(whole_nano_cpus(number)),
        Value::List(values) => Value::List(normal_list(rule, values)),
        Value::Message(mut wrapper) => {
            if is_string_list(&wrapper.descriptor())
                && let Some(Value::List(values)) =
                    wrapper.get_field_by_name("values").map(std::borrow::Cow::into_owned)
            {
                wrapper.set_field_by_name("values", Value::List(normal_list(rule, values)));
            }
            clear_unset(&mut wrapper);
            Value::Message(wrapper)
        }
        value => value,
    };
    let is_default =
        !rule.engine_default.is_empty() && plain_text(&value).as_ref() == Some(&rule.engine_default);
    let no_limit = form == Form::Limit && matches!(value, Value::I64(number) if number <= 0);
    let zero = !rule.zero_is_value && is_zero(&value);
    (!is_default && !no_limit && !zero).then_some(value)
}

fn normal_list(rule: &FieldRule, values: Vec<Value>) -> Vec<Value> {
    let mut values: Vec<Value> = values
        .into_iter()
        .flat_map(|value| match value {
            Value::String(text) => {
                forms::elements(rule.form(), &text).into_iter().map(Value::String).collect()
            }
            Value::Message(mut inner) => {
                clear_unset(&mut inner);
                vec![Value::Message(inner)]
            }
            value => vec![value],
        })
        .collect();
    if rule.order() == Order::Set {
        values.sort_by_key(plain_text);
        values.dedup();
    }
    values
}

/// The value in full, so that elements with the same key have an order; maps have none of their own.
fn whole_text(value: &Value) -> String {
    let list = |parts: Vec<String>| format!("[{}]", parts.join(","));
    match value {
        Value::Message(message) => list(
            message
                .fields()
                .map(|(field, value)| format!("{}:{}", field.name(), whole_text(value)))
                .collect(),
        ),
        Value::List(values) => list(values.iter().map(whole_text).collect()),
        Value::Map(entries) => {
            let mut parts: Vec<String> =
                entries.iter().map(|(key, value)| format!("{key:?}:{}", whole_text(value))).collect();
            parts.sort();
            list(parts)
        }
        scalar => format!("{scalar:?}"),
    }
}

fn plain_text(value: &Value) -> Option<String> {
    match value {
        Value::Bool(value) => Some(value.to_string()),
        Value::I64(value) => Some(value.to_string()),
        Value::U32(value) => Some(value.to_string()),
        Value::U64(value) => Some(value.to_string()),
        Value::String(value) => Some(value.clone()),
        _ => None,
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::I64(value) => *value == 0,
        Value::U32(value) => *value == 0,
        Value::U64(value) => *value == 0,
        Value::F64(value) => *value == 0.0,
        Value::String(value) => value.is_empty(),
        Value::List(values) => values.is_empty(),
        Value::Message(message) => message.fields().next().is_none(),
        _ => false,
    }
}

/// An absolute path as engines compare it: no repeated or trailing slashes, no `.` or `..`.
pub fn clean_path(path: &str) -> String {
    forms::text(crate::proto::v1::Form::Path, path)
}

/// Processors as the engine counts them, in whole units of 1e-9.
#[must_use]
pub fn to_nano_cpus(cpus: f64) -> f64 {
    (cpus * 1e9).round()
}

/// Processors in whole units of 1e-9. Beyond a million processors a number cannot tell these units apart, and stays.
fn whole_nano_cpus(cpus: f64) -> f64 {
    const DISTINCT_BELOW: f64 = 1e15 + 1.0;
    let nano = to_nano_cpus(cpus);
    if nano.abs() < DISTINCT_BELOW { nano / 1e9 } else { cpus }
}

/// Where the engine fills in one field from another, the filled-in value means "not declared": memory and swap
/// together is twice the memory limit (all engines measured), and a retry count stands only beside on-failure.
fn clear_derived(container: &mut DynamicMessage) {
    let number = |container: &DynamicMessage, name: &str| {
        container.get_field_by_name(name).and_then(|value| value.as_i64()).unwrap_or_default()
    };
    let memory = number(container, "mem_limit");
    if memory > 0 && number(container, "memswap_limit") == memory.saturating_mul(2) {
        container.clear_field_by_name("memswap_limit");
    }
}

#[cfg(test)]
mod tests;
