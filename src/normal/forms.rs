//! The written forms of a text that mean the same to the engine.

use std::net::IpAddr;

use crate::proto::v1::Form;

/// The normal form of one text.
pub(super) fn text(form: Form, text: &str) -> String {
    match form {
        Form::Capability => capability(text),
        Form::Port => port(text),
        Form::Path => path(text),
        Form::Cpuset => cpuset(text),
        Form::Ip => ip(text),
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
            && first <= last
        {
            return (first..=last).map(|port| format!("{port}/{protocol}")).collect();
        }
        return vec![normal];
    }
    vec![text(form, element)]
}

/// Engines put `CAP_` before any name that lacks it, but for `ALL`: `CAP_ALL` and `CAP_CAP_X` are no other spellings.
fn capability(text: &str) -> String {
    let upper = text.to_ascii_uppercase();
    match upper.strip_prefix("CAP_") {
        Some(name) if !name.is_empty() && name != "ALL" && !name.starts_with("CAP_") => name.to_owned(),
        _ => upper,
    }
}

/// An IPv4 address that is written as IPv6 is an IPv4 address to an engine (measured: `::ffff:127.0.0.1` publishes on
/// 127.0.0.1).
fn ip(text: &str) -> String {
    text.parse::<IpAddr>().map_or_else(|_| text.to_owned(), |address| address.to_canonical().to_string())
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
            (Ok(first), Ok(last)) if first <= last && last - first < 65_536 => members.extend(first..=last),
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

/// Second names, and the first (signal(7)).
const SIGNAL_ALIASES: [(&str, &str); 3] = [("CLD", "CHLD"), ("IOT", "ABRT"), ("POLL", "IO")];

/// The first real-time signal, the last, and how engines name those between (measured on 20.10: RTMIN+16 is refused).
const REAL_TIME: (usize, usize) = (34, 64);
const LAST_BY_MINIMUM: usize = 49;

fn signal(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    if let Some(name) = text.parse().ok().and_then(signal_name) {
        return format!("SIG{name}");
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let name = SIGNAL_ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| *name);
    format!("SIG{name}")
}

/// The name that engines have for a number.
fn signal_name(number: usize) -> Option<String> {
    let (first, last) = REAL_TIME;
    match number {
        _ if number == first => Some("RTMIN".to_owned()),
        _ if number == last => Some("RTMAX".to_owned()),
        _ if (first..=LAST_BY_MINIMUM).contains(&number) => Some(format!("RTMIN+{}", number - first)),
        _ if (first..last).contains(&number) => Some(format!("RTMAX-{}", last - number)),
        _ => number.checked_sub(1).and_then(|index| SIGNALS.get(index)).map(|name| (*name).to_owned()),
    }
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
