//! What else on a host holds on to an object, in words.

use crate::proto::v1::ObjectKind;

/// What else on the host holds on to a network, volume or container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// Who would break if it were replaced or taken away, and why, a clause each. Of a network or volume that left the
    /// declaration: who uses it.
    pub in_the_way: Vec<String>,
    /// What is to be known if it is replaced or taken away, and refuses nothing, a clause each.
    pub to_be_known: Vec<String>,
    /// Of a volume: what it holds.
    pub holds: String,
}

impl Neighbours {
    /// Why an object that is in use is left alone, and what to do.
    pub fn refusal(&self, kind: ObjectKind, name: &str) -> String {
        let why = self.in_the_way.join("; ");
        match kind {
            ObjectKind::Network => {
                format!("the network {name} cannot be made anew: {why}; take that away first, then apply")
            }
            ObjectKind::Volume => format!("the volume {name} is in use: {why}"),
            ObjectKind::Container | ObjectKind::Unspecified => format!(
                "{name} cannot be replaced or removed: {why}; stop or remove that first, and make it anew afterwards"
            ),
        }
    }

    /// Why a volume is not made anew, and what to do.
    pub(super) fn loss(&self, name: &str) -> String {
        let holds = if self.holds.is_empty() { String::new() } else { format!(" ({})", self.holds) };
        format!(
            "the volume {name} differs from its declaration and is never recreated, for all that it holds{holds} would be \
             lost: undo the edit, or declare one under a new key"
        )
    }

    /// What becomes of a volume that left the declaration.
    pub(super) fn kept_volume(&self, name: &str) -> String {
        let users = if self.in_the_way.is_empty() {
            String::new()
        } else {
            // Among them may be a container that this very apply removes, or moves to other data.
            format!(" (used so far by {})", self.in_the_way.join(", "))
        };
        format!(
            "it left the declaration and stays with whatever it holds{users}: no apply removes a volume; if it shall go: docker volume rm {name}"
        )
    }

    /// Why a network that left the declaration stays.
    pub(super) fn kept_network(&self) -> String {
        if self.in_the_way.is_empty() {
            return "it left the declaration: an apply with --recreate removes it".to_owned();
        }
        format!("it left the declaration and stays, for others are attached: {}", self.in_the_way.join(", "))
    }
}
