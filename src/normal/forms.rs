//! The written forms of a text that mean the same to the engine.

use std::net::IpAddr;

use crate::proto::v1::Form;

/// The normal form of one text.
pub(super) fn text(form: Form, text: &str) -> String {
    match form {
        Form::Capability => {
            let upper = text.to_ascii_uppercase();
            upper.strip_prefix("CAP_").unwrap_or(&upper).to_owned()
        }
        Form::Port => port(text),
        Form::Path => path(text),
        Form::Cpuset => cpuset(text),
        Form::Ip => text.parse::<IpAddr>().map_or_else(|_| text.to_owned(), |address| address.to_string()),
        Form::Signal => signal(text),
        Form::Mac => text.to_ascii_lowercase().replace('-', ":"),
        Form::Letters => {
            let mut letters: Vec<char> = text.chars().collect();
            letters.sort_unstable();
            // The order in which Docker writes device permissions, so that its default is recognised.
            if letters == ['m', 'r', 'w'] { "rwm".to_owned() } else { letters.into_iter().collect() }
        }
        Form::Platform => platform(text),
        Form::Lowercase => text.to_ascii_lowercase(),
        Form::Unspecified | Form::Limit => text.to_owned(),
    }
}

/// The normal forms of one element of a list: a range of ports is several.
pub(super) fn elements(form: Form, element: &str) -> Vec<String> {
    if form == Form::Port {
        let normal = port(element);
        if let Some((range, protocol)) = normal.split_once('/')
            && let Some((first, last)) = range.split_once('-')
            && let (Ok(first), Ok(last)) = (first.parse::<u16>(), last.parse::<u16>())
        {
            return (first..=last).map(|port| format!("{port}/{protocol}")).collect();
        }
        return vec![normal];
    }
    vec![text(form, element)]
}

fn port(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    if lower.contains('/') { lower } else { format!("{lower}/tcp") }
}

/// As Go's `path.Clean`, which engines apply to working directories and mount targets. A text that does not start
/// with a slash is the name of a volume or a reference, and stays.
fn path(text: &str) -> String {
    if !text.starts_with('/') {
        return text.to_owned();
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// `0,2,1` and `0-2` are the same set. A text that is no list stays.
fn cpuset(text: &str) -> String {
    let mut members = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
            // A host has at most a few thousand processors; a larger range is a typing error, left for the engine.
            (Ok(first), Ok(last)) if last.saturating_sub(first) < 65_536 => members.extend(first..=last),
            _ => return text.to_owned(),
        }
    }
    members.sort_unstable();
    members.dedup();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for member in members {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == member => *last = member,
            _ => ranges.push((member, member)),
        }
    }
    let range = |(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

/// Linux signal numbers 1 to 31 on x86 and ARM, by position (signal(7)).
const SIGNALS: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
    "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
    "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

fn signal(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    if let Ok(number) = text.parse::<usize>()
        && let Some(name) = number.checked_sub(1).and_then(|index| SIGNALS.get(index))
    {
        return format!("SIG{name}");
    }
    let upper = text.to_ascii_uppercase();
    format!("SIG{}", upper.strip_prefix("SIG").unwrap_or(&upper))
}

/// Names of architectures as OCI images write them.
fn platform(text: &str) -> String {
    text.to_ascii_lowercase()
        .split('/')
        .map(|part| match part {
            "x86_64" | "x86-64" => "amd64",
            "aarch64" => "arm64",
            part => part,
        })
        .collect::<Vec<_>>()
        .join("/")
}
