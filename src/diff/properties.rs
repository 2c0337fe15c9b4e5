//! What holds of any two specs, whatever is in them. The specs are made from the descriptors and the expectations from
//! the catalogue, so a new field is in these properties from the moment it exists.

use std::fmt;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestRng;
use prost::Message as _;

use super::*;
use crate::any_spec::{any_field, any_message};
use crate::catalogue::{
    container_descriptor, is_string_list, module_descriptor, network_descriptor, volume_descriptor,
};
use crate::normal::normalise;

mod places;

use places::{Place, edit, every_field, path_of, places};

/// A message that is shown as text: one that fails a property is read by people.
#[derive(Clone, PartialEq)]
struct Object(DynamicMessage);

impl fmt::Debug for Object {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {:#}", self.0.descriptor().name(), self.0)
    }
}

impl Object {
    fn of(value: &Value) -> Self {
        Self(value.as_message().expect("a message").clone())
    }

    fn normal(&self) -> Self {
        let mut normal = self.0.clone();
        normalise(&mut normal);
        Self(normal)
    }
}

/// Any container, network or volume.
fn any_object() -> impl Strategy<Value = Object> {
    prop_oneof![
        8 => any_message(&container_descriptor(), false),
        2 => any_message(&network_descriptor(), false),
        1 => any_message(&volume_descriptor(), false),
    ]
    .prop_map(|value| Object::of(&value))
}

/// Two objects of one kind that share some of their fields.
fn any_two() -> impl Strategy<Value = (Object, Object)> {
    let pair = any_object().prop_flat_map(|one| {
        let other = any_message(&one.0.descriptor(), false).prop_map(|other| Object::of(&other));
        (Just(one), other)
    });
    pair.prop_perturb(|(one, mut other), mut rng| {
        for field in one.0.descriptor().fields().filter(|field| one.0.has_field(field)) {
            if rng.random::<bool>() {
                other.0.set_field(&field, one.0.get_field(&field).into_owned());
            }
        }
        (one.normal(), other.normal())
    })
}

fn changes(desired: &Object, observed: &Object) -> Vec<LeafChange> {
    let (desired, observed) = (&desired.0, &observed.0);
    let comparison = Comparison {
        declared: desired,
        desired,
        observed,
        previous: None,
        as_running: None,
        api: ApiVersion::NEWEST,
    };
    diff(&comparison, &Path::default())
}

/// What was and what shall be, in the order of the diff.
fn texts(changes: &[LeafChange]) -> Vec<String> {
    let text = |change: &LeafChange| format!("{}: {:?} -> {:?}", change.path, change.before, change.after);
    changes.iter().map(text).collect()
}

fn is_free(rule: &FieldRule) -> bool {
    matches!(rule.default(), DefaultKind::EngineChoice | DefaultKind::EngineMerged)
}

/// Is the leaf at this path one that `desired` leaves to the engine, by itself or with the list that it is in?
fn is_left_to_engine(desired: &Object, path: &Path) -> bool {
    let mut message = desired.0.clone();
    let mut index = 0;
    while let Some(name) = path.field_at(index) {
        let field = message.descriptor().get_field_by_name(name).expect("a path names fields");
        let key = path.key_at(index + 1);
        index += if key.is_some() { 2 } else { 1 };
        let value = member(&message, &field);
        let there = match (&value, key) {
            (Some(Value::Map(entries)), Some(key)) => entries.get(&MapKey::String(key.to_owned())).cloned(),
            (Some(list @ Value::List(_)), Some(key)) => {
                let Shape::MessageList(element) = shape(&field) else { return false };
                by_key(&element, rule(&field), list).get(key).cloned().map(Value::Message)
            }
            (value, _) => value.clone(),
        };
        // A list is left to the engine as a whole, anything else one by one.
        let absent =
            if matches!(shape(&field), Shape::MessageList(_)) { value.is_none() } else { there.is_none() };
        if absent && is_free(rule(&field)) {
            return true;
        }
        message = match (shape(&field), there) {
            (_, Some(Value::Message(inner))) => inner,
            (Shape::Message(inner) | Shape::MessageMap(inner) | Shape::MessageList(inner), _) => {
                DynamicMessage::new(inner)
            }
            (Shape::Leaf | Shape::LeafMap, _) => return false,
        };
    }
    false
}

/// The same message with everything that has no order in another order.
fn shuffled(message: &DynamicMessage, rng: &mut TestRng) -> DynamicMessage {
    let mut other = DynamicMessage::new(message.descriptor());
    for field in message.descriptor().fields().filter(|field| message.has_field(field)) {
        let value = shuffled_value(rule(&field).order(), message.get_field(&field).into_owned(), rng);
        other.set_field(&field, value);
    }
    other
}

fn shuffled_value(order: Order, value: Value, rng: &mut TestRng) -> Value {
    match value {
        Value::List(values) => {
            let mut values: Vec<Value> =
                values.into_iter().map(|value| shuffled_value(Order::Unspecified, value, rng)).collect();
            if order == Order::Set {
                let again = values[rng.random_range(0..values.len())].clone();
                values.push(again);
            }
            if matches!(order, Order::Set | Order::Keyed) {
                for last in (1..values.len()).rev() {
                    values.swap(last, rng.random_range(0..=last));
                }
            }
            Value::List(values)
        }
        // A new map has a new order.
        Value::Map(entries) => {
            let entry = |(key, value)| (key, shuffled_value(Order::Unspecified, value, rng));
            Value::Map(entries.into_iter().map(entry).collect())
        }
        Value::Message(mut inner) if is_string_list(&inner.descriptor()) => {
            if let Some(values @ Value::List(_)) =
                inner.get_field_by_name("values").map(std::borrow::Cow::into_owned)
                && inner.has_field_by_name("values")
            {
                inner.set_field_by_name("values", shuffled_value(order, values, rng));
            }
            Value::Message(inner)
        }
        Value::Message(inner) if !crate::catalogue::is_duration(&inner.descriptor()) => {
            Value::Message(shuffled(&inner, rng))
        }
        value => value,
    }
}

