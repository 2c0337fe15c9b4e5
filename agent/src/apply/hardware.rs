//! Hardware addresses, which engines forget where an endpoint is changed in place.

use plumbline::diff::LeafChange;
use plumbline::proto::v1::path_segment::Step;
use plumbline::proto::v1::{Consequence, Means};
use prost_reflect::DynamicMessage;

/// Engines ignore a hardware address when a container is connected (measured on 20.10, 26.1 and 28.5): where one is
/// declared, the endpoint cannot be changed in place.
pub(super) fn keep_hardware_addresses(
    changes: &mut [LeafChange],
    wanted: &DynamicMessage,
    observed: &DynamicMessage,
) {
    let endpoint = |spec: &DynamicMessage, network: &str| {
        let networks = spec.get_field_by_name("networks")?.into_owned();
        let key = prost_reflect::MapKey::String(network.to_owned());
        networks.as_map()?.get(&key)?.as_message().cloned()
    };
    for change in changes.iter_mut().filter(|change| change.rule.means() == Means::Connect) {
        let path = change.path.to_wire();
        let Some(Step::Key(network)) = path.get(3).and_then(|segment| segment.step.as_ref()) else {
            continue;
        };
        let Some(wanted_endpoint) = endpoint(wanted, network) else { continue };
        let own = wanted_endpoint.has_field_by_name("mac_address");
        let containers = wanted.has_field_by_name("mac_address") && endpoint(observed, network).is_some();
        if (own || containers) && change.consequence == Consequence::InPlace {
            change.consequence = Consequence::Recreate;
        }
    }
}
