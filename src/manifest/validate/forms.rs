//! The written forms of single values: addresses, ports, signals, paths.

use std::net::IpAddr;

use crate::manifest::node::quoted;
use crate::manifest::short::is_port;
use crate::proto::v1::Form;

/// What is wrong with the text, and the remedy, if it is not of this form.
pub(super) fn fault(form: Form, text: &str) -> Option<(String, &'static str)> {
    let (is_one, what, remedy) = match form {
        Form::Unspecified | Form::Lowercase | Form::Limit => return None,
        Form::Capability => (is_capability(text), "a capability", "write it as NET_ADMIN, or ALL"),
        Form::Port => {
            (is_container_port(text), "a container port", "write it as 8080, or 8080/udp; one port each")
        }
        Form::Path => (text.starts_with('/'), "an absolute path", "begin it with /"),
        Form::Cpuset => (is_cpuset(text), "a list of numbers and ranges", "write it as 0-2,4"),
        Form::Ip => {
            (text.parse::<IpAddr>().is_ok(), "an IP address", "write it as 192.0.2.1, or 2001:db8::1")
        }
        Form::Signal => (is_signal(text), "a signal", "write it as SIGTERM"),
        Form::Mac => (is_mac(text), "a hardware address", "write it as 02:42:ac:11:00:02"),
        Form::Letters => (is_letters(text), "a set of the letters r, w and m", "write it as rwm"),
        Form::Platform => (is_platform(text), "a platform", "write it as linux/amd64"),
    };
    (!is_one).then(|| (format!("{} is not {what}", quoted(text)), remedy))
}

fn is_capability(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_container_port(text: &str) -> bool {
    let (port, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    is_port(port) && matches!(protocol.to_ascii_lowercase().as_str(), "tcp" | "udp" | "sctp")
}

fn is_cpuset(text: &str) -> bool {
    let number = |text: &str| -> Option<u16> {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
    };
    text.split(',').all(|part| match part.split_once('-') {
        Some((first, last)) => number(first).zip(number(last)).is_some_and(|(first, last)| first <= last),
        None => number(part).is_some(),
    })
}

/// A number, or a name of Linux with or without SIG, also relative to the real-time signals.
fn is_signal(text: &str) -> bool {
    const NAMES: &str = " ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR QUIT SEGV STKFLT \
                         STOP SYS TERM TRAP TSTP TTIN TTOU UNUSED URG USR1 USR2 VTALRM WINCH XCPU XFSZ RTMIN RTMAX ";
    let number = |text: &str, most: u8| text.parse::<u8>().is_ok_and(|number| (1..=most).contains(&number));
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return number(text, 64);
    }
    let name = text.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    if let Some(offset) = name.strip_prefix("RTMIN+").or_else(|| name.strip_prefix("RTMAX-")) {
        return number(offset, 30);
    }
    name.bytes().all(|byte| byte.is_ascii_alphanumeric()) && NAMES.contains(&format!(" {name} "))
}

fn is_mac(text: &str) -> bool {
    let separator = if text.contains('-') { '-' } else { ':' };
    let parts: Vec<&str> = text.split(separator).collect();
    let is_byte = |part: &&str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    parts.len() == 6 && parts.iter().all(is_byte)
}

fn is_letters(text: &str) -> bool {
    let once = |letter: char| text.matches(letter).count() == 1;
    !text.is_empty() && text.chars().all(|letter| "rwm".contains(letter) && once(letter))
}

fn is_platform(text: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    let parts: Vec<&str> = text.split('/').collect();
    (1..=3).contains(&parts.len()) && parts.iter().all(|text| part(text))
}

/// Is it an address range, as 10.0.0.0/8?
pub(super) fn is_range_of_addresses(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    match (address.parse::<IpAddr>(), length.parse::<u8>()) {
        (Ok(IpAddr::V4(_)), Ok(length)) => length <= 32,
        (Ok(IpAddr::V6(_)), Ok(length)) => length <= 128,
        _ => false,
    }
}
