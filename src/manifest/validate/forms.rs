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
            let remedy = "write it as 8080, or 8080/udp; outside of manifests, one port each";
            (is_container_port(text), "a container port", remedy)
        }
        Form::Path => (text.starts_with('/'), "an absolute path", "begin it with /"),
        Form::Cpuset => (is_cpuset(text), "a list of numbers and ranges", "write it as 0-2,4"),
        Form::Ip => {
            (text.parse::<IpAddr>().is_ok(), "an IP address", "write it as 192.0.2.1, or 2001:db8::1")
        }
        Form::Signal => (is_signal(text), "a signal", "write it as SIGTERM"),
        Form::Mac => (is_mac(text), "a hardware address of one device", "write it as 02:42:ac:11:00:02"),
        Form::Letters => (is_letters(text), "a set of the letters r, w and m", "write it as rwm"),
        Form::Platform => (is_platform(text), "a platform", "write it as linux/amd64"),
    };
    (!is_one).then(|| (format!("{} is not {what}", quoted(text)), remedy))
}

/// An engine puts `CAP_` before a name that lacks it, and knows no `CAP_ALL`.
fn is_capability(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("CAP_");
    !text.is_empty()
        && name.is_none_or(|name| !name.is_empty() && name != "ALL" && !name.starts_with("CAP_"))
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
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
                         STOP SYS TERM TRAP TSTP TTIN TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ RTMIN RTMAX ";
    let number = |text: &str, most: u8| text.parse::<u8>().is_ok_and(|number| (1..=most).contains(&number));
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return number(text, 64);
    }
    let name = text.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    // Engines name the upper half of them from above.
    for (prefix, most) in [("RTMIN+", 15), ("RTMAX-", 14)] {
        if let Some(offset) = name.strip_prefix(prefix) {
            return number(offset, most);
        }
    }
    name.bytes().all(|byte| byte.is_ascii_alphanumeric()) && NAMES.contains(&format!(" {name} "))
}

/// Of one device: the lowest bit of the first byte says that an address is one of many.
fn is_mac(text: &str) -> bool {
    let separator = if text.contains('-') { '-' } else { ':' };
    let parts: Vec<&str> = text.split(separator).collect();
    let is_byte = |part: &&str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_of_one = |part: &&str| u8::from_str_radix(part, 16).is_ok_and(|byte| byte & 1 == 0);
    parts.len() == 6 && parts.iter().all(is_byte) && parts.first().is_some_and(is_of_one)
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

/// A range of addresses, as 10.0.0.0/8.
pub(super) struct Range {
    address: IpAddr,
    length: u8,
}

impl Range {
    pub(super) fn contains(&self, other: IpAddr) -> bool {
        match (self.address, other) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.length)).unwrap_or_default();
                own.to_bits() & mask == other.to_bits() & mask
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.length)).unwrap_or_default();
                own.to_bits() & mask == other.to_bits() & mask
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// The range that a text is, if it is one.
pub(super) fn range(text: &str) -> Option<Range> {
    let (address, length) = text.split_once('/')?;
    let (address, length) = (address.parse::<IpAddr>().ok()?, length.parse::<u8>().ok()?);
    let most = if address.is_ipv4() { 32 } else { 128 };
    (length <= most).then_some(Range { address, length })
}
