//! Values that may be secrets, kept out of what is said in words.
//!
//! Diffs show secret leaves as hashes. But an engine repeats a volume's options in its error, and a container may print its
//! environment before it dies: in every text that leaves the agent, the module's own secret values are masked.

use plumbline::catalogue::{Shape, rule, shape};
use plumbline::proto::v1::ModuleSpec;
use prost_reflect::{DynamicMessage, ReflectMessage as _, Value};

/// Shorter values are too common in any text (`1`, `yes`) to be told from it.
const SHORTEST: usize = 4;
const MASK: &str = "(secret)";

/// The secret values of a module.
#[derive(Clone, Default)]
pub struct Secrets(Vec<String>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    /// Every value of a leaf that the catalogue calls secret. A value that is a list of `key=value` (mount options) gives
    /// its parts, too: engines rewrite some of them. So does a value of several lines: they are printed apart.
    pub fn of(spec: &ModuleSpec) -> Self {
        let mut values = Vec::new();
        collect(&spec.transcode_to_dynamic(), &mut values);
        let parts: Vec<String> = values
            .iter()
            .flat_map(|value| value.split(',').filter_map(|part| part.split_once('=')))
            .map(|(_, part)| part.to_owned())
            // Of a key or certificate, a container's last lines may be only a part.
            .chain(values.iter().filter(|value| value.contains('\n')).flat_map(|value| lines(value)))
            .collect();
        values.extend(parts);
        values.retain(|value| value.len() >= SHORTEST);
        // The longest first, so that no part of one is left beside a mask.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.dedup();
        Self(values)
    }

    /// The text without the values.
    pub fn mask(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, value| {
            if text.contains(value.as_str()) { text.replace(value.as_str(), MASK) } else { text }
        })
    }
}

fn lines(value: &str) -> Vec<String> {
    value.lines().map(|line| line.trim().to_owned()).collect()
}

fn collect(message: &DynamicMessage, values: &mut Vec<String>) {
    for (field, value) in message.fields() {
        match (shape(&field), value) {
            (Shape::Message(_), Value::Message(inner)) => collect(inner, values),
            (Shape::MessageMap(_), Value::Map(entries)) => {
                entries.values().filter_map(Value::as_message).for_each(|inner| collect(inner, values));
            }
            (Shape::MessageList(_), Value::List(elements)) => {
                elements.iter().filter_map(Value::as_message).for_each(|inner| collect(inner, values));
            }
            (Shape::LeafMap, Value::Map(entries)) if rule(&field).secret => {
                values.extend(entries.values().filter_map(Value::as_str).map(str::to_owned));
            }
            (Shape::Leaf, Value::String(text)) if rule(&field).secret => values.push(text.clone()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use plumbline::proto::v1::{ContainerSpec, VolumeSpec};

    use super::*;

    #[test]
    fn no_secret_value_is_left_in_a_text() {
        let container = ContainerSpec {
            environment: [("PW", "hunter22"), ("N", "1")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            ..ContainerSpec::default()
        };
        let volume = VolumeSpec {
            driver_opts: [("o".to_owned(), "addr=host,cred=S3KRIT".to_owned())].into(),
            ..VolumeSpec::default()
        };
        let spec = ModuleSpec {
            containers: [("c".to_owned(), container)].into(),
            volumes: [("v".to_owned(), volume)].into(),
            ..ModuleSpec::default()
        };
        let secrets = Secrets::of(&spec);
        assert_eq!(secrets.mask("1: PW=hunter22"), "1: PW=(secret)");
        assert_eq!(
            secrets.mask("data: addr=host,cred=S3KRIT: no such device"),
            "data: (secret): no such device"
        );
        assert_eq!(secrets.mask("data: addr=10.0.0.1,cred=S3KRIT"), "data: addr=10.0.0.1,cred=(secret)");
        assert!(!format!("{secrets:?}").contains("hunter22"));
    }
}
