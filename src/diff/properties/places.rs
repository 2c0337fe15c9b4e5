//! Places in a message: where a leaf is or could be, and what can be done there.

use std::fmt;

use proptest::prelude::*;
use prost_reflect::{DynamicMessage, FieldDescriptor, MapKey, MessageDescriptor, ReflectMessage as _, Value};

use crate::any_spec::any_field;
use crate::catalogue::{Path, Shape, is_string_list, rule, shape};
use crate::normal::{element_key, normalise};
use crate::proto::v1::{Means, Order};

/// Every field of this message and of those in it, without the maps and lists that hold them.
pub(super) fn every_field(message: &MessageDescriptor) -> Vec<FieldDescriptor> {
    let inner = |field: FieldDescriptor| match shape(&field) {
        Shape::Message(inner) | Shape::MessageMap(inner) | Shape::MessageList(inner) => every_field(&inner),
        Shape::Leaf | Shape::LeafMap => vec![field],
    };
    let lists = message.fields().filter(|field| matches!(shape(field), Shape::MessageList(_)));
    lists.chain(message.fields().flat_map(inner)).collect()
}

/// One step to a place: a member, and which of its elements.
#[derive(Clone)]
struct Step {
    field: FieldDescriptor,
    element: Element,
}

#[derive(Clone)]
enum Element {
    Itself,
    Entry(String),
    Index(usize),
}

/// The way to a leaf. A leaf of a map is one of its entries.
#[derive(Clone)]
pub(super) struct Place(Vec<Step>);

impl fmt::Debug for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|Step { field, element }| match element {
            Element::Itself => write!(formatter, ".{}", field.name()),
            Element::Entry(key) => write!(formatter, ".{}[{key}]", field.name()),
            Element::Index(index) => write!(formatter, ".{}[{index}]", field.name()),
        })
    }
}

impl Place {
    /// A member of a message.
    pub(super) fn member(field: &FieldDescriptor) -> Self {
        Self(Vec::new()).then(field, Element::Itself)
    }

    fn then(&self, field: &FieldDescriptor, element: Element) -> Self {
        let mut steps = self.0.clone();
        steps.push(Step { field: field.clone(), element });
        Self(steps)
    }

    fn leaf(&self) -> &FieldDescriptor {
        &self.0.last().expect("a place has a field").field
    }

    /// Its path in this message.
    pub(super) fn path(&self, message: &DynamicMessage) -> Path {
        path(message, &self.0)
    }
}

fn path(message: &DynamicMessage, steps: &[Step]) -> Path {
    let (mut message, mut path) = (message.clone(), Path::default());
    for Step { field, element } in steps {
        path = path.field(field.name());
        let value = message.get_field(field).into_owned();
        let inner = match element {
            Element::Itself => Some(value),
            Element::Entry(key) => {
                path = path.key(key);
                value.as_map().and_then(|map| map.get(&MapKey::String(key.clone())).cloned())
            }
            Element::Index(index) => {
                let inner = value.as_list().and_then(|list| list.get(*index).cloned());
                let key = match (&inner, rule(field).order()) {
                    (Some(Value::Message(inner)), Order::Keyed) => {
                        let mut inner = inner.clone();
                        normalise(&mut inner);
                        element_key(&inner.descriptor(), rule(field), &inner)
                    }
                    _ => index.to_string(),
                };
                path = path.key(&key);
                inner
            }
        };
        match inner {
            Some(Value::Message(inner)) => message = inner,
            _ => break,
        }
    }
    path
}

/// What an edit at a place may change: the leaf itself, or the element of the keyed list that it is in. An element may
/// have got another key, or another position among those that share one.
pub(super) fn path_of(message: &DynamicMessage, place: &Place) -> Path {
    let keyed =
        |step: &Step| matches!(step.element, Element::Index(_)) && rule(&step.field).order() == Order::Keyed;
    match place.0.iter().position(keyed) {
        Some(list) => path(message, &place.0[..=list]),
        None => place.path(message),
    }
}

/// Is this path the other one or below it? `nofile#2` is another element of the key `nofile`.
pub(super) fn is_in(path: &Path, other: &Path) -> bool {
    let is_key = |key: &str, other: &str| {
        key.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
    };
    for index in 0.. {
        let same = match (other.field_at(index), other.key_at(index)) {
            (Some(field), _) => path.field_at(index) == Some(field),
            (None, Some(key)) => path.key_at(index).is_some_and(|other| is_key(other, key)),
            (None, None) => return true,
        };
        if !same {
            return false;
        }
    }
    unreachable!("a path has an end")
}

/// Is it, or is it in, an instruction, which is not compared?
pub(super) fn is_instruction(place: &Place) -> bool {
    place.0.iter().any(|step| rule(&step.field).means() == Means::Instruction)
}

