//! What can be wrong with pasted text.

use crate::apply::ApplyError;

/// Pasted text that cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum PastedError {
    /// There is nothing in it.
    #[error("{file} is empty: put there what `docker inspect CONTAINER` prints")]
    Empty {
        /// Which file.
        file: String,
    },
    /// It is not what it is taken for.
    #[error(
        "{file} is larger than {} MiB: what `docker inspect` prints of a module's containers is much smaller, check the name",
        .limit >> 20
    )]
    TooLarge {
        /// Which file.
        file: String,
        /// In bytes.
        limit: u64,
    },
    /// It is no JSON.
    #[error(
        "{file}:{line}:{column}: this is not JSON ({reason}): put there what `docker inspect CONTAINER` prints, all of it and nothing else"
    )]
    NotJson {
        /// Which file.
        file: String,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What was expected.
        reason: String,
    },
    /// It is JSON of another kind.
    #[error(
        "{file}: {what}, which is no container, image, network or volume as `docker inspect NAME` prints it (without --format): put that there"
    )]
    NotInspect {
        /// Which file.
        file: String,
        /// What stands there.
        what: String,
    },
    /// One object stands there twice, and not the same.
    #[error("{file}: {name} stands there twice, with different contents: keep the newer one")]
    Twice {
        /// Which file.
        file: String,
        /// Its name or id.
        name: String,
    },
    /// No container was pasted.
    #[error(
        "{files}: there is no container in it: put there what `docker inspect CONTAINER` prints; `[]` means that the engine has \
         none of that name, see `docker ps -a`"
    )]
    NoContainer {
        /// All files.
        files: String,
    },
    /// `--container` names what is not declared.
    #[error("the manifest declares no container {key} (it declares {})", list_or_none(declared))]
    NoSuchKey {
        /// What was asked for.
        key: String,
        /// What could be.
        declared: Vec<String>,
    },
    /// `--container` names what was not pasted.
    #[error("{files}: there is no container {name} in it (there is {})", list_or_none(found))]
    NoSuchContainer {
        /// What was asked for.
        name: String,
        /// All files.
        files: String,
        /// What could be.
        found: Vec<String>,
    },
    /// `--container` says two things of one container.
    #[error(
        "--container {wish}: that key or that container stands in another --container, too: say each once"
    )]
    AskedTwice {
        /// The second one.
        wish: String,
    },
    /// `--container` could mean several.
    #[error(
        "--container {key}: {files} holds {}: say which, as --container {key}=NAME, or take the others out of the file",
        .found.join(" and ")
    )]
    WhichContainer {
        /// What was asked for.
        key: String,
        /// All files.
        files: String,
        /// What could be meant.
        found: Vec<String>,
    },
    /// `--container` contradicts the labels.
    #[error(
        "--container {key}: {found} is known by its labels, and an agent goes by them: leave --container out"
    )]
    OtherLabels {
        /// What was asked for.
        key: String,
        /// What was meant.
        found: String,
    },
    /// `--container` names a key that several modules have.
    #[error(
        "several modules of the manifest declare a container {key}: say which, as --container MODULE/{key}"
    )]
    WhichModule {
        /// What was asked for.
        key: String,
    },
    /// `--container` names a container that has its counterpart.
    #[error(
        "--container {key}: it is compared with {found} already, {why}: take that out of {files}, or --container out of the command"
    )]
    Taken {
        /// What was asked for.
        key: String,
        /// Its counterpart.
        found: String,
        /// How that was found.
        why: &'static str,
        /// All files.
        files: String,
    },
    /// Nothing is left that `--container` could mean.
    #[error(
        "--container {key}: every container of {files} has its counterpart already: leave the option out"
    )]
    NothingLeft {
        /// What was asked for.
        key: String,
        /// All files.
        files: String,
    },
    /// It is not known what a pasted container is to be compared with.
    #[error(
        "{files} holds {}, which the manifest does not declare by label or name: say which declared container it stands for with \
         --container KEY, or KEY=NAME for each of several (KEY is one of {}), or take it out of the file",
        .found.join(" and "),
        .declared.join(", ")
    )]
    Unmatched {
        /// All files.
        files: String,
        /// What has no counterpart.
        found: Vec<String>,
        /// What it could be.
        declared: Vec<String>,
    },
    /// The manifest declares no container, and one was pasted that is not the module's.
    #[error(
        "{files} holds {}, and the manifest declares no container that it could be compared with: declare one, or take it out \
         of the file",
        .found.join(" and ")
    )]
    NothingDeclared {
        /// All files.
        files: String,
        /// What has no counterpart.
        found: Vec<String>,
    },
    /// An object is not what engines write. The value is left out: it may be a secret.
    #[error(
        "{files}: {field} cannot be read as {expected}: put the engine's own output there, not an edited one"
    )]
    Unreadable {
        /// All files.
        files: String,
        /// The field of the declaration.
        field: String,
        /// What was expected.
        expected: String,
    },
    /// The module.
    #[error("{module}: {source}")]
    Module {
        /// Its name.
        module: String,
        /// What is wrong with it.
        source: ApplyError,
    },
    /// Without random numbers secrets cannot be hidden.
    #[error("the system gives no random numbers, so secrets could not be hidden: nothing is shown")]
    NoRandomNumbers,
}

fn list_or_none(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
