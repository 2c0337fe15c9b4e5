//! The workload's own veto, in words.

/// A file by which a container asks to be left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateLock {
    /// Its path in the container.
    pub path: String,
    /// It exists. If not, nobody can see whether it does.
    pub seen: bool,
}

impl UpdateLock {
    /// Why the container is left alone and what to do, in a sentence.
    pub fn refusal(&self, container: &str) -> String {
        let path = &self.path;
        if self.seen {
            return format!(
                "{container} holds its update lock ({path} exists in it): try again when it is gone"
            );
        }
        format!(
            "whether {container} holds its update lock cannot be seen: {path} is on a memory file system, which engines do \
             not show, and this agent does not see the host's processes; stop the container, or declare a path elsewhere"
        )
    }
}
