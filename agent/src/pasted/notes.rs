//! What could not be compared or was assumed, in sentences.

use std::collections::{BTreeMap, BTreeSet};

use plumbline::plan::Standing;
use plumbline::proto::v1::ObjectKind;

use super::PastedError;
use super::pair::Why;
use super::plan::One;
use super::unknown_image::not_told_apart;
use crate::apply::{Detail, Gathered, Host};

/// Docker Compose's own labels begin so.
const COMPOSE_LABELS: &str = "com.docker.compose.";

impl One<'_> {
    pub(super) fn notes_on_pairs(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.is_api_assumed {
            notes.push(format!("compared as for engine API {}; --engine-api says another", self.api));
        }
        for (key, matched) in &self.matched {
            let name = &matched.name;
            match matched.why {
                Why::OnlyOne => {
                    notes.push(format!("{name} is compared with {key}: no other is left on either side"));
                }
                Why::Service => {
                    notes
                        .push(format!("{name} is compared with {key}: it is Docker Compose's service {key}"));
                }
                Why::Labels | Why::Name | Why::Asked => {}
            }
            let whose = match &matched.owner {
                _ if self.is_ours(matched) => continue,
                Some((module, key)) => format!("bears the labels of container {key} of module {module}"),
                None => "bears no label of Plumbline".to_owned(),
            };
            notes.push(format!(
                "{name} {whose}: it is compared as if it were adopted (`plumb take`); unless it was, no apply touches it"
            ));
        }
        notes
    }

    /// What is not known for want of an image, in one note for each way of not knowing.
    pub(super) fn notes_on_images(&self, objects: &[Gathered]) -> Result<Vec<String>, PastedError> {
        let (mut any_assumed, mut assumed, mut by_name) = (false, Vec::new(), Vec::new());
        let mut images = BTreeSet::new();
        for object in objects {
            let Detail::Container(container) = &object.detail else { continue };
            let (None, Some(observed)) = (&container.image_id, &container.observed) else { continue };
            images.insert(container.image.as_str());
            let key = &object.facts.key;
            if self.pasted.find_image(&observed.image_id).is_some() {
                by_name.push(key.clone());
                continue;
            }
            let Some(inspect) = self.pasted.find_container(&observed.id) else { continue };
            let fields = not_told_apart(&container.declared, inspect, self.api)
                .map_err(|error| self.failed(error.into()))?;
            any_assumed = true;
            if !fields.is_empty() {
                assumed.push(format!("{key}: {}", counted(&fields)));
            }
        }
        let complete = format!(
            "for a whole comparison add `docker image inspect {}`",
            images.into_iter().collect::<Vec<_>>().join(" ")
        );
        let mut notes = Vec::new();
        if any_assumed {
            let only_by_name = "the image itself was compared by its name only";
            let what = match assumed.as_slice() {
                [] => only_by_name.to_owned(),
                assumed => format!(
                    "what nobody declares and the image may have brought was not compared ({}), and {only_by_name}",
                    assumed.join("; ")
                ),
            };
            notes.push(format!("without the image in {} {what}; {complete}", self.pasted.files));
        }
        if !by_name.is_empty() {
            notes.push(format!(
                "the declared image of {} is not in {}: it was compared by its name only, with the defaults of the image that \
                 runs; {complete}",
                by_name.join(", "),
                self.pasted.files
            ));
        }
        Ok(notes)
    }

    pub(super) fn notes_on_the_host(&self, host: &Host) -> Option<String> {
        let (container, _) = self.host_name()?;
        Some(format!(
            "{container} is in the host's network: {} was taken for the host's own name, which is not known",
            host.host_name
        ))
    }

    /// Networks and volumes stand in no container's inspect: that they were not pasted does not mean that they are missing.
    pub(super) fn leave_out_what_is_not_there(&self, objects: &mut Vec<Gathered>) -> Option<String> {
        let mut names = Vec::new();
        objects.retain(|object| {
            let facts = &object.facts;
            let word = match facts.kind {
                ObjectKind::Network => "network",
                ObjectKind::Volume => "volume",
                ObjectKind::Container | ObjectKind::Unspecified => return true,
            };
            let is_there = !matches!(facts.standing, Standing::Absent | Standing::ExternalMissing);
            if !is_there {
                names.push(format!("{word} {}", facts.engine_name));
            }
            is_there
        });
        (!names.is_empty()).then(|| {
            format!(
                "not compared, for they are not in {}: {} (`docker network inspect`, `docker volume inspect`)",
                self.pasted.files,
                names.join(", ")
            )
        })
    }
}

/// Docker Compose writes labels of its own into every container that it makes. They are labels like any other.
pub(super) fn notes_on_compose(objects: &[Gathered]) -> Option<String> {
    let mut containers = BTreeMap::new();
    for object in objects {
        let is_composes = |key: Option<&str>| key.is_some_and(|key| key.starts_with(COMPOSE_LABELS));
        let changes = object.facts.changes.iter();
        let changes = changes.filter(|change| change.path.field_at(2) == Some("labels"));
        let count = changes.filter(|change| is_composes(change.path.key_at(3))).count();
        if object.facts.kind == ObjectKind::Container && count > 0 {
            containers.insert(object.facts.key.clone(), count);
        }
    }
    let one = containers.keys().next()?;
    Some(format!(
        "Docker Compose's own labels ({COMPOSE_LABELS}*) are a difference like any other ({}): on a node `plumb take` writes a \
         manifest that equals the container, labels included; or leave them out, as \
         `ignore_paths: [\"containers.{one}.labels[{COMPOSE_LABELS}project]\"]`, a path for each",
        containers.iter().map(|(key, count)| format!("{key} {count}")).collect::<Vec<_>>().join(", ")
    ))
}

/// `3 values: command, environment 2`.
pub(super) fn counted(fields: &BTreeMap<String, usize>) -> String {
    let all: usize = fields.values().sum();
    let word = if all == 1 { "value" } else { "values" };
    let fields: Vec<String> = fields
        .iter()
        .map(|(field, count)| if *count == 1 { field.clone() } else { format!("{field} {count}") })
        .collect();
    format!("{all} {word}: {}", fields.join(", "))
}
