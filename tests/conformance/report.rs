//! What was found, for programs and for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use plumbline::catalogue::{ApiVersion, EXCLUDED, Leaf};
use plumbline::proto::v1::{Default as DefaultKind, Means};
use serde::{Deserialize, Serialize};

/// The six checks, in order.
pub(crate) const CHECKS: [&str; 6] = ["create", "again", "refuse", "allow", "removed", "by_hand"];

/// What a check came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "verdict", content = "detail")]
pub(crate) enum Verdict {
    /// It holds.
    Pass(String),
    /// It does not.
    Fail(String),
    /// It cannot be done here, and why.
    Exempt(String),
}

/// One leaf.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Row {
    /// Its path.
    pub(crate) path: String,
    /// Where inspect shows it.
    pub(crate) engine_path: String,
    /// What a change of it takes, by the catalogue.
    pub(crate) consequence: String,
    /// Since which engine API.
    pub(crate) since: String,
    /// Each check.
    pub(crate) checks: BTreeMap<String, Verdict>,
}

impl Row {
    pub(crate) fn new(leaf: &Leaf) -> Self {
        let consequence = match leaf.rule.means() {
            Means::Update | Means::Rename | Means::Connect => "in place",
            Means::Recreate => "needs recreation",
            Means::Instruction => "not compared",
            Means::Unspecified => "",
        };
        Self {
            path: leaf.path.clone(),
            engine_path: leaf.engine_path.clone(),
            consequence: consequence.to_owned(),
            since: leaf.rule.since.clone(),
            checks: BTreeMap::new(),
        }
    }

    pub(crate) fn set(&mut self, check: &str, verdict: Verdict) {
        self.checks.insert(check.to_owned(), verdict);
    }

    /// The same verdict for every check that has none yet.
    pub(crate) fn all(&mut self, verdict: &Verdict) {
        for check in CHECKS {
            self.checks.entry(check.to_owned()).or_insert_with(|| verdict.clone());
        }
    }
}

/// All leaves on one engine.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) engine: String,
    pub(crate) api: String,
    /// The engine speaks a newer version, and was asked in this one.
    #[serde(default)]
    pub(crate) asked_older: bool,
    pub(crate) rows: Vec<Row>,
}

