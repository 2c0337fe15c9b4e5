//! Paths to leaves: segments on the wire, text for people.

use std::fmt;

use crate::proto::v1::PathSegment;
use crate::proto::v1::path_segment::Step;

/// The path to a leaf: field names, and keys of maps or keyed lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(Vec<Segment>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Field(String),
    Key(String),
}

impl Path {
    /// The path of a member.
    #[must_use]
    pub fn field(&self, name: &str) -> Self {
        self.with(Segment::Field(name.to_owned()))
    }

    /// The path of the element with this key.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.with(Segment::Key(key.to_owned()))
    }

    fn with(&self, segment: Segment) -> Self {
        let mut segments = self.0.clone();
        segments.push(segment);
        Self(segments)
    }

    /// The field at this position, if a field stands there.
    pub fn field_at(&self, index: usize) -> Option<&str> {
        match self.0.get(index) {
            Some(Segment::Field(name)) => Some(name),
            Some(Segment::Key(_)) | None => None,
        }
    }

    /// The key at this position, if a key stands there.
    pub fn key_at(&self, index: usize) -> Option<&str> {
        match self.0.get(index) {
            Some(Segment::Key(key)) => Some(key),
            Some(Segment::Field(_)) | None => None,
        }
    }

    /// The same path with another key at this position.
    #[must_use]
    pub fn with_key_at(&self, index: usize, key: &str) -> Self {
        let mut segments = self.0.clone();
        if let Some(segment @ Segment::Key(_)) = segments.get_mut(index) {
            *segment = Segment::Key(key.to_owned());
        }
        Self(segments)
    }

    /// The segments as they travel.
    pub fn to_wire(&self) -> Vec<PathSegment> {
        self.0
            .iter()
            .map(|segment| {
                let step = match segment {
                    Segment::Field(name) => Step::Field(name.clone()),
                    Segment::Key(key) => Step::Key(key.clone()),
                };
                PathSegment { step: Some(step) }
            })
            .collect()
    }

    /// Is this path, as text, the given one or below it?
    pub fn is_at_or_below(&self, text: &str) -> bool {
        self.to_string()
            .strip_prefix(text)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }
}

/// `containers.web.mounts[/data].source`: the key of one of a module's own maps reads like a field.
impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Field(name) if index == 0 => formatter.write_str(name)?,
                Segment::Field(name) => write!(formatter, ".{name}")?,
                Segment::Key(key) if index == 1 => write!(formatter, ".{key}")?,
                Segment::Key(key) => write!(formatter, "[{key}]")?,
            }
        }
        Ok(())
    }
}
