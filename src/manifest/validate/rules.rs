//! What the catalogue says of every field, checked by one walker.

use std::collections::HashSet;

use prost_reflect::{DynamicMessage, FieldDescriptor, MapKey, ReflectMessage as _, Value};

use super::{Findings, forms};
use crate::catalogue::{Path, Shape, is_string_list, rule, shape};
use crate::manifest::node::quoted;
use crate::manifest::parse::MAX_KEY;
use crate::proto::v1::{FieldRule, Order, Unit};

/// The least and the most of numbers. 0 is accepted, too, where it means "not declared".
const RANGES: &[(&str, i64, i64)] = &[
    ("plumbline.v1.BlkioConfig.weight", 10, 1_000),
    ("plumbline.v1.ContainerSpec.cpu_period", 1_000, 1_000_000),
    ("plumbline.v1.ContainerSpec.cpu_rt_period", 0, i64::MAX),
    ("plumbline.v1.ContainerSpec.cpu_rt_runtime", 0, i64::MAX),
    ("plumbline.v1.ContainerSpec.cpu_shares", 2, 262_144),
    ("plumbline.v1.ContainerSpec.mem_limit", LEAST_MEMORY, i64::MAX),
    ("plumbline.v1.ContainerSpec.mem_reservation", LEAST_MEMORY, i64::MAX),
    ("plumbline.v1.ContainerSpec.mem_swappiness", -1, 100),
    ("plumbline.v1.ContainerSpec.memswap_limit", -1, i64::MAX),
    ("plumbline.v1.ContainerSpec.oom_score_adj", -1_000, 1_000),
    ("plumbline.v1.ContainerSpec.pids_limit", -1, i64::MAX),
    ("plumbline.v1.ContainerSpec.shm_size", 0, i64::MAX),
    ("plumbline.v1.DeviceRequest.count", -1, i64::MAX),
    ("plumbline.v1.Healthcheck.retries", 0, i64::MAX),
    ("plumbline.v1.Port.target", 1, 65_535),
    ("plumbline.v1.RestartPolicy.maximum_retry_count", 0, i64::MAX),
    ("plumbline.v1.TmpfsOptions.mode", 0, 0o7777),
    ("plumbline.v1.TmpfsOptions.size", 0, i64::MAX),
    ("plumbline.v1.Ulimit.hard", -1, i64::MAX),
    ("plumbline.v1.Ulimit.soft", -1, i64::MAX),
    ("plumbline.v1.WeightDevice.weight", 10, 1_000),
];
/// 6 MiB: an engine refuses less.
const LEAST_MEMORY: i64 = 6 << 20;
const RESERVED_LABELS: &str = "dev.plumbline.";
const SECOND: i128 = 1_000_000_000;
const MILLISECOND: i128 = 1_000_000;

pub(super) fn check(message: &DynamicMessage, path: &Path, findings: &mut Findings) {
    for field in message.descriptor().fields() {
        if message.has_field(&field) {
            check_field(&field, &message.get_field(&field), &path.field(field.name()), findings);
        } else if rule(&field).required {
            findings.add(path, format!("`{}` is missing", field.name()), "declare it");
        }
    }
}

fn check_field(field: &FieldDescriptor, value: &Value, path: &Path, findings: &mut Findings) {
    let rule = rule(field);
    match (shape(field), value) {
        (Shape::Message(_), Value::Message(inner)) => check(inner, path, findings),
        (Shape::MessageList(_), Value::List(elements)) => {
            for (index, element) in elements.iter().filter_map(Value::as_message).enumerate() {
                check(element, &path.key(&index.to_string()), findings);
            }
            check_unique(field, rule, elements, path, findings);
        }
        (Shape::MessageMap(_), Value::Map(entries)) => {
            for (key, element) in entries {
                let (MapKey::String(key), Value::Message(inner)) = (key, element) else { continue };
                check_text(key, path, "a key", findings);
                check(inner, &path.key(key), findings);
            }
        }
        (Shape::LeafMap, Value::Map(entries)) => {
            for (key, element) in entries {
                let (MapKey::String(key), Value::String(text)) = (key, element) else { continue };
                let path = path.key(key);
                check_text(key, &path, "a key", findings);
                check_form(field, rule, key, &path, findings);
                if field.name() == "labels" && key.starts_with(RESERVED_LABELS) {
                    let message = format!("labels that begin with {RESERVED_LABELS} are Plumbline's own");
                    findings.add(&path, message, "take it out, or name it otherwise");
                }
                check_nul(text, &path, findings);
            }
        }
        (_, Value::List(elements)) => {
            for (index, element) in elements.iter().enumerate() {
                check_leaf(field, rule, element, &path.key(&index.to_string()), findings);
            }
        }
        (_, value) => check_leaf(field, rule, value, path, findings),
    }
}

