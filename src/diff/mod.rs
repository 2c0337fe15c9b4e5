//! The one walker that compares two specs, leaf by leaf.
//!
//! It knows no field by name: descriptors say which fields there are, rules how each is compared and changed. So a
//! field is compared from the moment it is in the contract, and the diff that is shown is the diff that decides.

mod consequence;
mod wire;

use std::collections::{BTreeMap, BTreeSet};

use prost_reflect::{DynamicMessage, FieldDescriptor, MapKey, MessageDescriptor, ReflectMessage as _, Value};

pub use wire::{SecretHasher, to_wire, wire_value};

use crate::catalogue::{ApiVersion, Path, Shape, rule, shape};
use crate::normal::element_key;
use crate::proto::v1::{Cause, Consequence, Default as DefaultKind, FieldRule, Means, Order};

/// One leaf that differs.
#[derive(Debug, Clone)]
pub struct LeafChange {
    /// Where.
    pub path: Path,
    /// The rule of its field.
    pub rule: &'static FieldRule,
    /// What is there; none: absent.
    pub before: Option<Value>,
    /// What shall be there; none: absent.
    pub after: Option<Value>,
    /// What it takes.
    pub consequence: Consequence,
    /// If this engine cannot hold it: the API version that can.
    pub needs_api: String,
    /// Why it differs.
    pub cause: Cause,
}

/// What is compared. All messages are of one type and in their normal form ([`crate::normal::normalise`]).
#[derive(Debug, Clone, Copy)]
pub struct Comparison<'a> {
    /// What somebody declared.
    pub declared: &'a DynamicMessage,
    /// The declaration with the image's defaults merged in.
    pub desired: &'a DynamicMessage,
    /// What the engine shows.
    pub observed: &'a DynamicMessage,
    /// What was desired when the object was last applied. It tells a changed declaration from a changed container,
    /// and makes a value visible that was taken out of the spec where the engine chooses freely.
    pub previous: Option<&'a DynamicMessage>,
    /// The declaration with the defaults of the image that the object runs, if that is not the declared one: what differs
    /// from `desired` here, another image alone brings.
    pub as_running: Option<&'a DynamicMessage>,
    /// The engine's API version.
    pub api: ApiVersion,
}

/// Every leaf that differs, in the order of the contract.
pub fn diff(comparison: &Comparison<'_>, at: &Path) -> Vec<LeafChange> {
    let mut walker = Walker {
        api: comparison.api,
        was_applied: comparison.previous.is_some(),
        other_image: comparison.as_running.is_some(),
        changes: Vec::new(),
    };
    let sides = Sides {
        declared: Some(comparison.declared),
        desired: Some(comparison.desired),
        observed: Some(comparison.observed),
        previous: comparison.previous,
        as_running: comparison.as_running,
    };
    walker.message(&comparison.desired.descriptor(), sides, at);
    derive_swap(&mut walker.changes, comparison.desired, comparison.observed);
    walker.changes
}

/// A swap limit that is not declared beside a memory limit means twice that limit (all engines measured), and an engine
/// can change to that live. That is what is shown on both sides, and where both mean the same, nothing changes.
fn derive_swap(changes: &mut Vec<LeafChange>, desired: &DynamicMessage, observed: &DynamicMessage) {
    let Some(field) = desired.descriptor().get_field_by_name("memswap_limit") else { return };
    let rule = rule(&field);
    let derived = |side: &DynamicMessage| {
        let memory = side.get_field_by_name("mem_limit").and_then(|value| value.as_i64());
        memory.filter(|memory| *memory > 0).map(|memory| Value::I64(memory.saturating_mul(2)))
    };
    changes.retain_mut(|change| {
        if !std::ptr::eq(rule, change.rule) {
            return true;
        }
        if change.before.is_none() {
            change.before = derived(observed);
        }
        if change.after.is_none()
            && let Some(swap) = derived(desired)
        {
            change.after = Some(swap);
            change.consequence = Consequence::InPlace;
        }
        change.before != change.after
    });
}