/// The leaves that are there, and those that could be added to the messages that are there.
pub(super) fn places(message: &DynamicMessage) -> (Vec<Place>, Vec<Place>) {
    let (mut there, mut not_there) = (Vec::new(), Vec::new());
    collect(message, &Place(Vec::new()), &mut there, &mut not_there);
    (there, not_there)
}

fn collect(message: &DynamicMessage, at: &Place, there: &mut Vec<Place>, not_there: &mut Vec<Place>) {
    for field in message.descriptor().fields() {
        let value = message.get_field(&field);
        match (shape(&field), value.as_ref()) {
            (Shape::Leaf, _) => {
                let list = if message.has_field(&field) { &mut *there } else { &mut *not_there };
                list.push(at.then(&field, Element::Itself));
            }
            (Shape::LeafMap, Value::Map(entries)) => {
                let keys = entries.keys().filter_map(MapKey::as_str);
                there.extend(keys.map(|key| at.then(&field, Element::Entry(key.to_owned()))));
            }
            (Shape::Message(_), Value::Message(inner)) => {
                collect(inner, &at.then(&field, Element::Itself), there, not_there);
            }
            (Shape::MessageMap(_), Value::Map(entries)) => {
                for (key, inner) in entries {
                    let (Some(key), Some(inner)) = (key.as_str(), inner.as_message()) else { continue };
                    collect(inner, &at.then(&field, Element::Entry(key.to_owned())), there, not_there);
                }
            }
            (Shape::MessageList(_), Value::List(elements)) => {
                for (index, inner) in elements.iter().filter_map(Value::as_message).enumerate() {
                    collect(inner, &at.then(&field, Element::Index(index)), there, not_there);
                }
            }
            (shape, value) => panic!("{} is {shape:?} and holds {value}", field.full_name()),
        }
    }
}

/// Any value of the leaf at a place.
pub(super) fn any_value(place: &Place) -> BoxedStrategy<Value> {
    let value = any_field(place.leaf(), false);
    match place.0.last().expect("a place has a field").element {
        // Any entry of any map of this field.
        Element::Entry(_) => value
            .prop_map(|value| value.as_map().and_then(|map| map.values().next()).expect("an entry").clone())
            .boxed(),
        Element::Itself | Element::Index(_) => value,
    }
}

/// Puts a value at a place, or takes it away.
pub(super) fn edit(message: &mut DynamicMessage, place: &Place, value: Option<Value>) {
    edit_at(message, &place.0, value);
}

fn edit_at(message: &mut DynamicMessage, steps: &[Step], value: Option<Value>) {
    let (Step { field, element }, rest) = steps.split_first().expect("a place has a field");
    match (element, rest.is_empty(), value) {
        (Element::Itself, true, Some(value)) => message.set_field(field, value),
        (Element::Itself, true, None) => message.clear_field(field),
        (Element::Entry(key), true, value) => {
            let map = message.get_field_mut(field).as_map_mut().expect("a map");
            let key = MapKey::String(key.clone());
            match value {
                Some(value) => map.insert(key, value),
                None => map.remove(&key),
            };
        }
        (element, _, value) => {
            let inner = message.get_field_mut(field);
            let inner = match element {
                Element::Itself => Some(inner),
                Element::Entry(key) => {
                    inner.as_map_mut().and_then(|map| map.get_mut(&MapKey::String(key.clone())))
                }
                Element::Index(index) => inner.as_list_mut().and_then(|list| list.get_mut(*index)),
            };
            edit_at(inner.and_then(Value::as_message_mut).expect("a message on the way"), rest, value);
        }
    }
}

/// All the elements of these values of a list, as one.
pub(super) fn joined(field: &FieldDescriptor, values: Vec<Value>) -> Value {
    let elements = |value: &Value| match value {
        Value::List(values) => values.clone(),
        Value::Message(inner) if is_string_list(&inner.descriptor()) => {
            match inner.get_field_by_name("values").as_deref() {
                Some(Value::List(values)) => values.clone(),
                other => panic!("{} holds {other:?}", field.full_name()),
            }
        }
        other => panic!("{} holds {other}", field.full_name()),
    };
    let all = Value::List(values.iter().flat_map(elements).collect());
    match values.into_iter().next() {
        Some(Value::Message(mut list)) => {
            list.set_field_by_name("values", all);
            Value::Message(list)
        }
        _ => all,
    }
}

/// Moves the first element of a list to its end. Is it another list now?
pub(super) fn rotate(message: &mut DynamicMessage, list: &Place) -> bool {
    let field = list.leaf();
    if !message.has_field(field) {
        return false;
    }
    let list = match message.get_field_mut(field) {
        Value::Message(inner) => inner.get_field_by_name_mut("values").expect("a list of strings"),
        value => value,
    };
    let Some(values) = list.as_list_mut().filter(|values| !values.is_empty()) else { return false };
    let before = values.clone();
    values.rotate_left(1);
    *values != before
}
