//! Reading the manifests that a command line names.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use plumbline::manifest::{MAX_SIZE, ManifestError, Source, read};
use plumbline::proto::v1::ModuleSpec;

use super::error::CliError;

/// Manifests on the command line.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Manifests {
    /// A manifest, a directory of manifests (*.yaml, *.yml), or - for standard input. May be given several times.
    #[arg(short = 'f', long = "file", required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
}

impl Manifests {
    /// Every module of every file. All are read before anything else happens.
    pub(super) fn read(&self) -> Result<Vec<ModuleSpec>, CliError> {
        let mut specs = Vec::new();
        for path in &self.files {
            for file in expand(path)? {
                specs.extend(read_file(&file)?);
            }
        }
        Ok(specs)
    }
}

/// The modules of one file.
pub(super) fn read_file(path: &Path) -> Result<Vec<ModuleSpec>, CliError> {
    let failed = |source| CliError::File { action: "read", path: path.to_owned(), source };
    // One byte more than is accepted is enough to know that it is too much.
    let limit = u64::try_from(MAX_SIZE).unwrap_or(u64::MAX).saturating_add(1);
    let mut text = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().take(limit).read_to_end(&mut text).map_err(failed)?;
        return Ok(read(&Source { name: "standard input", text: &text })?);
    }
    let name = path.display().to_string();
    let file = std::fs::File::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    if size >= limit {
        return Err(ManifestError::too_large(&name, size).into());
    }
    file.take(limit).read_to_end(&mut text).map_err(failed)?;
    Ok(read(&Source { name: &name, text: &text })?)
}

fn expand(path: &Path) -> Result<Vec<PathBuf>, CliError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let failed = |source| CliError::File { action: "read", path: path.to_owned(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        if file.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(CliError::Usage(format!("{} holds no manifest (*.yaml, *.yml)", path.display())));
    }
    Ok(files)
}
