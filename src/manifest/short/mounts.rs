//! The short form of a mount: `SOURCE:TARGET[:MODE,...]`, or `TARGET` for an anonymous volume.
//!
//! It never asks the engine to make a missing host path, as Docker's own short form does.

use crate::manifest::error::{Fault, Position};
use crate::manifest::node::{Node, quoted};
use crate::manifest::scalar::NO_INTERPOLATION;

const GRAMMAR: &str =
    "write SOURCE:TARGET[:MODE,...] as /srv/data:/data:ro, NAME:TARGET for a volume, or TARGET alone";
const MODES: &str =
    "the modes are ro, rw, z, Z, nocopy, [r]private, [r]shared, [r]slave, consistent, cached, delegated";

/// What the modes of a short form say.
#[derive(Default)]
struct Modes<'a> {
    access: Option<&'a str>,
    consistency: Option<&'a str>,
    propagation: Option<&'a str>,
    selinux: Option<&'a str>,
    nocopy: Option<&'a str>,
}

/// The mount that a text stands for.
pub(super) fn expand(at: Position, text: &str) -> Result<Vec<Node>, Fault> {
    let fault = |message: &str, remedy: &str| Fault::new(at, format!("{} {message}", quoted(text)), remedy);
    if text.contains("${") {
        return Err(fault("is not a mount", NO_INTERPOLATION));
    }
    let parts: Vec<&str> = text.split(':').collect();
    let (source, target, modes) = match parts.as_slice() {
        [target] => (None, *target, ""),
        [source, target] => (Some(*source), *target, ""),
        [source, target, modes] => (Some(*source), *target, *modes),
        _ => return Err(fault("is not a mount", GRAMMAR)),
    };
    if parts.iter().any(|part| part.is_empty()) {
        return Err(fault("is not a mount: a part of it is empty", GRAMMAR));
    }
    let is_bind = source.is_some_and(|source| source.starts_with('/'));
    match source {
        None if !target.starts_with('/') => return Err(fault("is not an absolute path", GRAMMAR)),
        Some(source) if !is_bind && !is_name(source) => return Err(relative(at, source)),
        _ => {}
    }
    let modes = if parts.len() == 3 { read_modes(at, modes)? } else { Modes::default() };
    if let (true, Some(mode)) = (is_bind, modes.nocopy) {
        return Err(fault(&format!("has the mode {mode}, which is one of volumes"), "take it out"));
    }
    if let (false, Some(mode)) = (is_bind, modes.propagation.or(modes.selinux)) {
        return Err(fault(&format!("has the mode {mode}, which is one of host paths"), "take it out"));
    }
    let word = |text: &str| Node::text(at, text);
    let yes = || Node::plain(at, "true");
    let bind = Node::members(
        at,
        [("propagation", modes.propagation.map(word)), ("selinux", modes.selinux.map(word))],
    );
    let volume = Node::members(at, [("nocopy", modes.nocopy.map(|_| yes()))]);
    Ok(vec![Node::members(
        at,
        [
            ("type", Some(word(if is_bind { "bind" } else { "volume" }))),
            ("source", source.map(word)),
            ("target", Some(word(target))),
            ("read_only", (modes.access == Some("ro")).then(yes)),
            ("consistency", modes.consistency.map(word)),
            ("bind", (!bind.is_empty_map()).then_some(bind)),
            ("volume", (!volume.is_empty_map()).then_some(volume)),
        ],
    )])
}

fn read_modes(at: Position, text: &str) -> Result<Modes<'_>, Fault> {
    let mut modes = Modes::default();
    for mode in text.split(',') {
        let slot = match mode {
            "ro" | "rw" => &mut modes.access,
            "consistent" | "cached" | "delegated" => &mut modes.consistency,
            "private" | "rprivate" | "shared" | "rshared" | "slave" | "rslave" => &mut modes.propagation,
            "z" | "Z" => &mut modes.selinux,
            "nocopy" => &mut modes.nocopy,
            _ => return Err(Fault::new(at, format!("{} is not a mode of a mount", quoted(mode)), MODES)),
        };
        if let Some(other) = slot.replace(mode) {
            return Err(Fault::new(
                at,
                format!("the modes {other} and {mode} exclude each other"),
                "keep one",
            ));
        }
    }
    Ok(modes)
}

fn relative(at: Position, source: &str) -> Fault {
    Fault::new(
        at,
        format!("{} is neither an absolute path nor the name of a volume", quoted(source)),
        "write the whole path on the host: a manifest has no folder that it is relative to",
    )
}

/// Is it the name of a volume, network or container, as engines take them?
pub(crate) fn is_name(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

pub(super) fn shorten(long: &Node) -> Option<Node> {
    let target = long.member("target")?.scalar()?;
    let Some(source) = long.member("source") else { return Some(Node::text(long.at, target)) };
    let mut modes = Vec::new();
    if long.member("read_only").is_some() {
        modes.push("ro");
    }
    if let Some(consistency) = long.member("consistency") {
        modes.push(consistency.scalar()?);
    }
    for group in ["bind", "volume"] {
        for option in long.member(group).map_or(&[][..], Node::entries) {
            modes.push(if option.key == "nocopy" { "nocopy" } else { option.value.scalar()? });
        }
    }
    let mut short = format!("{}:{target}", source.scalar()?);
    if !modes.is_empty() {
        short.push(':');
        short += &modes.join(",");
    }
    Some(Node::text(long.at, short))
}
