//! The catalogue against the table of every field that engines take.

use std::collections::BTreeSet;

use super::*;

/// `wire_path`, platform and inspect path of every leaf that POST /containers/create accepts in API 1.24 to 1.55.
const TABLE: &str = include_str!("../../tests/data/engine-fields.tsv");

#[test]
fn every_field_that_an_engine_takes_is_a_leaf_or_excluded_with_a_reason() {
    let known: BTreeSet<String> = leaves().into_iter().map(|leaf| leaf.engine_path).collect();
    let excluded: BTreeSet<&str> = EXCLUDED.iter().map(|(path, _)| *path).collect();
    let mut missing = Vec::new();
    for row in TABLE.lines().skip(1) {
        let inspect_path = row.split('\t').nth(2).expect("three columns");
        // Published ports are declared as a list, each element with its container port.
        let inspect_path = match inspect_path {
            "HostConfig.PortBindings" => "HostConfig.PortBindings[].target".to_owned(),
            "NetworkSettings.Networks" => "NetworkSettings.Networks.{}".to_owned(),
            path => path.replace("PortBindings.{}[]", "PortBindings[]"),
        };
        if !known.contains(&inspect_path) && !excluded.contains(inspect_path.as_str()) {
            missing.push(inspect_path);
        }
    }
    assert!(missing.is_empty(), "neither declared nor excluded: {missing:#?}");
}

#[test]
fn nothing_is_both_a_leaf_and_excluded() {
    let known: BTreeSet<String> = leaves().into_iter().map(|leaf| leaf.engine_path).collect();
    for (path, reason) in EXCLUDED {
        assert!(!known.contains(*path), "{path} is a leaf, yet excluded: {reason}");
    }
}

#[test]
fn every_since_is_an_api_version() {
    for leaf in leaves() {
        for text in [&leaf.rule.since, &leaf.rule.until, &leaf.rule.in_place_since] {
            assert!(text.is_empty() || text.parse::<ApiVersion>().is_ok(), "{}: `{text}`", leaf.path);
        }
    }
}

#[test]
fn paths_read_as_in_the_documentation() {
    let path = Path::default().field("containers").key("web").field("mounts").key("/data").field("source");
    assert_eq!(path.to_string(), "containers.web.mounts[/data].source");
    assert!(path.is_at_or_below("containers.web.mounts[/data]"));
    assert!(!path.is_at_or_below("containers.web.mounts[/d"));
}
