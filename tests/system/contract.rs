//! The contract in `proto/` guards itself: a spec field without a rule does not build (promise P1), and its comments,
//! names and numbers are held to buf's rules.
//!
//! What is tried here is tried on copies below `target/contract-test`; the contract itself is only read.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tools::{Said, copy_tree, run, target, tool, workspace};

/// A declaration of the spec, as it stands in the proto file, that the tests change.
const MEM_LIMIT: &str = "  optional int64 mem_limit = 30 [(rule) = ";

#[test]
fn a_spec_field_without_a_rule_does_not_build() {
    let copy = SourceCopy::copy();
    let said = copy.build();
    assert!(said.ok, "the unchanged copy builds: {}", said.stderr);

    copy.edit_spec(|line| match line.strip_prefix(MEM_LIMIT) {
        // One field loses its rule, and one comes without.
        Some(_) => {
            "  optional int64 mem_limit = 30;\n  // New.\n  optional string undecided = 9999;\n".to_owned()
        }
        None => format!("{line}\n"),
    });
    let said = copy.build();
    assert!(!said.ok, "two fields have no rule, and it was built");
    let named: BTreeSet<&str> = said.stderr.lines().filter_map(field_without_rule).collect();
    assert_eq!(
        named,
        BTreeSet::from(["plumbline.v1.ContainerSpec.mem_limit", "plumbline.v1.ContainerSpec.undecided"]),
        "{}",
        said.stderr
    );
}

/// The field that a line of cargo's output complains about.
fn field_without_rule(line: &str) -> Option<&str> {
    let (_, complaint) = line.split_once("spec field ")?;
    complaint.split_once(" carries no (plumbline.v1.rule)").map(|(field, _)| field)
}

#[test]
fn the_contract_passes_bufs_lint() {
    let said = buf(workspace(), &["lint"]);
    assert!(said.ok, "{}{}", said.stdout, said.stderr);
}

#[test]
fn whatever_has_no_comment_fails_the_lint() {
    for (file, declaration, rule) in [
        ("agent.proto", "service AgentService {", "COMMENT_SERVICE"),
        ("agent.proto", "  rpc Plan(PlanRequest) returns (PlanResponse);", "COMMENT_RPC"),
        ("agent.proto", "message ApplyRequest {", "COMMENT_MESSAGE"),
        ("spec.proto", MEM_LIMIT, "COMMENT_FIELD"),
        ("diff.proto", "enum Outcome {", "COMMENT_ENUM"),
        ("diff.proto", "  OUTCOME_RECREATED = 2;", "COMMENT_ENUM_VALUE"),
        ("diff.proto", "  oneof kind {", "COMMENT_ONEOF"),
    ] {
        let copy = contract_copy();
        let path = copy.path().join("proto/plumbline/v1").join(file);
        let text = fs::read_to_string(&path).expect("it was copied");
        fs::write(&path, without_comment(&text, declaration)).expect("the copy can be changed");
        let said = buf(copy.path(), &["lint", "--error-format", "json"]);
        assert!(!said.ok && said.stdout.contains(&format!("\"{rule}\"")), "{declaration}: {said:?}");
    }
}

/// The text without the comment above a declaration.
fn without_comment(text: &str, declaration: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let mut at = lines.iter().position(|line| line.starts_with(declaration)).expect("it is declared");
    while at > 0 && lines[at - 1].trim_start().starts_with("//") {
        lines.remove(at - 1);
        at -= 1;
    }
    lines.join("\n") + "\n"
}

#[test]
fn a_changed_number_or_name_is_a_breaking_change() {
    let copy = contract_copy();
    let breaking =
        || buf(copy.path(), &["breaking", "--error-format", "json", "--against", &display(workspace())]);
    let said = breaking();
    assert!(said.ok, "the unchanged copy breaks nothing: {said:?}");

    let path = copy.path().join("proto/plumbline/v1/spec.proto");
    let text = fs::read_to_string(&path).expect("it was copied");
    fs::write(&path, text.replace("mem_limit = 30 ", "mem_limit = 9999 ")).expect("the copy can be changed");
    let said = breaking();
    assert!(!said.ok && said.stdout.contains("Previously present field \\\"30\\\""), "{said:?}");

    // The contract also travels as JSON.
    fs::write(&path, text.replace("mem_limit = 30 ", "memory_limit = 30 ")).expect("the copy can be changed");
    let said = breaking();
    assert!(!said.ok && said.stdout.contains("memory_limit"), "{said:?}");
}

fn buf(folder: &Path, arguments: &[&str]) -> Said {
    let mut command = Command::new(tool("buf"));
    run(command.args(arguments).current_dir(folder).env("BUF_CACHE_DIR", target().join("buf-cache")), "")
}

fn display(path: &Path) -> String {
    path.display().to_string()
}

/// `proto/` and buf's rules for it.
fn contract_copy() -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("a temporary folder can be made");
    copy_tree(&workspace().join("proto"), &copy.path().join("proto"));
    copy_tree(&workspace().join("buf.yaml"), &copy.path().join("buf.yaml"));
    copy
}

/// A copy of the sources, always at the same place, so that cargo knows it again. It shares the target folder, so that
/// the crates it stands on need not be built again either.
struct SourceCopy {
    folder: PathBuf,
    /// Two runs of the tests must not work on one copy.
    _turn: fs::File,
}

impl SourceCopy {
    fn copy() -> Self {
        let above = target().join("contract-test");
        fs::create_dir_all(&above).expect("the target folder can be written");
        let turn = fs::File::create(above.join("lock")).expect("the target folder can be written");
        turn.lock().expect("a file can be locked");
        let folder = above.join("copy");
        if folder.exists() {
            fs::remove_dir_all(&folder).expect("the last copy can be removed");
        }
        fs::create_dir(&folder).expect("the target folder can be written");
        for entry in fs::read_dir(workspace()).expect("it can be read") {
            let name = entry.expect("it can be read").file_name();
            // Not .git and the like, and not what was built.
            if name != "target" && !name.as_encoded_bytes().starts_with(b".") {
                copy_tree(&workspace().join(&name), &folder.join(&name));
            }
        }
        Self { folder, _turn: turn }
    }

    /// Changes the lines of `spec.proto`.
    fn edit_spec(&self, edit: impl FnMut(&str) -> String) {
        let path = self.folder.join("proto/plumbline/v1/spec.proto");
        let text = fs::read_to_string(&path).expect("it was copied");
        let edited: String = text.lines().map(edit).collect();
        assert_ne!(text, edited, "the line to be changed is not in the file");
        fs::write(&path, edited).expect("the copy can be changed");
    }

    fn build(&self) -> Said {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["build", "--package", "plumbline", "--offline", "--locked", "--color", "never"]);
        run(command.current_dir(&self.folder).env("CARGO_TARGET_DIR", target()), "")
    }
}
