//! Requests as a newer client would send them: written by hand, because no type of this build can hold them.

use bytes::Bytes;
use prost::Message;
use prost_reflect::ReflectMessage;

use super::{Unknown, decode_strictly};
use crate::proto::v1::{
    ApplyRequest, ContainerSpec, ModuleServiceBuildRequest, ModuleSpec, Mount, PlanRequest, RecreatePolicy,
};

fn decode<T: Message + ReflectMessage + Default>(bytes: Vec<u8>) -> Result<T, Unknown> {
    decode_strictly(&T::default().descriptor(), Bytes::from(bytes))
}

/// A member of a message: its key on the wire (number and wire type), then what follows it.
fn member(number: u32, wire_type: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    prost::encoding::encode_varint(u64::from(number << 3 | wire_type), &mut bytes);
    bytes.extend_from_slice(content);
    bytes
}

/// A member that is text, octets or a message.
fn delimited(number: u32, content: &[u8]) -> Vec<u8> {
    let mut length = Vec::new();
    prost::encoding::encode_varint(content.len() as u64, &mut length);
    member(number, 2, &[length.as_slice(), content].concat())
}

/// A field that nobody knows.
fn novelty() -> Vec<u8> {
    delimited(9999, b"new")
}

/// A module whose container `web` is these octets.
fn module_with(container: &[u8]) -> Vec<u8> {
    delimited(2, &[delimited(1, b"web"), delimited(2, container)].concat())
}

fn field(message: &str, path: &str) -> Unknown {
    Unknown::Field { message: format!("plumbline.v1.{message}"), number: 9999, path: path.to_owned() }
}

#[test]
fn what_this_build_knows_is_decoded() {
    let mount = Mount { target: Some("/data".to_owned()), ..Mount::default() };
    let container =
        ContainerSpec { command: vec!["hold".to_owned()], mounts: vec![mount], ..Default::default() };
    let spec = ModuleSpec { containers: [("web".to_owned(), container)].into(), ..Default::default() };
    let request = PlanRequest {
        spec: Some(spec),
        revision: 7,
        recreate: RecreatePolicy::Allow.into(),
        ..PlanRequest::default()
    };
    assert_eq!(decode(request.encode_to_vec()), Ok(request));
    assert_eq!(decode(Vec::new()), Ok(PlanRequest::default()));
}

#[test]
fn an_unknown_field_of_any_wire_type_is_refused_by_its_number() {
    let group = [member(9999, 3, &member(1, 0, &[1])), member(9999, 4, &[])].concat();
    for (kind, bytes) in [
        ("varint", member(9999, 0, &[1])),
        ("zero", member(9999, 0, &[0])),
        ("64 bit", member(9999, 1, &[0; 8])),
        ("delimited", novelty()),
        ("group", group),
        ("32 bit", member(9999, 5, &[0; 4])),
    ] {
        assert_eq!(decode::<PlanRequest>(bytes), Err(field("PlanRequest", "")), "{kind}");
    }
}

#[test]
fn an_unknown_field_is_found_wherever_it_stands() {
    let in_mount = delimited(62, &[delimited(2, b"/data"), novelty()].concat());
    let second_mount = [delimited(62, &[]), in_mount].concat();
    for (place, container, expected) in [
        ("in a map's message", novelty(), field("ContainerSpec", "spec.containers[web]")),
        ("in a list's message", second_mount, field("Mount", "spec.containers[web].mounts[1]")),
        (
            "in a wrapped list",
            delimited(19, &novelty()),
            field("StringList", "spec.containers[web].entrypoint"),
        ),
    ] {
        let bytes = delimited(1, &module_with(&container));
        assert_eq!(decode::<PlanRequest>(bytes), Err(expected), "{place}");
    }

    let specs = [delimited(1, &[]), delimited(1, &module_with(&novelty()))].concat();
    assert_eq!(
        decode::<ModuleServiceBuildRequest>(specs),
        Err(field("ContainerSpec", "specs[1].containers[web]"))
    );

    let duration = Unknown::Field {
        message: "google.protobuf.Duration".to_owned(),
        number: 9999,
        path: "spec.containers[web].stop_grace_period".to_owned(),
    };
    let bytes = delimited(1, &module_with(&delimited(27, &novelty())));
    assert_eq!(decode::<PlanRequest>(bytes), Err(duration));
}

/// A message that comes in two pieces is one message: a field of the first piece is not lost.
#[test]
fn an_unknown_field_in_one_of_two_pieces_is_found() {
    let bytes = [delimited(1, &novelty()), delimited(1, &module_with(&[]))].concat();
    assert_eq!(decode::<PlanRequest>(bytes), Err(field("ModuleSpec", "spec")));
}

#[test]
fn an_unknown_enum_value_is_refused() {
    for number in [99, -1] {
        let request = PlanRequest { recreate: number, ..PlanRequest::default() };
        let expected = Unknown::EnumValue {
            enumeration: "plumbline.v1.RecreatePolicy".to_owned(),
            number,
            path: "recreate".to_owned(),
        };
        assert_eq!(decode::<PlanRequest>(request.encode_to_vec()), Err(expected));
    }
    let bytes = delimited(6, &member(3, 0, &[99]));
    let said = decode::<ApplyRequest>(bytes).map_err(|error| error.to_string());
    assert_eq!(
        said,
        Err("`accepted_data[0].verdict` has the value 99, which plumbline.v1.DataGuardVerdict does not have in \
             this version; nothing was touched"
            .to_owned())
    );
}

#[test]
fn what_is_no_message_is_refused() {
    for (fault, bytes) in [
        ("cut short", vec![0x0a, 0x05, 0x01]),
        ("another wire type", member(1, 0, &[1])),
        ("text that is not UTF-8", delimited(1, &delimited(1, &[0xff]))),
    ] {
        assert!(matches!(decode::<PlanRequest>(bytes), Err(Unknown::Malformed(_))), "{fault}");
    }
}