/// Every list of the catalogue in which position matters, with any elements.
fn any_ordered() -> impl Strategy<Value = (Place, Object)> {
    let ordered: Vec<FieldDescriptor> = every_field(&module_descriptor())
        .into_iter()
        .filter(|field| rule(field).order() == Order::Ordered)
        .collect();
    assert!(ordered.len() > 10, "only {} ordered lists", ordered.len());
    select(ordered).prop_flat_map(|field| {
        let of_field = field.clone();
        proptest::collection::vec(any_field(&field, false), 2..5).prop_map(move |values| {
            let mut message = DynamicMessage::new(of_field.parent_message().clone());
            message.set_field(&of_field, places::joined(&of_field, values));
            (Place::member(&of_field), Object(message).normal())
        })
    })
}

/// An object in normal form, and the same, not in normal form any more, with one leaf edited, added or taken away.
fn any_edit() -> impl Strategy<Value = (Object, Place, Object)> {
    let chosen = (any_object().prop_map(|object| object.normal()), any::<Index>(), any::<Index>(), 0..4_u8);
    let place = chosen.prop_flat_map(|(object, present, absent, kind)| {
        let (there, not_there) = places(&object.0);
        let place = if there.is_empty() || (kind == 0 && !not_there.is_empty()) {
            not_there[absent.index(not_there.len())].clone()
        } else {
            there[present.index(there.len())].clone()
        };
        let value = places::any_value(&place);
        let value = if kind == 1 { Just(None).boxed() } else { value.prop_map(Some).boxed() };
        (Just(object), Just(place), value)
    });
    place.prop_map(|(object, place, value)| {
        let mut edited = object.clone();
        edit(&mut edited.0, &place, value);
        (object, place, edited)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn a_normal_form_is_its_own_and_survives_the_wire(object in any_object()) {
        let once = object.normal();
        prop_assert_eq!(&once.normal(), &once);
        let again = DynamicMessage::decode(once.0.descriptor(), once.0.encode_to_vec().as_slice());
        prop_assert_eq!(Object(again.expect("what was encoded")), once);
    }

    #[test]
    fn nothing_differs_from_itself(object in any_object()) {
        let Object(object) = object.normal();
        for minor in ApiVersion::OLDEST.minor..=ApiVersion::NEWEST.minor {
            for previous in [None, Some(&object)] {
                let comparison = Comparison {
                    declared: &object,
                    desired: &object,
                    observed: &object,
                    previous,
                    as_running: None,
                    api: ApiVersion { major: 1, minor },
                };
                let changes = texts(&diff(&comparison, &Path::default()));
                prop_assert!(changes.is_empty(), "API 1.{}: {:?}", minor, changes);
            }
        }
    }

    /// The one thing that is not mirrored is what the catalogue leaves to the engine: where nobody declares it, what is
    /// there is no change, and where it is declared, that nothing is there is one.
    #[test]
    fn the_way_there_is_the_way_back((one, other) in any_two()) {
        let (there, back) = (changes(&one, &other), changes(&other, &one));
        for change in &there {
            prop_assert_ne!(&change.before, &change.after, "{}", &change.path);
            prop_assert!(!is_left_to_engine(&one, &change.path), "{}", &change.path);
        }
        let mirrored = |changes: Vec<LeafChange>, desired: &Object| {
            let mut changes = changes;
            changes.retain(|change| !is_left_to_engine(desired, &change.path));
            changes
        };
        let (there, mut back) = (mirrored(there, &other), mirrored(back, &one));
        for change in &mut back {
            std::mem::swap(&mut change.before, &mut change.after);
        }
        prop_assert_eq!(texts(&there), texts(&back));
    }

    #[test]
    fn what_has_no_order_may_stand_in_any(
        (object, other) in any_object().prop_perturb(|object, mut rng| {
            let other = Object(shuffled(&object.0, &mut rng));
            (object, other)
        }),
    ) {
        prop_assert_eq!(object.normal(), other.normal());
        prop_assert!(changes(&object.normal(), &other.normal()).is_empty());
    }

    #[test]
    fn what_has_an_order_differs_in_another((list, object) in any_ordered()) {
        let mut other = object.clone();
        let distinct = places::rotate(&mut other.0, &list);
        let found = changes(&other.normal(), &object);
        prop_assert_eq!(!found.is_empty(), distinct, "{:?}", list);
        let at = list.path(&object.0);
        prop_assert!(found.iter().all(|change| places::is_in(&change.path, &at)), "{:?}", texts(&found));
    }

    #[test]
    fn one_edit_is_a_change_there_and_nowhere_else((before, place, edited) in any_edit()) {
        let after = edited.normal();
        let found = changes(&after, &before);
        let at = [path_of(&before.0, &place), path_of(&edited.0, &place)];
        for change in &found {
            prop_assert!(at.iter().any(|at| places::is_in(&change.path, at)), "{} is not in {:?}", change.path, place);
        }
        if before == after {
            prop_assert!(found.is_empty(), "{:?}", texts(&found));
        } else if !places::is_instruction(&place) && !is_left_to_engine(&after, &place.path(&before.0)) {
            prop_assert!(!found.is_empty(), "{:?} was edited", place);
        }
    }
}
