//! What was found, for programs and for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use plumbline::catalogue::{ApiVersion, EXCLUDED, Leaf};
use plumbline::proto::v1::{Default as DefaultKind, Means};
use serde::{Deserialize, Serialize};

use crate::gaps::NOT_REACHED;

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
    /// It does not, as is known of this engine: see `podman.yaml`.
    Gap {
        /// What the engine does instead.
        known: String,
        /// What the check said.
        found: String,
    },
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
    /// What the engine adds where nothing is declared.
    #[serde(default)]
    pub(crate) added: BTreeMap<String, String>,
    pub(crate) rows: Vec<Row>,
}

impl Report {
    /// The engine without what Debian adds to its version.
    fn short(&self) -> &str {
        self.engine.split(['+', '-']).next().unwrap_or(&self.engine)
    }

    fn folder() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/conformance")
    }

    pub(crate) fn write(&self) {
        std::fs::create_dir_all(Self::folder()).expect("target/ can be written");
        let text = serde_json::to_string_pretty(self).expect("a report is JSON");
        let older = if self.asked_older { format!("-api{}", self.api) } else { String::new() };
        std::fs::write(Self::folder().join(format!("{}{older}.json", self.file())), text)
            .expect("target/ can be written");
        if std::env::var_os("PLUMBLINE_DOCS").is_some() {
            let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/fields.md");
            std::fs::write(docs, Self::document()).expect("docs/ can be written");
        }
    }

    /// The engine in a file's name.
    fn file(&self) -> String {
        self.short().to_lowercase().replace(' ', "-")
    }

    /// Where a run of the same engine through an older API version came to another verdict than one through its newest,
    /// other than that a field is unsupported there.
    pub(crate) fn differs_from_newest(&self, leaves: &[Leaf], api: ApiVersion) -> Vec<String> {
        let path = Self::folder().join(format!("{}.json", self.file()));
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

    fn lines(&self, detail: impl Fn(&Verdict) -> Option<String>) -> Vec<String> {
        let all = self.rows.iter().flat_map(|row| row.checks.iter().map(move |checked| (&row.path, checked)));
        all.filter_map(|(path, (check, verdict))| Some(format!("{path}: {check}: {}", detail(verdict)?)))
            .collect()
    }

    pub(crate) fn failures(&self) -> Vec<String> {
        self.lines(|verdict| match verdict {
            Verdict::Fail(detail) => Some(detail.clone()),
            Verdict::Pass(_) | Verdict::Exempt(_) | Verdict::Gap { .. } => None,
        })
    }

    pub(crate) fn gaps(&self) -> Vec<String> {
        self.lines(|verdict| match verdict {
            Verdict::Gap { known, found } => Some(format!("{known} ({found})")),
            Verdict::Pass(_) | Verdict::Fail(_) | Verdict::Exempt(_) => None,
        })
    }

    fn count(&self, wanted: fn(&Verdict) -> bool) -> usize {
        self.rows.iter().flat_map(|row| row.checks.values()).filter(|verdict| wanted(verdict)).count()
    }

    pub(crate) fn passed(&self) -> usize {
        self.count(|verdict| matches!(verdict, Verdict::Pass(_)))
    }

    pub(crate) fn summary(&self) -> String {
        let asked = if self.asked_older { "asked through API" } else { "API" };
        let gaps = match self.count(|verdict| matches!(verdict, Verdict::Gap { .. })) {
            0 => String::new(),
            count => format!("{count} known gaps, "),
        };
        format!(
            "engine {} ({asked} {}): {} leaves, {} checks passed, {} failed, {gaps}{} exempt",
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
        for report in &reports {
            report.document_gaps(&mut text);
        }
        let _ = writeln!(text, "\n## Not declared\n\n| engine path | reason |\n| --- | --- |");
        for (path, reason) in EXCLUDED {
            let _ = writeln!(text, "| `{path}` | {reason} |");
        }
        text
    }
}

impl Report {
    /// Two tables: what an engine that is no Docker does otherwise.
    fn document_gaps(&self, text: &mut String) {
        if !self.added.is_empty() {
            let _ = writeln!(
                text,
                "\n## {} adds\n\nFields that it shows with a value where none is declared; an apply lists them as \
                 residue.\n\n| field | value |\n| --- | --- |",
                self.short()
            );
            for (path, value) in &self.added {
                let _ = writeln!(text, "| `{path}` | {value} |");
            }
        }
        if self.gaps().is_empty() {
            return;
        }
        let _ = writeln!(
            text,
            "\n## Known gaps of {}\n\nWhere the check `create` is a gap, those after it were not reached.\n\n\
             | field | checks | what it does |\n| --- | --- | --- |",
            self.short()
        );
        for row in &self.rows {
            let gaps = |name: &&str| match row.checks.get(*name) {
                Some(Verdict::Gap { known, .. }) if known != NOT_REACHED => Some(known),
                _ => None,
            };
            let checks: Vec<&str> = CHECKS.into_iter().filter(|name| gaps(name).is_some()).collect();
            if let Some(known) = CHECKS.iter().find_map(gaps) {
                let _ = writeln!(text, "| `{}` | {} | {known} |", row.path, checks.join(", "));
            }
        }
    }
}

fn proven(report: &Report, path: &str) -> Option<String> {
    let row = report.rows.iter().find(|row| row.path == path)?;
    let passed = row.checks.values().filter(|verdict| matches!(verdict, Verdict::Pass(_))).count();
    let failed = row.checks.values().any(|verdict| matches!(verdict, Verdict::Fail(_)));
    (passed > 0 && !failed).then(|| format!("{} ({passed} of {})", report.short(), CHECKS.len()))
}
