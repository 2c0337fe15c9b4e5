//! One scalar to a value of its field's type and unit, and back.

use prost_reflect::{DynamicMessage, Kind, MessageDescriptor, Value};

use super::error::{Fault, Position};
use super::node::{Content, Node, quoted};
use super::units::{self, NotOne};
use crate::catalogue::is_duration;
use crate::proto::v1::Unit;

const NANOS: i128 = 1_000_000_000;

/// The value that a scalar stands for.
pub(super) fn read(kind: &Kind, unit: Unit, node: &Node) -> Result<Value, Fault> {
    let Some(text) = node.scalar() else { return Err(node.unexpected(expected(kind, unit), "")) };
    let number =
        |read: fn(&str) -> Result<i128, NotOne>| read(text).map_err(|problem| not_one(node, text, &problem));
    match kind {
        Kind::String => Ok(Value::String(text.to_owned())),
        Kind::Bool => boolean(node, text).map(Value::Bool),
        Kind::Double => units::number(text).map(Value::F64).map_err(|problem| not_one(node, text, &problem)),
        Kind::Int64 => within(node, number(whole(unit))?).map(Value::I64),
        Kind::Uint64 => within(node, number(whole(unit))?).map(Value::U64),
        Kind::Uint32 => within(node, number(whole(unit))?).map(Value::U32),
        Kind::Message(message) if is_duration(message) => {
            duration(message, unit, node, number(units::duration)?).map(Value::Message)
        }
        _ => {
            Err(node
                .unexpected("a value that a manifest can hold", "this field cannot be written in a manifest"))
        }
    }
}

fn whole(unit: Unit) -> fn(&str) -> Result<i128, NotOne> {
    match unit {
        Unit::Bytes => units::size,
        Unit::FileMode => units::mode,
        Unit::Microseconds => microseconds,
        Unit::Unspecified | Unit::Nanoseconds | Unit::Seconds | Unit::NanoCpus => units::integer,
    }
}

fn microseconds(text: &str) -> Result<i128, NotOne> {
    units::integer(text).or_else(|_| match units::duration(text) {
        Ok(nanos) if nanos % 1_000 == 0 => Ok(nanos / 1_000),
        _ => Err(NotOne {
            expected: "a number of microseconds",
            remedy: "write microseconds, or a duration as 50ms".to_owned(),
        }),
    })
}

/// What a field of this type holds, for messages.
fn expected(kind: &Kind, unit: Unit) -> &'static str {
    match (kind, unit) {
        (Kind::String, _) => "text",
        (Kind::Bool, _) => "true or false",
        (_, Unit::Bytes) => "a size, as 64m",
        (_, Unit::FileMode) => "a file mode, as \"0755\"",
        (_, Unit::Nanoseconds | Unit::Seconds) => "a duration, as 10s",
        (_, Unit::Unspecified | Unit::NanoCpus | Unit::Microseconds) => "a number",
    }
}

fn not_one(node: &Node, text: &str, problem: &NotOne) -> Fault {
    let remedy = if text.contains("${") { NO_INTERPOLATION } else { &problem.remedy };
    Fault::new(node.at, format!("{} is not {}", quoted(text), problem.expected), remedy)
}

/// The remedy for `${NAME}` where it cannot be meant.
pub(super) const NO_INTERPOLATION: &str = "interpolation is not supported; write the value";

fn boolean(node: &Node, text: &str) -> Result<bool, Fault> {
    let plain = matches!(node.content, Content::Scalar { plain: true, .. });
    let remedy = match text.to_ascii_lowercase().as_str() {
        "true" if plain && text == "true" => return Ok(true),
        "false" if plain && text == "false" => return Ok(false),
        "true" | "yes" | "on" | "y" => "write true, without quotes",
        "false" | "no" | "off" | "n" => "write false, without quotes",
        _ => "",
    };
    Err(node.unexpected("true or false", remedy))
}

fn within<T: TryFrom<i128> + Bounded>(node: &Node, number: i128) -> Result<T, Fault> {
    T::try_from(number).map_err(|_| {
        let text = node.scalar().unwrap_or_default();
        let (least, most) = T::BOUNDS;
        Fault::new(node.at, format!("{} is out of range ({least} to {most})", quoted(text)), "")
    })
}

trait Bounded {
    const BOUNDS: (i128, i128);
}

impl Bounded for i64 {
    const BOUNDS: (i128, i128) = (Self::MIN as i128, Self::MAX as i128);
}

impl Bounded for u64 {
    const BOUNDS: (i128, i128) = (0, Self::MAX as i128);
}

impl Bounded for u32 {
    const BOUNDS: (i128, i128) = (0, Self::MAX as i128);
}

fn duration(
    message: &MessageDescriptor,
    unit: Unit,
    node: &Node,
    nanos: i128,
) -> Result<DynamicMessage, Fault> {
    let text = node.scalar().unwrap_or_default();
    let Ok(_) = i64::try_from(nanos) else {
        return Err(Fault::new(node.at, format!("{} is out of range (292 years)", quoted(text)), ""));
    };
    if unit == Unit::Seconds && nanos % NANOS != 0 {
        let message = format!("{} is not a whole number of seconds", quoted(text));
        return Err(Fault::new(node.at, message, "write whole seconds, as 10s"));
    }
    let seconds = i64::try_from(nanos / NANOS).unwrap_or_default();
    let part = i32::try_from(nanos % NANOS).unwrap_or_default();
    let mut value = DynamicMessage::new(message.clone());
    value.set_field_by_name("seconds", Value::I64(seconds));
    value.set_field_by_name("nanos", Value::I32(part));
    Ok(value)
}

/// The scalar that [`read`] reads as this value; none for lists, maps and messages.
pub(super) fn spell(unit: Unit, value: &Value, at: Position) -> Option<Node> {
    let number = |number: i128| match unit {
        Unit::Bytes => units::size_text(number),
        Unit::FileMode => units::mode_text(u32::try_from(number).unwrap_or(u32::MAX)),
        _ => number.to_string(),
    };
    let text = match value {
        Value::String(text) => return Some(Node::text(at, text)),
        Value::U32(mode) if unit == Unit::FileMode => return Some(Node::text(at, units::mode_text(*mode))),
        Value::Bool(value) => value.to_string(),
        Value::F64(value) => value.to_string(),
        Value::I64(value) => number((*value).into()),
        Value::U64(value) => number((*value).into()),
        Value::U32(value) => number((*value).into()),
        Value::Message(message) if is_duration(&prost_reflect::ReflectMessage::descriptor(message)) => {
            let seconds = message.get_field_by_name("seconds").and_then(|value| value.as_i64());
            let part = message.get_field_by_name("nanos").and_then(|value| value.as_i32());
            let nanos =
                i128::from(seconds.unwrap_or_default()) * NANOS + i128::from(part.unwrap_or_default());
            units::duration_text(nanos)
        }
        _ => return None,
    };
    Some(Node::plain(at, text))
}
