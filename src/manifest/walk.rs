//! Nodes to a message, led by the descriptors: one walker for every field there is and will be.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage as _, Value,
};

use super::error::{Fault, Position, Problem, Problems};
use super::node::{Content, Entry, Node};
use super::short::{self, Each, Short};
use super::validate::Violation;
use super::{scalar, suggest};
use crate::catalogue::{Path, Shape, is_string_list, module_descriptor, rule, shape};
use crate::proto::v1::{ModuleSpec, Unit};

/// Most elements that ranges in short forms may add to a module.
const MAX_RANGES: usize = 65_535;

/// A module as it was read, and where its parts stand.
pub(super) struct Walked {
    pub(super) spec: ModuleSpec,
    pub(super) places: Places,
}

/// Where the parts of a module stand in the text, by the hash of their path: a long key is in many paths.
#[derive(Default)]
pub(super) struct Places(HashMap<u64, Position>);

impl Places {
    fn add(&mut self, path: &Path, at: Position) {
        self.0.insert(Self::hash(&path.to_string()), at);
    }

    fn hash(path: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        hasher.finish()
    }

    /// The problem that a violation is, at its place or at that of the nearest part around it.
    pub(super) fn locate(&self, violation: Violation) -> Problem {
        let Violation { path, message, remedy } = violation;
        let mut around = path.as_str();
        let position = loop {
            if let Some(position) = self.0.get(&Self::hash(around)) {
                break Some(*position);
            }
            match around.rfind(['.', '[']) {
                Some(end) => around = &around[..end],
                None if around.is_empty() => break None,
                None => around = "",
            }
        };
        Problem { position, path, message, remedy }
    }
}

/// The module that a document declares; none if anything in it was not understood.
pub(super) fn module(document: Node, problems: &mut Problems) -> Option<Walked> {
    let mut walker = Walker { problems, places: Places::default(), understood: true, ranges: 0 };
    walker.places.add(&Path::default(), document.at);
    let message = walker.message(&module_descriptor(), document, &Path::default());
    let Walker { places, understood, .. } = walker;
    let spec =
        message.filter(|_| understood)?.transcode_to().expect("the walker built a message of this type");
    Some(Walked { spec, places })
}

struct Walker<'p> {
    problems: &'p mut Problems,
    places: Places,
    understood: bool,
    ranges: usize,
}