impl Report {
    fn folder() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/conformance")
    }

    pub(crate) fn write(&self) {
        std::fs::create_dir_all(Self::folder()).expect("target/ can be written");
        let text = serde_json::to_string_pretty(self).expect("a report is JSON");
        let name = if self.asked_older { format!("{}-api{}", self.short(), self.api) } else { self.short() };
        std::fs::write(Self::folder().join(format!("{name}.json")), text).expect("target/ can be written");
        if std::env::var_os("PLUMBLINE_DOCS").is_some() {
            let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/fields.md");
            std::fs::write(docs, Self::document()).expect("docs/ can be written");
        }
    }

    /// The engine's version without the distribution's part.
    fn short(&self) -> String {
        self.engine.split(['+', '-']).next().unwrap_or(&self.engine).to_owned()
    }

    /// Where a run of the same engine through an older API version came to another verdict than one through its newest,
    /// other than that a field is unsupported there.
    pub(crate) fn differs_from_newest(&self, leaves: &[Leaf], api: ApiVersion) -> Vec<String> {
        let path = Self::folder().join(format!("{}.json", self.short()));
        let newest = std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        let Some(newest) = newest else {
            return vec![format!(
                "{} is not there: run it without PLUMBLINE_ENGINE_API first",
                path.display()
            )];
        };
        let mut differing = Vec::new();
        for leaf in leaves.iter().filter(|leaf| leaf.supported_by(api)) {
            let row = |report: &Self| report.rows.iter().find(|row| row.path == leaf.path).cloned();
            let (Some(here), Some(there)) = (row(self), row(&newest)) else {
                differing.push(format!("{} has no row in both reports", leaf.path));
                continue;
            };
            for check in CHECKS {
                let (here, there) = (&here.checks[check], &there.checks[check]);
                if std::mem::discriminant(here) != std::mem::discriminant(there) {
                    differing.push(format!("{}: {check}: {here:?}, through the newest {there:?}", leaf.path));
                }
            }
        }
        differing
    }

    pub(crate) fn failures(&self) -> Vec<String> {
        let failed = |row: &Row| {
            let path = row.path.clone();
            let text = move |(check, verdict): (&String, &Verdict)| match verdict {
                Verdict::Fail(detail) => Some(format!("{path}: {check}: {detail}")),
                Verdict::Pass(_) | Verdict::Exempt(_) => None,
            };
            row.checks.iter().filter_map(text).collect::<Vec<_>>()
        };
        self.rows.iter().flat_map(failed).collect()
    }

    fn count(&self, wanted: fn(&Verdict) -> bool) -> usize {
        self.rows.iter().flat_map(|row| row.checks.values()).filter(|verdict| wanted(verdict)).count()
    }

    pub(crate) fn passed(&self) -> usize {
        self.count(|verdict| matches!(verdict, Verdict::Pass(_)))
    }

    pub(crate) fn summary(&self) -> String {
        let asked = if self.asked_older { "asked through API" } else { "API" };
        format!(
            "engine {} ({asked} {}): {} leaves, {} checks passed, {} failed, {} exempt",
            self.engine,
            self.api,
            self.rows.len(),
            self.count(|verdict| matches!(verdict, Verdict::Pass(_))),
            self.count(|verdict| matches!(verdict, Verdict::Fail(_))),
            self.count(|verdict| matches!(verdict, Verdict::Exempt(_))),
        )
    }

    /// The page for people, from the reports of every engine that is there.
    fn document() -> String {
        let mut reports: Vec<Self> = std::fs::read_dir(Self::folder())
            .into_iter()
            .flatten()
            .filter_map(|entry| serde_json::from_slice(&std::fs::read(entry.ok()?.path()).ok()?).ok())
            .collect();
        reports.sort_by_key(|report| (report.engine.clone(), report.asked_older));
        let mut text = String::from(
            "# Fields\n\nWritten by the conformance suite (`tests/conformance`); do not edit.\n\n\
             For every leaf that two values can be given to, the suite creates a container with the first, applies it \
             again (nothing may differ), takes the field away (it must be noticed), applies the second value without and \
             with permission to recreate (in place or refused, then read back), and changes it by hand where a hand can.\n\n",
        );
        for report in &reports {
            let _ = writeln!(text, "- {}", report.summary());
        }
        let _ = writeln!(text, "\n| field | a change | since API | default | engine path | proven on |");
        let _ = writeln!(text, "| --- | --- | --- | --- | --- | --- |");
        let leaves = plumbline::catalogue::leaves();
        for leaf in &leaves {
            let row = Row::new(leaf);
            let default = match leaf.rule.default() {
                DefaultKind::Unspecified if leaf.rule.engine_default.is_empty() => "none".to_owned(),
                DefaultKind::Unspecified => format!("`{}`", leaf.rule.engine_default),
                DefaultKind::Image => "the image's".to_owned(),
                DefaultKind::ImageMerged => "merged with the image's".to_owned(),
                DefaultKind::EngineChoice => "the engine's choice".to_owned(),
                DefaultKind::EngineMerged => "merged with the engine's".to_owned(),
            };
            let since = if row.since.is_empty() { "any" } else { &row.since };
            let newest = reports.iter().filter(|report| !report.asked_older);
            let proven: Vec<String> = newest.filter_map(|report| proven(report, &row.path)).collect();
            let _ = writeln!(
                text,
                "| `{}` | {} | {since} | {default} | `{}` | {} |",
                row.path,
                row.consequence,
                row.engine_path,
                proven.join("; ")
            );
        }
        let _ =
            writeln!(text, "\n## Exempt\n\n| field | check | engine | reason |\n| --- | --- | --- | --- |");
        for report in reports.iter().filter(|report| !report.asked_older) {
            for row in &report.rows {
                let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
                for (check, verdict) in &row.checks {
                    if let Verdict::Exempt(reason) = verdict {
                        reasons.entry(reason).or_default().push(check);
                    }
                }
                for (reason, checks) in reasons {
                    let checks =
                        if checks.len() == CHECKS.len() { "all".to_owned() } else { checks.join(", ") };
                    let _ = writeln!(text, "| `{}` | {checks} | {} | {reason} |", row.path, report.engine);
                }
            }
        }
        let _ = writeln!(text, "\n## Not declared\n\n| engine path | reason |\n| --- | --- |");
        for (path, reason) in EXCLUDED {
            let _ = writeln!(text, "| `{path}` | {reason} |");
        }
        text
    }
}

fn proven(report: &Report, path: &str) -> Option<String> {
    let row = report.rows.iter().find(|row| row.path == path)?;
    let passed = row.checks.values().filter(|verdict| matches!(verdict, Verdict::Pass(_))).count();
    let failed = row.checks.values().any(|verdict| matches!(verdict, Verdict::Fail(_)));
    let engine = report.short();
    (passed > 0 && !failed).then(|| format!("{engine} ({passed} of {})", CHECKS.len()))
}