/// The five trees at one place; none: not there.
#[derive(Debug)]
struct Sides<'a, T> {
    declared: Option<&'a T>,
    desired: Option<&'a T>,
    observed: Option<&'a T>,
    previous: Option<&'a T>,
    as_running: Option<&'a T>,
}

impl<T> Clone for Sides<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

// By hand: a derived Copy would ask for it from T, too.
impl<T> Copy for Sides<'_, T> {}

impl<'a, T> Sides<'a, T> {
    fn and_then<U>(self, part: impl Fn(&'a T) -> Option<&'a U>) -> Sides<'a, U> {
        Sides {
            declared: self.declared.and_then(&part),
            desired: self.desired.and_then(&part),
            observed: self.observed.and_then(&part),
            previous: self.previous.and_then(&part),
            as_running: self.as_running.and_then(&part),
        }
    }

    fn of<U>(self, part: impl Fn(&'a T) -> U) -> [Option<U>; 5] {
        [
            self.declared.map(&part),
            self.desired.map(&part),
            self.observed.map(&part),
            self.previous.map(&part),
            self.as_running.map(&part),
        ]
    }
}

struct Walker {
    api: ApiVersion,
    /// What was desired at the last apply is known.
    was_applied: bool,
    /// The object runs another image than the declared one.
    other_image: bool,
    changes: Vec<LeafChange>,
}

impl Walker {
    fn message(&mut self, descriptor: &MessageDescriptor, sides: Sides<'_, DynamicMessage>, at: &Path) {
        for field in descriptor.fields() {
            let rule = rule(&field);
            if rule.means() == Means::Instruction {
                continue;
            }
            let [declared, desired, observed, previous, as_running] =
                sides.of(|message| member(message, &field));
            let values = Sides {
                declared: declared.as_ref().and_then(Option::as_ref),
                desired: desired.as_ref().and_then(Option::as_ref),
                observed: observed.as_ref().and_then(Option::as_ref),
                previous: previous.as_ref().and_then(Option::as_ref),
                as_running: as_running.as_ref().and_then(Option::as_ref),
            };
            let at = at.field(field.name());
            match shape(&field) {
                Shape::Leaf => self.leaf(rule, values, &at),
                Shape::LeafMap => {
                    let maps = values.and_then(Value::as_map);
                    for key in keys(maps.desired, maps.observed) {
                        self.leaf(rule, maps.and_then(|map| map.get(&key)), &at.key(&key_text(&key)));
                    }
                }
                Shape::Message(inner) => self.message(&inner, values.and_then(Value::as_message), &at),
                Shape::MessageMap(inner) => {
                    let maps = values.and_then(Value::as_map);
                    for key in keys(maps.desired, maps.observed) {
                        let entries = maps.and_then(|map| map.get(&key)).and_then(Value::as_message);
                        let at = at.key(&key_text(&key));
                        self.presence(rule, entries, &at);
                        self.message(&inner, entries, &at);
                    }
                }
                Shape::MessageList(inner) => self.list(&inner, rule, values, &at),
            }
        }
    }

    fn list(
        &mut self,
        element: &MessageDescriptor,
        rule: &'static FieldRule,
        values: Sides<'_, Value>,
        at: &Path,
    ) {
        if is_engines_own(rule, values) {
            return;
        }
        let lists = values.and_then(|value| value.as_list().map(|_| value));
        let [declared, desired, observed, previous, as_running] =
            lists.of(|value| by_key(element, rule, value));
        let all: BTreeSet<&String> =
            [&desired, &observed].into_iter().flatten().flat_map(BTreeMap::keys).collect();
        for key in all {
            let find = |side: &Option<BTreeMap<String, DynamicMessage>>| {
                side.as_ref().and_then(|map| map.get(key)).cloned()
            };
            let [declared, desired, observed, previous, as_running] =
                [&declared, &desired, &observed, &previous, &as_running].map(find);
            let sides = Sides {
                declared: declared.as_ref(),
                desired: desired.as_ref(),
                observed: observed.as_ref(),
                previous: previous.as_ref(),
                as_running: as_running.as_ref(),
            };
            self.message(element, sides, &at.key(key));
        }
    }