impl Walker<'_> {
    fn fault(&mut self, path: &Path, fault: Fault) {
        self.understood = false;
        self.problems.fault(path, fault);
    }

    fn keep<T>(&mut self, path: &Path, result: Result<T, Fault>) -> Option<T> {
        result.map_err(|fault| self.fault(path, fault)).ok()
    }

    fn message(&mut self, descriptor: &MessageDescriptor, node: Node, path: &Path) -> Option<DynamicMessage> {
        let mut message = DynamicMessage::new(descriptor.clone());
        for Entry { key, at, value } in self.entries(node, path, "a map of fields")? {
            let path = path.field(&key);
            let Some(field) = descriptor.get_field_by_name(&key) else {
                let fault = suggest::unknown(descriptor, &key, at, !self.problems.are_many());
                self.fault(&path, fault);
                continue;
            };
            self.place(&path, at, &value);
            if value.is_null() {
                continue;
            }
            if let Some(value) = self.field(&field, value, &path) {
                message.set_field(&field, value);
            }
        }
        Some(message)
    }

    fn place(&mut self, path: &Path, key: Position, value: &Node) {
        let at =
            if matches!(value.content, Content::Scalar { .. }) && !value.is_null() { value.at } else { key };
        self.places.add(path, at);
    }

    fn field(&mut self, field: &FieldDescriptor, node: Node, path: &Path) -> Option<Value> {
        let node = match short::of(field).whole {
            Some(rewrite) => self.keep(path, (rewrite.expand)(node))?,
            None => node,
        };
        match shape(field) {
            Shape::Message(inner) => self.message(&inner, node, path).map(Value::Message),
            Shape::MessageMap(inner) => self.message_map(&inner, node, path),
            Shape::MessageList(inner) => self.message_list(field, &inner, node, path),
            Shape::LeafMap => self.text_map(field, node, path),
            Shape::Leaf if field.is_list() => self.leaf_list(field, node, path),
            Shape::Leaf => self.leaf(field, node, path),
        }
    }

    fn leaf(&mut self, field: &FieldDescriptor, node: Node, path: &Path) -> Option<Value> {
        match field.kind() {
            Kind::Message(inner) if is_string_list(&inner) => {
                self.string_list(&inner, node, path).map(Value::Message)
            }
            kind => self.keep(path, scalar::read(&kind, rule(field).unit(), &node)),
        }
    }

    fn string_list(&mut self, inner: &MessageDescriptor, node: Node, path: &Path) -> Option<DynamicMessage> {
        let values = inner.get_field_by_name("values").expect("a list of strings has values");
        let elements = self.elements(node, path, true)?;
        let elements = self.scalars(&values.kind(), Unit::Unspecified, &elements, path)?;
        let mut list = DynamicMessage::new(inner.clone());
        list.set_field(&values, Value::List(elements));
        Some(list)
    }

    fn leaf_list(&mut self, field: &FieldDescriptor, node: Node, path: &Path) -> Option<Value> {
        let elements = self.elements(node, path, field.kind() == Kind::String)?;
        let elements = self.expanded(short::of(field).each, elements, path)?;
        let values = match field.kind() {
            Kind::Message(inner) if is_string_list(&inner) => elements
                .into_iter()
                .enumerate()
                .filter_map(|(index, element)| {
                    let path = self.element(path, index, &element);
                    self.string_list(&inner, element, &path).map(Value::Message)
                })
                .collect(),
            kind => self.scalars(&kind, rule(field).unit(), &elements, path)?,
        };
        Some(Value::List(values))
    }

    fn scalars(&mut self, kind: &Kind, unit: Unit, elements: &[Node], path: &Path) -> Option<Vec<Value>> {
        let mut values = Vec::new();
        for (index, element) in elements.iter().enumerate() {
            let path = self.element(path, index, element);
            let mut result = scalar::read(kind, unit, element);
            if let Err(fault) = &mut result
                && element.is_null()
            {
                "write \"\" for empty text, and quotes around the word null".clone_into(&mut fault.remedy);
            }
            values.extend(self.keep(&path, result));
        }
        (values.len() == elements.len()).then_some(values)
    }

    fn element(&mut self, path: &Path, index: usize, element: &Node) -> Path {
        let path = path.key(&index.to_string());
        self.places.add(&path, element.at);
        path
    }

    fn text_map(&mut self, field: &FieldDescriptor, node: Node, path: &Path) -> Option<Value> {
        let node = self.keep(path, short::pairs(node, field.name()))?;
        let mut values = HashMap::new();
        for Entry { key, at, value } in self.entries(node, path, "a map, or a list of KEY=VALUE")? {
            let path = path.key(&key);
            self.place(&path, at, &value);
            if value.is_null() {
                self.fault(&path, short::without_value(field.name(), &key, at));
                continue;
            }
            let value = self.keep(&path, scalar::read(&Kind::String, rule(field).unit(), &value));
            values.extend(value.map(|value| (MapKey::String(key), value)));
        }
        Some(Value::Map(values))
    }

    fn message_map(&mut self, inner: &MessageDescriptor, node: Node, path: &Path) -> Option<Value> {
        let mut values = HashMap::new();
        for Entry { key, at, value } in self.entries(node, path, "a map of names")? {
            let path = path.key(&key);
            self.place(&path, at, &value);
            let message = if value.is_null() {
                Some(DynamicMessage::new(inner.clone()))
            } else {
                self.message(inner, value, &path)
            };
            values.extend(message.map(|message| (MapKey::String(key), Value::Message(message))));
        }
        Some(Value::Map(values))
    }

    fn message_list(
        &mut self,
        field: &FieldDescriptor,
        inner: &MessageDescriptor,
        node: Node,
        path: &Path,
    ) -> Option<Value> {
        let Short { each, .. } = short::of(field);
        let elements = self.elements(node, path, each.is_some())?;
        let elements = self.expanded(each, elements, path)?;
        let mut values = Vec::new();
        for (index, element) in elements.into_iter().enumerate() {
            let path = self.element(path, index, &element);
            if short::holds_counts(field) {
                let rate = element.member("rate").filter(|rate| !rate.is_null());
                let count = rate.map(|rate| scalar::read(&Kind::Uint64, Unit::Unspecified, rate));
                self.keep(&path.field("rate"), count.transpose());
            }
            values.extend(self.message(inner, element, &path).map(Value::Message));
        }
        Some(Value::List(values))
    }

    /// The elements that short forms stand for, in their long form.
    fn expanded(&mut self, each: Option<Each>, elements: Vec<Node>, path: &Path) -> Option<Vec<Node>> {
        let Some(each) = each else { return Some(elements) };
        let mut long = Vec::new();
        for (index, element) in elements.into_iter().enumerate() {
            let Some(text) = element.scalar() else {
                long.push(element);
                continue;
            };
            let path = path.key(&index.to_string());
            let expanded = (each.expand)(element.at, text);
            let expanded = self.keep(&path, expanded).unwrap_or_default();
            self.ranges += expanded.len().saturating_sub(1);
            if self.ranges > MAX_RANGES {
                let message = format!("ranges make the manifest grow by more than {MAX_RANGES} elements");
                self.fault(&path, Fault::new(element.at, message, "declare fewer ports"));
                return None;
            }
            long.extend(expanded);
        }
        Some(long)
    }

    fn entries(&mut self, node: Node, path: &Path, expected: &str) -> Option<Vec<Entry>> {
        if let Content::Map(entries) = node.content {
            return Some(entries);
        }
        self.fault(path, node.unexpected(expected, ""));
        None
    }

    /// The elements of a list; where it is allowed, a scalar is a list of one.
    fn elements(&mut self, node: Node, path: &Path, or_one: bool) -> Option<Vec<Node>> {
        match node.content {
            Content::List(elements) => Some(elements),
            Content::Scalar { .. } if or_one => Some(vec![node]),
            _ => {
                self.fault(path, node.unexpected("a list", ""));
                None
            }
        }
    }
}

/// The fields of a message, for messages about them.
pub(super) fn field_names(descriptor: &MessageDescriptor) -> Vec<String> {
    descriptor.fields().map(|field| field.name().to_owned()).collect()
}

/// A spec as a message that can be walked.
pub(super) fn dynamic(spec: &ModuleSpec) -> DynamicMessage {
    let mut message = DynamicMessage::new(spec.descriptor());
    message.transcode_from(spec).expect("a spec is a message of its own type");
    message
}
