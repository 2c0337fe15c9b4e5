//! The programs of other people that the tests run: buf, grpcurl, and a Python with grpcio-tools. `scripts/test` installs
//! them. A test that cannot find one fails, because a promise that nobody checked is not kept.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The workspace's folder.
pub(crate) fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the controller's package stands in the workspace")
}

/// The folder where cargo builds the workspace.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// A program from `$PLUMBLINE_TOOLS`, else from `target/tools/bin`.
pub(crate) fn tool(name: &str) -> PathBuf {
    let folder =
        std::env::var_os("PLUMBLINE_TOOLS").map_or_else(|| target().join("tools/bin"), PathBuf::from);
    let path = folder.join(name);
    assert!(path.is_file(), "{} is not there: scripts/test installs it, run that once", path.display());
    path
}

/// What a program said and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) ok: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a program to its end, with this on its standard input.
pub(crate) fn run(command: &mut Command, input: &str) -> Said {
    use std::io::Write as _;

    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    let mut stdin = child.stdin.take().expect("it is piped");
    // A program that refuses its arguments does not read its input.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let Output { status, stdout, stderr } = child.wait_with_output().expect("it can be waited for");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Said { ok: status.success(), stdout: text(stdout), stderr: text(stderr) }
}

/// Copies a file, or a folder with all that is in it.
pub(crate) fn copy_tree(from: &Path, to: &Path) {
    if from.is_dir() {
        std::fs::create_dir_all(to).expect("a folder can be made");
        for entry in std::fs::read_dir(from).expect("it can be read") {
            let name = entry.expect("it can be read").file_name();
            copy_tree(&from.join(&name), &to.join(&name));
        }
    } else {
        std::fs::copy(from, to).expect("it can be copied");
    }
}

/// What the engine's inspect shows of a container.
pub(crate) fn inspect(container: &str) -> Value {
    let said = run(Command::new("docker").args(["container", "inspect", container]), "");
    assert!(said.ok, "{}", said.stderr);
    let mut shown: Vec<Value> = serde_json::from_str(&said.stdout).expect("inspect speaks JSON");
    shown.remove(0)
}

/// The names of a module's containers, running or not.
pub(crate) fn containers_of(module: &str) -> Vec<String> {
    let filter = format!("name=^/{module}-");
    let said =
        run(Command::new("docker").args(["ps", "--all", "--format", "{{.Names}}", "--filter", &filter]), "");
    assert!(said.ok, "{}", said.stderr);
    said.stdout.lines().map(str::to_owned).collect()
}
