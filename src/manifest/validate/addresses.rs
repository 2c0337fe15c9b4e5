//! Static addresses: of the right family, out of the network's subnets, each for one container. An engine finds out
//! when the container starts.

use std::collections::HashMap;
use std::net::IpAddr;

use super::{Findings, forms};
use crate::catalogue::Path;
use crate::proto::v1::{Endpoint, ModuleSpec, NetworkSpec};

pub(super) fn check(spec: &ModuleSpec, findings: &mut Findings) {
    let mut taken: HashMap<(&str, IpAddr), Path> = HashMap::new();
    for (container, declared) in &spec.containers {
        for (network, endpoint) in &declared.networks {
            let path = Path::default().field("containers").key(container).field("networks").key(network);
            for (field, address) in static_addresses(endpoint, &path, findings) {
                let path = path.field(field);
                check_subnet(spec.networks.get(network), network, address, &path, findings);
                if let Some(other) = taken.insert((network, address), path.clone()) {
                    let message = format!("{other} is {address}, too");
                    findings.add(&path, message, "give each container an address of its own");
                }
            }
        }
    }
}

/// The addresses that are of their field's family.
fn static_addresses(
    endpoint: &Endpoint,
    path: &Path,
    findings: &mut Findings,
) -> Vec<(&'static str, IpAddr)> {
    let fields = [
        ("ipv4_address", &endpoint.ipv4_address, IpAddr::is_ipv4 as fn(&IpAddr) -> bool, "IPv4", "IPv6"),
        ("ipv6_address", &endpoint.ipv6_address, IpAddr::is_ipv6, "IPv6", "IPv4"),
    ];
    let mut addresses = Vec::new();
    for (field, text, is_of, version, other) in fields {
        // A text that is no address at all is refused by the field's form.
        let Some(Ok(address)) = text.as_ref().map(|text| text.parse::<IpAddr>()) else { continue };
        if is_of(&address) {
            addresses.push((field, address));
        } else {
            let remedy = format!("for {other} there is a field of its own");
            findings.add(&path.field(field), format!("{address} is not an {version} address"), remedy);
        }
    }
    addresses
}

fn check_subnet(
    network: Option<&NetworkSpec>,
    name: &str,
    address: IpAddr,
    path: &Path,
    findings: &mut Findings,
) {
    // Of a network that exists already nothing is known here; one without subnets takes no static address at all.
    let Some(network) = network.filter(|network| network.external != Some(true)) else { return };
    let pools = network.ipam.as_ref().map(|ipam| ipam.config.as_slice()).unwrap_or_default();
    let subnets: Vec<&str> = pools.iter().filter_map(|pool| pool.subnet.as_deref()).collect();
    let ranges: Vec<forms::Range> = subnets.iter().filter_map(|text| forms::range(text)).collect();
    if ranges.len() != pools.len() || ranges.is_empty() {
        return;
    }
    if !ranges.iter().any(|range| range.contains(address)) {
        let remedy = format!("take one out of {}", subnets.join(" or "));
        findings.add(path, format!("{address} is in no subnet of {name}"), remedy);
    }
    let gateways = pools.iter().filter_map(|pool| pool.gateway.as_deref()?.parse::<IpAddr>().ok());
    if gateways.into_iter().any(|gateway| gateway == address) {
        findings.add(path, format!("{address} is the gateway of {name}"), "take another one");
    }
}
