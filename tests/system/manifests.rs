//! Manifests of small modules, as the tests change them.

/// A module of one container `app` that waits for ever, with these lines added to the container.
pub(crate) fn waiting(module: &str, lines: &[&str]) -> String {
    let mut text =
        format!("name: {module}\ncontainers:\n  app:\n    image: plumbline/sample:1\n    command: [hold]\n");
    for line in lines {
        text.extend(["    ", line, "\n"]);
    }
    text
}
