//! Short forms of single members of a container: restart policy, health check, device.

use crate::manifest::error::{Fault, Position};
use crate::manifest::node::{Content, Node, quoted};

/// `always`, `on-failure:3`.
pub(super) fn restart(node: Node) -> Result<Node, Fault> {
    let at = node.at;
    let Some(text) = node.scalar() else {
        return match node.content {
            Content::Map(_) => Ok(node),
            _ => Err(node.unexpected("a policy, as always or on-failure:3", "")),
        };
    };
    let (name, count) = match text.split_once(':') {
        Some((name, count)) => (name, Some(Node::text(at, count))),
        None => (text, None),
    };
    Ok(Node::members(at, [("name", Some(Node::text(at, name))), ("maximum_retry_count", count)]))
}

pub(super) fn shorten_restart(long: &Node) -> Option<Node> {
    let name = long.member("name")?.scalar()?;
    let text = match long.member("maximum_retry_count") {
        Some(count) => format!("{name}:{}", count.scalar()?),
        None => name.to_owned(),
    };
    Some(Node::text(long.at, text))
}

/// A line for the shell.
pub(super) fn test(node: Node) -> Result<Node, Fault> {
    let Some(line) = node.scalar() else { return Ok(node) };
    if line.trim().is_empty() {
        return Err(node.unexpected("a line for the shell", "to have no check, write [NONE]"));
    }
    Ok(Node::list(node.at, vec![Node::text(node.at, "CMD-SHELL"), Node::text(node.at, line)]))
}

pub(super) fn shorten_test(long: &Node) -> Option<Node> {
    match long.elements() {
        [kind, line] if kind.scalar() == Some("CMD-SHELL") => Some(line.clone()),
        _ => None,
    }
}

/// `/dev/fuse`, `/dev/sda:/dev/xvda:r`.
pub(super) fn device(at: Position, text: &str) -> Result<Vec<Node>, Fault> {
    let parts: Vec<&str> = text.split(':').collect();
    let (source, target, permissions) = match parts.as_slice() {
        [source] => (*source, *source, None),
        [source, permissions] if !permissions.starts_with('/') => (*source, *source, Some(*permissions)),
        [source, target] => (*source, *target, None),
        [source, target, permissions] => (*source, *target, Some(*permissions)),
        _ => {
            let message = format!("{} is not a device", quoted(text));
            return Err(Fault::new(
                at,
                message,
                "write source[:target[:permissions]], as /dev/sda:/dev/xvda:r",
            ));
        }
    };
    Ok(vec![Node::members(
        at,
        [
            ("source", Some(Node::text(at, source))),
            ("target", Some(Node::text(at, target))),
            ("permissions", permissions.map(|permissions| Node::text(at, permissions))),
        ],
    )])
}

pub(super) fn shorten_device(long: &Node) -> Option<Node> {
    let source = long.member("source")?.scalar()?;
    let target = long.member("target")?.scalar()?;
    let text = match long.member("permissions") {
        Some(permissions) => format!("{source}:{target}:{}", permissions.scalar()?),
        None if source == target => source.to_owned(),
        None => format!("{source}:{target}"),
    };
    Some(Node::text(long.at, text))
}
