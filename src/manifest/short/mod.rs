//! The short forms of a manifest: one table, and for each form the way to the long one and back.
//!
//! A short form is only another way to write: it is rewritten, nodes to nodes, before the walker sees it. The way back
//! is taken by a writer where it leads to the same long form again.

mod container;
mod lists;
mod mounts;
mod ports;

use prost_reflect::FieldDescriptor;

use super::error::{Fault, Position};
use super::node::{Content, Entry, Node, quoted};

pub(super) use mounts::is_name;
pub(super) use ports::{is_port, is_port_or_range};

/// The short form of a field's whole value.
#[derive(Clone, Copy)]
pub(super) struct Whole {
    /// A value in short or long form into the long form.
    pub(super) expand: fn(Node) -> Result<Node, Fault>,
    /// The short form of a long form, where there may be one.
    shorten: fn(&Node) -> Option<Node>,
}

/// The short form of one element of a list. It may stand for several elements.
#[derive(Clone, Copy)]
pub(super) struct Each {
    /// A scalar into the elements that it stands for.
    pub(super) expand: fn(Position, &str) -> Result<Vec<Node>, Fault>,
    shorten: fn(&Node) -> Option<Node>,
}

/// The short forms of a field.
#[derive(Clone, Copy)]
pub(super) struct Short {
    pub(super) whole: Option<Whole>,
    pub(super) each: Option<Each>,
}

const fn whole(expand: fn(Node) -> Result<Node, Fault>, shorten: fn(&Node) -> Option<Node>) -> Short {
    Short { whole: Some(Whole { expand, shorten }), each: None }
}

const fn each(
    expand: fn(Position, &str) -> Result<Vec<Node>, Fault>,
    shorten: fn(&Node) -> Option<Node>,
) -> Short {
    Short { whole: None, each: Some(Each { expand, shorten }) }
}

fn never(_: &Node) -> Option<Node> {
    None
}

/// The fields with a short form of their own. Beside these, a list of texts may be one text, and a map of texts may be
/// a list of KEY=VALUE.
const TABLE: &[(&str, Short)] = &[
    ("plumbline.v1.ContainerSpec.command", whole(lists::words, never)),
    ("plumbline.v1.ContainerSpec.entrypoint", whole(lists::words, never)),
    ("plumbline.v1.ContainerSpec.extra_hosts", whole(lists::hosts, never)),
    ("plumbline.v1.ContainerSpec.tmpfs", whole(lists::tmpfs, never)),
    ("plumbline.v1.ContainerSpec.networks", whole(lists::names, lists::shorten_names)),
    ("plumbline.v1.ContainerSpec.ulimits", whole(lists::ulimits, lists::shorten_ulimits)),
    ("plumbline.v1.ContainerSpec.restart", whole(container::restart, container::shorten_restart)),
    ("plumbline.v1.ContainerSpec.devices", each(container::device, container::shorten_device)),
    ("plumbline.v1.ContainerSpec.mounts", each(mounts::expand, mounts::shorten)),
    ("plumbline.v1.ContainerSpec.ports", each(ports::expand, ports::shorten)),
    ("plumbline.v1.ContainerSpec.expose", each(ports::expand_exposed, never)),
    ("plumbline.v1.Healthcheck.test", whole(container::test, container::shorten_test)),
];

/// The short forms of this field.
pub(super) fn of(field: &FieldDescriptor) -> Short {
    let found = TABLE.iter().find(|(name, _)| *name == field.full_name());
    found.map_or(Short { whole: None, each: None }, |(_, short)| *short)
}

/// The shortest way to write the long form of a field's value.
pub(super) fn shorten(field: &FieldDescriptor, long: Node) -> Node {
    let Short { whole, each } = of(field);
    let long = match (each, long.content) {
        (Some(each), Content::List(elements)) => {
            let elements = elements.into_iter().map(|element| shorten_element(each, element)).collect();
            Node::list(long.at, elements)
        }
        (_, content) => Node::new(long.at, content),
    };
    let short = whole.and_then(|whole| Some((whole, (whole.shorten)(&long)?)));
    match short {
        Some((whole, short)) if (whole.expand)(short.clone()).is_ok_and(|again| again.same(&long)) => short,
        _ => long,
    }
}

fn shorten_element(each: Each, long: Node) -> Node {
    let expands = |short: &Node| {
        let again = (each.expand)(short.at, short.scalar()?).ok()?;
        Some(matches!(again.as_slice(), [again] if again.same(&long)))
    };
    match (each.shorten)(&long) {
        Some(short) if expands(&short) == Some(true) => short,
        _ => long,
    }
}

/// Does this list of devices hold counts, although its elements' rate is a size elsewhere?
pub(super) fn holds_counts(field: &FieldDescriptor) -> bool {
    field.name().ends_with("_iops")
}

/// A list of KEY=VALUE into a map; a map as it is.
pub(super) fn pairs(node: Node, field: &str) -> Result<Node, Fault> {
    let Content::List(elements) = node.content else { return Ok(node) };
    let mut entries = Vec::new();
    for element in elements {
        let Some(text) = element.scalar() else { return Err(element.unexpected("KEY=VALUE", "")) };
        let Some((key, value)) = text.split_once('=') else {
            return Err(without_value(field, text, element.at));
        };
        let value = Node::text(element.at, value);
        entries.push(Entry { key: key.to_owned(), at: element.at, value });
    }
    Node::map(node.at, entries)
}

/// A key of a map of texts has no value.
pub(super) fn without_value(field: &str, key: &str, at: Position) -> Fault {
    let remedy = if field == "environment" {
        "give it a value (\"\" is one); nothing is read from the caller's shell; \
         to take a variable of the image away, name it under unset_environment"
    } else {
        "give it a value; \"\" is one"
    };
    Fault::new(at, format!("{} has no value", quoted(key)), remedy)
}
