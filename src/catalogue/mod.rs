//! The catalogue of fields: for every field of a spec, the rule by which it is compared and changed.
//!
//! The rules are options in `proto/plumbline/v1/spec.proto`; this folder reads them and knows nothing of its own,
//! except [`EXCLUDED`]: what engines take and Plumbline does not declare, each with the reason.

mod api_version;
mod excluded;
mod leaves;
mod path;

use std::collections::HashMap;
use std::sync::LazyLock;

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor, ReflectMessage as _, Value};

pub use api_version::ApiVersion;
pub use excluded::EXCLUDED;
pub use leaves::{Leaf, leaves};
pub use path::Path;

use crate::proto::DESCRIPTOR_POOL;
use crate::proto::v1::{ContainerSpec, FieldRule, ModuleSpec, NetworkSpec, VolumeSpec};

static RULES: LazyLock<HashMap<String, FieldRule>> = LazyLock::new(|| {
    let extension =
        DESCRIPTOR_POOL.get_extension_by_name("plumbline.v1.rule").expect("the contract defines the rule");
    let mut rules = HashMap::new();
    for field in DESCRIPTOR_POOL.all_messages().flat_map(|message| message.fields().collect::<Vec<_>>()) {
        if let Value::Message(rule) = field.options().get_extension(&extension).as_ref()
            && field.options().has_extension(&extension)
        {
            let rule = rule.transcode_to().expect("the option is of the rule's type");
            rules.insert(field.full_name().to_owned(), rule);
        }
    }
    rules
});

/// The rule of a field of a spec.
///
/// # Panics
/// If the field is not part of a spec: the build refuses a spec field without a rule.
pub fn rule(field: &FieldDescriptor) -> &'static FieldRule {
    RULES
        .get(field.full_name())
        .unwrap_or_else(|| panic!("{} is not a field of a spec: it carries no rule", field.full_name()))
}

/// How the walkers see a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// One value, compared whole: a scalar, a duration, a list of scalars.
    Leaf,
    /// A map from text to values, each compared on its own.
    LeafMap,
    /// A message whose members have rules of their own.
    Message(MessageDescriptor),
    /// A map from text to such messages.
    MessageMap(MessageDescriptor),
    /// A list of such messages.
    MessageList(MessageDescriptor),
}

/// How the walkers see this field.
pub fn shape(field: &FieldDescriptor) -> Shape {
    if field.is_map() {
        let Kind::Message(entry) = field.kind() else { return Shape::Leaf };
        return match inner(&entry.map_entry_value_field().kind()) {
            Some(message) => Shape::MessageMap(message),
            None => Shape::LeafMap,
        };
    }
    match inner(&field.kind()) {
        Some(message) if field.is_list() => Shape::MessageList(message),
        Some(message) => Shape::Message(message),
        None => Shape::Leaf,
    }
}

fn inner(kind: &Kind) -> Option<MessageDescriptor> {
    match kind {
        Kind::Message(message) if !is_duration(message) && !is_string_list(message) => Some(message.clone()),
        _ => None,
    }
}

/// Is it `google.protobuf.Duration`?
pub fn is_duration(message: &MessageDescriptor) -> bool {
    message.full_name() == "google.protobuf.Duration"
}

/// Is it the wrapper of a list whose "declared and empty" differs from "not declared"?
pub fn is_string_list(message: &MessageDescriptor) -> bool {
    message.full_name() == "plumbline.v1.StringList"
}

/// The descriptor of [`ModuleSpec`].
pub fn module_descriptor() -> MessageDescriptor {
    ModuleSpec::default().descriptor()
}

/// The descriptor of [`ContainerSpec`].
pub fn container_descriptor() -> MessageDescriptor {
    ContainerSpec::default().descriptor()
}

/// The descriptor of [`NetworkSpec`].
pub fn network_descriptor() -> MessageDescriptor {
    NetworkSpec::default().descriptor()
}

/// The descriptor of [`VolumeSpec`].
pub fn volume_descriptor() -> MessageDescriptor {
    VolumeSpec::default().descriptor()
}

#[cfg(test)]
mod tests;
