//! References to containers that were not pasted.
//!
//! A shared namespace is shown by the other container's id. An agent asks the engine for its name; text can do that only
//! if that container is in it, too. Without it nobody knows whether the declared name means that id, so the value is left
//! out, counted, and said in a note.

use std::collections::{BTreeMap, BTreeSet};

use plumbline::catalogue::Path;
use prost_reflect::DynamicMessage;
use serde_json::Value as Json;

use super::Pasted;
use super::notes::counted;
use crate::apply::{Detail, Gathered};

/// Fields that can be `container:<other>`, and where inspect shows them.
const NAMESPACES: [(&str, &str); 3] =
    [("network_mode", "NetworkMode"), ("ipc", "IpcMode"), ("pid", "PidMode")];
/// How many digits an id has.
const ID: usize = 64;
/// The fewest digits of an id that are taken for one.
const SHORT_ID: usize = 12;

/// The ids of the containers whose namespaces this one shares.
pub(super) fn shared_ids(container: &Json) -> impl Iterator<Item = &str> {
    NAMESPACES.into_iter().filter_map(|(_, member)| shared_id(container, member))
}

fn shared_id<'a>(container: &'a Json, member: &str) -> Option<&'a str> {
    container["HostConfig"][member].as_str()?.strip_prefix("container:")
}

/// Takes out what cannot be compared. One note for each container that has such values.
pub(super) fn leave_out_unknown(pasted: &Pasted, objects: &mut [Gathered]) -> Vec<String> {
    let mut notes = Vec::new();
    for object in objects {
        let Detail::Container(container) = &object.detail else { continue };
        let Some(observed) = &container.observed else { continue };
        let Some(inspect) = pasted.find_container(&observed.id) else { continue };
        let at = Path::default().field("containers").key(&object.facts.key);
        let (mut fields, mut unknown) = (BTreeMap::new(), BTreeSet::new());
        object.facts.changes.retain(|change| {
            let Some(field) = change.path.field_at(2) else { return true };
            let other = match NAMESPACES.iter().find(|(name, _)| *name == field) {
                Some((_, member)) => unknown_namespace(pasted, &container.declared, inspect, field, member),
                None if field == "links" => unknown_link(pasted, &container.declared),
                None => None,
            };
            let Some(other) = other.filter(|_| change.path.is_at_or_below(&at.field(field).to_string()))
            else {
                return true;
            };
            unknown.insert(other.get(..SHORT_ID).unwrap_or(&other).to_owned());
            *fields.entry(field.to_owned()).or_insert(0) += 1;
            false
        });
        if !fields.is_empty() {
            let unknown = unknown.into_iter().collect::<Vec<_>>().join(" ");
            notes.push(format!(
                "{} was not compared where it names a container by an id that is not in {} ({}): add `docker inspect {unknown}`",
                object.facts.key,
                pasted.files(),
                counted(&fields)
            ));
        }
    }
    notes
}

/// The container in whose namespace this one is, if it is not known whether that is the declared one.
fn unknown_namespace(
    pasted: &Pasted,
    declared: &DynamicMessage,
    inspect: &Json,
    field: &str,
    member: &str,
) -> Option<String> {
    let id = shared_id(inspect, member).filter(|id| pasted.find_container(id).is_none())?;
    let mode = declared.get_field_by_name(field)?.as_str()?.to_owned();
    let target = mode.strip_prefix("container:")?;
    // Another whole id, and a container that is there under another id, are known to differ.
    let is_another = is_id(target, ID) || pasted.find_container(target).is_some();
    (!is_another).then(|| id.to_owned())
}

/// Links are shown by name. One that is declared by an id has none here.
fn unknown_link(pasted: &Pasted, declared: &DynamicMessage) -> Option<String> {
    let links = declared.get_field_by_name("links")?;
    let targets = links.as_list()?.iter().filter_map(|link| link.as_str()?.split(':').next());
    let mut unknown = targets.filter(|name| is_id(name, SHORT_ID) && pasted.find_container(name).is_none());
    unknown.next().map(str::to_owned)
}

fn is_id(text: &str, digits: usize) -> bool {
    text.len() >= digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
