//! The short form of a published port: `[HOST_IP:][PUBLISHED:]TARGET[/PROTOCOL]`.

use std::net::IpAddr;

use crate::manifest::error::{Fault, Position};
use crate::manifest::node::{Node, quoted};
use crate::manifest::scalar::NO_INTERPOLATION;

const GRAMMAR: &str =
    "write [HOST_IP:][PUBLISHED:]TARGET[/PROTOCOL], as 127.0.0.1:8080:80/tcp; IPv6 in brackets";

/// The published ports that a text stands for: a range of targets is one port for each.
pub(super) fn expand(at: Position, text: &str) -> Result<Vec<Node>, Fault> {
    if text.contains("${") {
        return Err(Fault::new(at, format!("{} is not a port", quoted(text)), NO_INTERPOLATION));
    }
    let (rest, protocol) = match text.rsplit_once('/') {
        Some((rest, protocol)) => (rest, Some(protocol.to_ascii_lowercase())),
        None => (text, None),
    };
    let wrong = || Fault::new(at, format!("{} is not a published port", quoted(text)), GRAMMAR);
    let (address, rest) = match rest.strip_prefix('[') {
        Some(rest) => {
            let (address, rest) = rest.split_once(']').ok_or_else(wrong)?;
            (Some(address), rest.strip_prefix(':').ok_or_else(wrong)?)
        }
        None => match rest.split_once(':') {
            Some((address, ports)) if ports.contains(':') || address.parse::<IpAddr>().is_ok() => {
                (Some(address), ports)
            }
            _ => (None, rest),
        },
    };
    if let Some(address) = address
        && address.parse::<IpAddr>().is_err()
    {
        let message = format!("{} is not an IP address", quoted(address));
        return Err(Fault::new(at, message, "an engine would publish on all addresses"));
    }
    let (published, target) = match rest.split_once(':') {
        Some((_, target)) if target.contains(':') => return Err(wrong()),
        Some(("", target)) => (None, target),
        Some((published, target)) => (Some(published), target),
        None => (None, rest),
    };
    let port = |target: u16, published: Option<String>| {
        Node::members(
            at,
            [
                ("target", Some(Node::plain(at, target.to_string()))),
                ("protocol", protocol.as_deref().map(|protocol| Node::text(at, protocol))),
                ("host_ip", address.map(|address| Node::text(at, address))),
                ("published", published.map(|published| Node::text(at, published))),
            ],
        )
    };
    let (first, last) = range(at, target, 1)?;
    let Some(published) = published else {
        return Ok((first..=last).map(|target| port(target, None)).collect());
    };
    let (first_published, last_published) = range(at, published, 0)?;
    if first == last {
        return Ok(vec![port(first, Some(published.to_owned()))]);
    }
    if last - first != last_published - first_published {
        let message = format!("{} has ranges of different lengths", quoted(text));
        return Err(Fault::new(at, message, "publish as many ports as there are targets, or one target"));
    }
    let pairs = (first..=last).zip(first_published..=last_published);
    Ok(pairs.map(|(target, published)| port(target, Some(published.to_string()))).collect())
}

/// A container port that is exposed: a range is one port for each, any other text stays for the field's form.
pub(super) fn expand_exposed(at: Position, text: &str) -> Result<Vec<Node>, Fault> {
    let (ports, protocol) = match text.split_once('/') {
        Some((ports, protocol)) => (ports, format!("/{protocol}")),
        None => (text, String::new()),
    };
    let is_range = ports.split_once('-').is_some_and(|(first, last)| {
        [first, last].iter().all(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
    });
    if !is_range {
        return Ok(vec![Node::text(at, text)]);
    }
    let (first, last) = range(at, ports, 1)?;
    Ok((first..=last).map(|port| Node::text(at, format!("{port}{protocol}"))).collect())
}

/// `80` or `8000-8100`.
fn range(at: Position, text: &str, least: u16) -> Result<(u16, u16), Fault> {
    let port = |text: &str| {
        number(text).filter(|port| *port >= least).ok_or_else(|| {
            Fault::new(
                at,
                format!("{} is not a port (1 to 65535)", quoted(text)),
                "write it as 8080, or 8000-8100",
            )
        })
    };
    let Some((first, last)) = text.split_once('-') else { return port(text).map(|port| (port, port)) };
    let (first, last) = (port(first)?, port(last)?);
    if first == 0 || first > last {
        return Err(Fault::new(
            at,
            format!("{} is not a range of ports", quoted(text)),
            "write the lower one first",
        ));
    }
    Ok((first, last))
}

fn number(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if digits { text.parse().ok() } else { None }
}

/// Is it a port from 1 to 65535?
pub(crate) fn is_port(text: &str) -> bool {
    number(text).is_some_and(|port| port > 0)
}

/// Is it a port, a range of ports, or 0 for one that the engine chooses?
pub(crate) fn is_port_or_range(text: &str) -> bool {
    range(Position { line: 1, column: 1 }, text, 0).is_ok()
}

pub(super) fn shorten(long: &Node) -> Option<Node> {
    let text = |key: &str| long.member(key).map(|node| node.scalar());
    let mut short = match text("host_ip") {
        Some(address) if address?.contains(':') => format!("[{}]:", address?),
        Some(address) => format!("{}:", address?),
        None => String::new(),
    };
    match text("published") {
        Some(published) => short.extend([published?, ":"]),
        None if !short.is_empty() => short.push(':'),
        None => {}
    }
    short += text("target")??;
    if let Some(protocol) = text("protocol") {
        short.extend(["/", protocol?]);
    }
    Some(Node::text(long.at, short))
}
