//! YAML as it was written: scalars are text, and everything knows its place.

use super::error::{Fault, Position};

/// A scalar, list or map with the place where it begins.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) at: Position,
    pub(super) content: Content,
}

#[derive(Debug, Clone)]
pub(super) enum Content {
    /// The text, and whether it was written without quotes: only then can it be a number, true, or nothing.
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<Node>),
    /// The entries in the order of the text. No key is there twice.
    Map(Vec<Entry>),
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) at: Position,
    pub(super) value: Node,
}

impl Node {
    pub(super) fn new(at: Position, content: Content) -> Self {
        Self { at, content }
    }

    /// Text that stays text.
    pub(super) fn text(at: Position, text: impl Into<String>) -> Self {
        Self::new(at, Content::Scalar { text: text.into(), plain: false })
    }

    /// A scalar without quotes.
    pub(super) fn plain(at: Position, text: impl Into<String>) -> Self {
        Self::new(at, Content::Scalar { text: text.into(), plain: true })
    }

    pub(super) fn null(at: Position) -> Self {
        Self::plain(at, "null")
    }

    pub(super) fn list(at: Position, elements: Vec<Node>) -> Self {
        Self::new(at, Content::List(elements))
    }

    /// A map of entries that stand at the same place; members without a value are left out.
    pub(super) fn members<const N: usize>(at: Position, members: [(&str, Option<Node>); N]) -> Self {
        let entries = members
            .into_iter()
            .filter_map(|(key, value)| Some(Entry { key: key.to_owned(), at, value: value? }))
            .collect();
        Self::new(at, Content::Map(entries))
    }

    /// A map of these entries, unless a key is there twice.
    pub(super) fn map(at: Position, entries: Vec<Entry>) -> Result<Self, Fault> {
        let mut seen = std::collections::HashMap::new();
        for entry in &entries {
            if let Some(first) = seen.insert(entry.key.as_str(), entry.at) {
                return Err(duplicate(&entry.key, first, entry.at));
            }
        }
        Ok(Self::new(at, Content::Map(entries)))
    }

    pub(super) fn scalar(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar { text, .. } if !self.is_null() => Some(text),
            _ => None,
        }
    }

    /// Was nothing given? `key:`, `~` and `null` mean that nothing is declared; `""` is text.
    pub(super) fn is_null(&self) -> bool {
        match &self.content {
            Content::Scalar { text, plain } => {
                *plain && matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL")
            }
            Content::List(_) | Content::Map(_) => false,
        }
    }

    /// Is it an empty map?
    pub(super) fn is_empty_map(&self) -> bool {
        matches!(&self.content, Content::Map(entries) if entries.is_empty())
    }

    pub(super) fn entries(&self) -> &[Entry] {
        match &self.content {
            Content::Map(entries) => entries,
            Content::Scalar { .. } | Content::List(_) => &[],
        }
    }

    pub(super) fn elements(&self) -> &[Node] {
        match &self.content {
            Content::List(elements) => elements,
            Content::Scalar { .. } | Content::Map(_) => &[],
        }
    }

    /// The text of a member.
    pub(super) fn member(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// Do both mean the same, wherever they stand?
    pub(super) fn same(&self, other: &Node) -> bool {
        match (&self.content, &other.content) {
            (Content::Scalar { text, .. }, Content::Scalar { text: others, .. }) => {
                text == others && self.is_null() == other.is_null()
            }
            (Content::List(elements), Content::List(others)) => {
                elements.len() == others.len() && elements.iter().zip(others).all(|(one, two)| one.same(two))
            }
            (Content::Map(entries), Content::Map(others)) => {
                entries.len() == others.len()
                    && entries
                        .iter()
                        .zip(others)
                        .all(|(one, two)| one.key == two.key && one.value.same(&two.value))
            }
            _ => false,
        }
    }

    /// What this is, for messages.
    pub(super) fn found(&self) -> String {
        match &self.content {
            _ if self.is_null() => "nothing".to_owned(),
            Content::Scalar { text, .. } => quoted(text),
            Content::List(_) => "a list".to_owned(),
            Content::Map(_) => "a map".to_owned(),
        }
    }

    /// This node is of another kind than its place can hold.
    pub(super) fn unexpected(&self, expected: &str, remedy: &str) -> Fault {
        Fault::new(self.at, format!("found {}, expected {expected}", self.found()), remedy)
    }
}

/// The same key twice.
pub(super) fn duplicate(key: &str, first: Position, second: Position) -> Fault {
    Fault::new(
        second,
        format!("the key {} is given twice: in line {} and in line {}", quoted(key), first.line, second.line),
        "keep one of them",
    )
}

/// A text as messages show it: in quotes, and not longer than a line.
pub(super) fn quoted(text: &str) -> String {
    const LONGEST: usize = 60;
    if text.chars().count() <= LONGEST {
        return format!("{text:?}");
    }
    let start: String = text.chars().take(LONGEST).collect();
    format!("{:?}", start + "…")
}
