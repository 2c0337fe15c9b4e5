//! What is wrong with a manifest: where, what, and what to do about it.

use std::fmt;

use super::MAX_SIZE;

/// Most problems that one error lists.
const MAX_PROBLEMS: usize = 20;
/// Most problems that are kept until they are sorted.
const MAX_KEPT: usize = 1_000;

/// A place in a text, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.line, self.column)
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where in the text; none if it concerns the file as a whole, or a spec that was not read from a text.
    pub position: Option<Position>,
    /// Where in the spec, as `containers.web.ports[0]`; empty for the module itself.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it; may be empty.
    pub remedy: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(formatter, "{}: ", self.path)?;
        }
        formatter.write_str(&self.message)?;
        if !self.remedy.is_empty() {
            write!(formatter, ": {}", self.remedy)?;
        }
        Ok(())
    }
}

/// A manifest that cannot be used, with everything that was found wrong, in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.lines())]
pub struct ManifestError {
    /// The file's name.
    pub file: String,
    /// What is wrong: at least one, at most 20.
    pub problems: Vec<Problem>,
    /// How many more problems there were.
    pub omitted: usize,
}

impl ManifestError {
    /// The error for a file that is not read because of its size: a caller that knows the size need not load it.
    pub fn too_large(file: &str, size: u64) -> Self {
        let mut problems = Problems::default();
        problems.push(Problem::too_large(size));
        problems.into_error(file)
    }

    /// The error for a spec that is valid and has a value that no manifest can say.
    pub(super) fn not_expressible(file: &str) -> Self {
        let mut problems = Problems::default();
        problems.whole(
            "the spec holds a value that a manifest cannot say",
            "report this: it is a fault in Plumbline",
        );
        problems.into_error(file)
    }

    pub(super) fn without_positions(mut self) -> Self {
        for problem in &mut self.problems {
            problem.position = None;
        }
        self
    }

    fn lines(&self) -> String {
        let mut lines: Vec<String> = self
            .problems
            .iter()
            .map(|problem| match problem.position {
                Some(position) => format!("{}:{position}: {problem}", self.file),
                None => format!("{}: {problem}", self.file),
            })
            .collect();
        if self.omitted > 0 {
            lines.push(format!("{}: and {} more problems", self.file, self.omitted));
        }
        lines.join("\n")
    }
}

impl Problem {
    pub(super) fn too_large(size: u64) -> Self {
        Self {
            position: None,
            path: String::new(),
            message: format!("the file has {size} bytes; a manifest has at most {MAX_SIZE}"),
            remedy: "give one module per file".to_owned(),
        }
    }
}

/// What is wrong at one place of the text, before it is known to which path that belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) at: Position,
    pub(super) message: String,
    pub(super) remedy: String,
}

impl Fault {
    pub(super) fn new(at: Position, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { at, message: message.into(), remedy: remedy.into() }
    }
}

/// The problems found so far; those beyond [`MAX_KEPT`] are only counted.
#[derive(Debug, Default)]
pub(super) struct Problems {
    kept: Vec<Problem>,
    omitted: usize,
}

impl Problems {
    pub(super) fn push(&mut self, problem: Problem) {
        if self.are_many() {
            self.omitted += 1;
        } else {
            self.kept.push(problem);
        }
    }

    /// Are there more than anybody will read?
    pub(super) fn are_many(&self) -> bool {
        self.kept.len() >= MAX_KEPT
    }

    /// A problem of the file as a whole.
    pub(super) fn whole(&mut self, message: impl Into<String>, remedy: &str) {
        self.push(Problem {
            position: None,
            path: String::new(),
            message: message.into(),
            remedy: remedy.to_owned(),
        });
    }

    pub(super) fn fault(&mut self, path: &impl ToString, fault: Fault) {
        let Fault { at, message, remedy } = fault;
        self.push(Problem { position: Some(at), path: path.to_string(), message, remedy });
    }

    pub(super) fn into_result<T>(self, file: &str, value: T) -> Result<T, ManifestError> {
        if self.kept.is_empty() { Ok(value) } else { Err(self.into_error(file)) }
    }

    fn into_error(self, file: &str) -> ManifestError {
        let Self { kept: mut problems, omitted } = self;
        problems.sort_by_key(|problem| problem.position);
        let omitted = omitted + problems.len().saturating_sub(MAX_PROBLEMS);
        problems.truncate(MAX_PROBLEMS);
        ManifestError { file: file.to_owned(), problems, omitted }
    }
}
