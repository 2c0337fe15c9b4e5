//! What is known to differ on an engine that is no Docker, from `podman.yaml`: expected, counted apart, and a failure of
//! the suite once it is no longer so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use plumbline::catalogue::Leaf;
use plumbline::proto::v1::value::Kind;
use plumbline::proto::v1::{ObjectResult, Residue};
use serde::Deserialize;

use crate::report::{CHECKS, Row, Verdict};

const PODMAN: &str = include_str!("podman.yaml");

/// What is known of the engine at hand.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gaps {
    /// Fields that the engine shows with a value where none is declared, and why.
    pub(crate) added: BTreeMap<String, String>,
    /// By leaf: checks, separated by commas, and what the engine does instead.
    pub(crate) leaves: BTreeMap<String, BTreeMap<String, String>>,
    /// The additions that were met.
    #[serde(skip)]
    seen: Mutex<BTreeSet<String>>,
}

impl Gaps {
    /// Docker has none.
    pub(crate) fn of_engine(is_podman: bool) -> Self {
        if !is_podman {
            return Self::default();
        }
        serde_saphyr::from_str(PODMAN).expect("podman.yaml can be read")
    }

    /// A gap of something that is no leaf, or in a check that is none, is a typing error.
    pub(crate) fn refuse_strangers(&self, leaves: &[Leaf]) {
        for (path, checks) in &self.leaves {
            assert!(leaves.iter().any(|leaf| leaf.path == *path), "podman.yaml: {path} is no leaf");
            for check in checks.keys().flat_map(|checks| checks.split(", ")) {
                assert!(CHECKS.contains(&check), "podman.yaml: {path}: {check} is no check");
            }
        }
    }

    /// Fields that read back differently, but for what this engine adds where nothing is declared.
    pub(crate) fn residue(&self, result: &ObjectResult) -> Result<(), String> {
        let differs: Vec<&str> = result
            .residue
            .iter()
            .filter(|residue| !self.is_addition(residue))
            .map(|residue| residue.path_text.as_str())
            .collect();
        if differs.is_empty() {
            Ok(())
        } else {
            Err(format!("read back differently: {}", differs.join(", ")))
        }
    }

    fn is_addition(&self, residue: &Residue) -> bool {
        let declared = residue.declared.as_ref().and_then(|value| value.kind.as_ref());
        let path = residue.path_text.strip_prefix("containers.c.").unwrap_or(&residue.path_text);
        let of_any_element = without_keys(path);
        let Some(known) = [path, &of_any_element].into_iter().find(|path| self.added.contains_key(*path))
        else {
            return false;
        };
        self.seen.lock().expect("no check panics").insert(known.to_owned());
        matches!(declared, None | Some(Kind::Absent(_)))
    }

    /// What the engine is said to add, and no container had.
    pub(crate) fn unseen(&self) -> Vec<String> {
        let seen = self.seen.lock().expect("no check panics");
        let unseen = self.added.keys().filter(|path| !seen.contains(*path));
        unseen.map(|path| format!("{path}: no longer added: take it out of podman.yaml")).collect()
    }

    /// Turns failures that are known into gaps, and gaps that pass into failures.
    pub(crate) fn judge(&self, row: &mut Row) {
        let Some(known) = self.leaves.get(&row.path) else { return };
        for (checks, what) in known {
            for check in checks.split(", ") {
                let verdict = match row.checks.get(check) {
                    Some(Verdict::Fail(found)) => Verdict::Gap {
                        known: what.clone(),
                        found: found.lines().next().unwrap_or_default().to_owned(),
                    },
                    Some(Verdict::Pass(_)) => {
                        Verdict::Fail("no longer a gap: take it out of podman.yaml".to_owned())
                    }
                    other => Verdict::Fail(format!("a gap in podman.yaml that was not looked at: {other:?}")),
                };
                row.set(check, verdict);
            }
        }
        if matches!(row.checks.get("create"), Some(Verdict::Gap { .. })) {
            // What could not be created has no further checks.
            for verdict in row.checks.values_mut() {
                if matches!(verdict, Verdict::Fail(found) if found.starts_with(NOT_REACHED)) {
                    *verdict = Verdict::Gap { known: NOT_REACHED.to_owned(), found: String::new() };
                }
            }
        }
    }
}

/// How the verdict of a check begins that was not done because the container could not be created.
pub(crate) const NOT_REACHED: &str = "not reached";

/// `ports[8080/tcp].published` becomes `ports[].published`.
fn without_keys(path: &str) -> String {
    let mut inside = false;
    let outside = path.chars().filter(|character| {
        let bracket = matches!(character, '[' | ']');
        inside = if bracket { *character == '[' } else { inside };
        bracket || !inside
    });
    outside.collect()
}

#[test]
fn a_known_failure_is_a_gap_and_a_gap_that_passes_is_a_failure() {
    let leaf = plumbline::catalogue::leaves().remove(0);
    let gaps: Gaps = serde_saphyr::from_str(&format!(
        "added: {{}}\nleaves: {{{}: {{\"create, again\": ignored}}}}",
        leaf.path
    ))
    .expect("gaps");
    let mut row = Row::new(&leaf);
    row.set("create", Verdict::Fail("read back differently".to_owned()));
    row.set("again", Verdict::Pass("unchanged".to_owned()));
    row.set("allow", Verdict::Fail(format!("{NOT_REACHED}: it could not be created")));
    row.set("removed", Verdict::Fail("not noticed".to_owned()));
    gaps.judge(&mut row);
    assert!(matches!(&row.checks["create"], Verdict::Gap { known, .. } if known == "ignored"));
    assert!(matches!(&row.checks["again"], Verdict::Fail(detail) if detail.starts_with("no longer a gap")));
    assert!(matches!(&row.checks["allow"], Verdict::Gap { known, .. } if known == NOT_REACHED));
    assert!(matches!(&row.checks["removed"], Verdict::Fail(_)), "a failure that nobody knows stays one");
}

#[test]
fn only_what_is_not_declared_counts_as_added() {
    let gaps: Gaps =
        serde_saphyr::from_str("added: {pids_limit: 2048, \"ports[].published\": chosen}\nleaves: {}")
            .expect("gaps");
    let result = |path: &str, declared: Option<Kind>| ObjectResult {
        residue: vec![Residue {
            path_text: format!("containers.c.{path}"),
            declared: Some(plumbline::proto::v1::Value { kind: declared }),
            ..Residue::default()
        }],
        ..ObjectResult::default()
    };
    gaps.residue(&result("ports[8080/tcp].published", None)).expect("the engine chose it");
    assert_eq!(gaps.unseen(), ["pids_limit: no longer added: take it out of podman.yaml"]);
    gaps.residue(&result("pids_limit", Some(Kind::Int64Value(100))))
        .expect_err("a declared value that was ignored");
    gaps.residue(&result("shm_size", None)).expect_err("nobody knows of it");
}

#[test]
fn the_file_of_gaps_names_leaves_and_checks() {
    Gaps::of_engine(true).refuse_strangers(&plumbline::catalogue::leaves());
}
