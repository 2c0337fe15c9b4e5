//! Specs to and from the engine's JSON, by the engine paths of the catalogue.
//!
//! This is the generic half: every leaf lies at its rule's engine path, in its rule's unit. What engines write in
//! another shape (environment as a list, ports as nested maps, binds as text) is reshaped to lie there by the agent,
//! before reading and after writing. Raw JSON is used because typed models of the API lose members.

use std::collections::HashMap;

use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage as _, Value,
};
use serde_json::{Map, Value as Json, json};

use crate::catalogue::{Shape, is_duration, is_string_list, rule, shape};
use crate::normal::to_nano_cpus;
use crate::proto::v1::{Means, Unit};

/// The engine showed a value of another type than the contract knows.
#[derive(Debug, thiserror::Error, PartialEq)]
#[error(
    "the engine shows {found} for {field}, which cannot be read as {expected}; this is a fault of Plumbline: please report it"
)]
pub struct FormError {
    /// The field's full name.
    pub field: String,
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub found: String,
}

/// Reads a message from the engine's JSON. null is "not there".
pub fn from_engine(descriptor: &MessageDescriptor, json: &Json) -> Result<DynamicMessage, FormError> {
    let mut message = DynamicMessage::new(descriptor.clone());
    for field in descriptor.fields() {
        let rule = rule(&field);
        if rule.means() == Means::Instruction {
            continue;
        }
        let Some(found) = at(json, &rule.engine_path) else { continue };
        let value = match shape(&field) {
            Shape::Leaf => read_leaf(&field, rule.unit(), found)?,
            Shape::LeafMap => {
                let Kind::Message(entry) = field.kind() else { continue };
                let element = entry.map_entry_value_field();
                read_map(&field, found, |value| read_scalar(&element, Unit::Unspecified, value))?
            }
            Shape::Message(inner) => Value::Message(from_engine(&inner, found)?),
            Shape::MessageMap(inner) => {
                read_map(&field, found, |value| Ok(Value::Message(from_engine(&inner, value)?)))?
            }
            Shape::MessageList(inner) => {
                let elements = found.as_array().ok_or_else(|| wrong(&field, "a list", found))?;
                let elements = elements.iter().map(|value| Ok(Value::Message(from_engine(&inner, value)?)));
                Value::List(elements.collect::<Result<_, FormError>>()?)
            }
        };
        message.set_field(&field, value);
    }
    Ok(message)
}

fn at<'a>(json: &'a Json, path: &str) -> Option<&'a Json> {
    let found = path.split('.').try_fold(json, |json, key| json.get(key))?;
    (!found.is_null()).then_some(found)
}

fn wrong(field: &FieldDescriptor, expected: &str, found: &Json) -> FormError {
    FormError { field: field.full_name().to_owned(), expected: expected.to_owned(), found: found.to_string() }
}

fn read_map(
    field: &FieldDescriptor,
    found: &Json,
    read: impl Fn(&Json) -> Result<Value, FormError>,
) -> Result<Value, FormError> {
    let entries = found.as_object().ok_or_else(|| wrong(field, "a map", found))?;
    let entries = entries.iter().map(|(key, value)| Ok((MapKey::String(key.clone()), read(value)?)));
    Ok(Value::Map(entries.collect::<Result<HashMap<_, _>, FormError>>()?))
}

fn read_leaf(field: &FieldDescriptor, unit: Unit, found: &Json) -> Result<Value, FormError> {
    if field.is_list() {
        let elements = found.as_array().ok_or_else(|| wrong(field, "a list", found))?;
        return Ok(Value::List(
            elements.iter().map(|value| read_scalar(field, unit, value)).collect::<Result<_, _>>()?,
        ));
    }
    read_scalar(field, unit, found)
}

fn read_scalar(field: &FieldDescriptor, unit: Unit, found: &Json) -> Result<Value, FormError> {
    let kind = field.kind();
    let value = match &kind {
        Kind::Bool => found.as_bool().map(Value::Bool),
        Kind::String => found.as_str().map(|text| Value::String(text.to_owned())),
        #[allow(clippy::cast_precision_loss, reason = "2^53 nano-processors are nine million processors")]
        Kind::Double if unit == Unit::NanoCpus => found.as_i64().map(|nano| Value::F64(nano as f64 / 1e9)),
        Kind::Double => found.as_f64().map(Value::F64),
        Kind::Int64 => found.as_i64().map(Value::I64),
        Kind::Uint32 => found.as_u64().and_then(|number| u32::try_from(number).ok()).map(Value::U32),
        Kind::Uint64 => found.as_u64().map(Value::U64),
        Kind::Message(message) if is_duration(message) => {
            found.as_i64().map(|number| Value::Message(duration(message, number, unit)))
        }
        Kind::Message(message) if is_string_list(message) => {
            let texts = found.as_array().and_then(|values| {
                values
                    .iter()
                    .map(|value| Some(Value::String(value.as_str()?.to_owned())))
                    .collect::<Option<Vec<_>>>()
            });
            texts.map(|texts| {
                let mut list = DynamicMessage::new(message.clone());
                list.set_field_by_name("values", Value::List(texts));
                Value::Message(list)
            })
        }
        _ => None,
    };
    value.ok_or_else(|| wrong(field, &format!("{kind:?}"), found))
}

