//! A message to nodes, led by the descriptors: the walker's way back.

use prost_reflect::{DynamicMessage, FieldDescriptor, MapKey, ReflectMessage as _, Value};

use super::error::Position;
use super::node::{Content, Entry, Node};
use super::{scalar, short, walk};
use crate::catalogue::{is_string_list, rule};
use crate::proto::v1::{ModuleSpec, Unit};

/// What is written stands nowhere yet.
const NOWHERE: Position = Position { line: 1, column: 1 };

/// The nodes that the walker reads as this spec.
pub(super) fn module(spec: &ModuleSpec) -> Node {
    message(&walk::dynamic(spec), false)
}

/// `counts`: the numbers in it are counts, whatever unit their fields have elsewhere.
fn message(message: &DynamicMessage, counts: bool) -> Node {
    let descriptor = message.descriptor();
    let fields = descriptor.fields().filter(|field| message.has_field(field));
    let entries = fields
        .map(|field| {
            let unit = if counts { Unit::Unspecified } else { rule(&field).unit() };
            let long = value(&field, unit, &message.get_field(&field));
            entry(field.name(), short::shorten(&field, long))
        })
        .collect();
    Node::new(NOWHERE, Content::Map(entries))
}

fn entry(key: &str, value: Node) -> Entry {
    Entry { key: key.to_owned(), at: NOWHERE, value }
}

fn value(field: &FieldDescriptor, unit: Unit, given: &Value) -> Node {
    match given {
        Value::List(values) => {
            Node::list(NOWHERE, values.iter().map(|element| value(field, unit, element)).collect())
        }
        Value::Map(values) => {
            let mut entries: Vec<Entry> = values
                .iter()
                .filter_map(|(key, element)| match key {
                    MapKey::String(key) => Some(entry(key, value(field, unit, element))),
                    _ => None,
                })
                .collect();
            entries.sort_by(|one, two| one.key.cmp(&two.key));
            Node::new(NOWHERE, Content::Map(entries))
        }
        Value::Message(inner) if is_string_list(&inner.descriptor()) => {
            let values = inner.get_field_by_name("values");
            let values = values.as_ref().and_then(|values| values.as_list()).unwrap_or_default();
            Node::list(NOWHERE, values.iter().map(|element| value(field, unit, element)).collect())
        }
        given => match (scalar::spell(unit, given, NOWHERE), given) {
            (Some(scalar), _) => scalar,
            (None, Value::Message(inner)) => message(inner, short::holds_counts(field)),
            (None, _) => Node::null(NOWHERE),
        },
    }
}
