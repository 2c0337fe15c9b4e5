//! A container was pasted, and its image was not.
//!
//! Nobody can tell then which of the container's settings are the image's. The rule: whatever an image could have brought
//! is taken to be the image's, as far as nobody declares it. So the image's own environment or command is no difference;
//! what is declared is compared with what runs; and what could not be told apart is counted and named in a note.
//!
//! Engines copy an image's configuration into that of the container, so the container's own configuration is the most
//! that its image can have, and the merge is the one for any image.

use std::collections::BTreeMap;

use plumbline::catalogue::{ApiVersion, Path};
use plumbline::diff::{Comparison, diff};
use plumbline::engine_form::FormError;
use plumbline::normal::normalise;
use plumbline::proto::v1::{Cause, Default as DefaultKind};
use prost_reflect::DynamicMessage;
use serde_json::{Value as Json, json};

use crate::container::{LABEL_PREFIX, desired};

/// The inspect answer of an image that brought everything that it can have brought to this container.
/// `without_entrypoint`: the declaration takes the image's entrypoint away. A container without one is then as declared,
/// whatever the image has.
pub(super) fn assumed_image(container: &Json, without_entrypoint: bool) -> Json {
    let mut config = container["Config"].clone();
    if let Some(labels) = config["Labels"].as_object_mut() {
        labels.retain(|key, _| !key.starts_with(LABEL_PREFIX));
    }
    // Engines expose what is published. That says nothing of the image.
    if let (Some(exposed), Some(published)) =
        (config["ExposedPorts"].as_object_mut(), container["HostConfig"]["PortBindings"].as_object())
    {
        exposed.retain(|port, _| !published.contains_key(port));
    }
    if without_entrypoint && config["Entrypoint"].is_null() {
        config["Entrypoint"] = json!(["whatever the image has"]);
    }
    // The container's inspect shows the operating system, and no more of the platform.
    json!({ "Config": config, "Os": container["Platform"] })
}

/// How many values of each field are the container's, nobody's declaration, and possibly the image's.
pub(super) fn not_told_apart(
    declared: &DynamicMessage,
    container: &Json,
    api: ApiVersion,
) -> Result<BTreeMap<String, usize>, FormError> {
    let mut declared = declared.clone();
    normalise(&mut declared);
    let without = desired(&declared, None)?;
    let with = desired(&declared, Some(&assumed_image(container, false)))?;
    let comparison = Comparison {
        declared: &declared,
        desired: &with,
        observed: &without,
        previous: None,
        as_running: None,
        api,
    };
    let mut fields = BTreeMap::new();
    for change in diff(&comparison, &Path::default()) {
        // A declared value stands, except that a list is one value and the image's elements are added to it.
        if change.cause == Cause::Declared && change.rule.default() != DefaultKind::ImageMerged {
            continue;
        }
        let field = change.path.field_at(0).unwrap_or_default().to_owned();
        // Every mount is several leaves.
        let count =
            if field == "mounts" { usize::from(change.path.field_at(2) == Some("target")) } else { 1 };
        *fields.entry(field).or_default() += count;
    }
    Ok(fields)
}
