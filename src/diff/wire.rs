//! A change as it travels: typed values, secrets as keyed hashes.

use data_encoding::HEXLOWER;
use prost_reflect::{DynamicMessage, ReflectMessage as _, Value};
use ring::hmac;

use super::LeafChange;
use crate::proto::v1::value::Kind;
use crate::proto::v1::{
    Absent, Change, DataGuardVerdict, FieldRule, SecretHash, StringList, Value as WireValue,
};

/// Hashes values that may be secrets, under a key that never leaves the agent.
#[derive(Debug, Clone)]
pub struct SecretHasher(hmac::Key);

impl SecretHasher {
    /// A hasher with this key (32 random bytes).
    pub fn new(key: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// HMAC-SHA-256 of the value, its first 8 bytes in hex.
    pub fn hash(&self, value: &str) -> String {
        HEXLOWER.encode(&hmac::sign(&self.0, value.as_bytes()).as_ref()[..8])
    }
}

/// A change as it travels, without what the data guard says.
pub fn to_wire(change: &LeafChange, hasher: &SecretHasher) -> Change {
    Change {
        path: change.path.to_wire(),
        path_text: change.path.to_string(),
        before: Some(wire_value(change.rule, change.before.as_ref(), hasher)),
        after: Some(wire_value(change.rule, change.after.as_ref(), hasher)),
        consequence: change.consequence.into(),
        cause: change.cause.into(),
        data_guard: DataGuardVerdict::Unspecified.into(),
        needs_api: change.needs_api.clone(),
    }
}

/// A value as it travels; none: absent.
pub fn wire_value(rule: &FieldRule, value: Option<&Value>, hasher: &SecretHasher) -> WireValue {
    let kind = match value {
        None => Kind::Absent(Absent {}),
        Some(value) if rule.secret => Kind::SecretValue(SecretHash { hash: hasher.hash(&text(value)) }),
        Some(Value::Bool(value)) => Kind::BoolValue(*value),
        Some(Value::I32(value)) => Kind::Int64Value((*value).into()),
        Some(Value::I64(value)) => Kind::Int64Value(*value),
        Some(Value::U32(value)) => Kind::Uint64Value((*value).into()),
        Some(Value::U64(value)) => Kind::Uint64Value(*value),
        Some(Value::F32(value)) => Kind::DoubleValue((*value).into()),
        Some(Value::F64(value)) => Kind::DoubleValue(*value),
        Some(Value::String(value)) => Kind::StringValue(value.clone()),
        Some(Value::Bytes(value)) => Kind::BytesValue(value.to_vec()),
        Some(Value::EnumNumber(value)) => Kind::Int64Value((*value).into()),
        Some(Value::List(values)) => {
            Kind::ListValue(StringList { values: values.iter().map(text).collect() })
        }
        Some(Value::Message(message)) => message_value(message),
        // A map is compared entry by entry, never whole.
        Some(value @ Value::Map(_)) => Kind::StringValue(text(value)),
    };
    WireValue { kind: Some(kind) }
}

fn message_value(message: &DynamicMessage) -> Kind {
    if let Ok(list) = message.transcode_to::<StringList>()
        && message.descriptor() == StringList::default().descriptor()
    {
        return Kind::ListValue(list);
    }
    match message.transcode_to::<prost_types::Duration>() {
        Ok(duration) => Kind::DurationValue(duration),
        Err(_) => Kind::StringValue(format!("{message}")),
    }
}

/// One element of a list as text: an inner list is joined by commas.
fn text(value: &Value) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::I32(value) => value.to_string(),
        Value::I64(value) => value.to_string(),
        Value::U32(value) => value.to_string(),
        Value::U64(value) => value.to_string(),
        Value::F64(value) => value.to_string(),
        Value::String(value) => value.clone(),
        Value::List(values) => values.iter().map(text).collect::<Vec<_>>().join(","),
        Value::Message(message) => match message.get_field_by_name("values").as_deref() {
            Some(values @ Value::List(_)) => text(values),
            _ => format!("{message}"),
        },
        value => format!("{value}"),
    }
}
