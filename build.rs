//! Compiles `proto/` without protoc, refuses a spec field that carries no rule, and generates the Rust types.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message as _;
use prost_reflect::{
    Cardinality, DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, Value,
};

const FILES: [&str; 6] = ["options", "spec", "diff", "agent", "controller", "node"];
const ROOT: &str = "plumbline.v1.ModuleSpec";
const RULE: &str = "plumbline.v1.rule";

fn main() {
    println!("cargo::rerun-if-changed=proto");
    let files: Vec<String> = FILES.iter().map(|name| format!("proto/plumbline/v1/{name}.proto")).collect();
    let pool = protox::Compiler::new(["proto"])
        .and_then(|mut compiler| {
            compiler.include_source_info(true).include_imports(true).open_files(&files)?;
            Ok(compiler.descriptor_pool())
        })
        .unwrap_or_else(|error| fail(&[format!("{error:?}")]));

    let faults = check_rules(&pool);
    if !faults.is_empty() {
        fail(&faults);
    }

    // The pool's own encoding keeps the custom options; prost's FileDescriptorSet would drop them.
    let encoded = pool.encode_to_vec();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("descriptors.bin"), &encoded).expect("OUT_DIR can be written");

    let mut config = prost_build::Config::new();
    config.btree_map(["."]);
    for message in pool.all_messages().filter(|message| message.package_name() == "plumbline.v1") {
        if message.is_map_entry() {
            continue;
        }
        let name = message.full_name();
        config.type_attribute(name, "#[derive(::prost_reflect::ReflectMessage)]");
        config.type_attribute(
            name,
            format!(
                "#[prost_reflect(message_name = \"{name}\", descriptor_pool = \"crate::proto::DESCRIPTOR_POOL\")]"
            ),
        );
    }
    let descriptors = prost_types::FileDescriptorSet::decode(encoded.as_slice())
        .expect("the pool encodes a descriptor set");
    tonic_prost_build::configure()
        .codec_path("crate::strict::StrictCodec")
        .compile_fds_with_config(descriptors, config)
        .expect("the Rust types can be generated");
}

fn fail(faults: &[String]) -> ! {
    for fault in faults {
        println!("cargo::error={}", fault.replace('\n', " "));
        eprintln!("{fault}");
    }
    std::process::exit(1)
}

/// Every field reachable from a module's spec must carry a rule that can be followed.
fn check_rules(pool: &DescriptorPool) -> Vec<String> {
    let root = pool.get_message_by_name(ROOT).expect("the spec is part of the contract");
    let rule = pool.get_extension_by_name(RULE).expect("the rule is part of the contract");
    let (mut faults, mut seen, mut todo) = (Vec::new(), BTreeSet::new(), vec![root]);
    while let Some(message) = todo.pop() {
        if !seen.insert(message.full_name().to_owned()) {
            continue;
        }
        for field in message.fields() {
            let options = field.options();
            let value = options.get_extension(&rule);
            let fault = match value.as_ref() {
                Value::Message(rule_message) if options.has_extension(&rule) => {
                    check_rule(&field, rule_message)
                }
                _ => Some("carries no (plumbline.v1.rule): say how it is compared and changed".to_owned()),
            };
            if let Some(fault) = fault {
                faults.push(format!("spec field {} {fault}", field.full_name()));
            }
            todo.extend(element(&field));
        }
    }
    faults
}

/// The message whose members carry rules of their own, if the field holds one.
fn element(field: &FieldDescriptor) -> Option<MessageDescriptor> {
    let kind = match field.kind() {
        Kind::Message(entry) if field.is_map() => entry.map_entry_value_field().kind(),
        kind => kind,
    };
    match kind {
        Kind::Message(message)
            if message.full_name() != "google.protobuf.Duration"
                && message.full_name() != "plumbline.v1.StringList" =>
        {
            Some(message)
        }
        _ => None,
    }
}

fn check_rule(field: &FieldDescriptor, rule: &DynamicMessage) -> Option<String> {
    let text = |name: &str| rule.get_field_by_name(name).and_then(|value| value.as_str().map(str::to_owned));
    let number = |name: &str| rule.get_field_by_name(name).and_then(|value| value.as_enum_number());
    let means = number("means").unwrap_or_default();
    let order = number("order").unwrap_or_default();
    let instruction = means == 5;
    if means == 0 {
        return Some("has a rule without `means`".to_owned());
    }
    if !instruction && text("engine_path").unwrap_or_default().is_empty() {
        return Some("has a rule without `engine_path`".to_owned());
    }
    let plural = field.is_list() || field.is_map();
    if plural && order == 0 {
        return Some("is a list or map, and its rule has no `order`".to_owned());
    }
    if !plural && field.cardinality() != Cardinality::Repeated && !field.supports_presence() {
        return Some(
            "is a scalar that is not `optional`: not declared could not be told from zero".to_owned(),
        );
    }
    if field.is_list() && order == 3 {
        let keys = rule.get_field_by_name("key");
        let keys = keys.as_ref().and_then(|value| value.as_list()).unwrap_or_default();
        let Some(element) = element(field) else {
            return Some("is keyed, but its elements have no members".to_owned());
        };
        if keys.is_empty() {
            return Some("is a keyed list, and its rule names no `key`".to_owned());
        }
        for key in keys.iter().filter_map(Value::as_str) {
            if element.get_field_by_name(key).is_none() {
                return Some(format!("is keyed by `{key}`, which {} does not have", element.full_name()));
            }
        }
    }
    let unit = number("unit").unwrap_or_default();
    let duration =
        matches!(field.kind(), Kind::Message(message) if message.full_name() == "google.protobuf.Duration");
    if duration != matches!(unit, 2 | 3) {
        return Some("must be a Duration in nanoseconds or seconds, or neither".to_owned());
    }
    None
}
