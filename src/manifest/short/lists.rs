//! Short forms of lists and maps: command lines, hosts, tmpfs, networks by name, limits by name.

use crate::manifest::error::{Fault, Position};
use crate::manifest::node::{Content, Entry, Node, quoted};
use crate::manifest::parse::MAX_KEY;
use crate::manifest::words;

/// `nginx -g "daemon off;"` into its words.
pub(super) fn words(node: Node) -> Result<Node, Fault> {
    let Some(line) = node.scalar() else { return Ok(node) };
    match words::split(line) {
        Ok(words) => {
            Ok(Node::list(node.at, words.into_iter().map(|word| Node::text(node.at, word)).collect()))
        }
        Err(what) => {
            let message = format!("{} cannot be split into words: {what}", quoted(line));
            Err(Fault::new(node.at, message, "close it, or write a list of words"))
        }
    }
}

/// `{name: address}` into `name:address`, and `name=address`, too; an IPv6 address may stand in brackets.
pub(super) fn hosts(node: Node) -> Result<Node, Fault> {
    match node.content {
        Content::Map(entries) => {
            let mut lines = Vec::new();
            for Entry { key, value, .. } in entries {
                let addresses = match value.content {
                    Content::List(addresses) => addresses,
                    _ => vec![value],
                };
                for address in addresses {
                    let Some(text) = address.scalar() else {
                        return Err(address.unexpected("an address", ""));
                    };
                    lines.push(Node::text(address.at, format!("{key}:{}", without_brackets(text))));
                }
            }
            Ok(Node::list(node.at, lines))
        }
        Content::List(lines) => {
            let line = |line: Node| match line.scalar().and_then(|text| text.split_once('=')) {
                Some((name, address)) if !name.contains(':') => {
                    Node::text(line.at, format!("{name}:{}", without_brackets(address)))
                }
                _ => match line.scalar().and_then(|text| text.split_once(':')) {
                    Some((name, address)) => {
                        Node::text(line.at, format!("{name}:{}", without_brackets(address)))
                    }
                    None => line,
                },
            };
            Ok(Node::list(node.at, lines.into_iter().map(line).collect()))
        }
        Content::Scalar { .. } => hosts(Node::list(node.at, vec![node])),
    }
}

/// An IPv6 address stands in brackets for some, and engines take it without.
fn without_brackets(address: &str) -> &str {
    address.strip_prefix('[').and_then(|address| address.strip_suffix(']')).unwrap_or(address)
}

/// `/run`, `/run:size=64m`, or a list of these, into `{path: options}`.
pub(super) fn tmpfs(node: Node) -> Result<Node, Fault> {
    let at = node.at;
    let entry = |element: &Node| match element.scalar() {
        Some(text) => {
            let (path, options) = text.split_once(':').unwrap_or((text, ""));
            Ok(Entry { key: path.to_owned(), at: element.at, value: Node::text(element.at, options) })
        }
        None => Err(element.unexpected("a path, or path:options", "")),
    };
    match &node.content {
        Content::Map(_) => Ok(with_empty_options(node)),
        Content::List(elements) => Node::map(at, elements.iter().map(entry).collect::<Result<_, _>>()?),
        Content::Scalar { .. } => Node::map(at, vec![entry(&node)?]),
    }
}

/// A path without options has the engine's.
fn with_empty_options(node: Node) -> Node {
    let Content::Map(mut entries) = node.content else { return node };
    for entry in entries.iter_mut().filter(|entry| entry.value.is_null()) {
        entry.value = Node::text(entry.at, "");
    }
    Node::new(node.at, Content::Map(entries))
}

/// `[front, back]` into `{front: {}, back: {}}`.
pub(super) fn names(node: Node) -> Result<Node, Fault> {
    let entry =
        |element: &Node| match element.scalar() {
            Some(name) => {
                Ok(Entry { key: name.to_owned(), at: element.at, value: Node::members(element.at, []) })
            }
            None => Err(element
                .unexpected("the name of a network", "to say more, write a map: {front: {aliases: [db]}}")),
        };
    match &node.content {
        Content::Map(_) => Ok(node),
        Content::List(elements) => Node::map(node.at, elements.iter().map(entry).collect::<Result<_, _>>()?),
        Content::Scalar { .. } => Node::map(node.at, vec![entry(&node)?]),
    }
}

pub(super) fn shorten_names(long: &Node) -> Option<Node> {
    let entries = long.entries();
    let short = !entries.is_empty() && entries.iter().all(|entry| entry.value.is_empty_map());
    short.then(|| Node::list(long.at, entries.iter().map(|entry| Node::text(entry.at, &entry.key)).collect()))
}

/// `{nofile: 1024}` and `{nofile: {soft: 1024, hard: 2048}}` into a list.
pub(super) fn ulimits(node: Node) -> Result<Node, Fault> {
    let Content::Map(entries) = node.content else { return Ok(node) };
    let mut limits = Vec::new();
    for Entry { key, at, value } in entries {
        let name = Entry { key: "name".to_owned(), at, value: Node::text(at, key) };
        let members = match value.content {
            Content::Map(members) if members.iter().all(|member| member.key != "name") => members,
            Content::Scalar { .. } if !value.is_null() => {
                let limit = |key: &str| Entry { key: key.to_owned(), at, value: value.clone() };
                vec![limit("soft"), limit("hard")]
            }
            _ => return Err(value.unexpected("a limit, or {soft: ..., hard: ...}", "")),
        };
        limits.push(Node::new(at, Content::Map(std::iter::once(name).chain(members).collect())));
    }
    Ok(Node::list(node.at, limits))
}

pub(super) fn shorten_ulimits(long: &Node) -> Option<Node> {
    let elements = long.elements();
    let entries = elements.iter().map(shorten_ulimit).collect::<Option<Vec<_>>>()?;
    if entries.is_empty() { None } else { Node::map(long.at, entries).ok() }
}

fn shorten_ulimit(long: &Node) -> Option<Entry> {
    let [name, soft, hard] = long.entries() else { return None };
    if [&name.key, &soft.key, &hard.key] != ["name", "soft", "hard"] {
        return None;
    }
    let at: Position = long.at;
    let value = if soft.value.same(&hard.value) {
        soft.value.clone()
    } else {
        Node::members(at, [("soft", Some(soft.value.clone())), ("hard", Some(hard.value.clone()))])
    };
    let key = name.value.scalar().filter(|name| name.len() <= MAX_KEY)?;
    Some(Entry { key: key.to_owned(), at, value })
}
