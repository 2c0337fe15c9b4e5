//! The list of all leaves, for `plumb fields`, the documentation, and tests.

use prost_reflect::{FieldDescriptor, MessageDescriptor};

use super::{Shape, rule, shape};
use crate::proto::v1::{Consequence, FieldRule, FieldSupport, Means};

/// One leaf of the catalogue.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// As `container.healthcheck.interval`; `[]` stands for any element of a list, `[*]` for any key of a map.
    pub path: String,
    /// Where inspect shows it.
    pub engine_path: String,
    /// How it is compared and changed.
    pub rule: &'static FieldRule,
    /// The field.
    pub field: FieldDescriptor,
}

impl Leaf {
    /// Can an engine that speaks this API version hold it?
    pub fn supported_by(&self, api: super::ApiVersion) -> bool {
        let bound = |text: &str| text.parse::<super::ApiVersion>().ok();
        bound(&self.rule.since).is_none_or(|since| since <= api)
            && bound(&self.rule.until).is_none_or(|until| api <= until)
    }

    /// What a change from one value to another takes, on an engine that speaks this API version.
    pub fn consequence(&self, api: super::ApiVersion) -> Consequence {
        let since = self.rule.in_place_since.parse::<super::ApiVersion>().ok();
        let live = since.is_none_or(|since| since <= api);
        match self.rule.means() {
            Means::Instruction | Means::Unspecified => Consequence::Unspecified,
            _ if !self.supported_by(api) => Consequence::Unsupported,
            Means::Update | Means::Rename | Means::Connect if live => Consequence::InPlace,
            Means::Update | Means::Rename | Means::Connect | Means::Recreate => Consequence::Recreate,
        }
    }

    /// The leaf as it travels.
    pub fn to_wire(&self, api: Option<super::ApiVersion>) -> FieldSupport {
        FieldSupport {
            path: self.path.clone(),
            engine_path: self.engine_path.clone(),
            rule: Some(self.rule.clone()),
            supported: api.is_none_or(|api| self.supported_by(api)),
            consequence: self.consequence(api.unwrap_or(super::ApiVersion::NEWEST)).into(),
        }
    }
}

/// Every leaf of the container, network and volume specs, in the order of the contract.
pub fn leaves() -> Vec<Leaf> {
    let mut leaves = Vec::new();
    collect("container", "", &super::container_descriptor(), &mut leaves);
    collect("network", "", &super::network_descriptor(), &mut leaves);
    collect("volume", "", &super::volume_descriptor(), &mut leaves);
    leaves
}

fn collect(path: &str, engine_path: &str, message: &MessageDescriptor, leaves: &mut Vec<Leaf>) {
    for field in message.fields() {
        let rule = rule(&field);
        let path = format!("{path}.{}", field.name());
        let engine_path = match (engine_path.is_empty(), rule.engine_path.is_empty()) {
            (_, true) => String::new(),
            (true, false) => rule.engine_path.clone(),
            (false, false) => format!("{engine_path}.{}", rule.engine_path),
        };
        match shape(&field) {
            Shape::Message(inner) => collect(&path, &engine_path, &inner, leaves),
            Shape::MessageList(inner) => {
                collect(&format!("{path}[]"), &format!("{engine_path}[]"), &inner, leaves);
            }
            Shape::MessageMap(inner) => {
                if rule.means() == Means::Connect {
                    leaves.push(Leaf {
                        path: format!("{path}[*]"),
                        engine_path: format!("{engine_path}.{{}}"),
                        rule,
                        field: field.clone(),
                    });
                }
                collect(&format!("{path}[*]"), &format!("{engine_path}.{{}}"), &inner, leaves);
            }
            Shape::Leaf => leaves.push(Leaf { path, engine_path, rule, field }),
            Shape::LeafMap => leaves.push(Leaf { path: format!("{path}[*]"), engine_path, rule, field }),
        }
    }
}