fn check_leaf(
    field: &FieldDescriptor,
    rule: &FieldRule,
    value: &Value,
    path: &Path,
    findings: &mut Findings,
) {
    match value {
        Value::String(text) => {
            check_string(rule, text, path, findings);
            check_form(field, rule, text, path, findings);
        }
        Value::Message(inner) if is_string_list(&inner.descriptor()) => {
            let values = inner.get_field_by_name("values");
            let values = values.as_ref().and_then(|values| values.as_list()).unwrap_or_default();
            for (index, text) in values.iter().filter_map(Value::as_str).enumerate() {
                let path = path.key(&index.to_string());
                check_string(rule, text, &path, findings);
                check_form(field, rule, text, &path, findings);
            }
        }
        Value::Message(duration) => check_duration(rule.unit(), duration, path, findings),
        value => {
            let number = match value {
                Value::I64(number) => *number,
                Value::U32(number) => i64::from(*number),
                _ => return,
            };
            let range = RANGES.iter().find(|(name, ..)| *name == field.full_name());
            let undeclared = number == 0 && !rule.zero_is_value && !rule.required;
            if let Some((_, least, most)) = range
                && !(*least..=*most).contains(&number)
                && !undeclared
            {
                let range = match *most {
                    i64::MAX => format!("at least {least}"),
                    most => format!("{least} to {most}"),
                };
                let remedy = "declare one in that range, or take it out";
                findings.add(path, format!("{number} is out of range ({range})"), remedy);
            }
        }
    }
}

fn check_string(rule: &FieldRule, text: &str, path: &Path, findings: &mut Findings) {
    check_nul(text, path, findings);
    if text.is_empty() && rule.required {
        findings.add(path, "it is empty", "give it a value");
    }
    let allows = |allowed: &String| match allowed.strip_suffix(':') {
        Some(_) => text.starts_with(allowed.as_str()),
        None => text == allowed,
    };
    if !rule.allowed.is_empty() && !rule.allowed.iter().any(allows) {
        let allowed: Vec<String> = rule
            .allowed
            .iter()
            .map(|allowed| if allowed.ends_with(':') { format!("{allowed}NAME") } else { allowed.clone() })
            .collect();
        findings.add(
            path,
            format!("{} is not allowed", quoted(text)),
            format!("allowed: {}", allowed.join(", ")),
        );
    }
}

fn check_form(field: &FieldDescriptor, rule: &FieldRule, text: &str, path: &Path, findings: &mut Findings) {
    // A mount's source is a path only for some types of mount: `mounts` checks it.
    if field.full_name() != "plumbline.v1.Mount.source"
        && let Some((message, remedy)) = forms::fault(rule.form(), text)
    {
        findings.add(path, message, remedy);
    }
}

fn check_text(text: &str, path: &Path, what: &str, findings: &mut Findings) {
    if text.is_empty() {
        findings.add(path, format!("{what} is empty"), "give it a name");
    }
    if text.len() > MAX_KEY {
        findings.add(path, format!("{what} has more than {MAX_KEY} bytes"), "give it a shorter name");
    }
    check_nul(text, path, findings);
}

fn check_nul(text: &str, path: &Path, findings: &mut Findings) {
    if text.contains('\0') {
        findings.add(path, "it contains the character NUL, which no engine takes", "take it out");
    }
}

fn check_duration(unit: Unit, duration: &DynamicMessage, path: &Path, findings: &mut Findings) {
    let seconds = duration.get_field_by_name("seconds").and_then(|value| value.as_i64()).unwrap_or_default();
    let nanos = duration.get_field_by_name("nanos").and_then(|value| value.as_i32()).unwrap_or_default();
    let total = i128::from(seconds) * SECOND + i128::from(nanos);
    let consistent = i128::from(nanos).abs() < SECOND && i128::from(seconds) * i128::from(nanos) >= 0;
    if !consistent || i64::try_from(total).is_err() {
        findings.add(path, "it is not a duration that an engine can hold", "write it as 10s");
    } else if unit == Unit::Seconds && (total % SECOND != 0 || total < -SECOND) {
        findings.add(
            path,
            "it is not a whole number of seconds of at least -1",
            "write whole seconds, as 10s",
        );
    } else if unit == Unit::Nanoseconds && total != 0 && total < MILLISECOND {
        findings.add(path, "it is shorter than 1ms", "write at least 1ms, or 0s for the engine's default");
    }
}

/// Elements of a keyed list are told apart by their key. Ports and mounts have finer rules.
fn check_unique(
    field: &FieldDescriptor,
    rule: &FieldRule,
    elements: &[Value],
    path: &Path,
    findings: &mut Findings,
) {
    if rule.order() != Order::Keyed || matches!(field.name(), "ports" | "mounts") {
        return;
    }
    let mut seen = HashSet::new();
    for (index, element) in elements.iter().filter_map(Value::as_message).enumerate() {
        let key: Vec<String> = rule
            .key
            .iter()
            .filter_map(|name| element.get_field_by_name(name)?.as_str().map(str::to_owned))
            .collect();
        let name = key.join(", ");
        if !key.is_empty() && !seen.insert(key) {
            findings.add(
                &path.key(&index.to_string()),
                format!("{} is there twice", quoted(&name)),
                "keep one",
            );
        }
    }
}
