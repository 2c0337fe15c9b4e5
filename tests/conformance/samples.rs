//! The two values of every leaf, from `samples.yaml`.

use std::collections::BTreeMap;

use plumbline::catalogue::Leaf;
use serde::Deserialize;
use serde_json::Value as Json;

const TEXT: &str = include_str!("samples.yaml");

/// Two values of a leaf, and what else a check must know.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Sample {
    /// What is declared when the field is not.
    pub(crate) base: Json,
    /// One value.
    pub(crate) a: Json,
    /// Another.
    pub(crate) b: Json,
    /// Volumes that the module declares.
    pub(crate) volumes: Json,
    /// The edit changes which element it is, so that its other leaves differ, too.
    pub(crate) whole: bool,
    /// Taking it away brings other leaves along.
    pub(crate) whole_removal: bool,
    /// Files of the container's control groups, as controller/file, and what they hold when `b` is in force.
    pub(crate) cgroup: BTreeMap<String, String>,
    /// How somebody changes it behind our back.
    pub(crate) hand: Json,
    /// What the host must be able to do.
    pub(crate) only_if: String,
    /// Checks that cannot be done, and why.
    pub(crate) exempt: BTreeMap<String, String>,
}

/// All samples, by the leaf's path.
#[derive(Debug)]
pub(crate) struct Samples(BTreeMap<String, Sample>);

impl Samples {
    /// Reads them, with names of this host put in. A sample of something that is no leaf is a typing error, or left from a
    /// field that is gone.
    pub(crate) fn read(leaves: &[Leaf], places: &BTreeMap<String, String>) -> Self {
        let mut samples: BTreeMap<String, Sample> =
            serde_saphyr::from_str(TEXT).expect("samples.yaml can be read");
        for (path, sample) in &mut samples {
            let number = leaves.iter().position(|leaf| leaf.path == *path);
            let number = number.unwrap_or_else(|| panic!("samples.yaml: {path} is no leaf of the catalogue"));
            for value in [&mut sample.base, &mut sample.a, &mut sample.b, &mut sample.volumes] {
                put_in(value, places, &format!("{number:03}"));
            }
        }
        Self(samples)
    }

    /// The sample of a leaf.
    pub(crate) fn of(&self, path: &str) -> Option<&Sample> {
        self.0.get(path)
    }
}

/// Puts names in the places that the texts of a sample have for them.
fn put_in(value: &mut Json, places: &BTreeMap<String, String>, number: &str) {
    match value {
        Json::String(text) => {
            for (place, name) in places {
                *text = text.replace(&format!("{{{place}}}"), name);
            }
            *text = text.replace("{N}", number);
        }
        Json::Array(values) => values.iter_mut().for_each(|value| put_in(value, places, number)),
        Json::Object(entries) => entries.values_mut().for_each(|value| put_in(value, places, number)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// Lays one value over another: maps are merged, all else is replaced.
pub(crate) fn over(below: &Json, above: &Json) -> Json {
    match (below, above) {
        (Json::Object(below), Json::Object(above)) => {
            let mut merged = below.clone();
            for (key, value) in above {
                let value = merged.get(key).map_or_else(|| value.clone(), |own| over(own, value));
                merged.insert(key.clone(), value);
            }
            Json::Object(merged)
        }
        (below, Json::Null) => below.clone(),
        (_, above) => above.clone(),
    }
}
