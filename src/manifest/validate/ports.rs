//! Published ports. Creating a container reserves none: two that exclude each other fail when the second one starts,
//! in the middle of an apply.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use super::Findings;
use crate::catalogue::Path;
use crate::manifest::node::quoted;
use crate::manifest::short::is_port_or_range;
use crate::proto::v1::{ContainerSpec, ModuleSpec, Port};

pub(super) fn check(spec: &ModuleSpec, findings: &mut Findings) {
    let mut taken: HashMap<(u16, &str), Taken> = HashMap::new();
    for (key, container) in &spec.containers {
        let path = Path::default().field("containers").key(key).field("ports");
        check_each(container, &path, findings);
        let again = written_twice(container, &path, findings);
        for (index, port) in container.ports.iter().enumerate().filter(|(index, _)| !again.contains(index)) {
            let path = path.key(&index.to_string());
            let Some(number) = port.published.as_deref().and_then(fixed) else { continue };
            let protocol = port.protocol.as_deref().unwrap_or("tcp");
            let Some(addresses) = Addresses::of(port) else { continue };
            if let Some(other) = taken.entry((number, protocol)).or_default().claim(addresses, &path) {
                let message = format!("{other} publishes on port {number}/{protocol} of the host, too");
                findings.add(&path, message, "take another port, or give each an address of its own");
            }
        }
    }
}

fn check_each(container: &ContainerSpec, path: &Path, findings: &mut Findings) {
    for (index, port) in container.ports.iter().enumerate() {
        let path = path.key(&index.to_string());
        if let Some(published) = &port.published
            && !is_port_or_range(published)
        {
            let message = format!("{} is not a port (1 to 65535) or a range of ports", quoted(published));
            findings.add(&path.field("published"), message, "write it as 8080, or 8000-8100");
        }
        if let Some(Ok(IpAddr::V6(address))) = port.host_ip.as_ref().map(|text| text.parse::<IpAddr>())
            && address.is_unicast_link_local()
        {
            // Nobody can listen on it without the name of an interface, which engines do not take (measured).
            let message = format!("{address} is an address of one link only");
            findings.add(&path.field("host_ip"), message, "name another address of the host, or :: for all");
        }
    }
}

/// The elements that say no more than one before them.
fn written_twice(container: &ContainerSpec, path: &Path, findings: &mut Findings) -> HashSet<usize> {
    let (mut seen, mut again) = (HashSet::new(), HashSet::new());
    for (index, port) in container.ports.iter().enumerate() {
        let protocol = port.protocol.as_deref().unwrap_or("tcp");
        if !seen.insert((port.target, protocol, port.host_ip.as_deref(), port.published.as_deref())) {
            findings.add(&path.key(&index.to_string()), "the same port is published twice", "keep one");
            again.insert(index);
        }
    }
    again
}

/// The port of the host, unless the engine chooses it, out of a range or freely.
fn fixed(published: &str) -> Option<u16> {
    let (first, last) = published.split_once('-').unwrap_or((published, published));
    let (first, last) = (first.parse::<u16>().ok()?, last.parse::<u16>().ok()?);
    (first == last && first != 0).then_some(first)
}

/// On what an engine listens for a published port.
#[derive(Clone, Copy)]
enum Addresses {
    /// All of both families: without an address.
    All,
    /// All of IPv4 (0.0.0.0).
    AllV4,
    /// All of IPv6 (::).
    AllV6,
    One(IpAddr),
}

impl Addresses {
    /// None if the address is not one: the form of the field says so already.
    fn of(port: &Port) -> Option<Self> {
        match port.host_ip.as_deref().filter(|text| !text.is_empty()) {
            None => Some(Self::All),
            Some(text) => Some(match text.parse::<IpAddr>().ok()?.to_canonical() {
                IpAddr::V4(address) if address.is_unspecified() => Self::AllV4,
                IpAddr::V6(address) if address.is_unspecified() => Self::AllV6,
                address => Self::One(address),
            }),
        }
    }
}

/// Who publishes on a port of the host, by family. 0.0.0.0 and :: do not exclude each other; 0.0.0.0 and 127.0.0.1 do,
/// and no address at all excludes every other (measured on 20.10).
#[derive(Default)]
struct Taken {
    v4: Family,
    v6: Family,
}

#[derive(Default)]
struct Family {
    all: Option<Path>,
    single: HashMap<IpAddr, Path>,
    /// One of `single`.
    any_single: Option<Path>,
}

impl Taken {
    /// Who excludes it; if nobody does, it is taken from now on.
    fn claim(&mut self, addresses: Addresses, path: &Path) -> Option<Path> {
        match addresses {
            Addresses::All => self.v4.claim(None, path).or_else(|| self.v6.claim(None, path)),
            Addresses::AllV4 => self.v4.claim(None, path),
            Addresses::AllV6 => self.v6.claim(None, path),
            Addresses::One(address @ IpAddr::V4(_)) => self.v4.claim(Some(address), path),
            Addresses::One(address @ IpAddr::V6(_)) => self.v6.claim(Some(address), path),
        }
    }
}

impl Family {
    fn claim(&mut self, address: Option<IpAddr>, path: &Path) -> Option<Path> {
        let other = match address {
            None => self.all.as_ref().or(self.any_single.as_ref()),
            Some(address) => self.all.as_ref().or_else(|| self.single.get(&address)),
        };
        if let Some(other) = other {
            return Some(other.clone());
        }
        match address {
            None => self.all = Some(path.clone()),
            Some(address) => {
                self.single.insert(address, path.clone());
                self.any_single.get_or_insert_with(|| path.clone());
            }
        }
        None
    }
}
