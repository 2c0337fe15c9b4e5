//! Reading back: what the engine shows after a mutation, against what was desired.

use plumbline::catalogue::Path;
use plumbline::diff::{Comparison, LeafChange, SecretHasher, diff, wire_value};
use plumbline::normal::normalise;
use plumbline::proto::v1::Residue;
use prost::Message as _;

use super::{ApplyError, ContainerObject, Host, observe_container};
use crate::container::{Observed, align};
use crate::engine::EngineReader;
use crate::state::KnownResidue;

/// What inspect shows now, and where it differs from what was desired.
pub(super) async fn read_back(
    reader: &EngineReader,
    host: &Host,
    object: &ContainerObject,
    key: &str,
    id: &str,
) -> Result<(Observed, Vec<LeafChange>), ApplyError> {
    let mut observed = observe_container(reader, host, id)
        .await?
        .ok_or_else(|| ApplyError::NotDone(format!("the container {id} is gone")))?;
    let mut desired = object.desired.clone();
    align(&mut desired, &mut observed.spec, object.image_id.as_deref(), &observed.image_id, host.version.api);
    let mut declared = object.declared.clone();
    normalise(&mut declared);
    let comparison = Comparison {
        declared: &declared,
        desired: &desired,
        observed: &observed.spec,
        previous: None,
        as_running: None,
        api: host.version.api,
    };
    let mut changes = diff(&comparison, &Path::default().field("containers").key(key));
    object.network_keys.apply(&mut changes);
    Ok((observed, changes))
}

/// A leaf that the engine reads back differently, as it travels.
pub(super) fn residue_on_wire(change: &LeafChange, hasher: &SecretHasher) -> Residue {
    Residue {
        path: change.path.to_wire(),
        path_text: change.path.to_string(),
        declared: Some(wire_value(change.rule, change.after.as_ref(), hasher)),
        observed: Some(wire_value(change.rule, change.before.as_ref(), hasher)),
    }
}

/// A leaf that the engine reads back differently, as it is remembered.
pub(super) fn residue_of(change: &LeafChange, engine: &str, hasher: &SecretHasher) -> KnownResidue {
    let value = |side| wire_value(change.rule, side, hasher).encode_to_vec();
    let both = [value(change.before.as_ref()), vec![0], value(change.after.as_ref())].concat();
    let text = data_encoding::HEXLOWER.encode(&both);
    KnownResidue { engine: engine.to_owned(), path: change.path.to_string(), fingerprint: hasher.hash(&text) }
}