fn duration(descriptor: &MessageDescriptor, number: i64, unit: Unit) -> DynamicMessage {
    let per_second = if unit == Unit::Seconds { 1 } else { 1_000_000_000 };
    let mut message = DynamicMessage::new(descriptor.clone());
    message.set_field_by_name("seconds", Value::I64(number / per_second));
    let nanos = i32::try_from(number % per_second).expect("the rest of a division by 10^9 fits");
    message.set_field_by_name("nanos", Value::I32(nanos));
    message
}

/// Writes every member that is there to the engine's JSON.
pub fn to_engine(message: &DynamicMessage) -> Json {
    let mut json = json!({});
    write_into(message, &mut json);
    json
}

fn write_into(message: &DynamicMessage, json: &mut Json) {
    for field in message.descriptor().fields() {
        let rule = rule(&field);
        if rule.means() == Means::Instruction || !message.has_field(&field) {
            continue;
        }
        let place = rule.engine_path.split('.').fold(&mut *json, |json, key| {
            if !json.is_object() {
                *json = json!({});
            }
            json.as_object_mut().expect("made one line above").entry(key).or_insert(Json::Null)
        });
        let value = message.get_field(&field);
        match (shape(&field), value.as_ref()) {
            // A message may share its place with others (block device settings lie beside all the rest).
            (Shape::Message(_), Value::Message(inner)) => {
                if place.is_null() {
                    *place = json!({});
                }
                write_into(inner, place);
            }
            (_, value) => *place = write_value(value, rule.unit()),
        }
    }
}

fn write_value(value: &Value, unit: Unit) -> Json {
    match value {
        Value::Bool(value) => json!(value),
        Value::I32(value) => json!(value),
        Value::I64(value) => json!(value),
        Value::U32(value) => json!(value),
        Value::U64(value) => json!(value),
        #[allow(clippy::cast_possible_truncation, reason = "rounded, and validated to be below 2^63")]
        Value::F64(value) if unit == Unit::NanoCpus => json!(to_nano_cpus(*value) as i64),
        Value::F64(value) => json!(value),
        Value::F32(value) => json!(value),
        Value::String(value) => json!(value),
        Value::List(values) => Json::Array(values.iter().map(|value| write_value(value, unit)).collect()),
        Value::Map(entries) => {
            let text = |key: &MapKey| key.as_str().map_or_else(|| format!("{key:?}"), str::to_owned);
            Json::Object(
                entries
                    .iter()
                    .map(|(key, value)| (text(key), write_value(value, unit)))
                    .collect::<Map<_, _>>(),
            )
        }
        Value::Message(message) if is_duration(&message.descriptor()) => {
            let part = |name: &str| match message.get_field_by_name(name).as_deref() {
                Some(Value::I64(value)) => *value,
                Some(Value::I32(value)) => i64::from(*value),
                _ => 0,
            };
            let whole = part("seconds");
            json!(if unit == Unit::Seconds {
                whole
            } else {
                whole.saturating_mul(1_000_000_000).saturating_add(part("nanos"))
            })
        }
        Value::Message(message) if is_string_list(&message.descriptor()) => {
            message.get_field_by_name("values").map_or(json!([]), |values| write_value(&values, unit))
        }
        Value::Message(message) => to_engine(message),
        Value::Bytes(value) => json!(String::from_utf8_lossy(value)),
        Value::EnumNumber(value) => json!(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::container_descriptor;

    #[test]
    fn what_is_written_reads_back() {
        let spec = json!({
            "image": "app:1", "cpus": 1.5, "memLimit": "67108864", "stopGracePeriod": "5s", "entrypoint": {"values": []},
            "healthcheck": {"test": ["CMD", "true"], "interval": "1.500s", "retries": "3"},
            "blkioConfig": {"weight": 300, "deviceReadBps": [{"path": "/dev/a", "rate": "9"}]},
            "deviceRequests": [{"driver": "cdi", "capabilities": [{"values": ["gpu", "compute"]}]}],
            "labels": {"a": "1"}, "networks": {"n": {"ipv4Address": "10.0.0.2", "aliases": ["x"]}, "m": {}},
            "mounts": [{"type": "volume", "target": "/d", "volume": {"driver": "local", "driverOpts": {"o": "size=1m"}}}]
        });
        let message = DynamicMessage::deserialize(container_descriptor(), spec).expect("a container");
        let engine = to_engine(&message);
        assert_eq!(engine["HostConfig"]["NanoCpus"], 1_500_000_000_i64);
        assert_eq!(engine["Config"]["StopTimeout"], 5);
        assert_eq!(engine["Config"]["Entrypoint"], json!([]));
        assert_eq!(engine["Config"]["Healthcheck"]["Interval"], 1_500_000_000_i64);
        assert_eq!(engine["HostConfig"]["BlkioWeight"], 300);
        assert_eq!(engine["HostConfig"]["DeviceRequests"][0]["Capabilities"], json!([["gpu", "compute"]]));
        assert_eq!(engine["NetworkSettings"]["Networks"]["n"]["IPAMConfig"]["IPv4Address"], "10.0.0.2");
        let (mut read, mut message) =
            (from_engine(&container_descriptor(), &engine).expect("own words"), message);
        crate::normal::normalise(&mut read);
        crate::normal::normalise(&mut message);
        assert_eq!(read, message);
    }

    #[test]
    fn a_value_of_another_type_is_an_error_that_names_the_field() {
        let error =
            from_engine(&container_descriptor(), &json!({"HostConfig": {"Memory": "64m"}})).unwrap_err();
        assert!(error.to_string().contains("mem_limit") && error.to_string().contains("64m"), "{error}");
    }
}
