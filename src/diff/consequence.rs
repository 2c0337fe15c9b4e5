//! What it takes to make a change true: the rule of the field against the engine's version and the new value.

use prost_reflect::Value;

use crate::catalogue::ApiVersion;
use crate::proto::v1::{Consequence, FieldRule, Means};

/// The consequence of bringing a leaf to `after` (none: taking it away) on an engine that speaks `api`.
pub(super) fn consequence(rule: &FieldRule, after: Option<&Value>, api: ApiVersion) -> Consequence {
    let bound = |text: &str| text.parse::<ApiVersion>().ok();
    let too_old = bound(&rule.since).is_some_and(|since| api < since);
    let too_new = bound(&rule.until).is_some_and(|until| until < api);
    if after.is_some() && (too_old || too_new || value_too_new(rule, after, api).is_some()) {
        return Consequence::Unsupported;
    }
    match rule.means() {
        Means::Update | Means::Rename | Means::Connect => {
            let not_live_yet = bound(&rule.in_place_since).is_some_and(|since| api < since);
            let cannot_be_taken_away = rule.means() == Means::Update && after.is_none() && !rule.removable;
            let below_minimum =
                after.and_then(Value::as_i64).is_some_and(|value| value < rule.in_place_minimum);
            if not_live_yet || cannot_be_taken_away || (rule.in_place_minimum != 0 && below_minimum) {
                Consequence::Recreate
            } else {
                Consequence::InPlace
            }
        }
        // The build refuses a rule without means; an instruction is never compared.
        Means::Recreate | Means::Instruction | Means::Unspecified => Consequence::Recreate,
    }
}

/// The engine API version that a value needs, if this engine is older.
fn value_too_new<'a>(rule: &'a FieldRule, after: Option<&Value>, api: ApiVersion) -> Option<&'a str> {
    let value = after?.as_str()?;
    let (_, since) =
        rule.value_since.iter().filter_map(|entry| entry.split_once('=')).find(|(name, _)| *name == value)?;
    since.parse().is_ok_and(|since: ApiVersion| api < since).then_some(since)
}

/// The engine API version that an unsupported leaf needs, in words.
pub(super) fn needed_api(rule: &FieldRule, after: Option<&Value>, api: ApiVersion) -> String {
    match value_too_new(rule, after, api) {
        Some(since) => since.to_owned(),
        None if rule.since.is_empty() => format!("up to {}", rule.until),
        None => rule.since.clone(),
    }
}