    /// A member of a map may have no leaves at all (a network without options): that it is there is a leaf itself.
    fn presence(&mut self, rule: &'static FieldRule, entries: Sides<'_, DynamicMessage>, at: &Path) {
        let there = Value::Bool(true);
        let flag = |side: Option<&DynamicMessage>| side.map(|_| &there);
        let flags = Sides {
            declared: flag(entries.declared),
            desired: flag(entries.desired),
            observed: flag(entries.observed),
            previous: flag(entries.previous),
            as_running: flag(entries.as_running),
        };
        self.leaf(rule, flags, at);
    }

    fn leaf(&mut self, rule: &'static FieldRule, values: Sides<'_, Value>, at: &Path) {
        if values.desired == values.observed || is_engines_own(rule, values) {
            return;
        }
        let consequence = consequence::consequence(rule, values.desired, self.api);
        let needs_api = match consequence {
            Consequence::Unsupported => consequence::needed_api(rule, values.desired, self.api),
            _ => String::new(),
        };
        self.changes.push(LeafChange {
            path: at.clone(),
            rule,
            before: values.observed.cloned(),
            after: values.desired.cloned(),
            consequence,
            needs_api,
            cause: self.cause(rule, values),
        });
    }

    /// Under the image that it runs, the object is as declared: the other image brings it. The declaration is as it was: a
    /// hand changed it. Else whoever says something new.
    fn cause(&self, rule: &FieldRule, values: Sides<'_, Value>) -> Cause {
        if self.other_image && values.as_running == values.observed {
            return Cause::ImageDefault;
        }
        if self.was_applied && values.previous == values.desired {
            return Cause::ChangedByHand;
        }
        let undeclared_default = values.declared.is_none() && values.desired.is_some();
        if undeclared_default && matches!(rule.default(), DefaultKind::Image | DefaultKind::ImageMerged) {
            // It was declared the last time, and shows again what the image says.
            return if self.was_applied { Cause::Declared } else { Cause::ImageDefault };
        }
        if undeclared_default { Cause::EngineDefault } else { Cause::Declared }
    }
}

/// Nobody declares it, the engine chooses it freely, and it is not the value of an earlier declaration.
fn is_engines_own(rule: &FieldRule, values: Sides<'_, Value>) -> bool {
    let free = matches!(rule.default(), DefaultKind::EngineChoice | DefaultKind::EngineMerged);
    free && values.desired.is_none() && (values.previous.is_none() || values.previous != values.observed)
}

fn member(message: &DynamicMessage, field: &FieldDescriptor) -> Option<Value> {
    message.has_field(field).then(|| message.get_field(field).into_owned())
}

type Entries = std::collections::HashMap<MapKey, Value>;

fn keys(left: Option<&Entries>, right: Option<&Entries>) -> Vec<MapKey> {
    let keys: BTreeMap<String, MapKey> = [left, right]
        .into_iter()
        .flatten()
        .flat_map(Entries::keys)
        .map(|key| (key_text(key), key.clone()))
        .collect();
    keys.into_values().collect()
}

fn key_text(key: &MapKey) -> String {
    key.as_str().map_or_else(|| format!("{key:?}"), str::to_owned)
}

/// The elements by their key. Elements that share a key are told apart by position (`nofile`, `nofile#2`); both
/// sides are sorted by their whole content then, so equal ones meet. Ordered lists have the position as their key.
fn by_key(element: &MessageDescriptor, rule: &FieldRule, list: &Value) -> BTreeMap<String, DynamicMessage> {
    let mut map = BTreeMap::new();
    for (index, message) in
        list.as_list().unwrap_or_default().iter().filter_map(Value::as_message).enumerate()
    {
        let mut key = match rule.order() {
            Order::Keyed => element_key(element, rule, message),
            Order::Ordered | Order::Set | Order::Unspecified => index.to_string(),
        };
        let plain = key.clone();
        let mut count = 1;
        while map.contains_key(&key) {
            count += 1;
            key = format!("{plain}#{count}");
        }
        map.insert(key, message.clone());
    }
    map
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
