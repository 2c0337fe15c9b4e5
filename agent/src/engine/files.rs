//! Whether a file exists in a container, without running anything there.

use std::path::Path;

use http::Method;
use http_body_util::BodyExt as _;
use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;
use serde_json::Value as Json;

use super::http::check;
use super::{EngineError, EngineReader, escape};

/// Whether a file exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It does.
    Present,
    /// It does not.
    Absent,
    /// Nobody who is asked can see it.
    Unknown,
}

impl EngineReader {
    /// Whether there is anything at this absolute path in a container, running or not.
    ///
    /// The engine shows the container's own files and its volumes, but no memory file system (404, measured on 20.10): what is
    /// there only its process sees, and the agent with it, where both are in one process namespace.
    pub async fn file(&self, container: &str, path: &str) -> Result<Presence, EngineError> {
        if self.archives(container, path).await? {
            return Ok(Presence::Present);
        }
        let inspect = self.container(container).await?.unwrap_or_default();
        let id = inspect["Id"].as_str().unwrap_or_default().to_owned();
        let process = inspect["State"]["Pid"].as_i64().filter(|process| *process > 0);
        let Some(process) = process else { return Ok(Presence::Absent) };
        let asked = path.to_owned();
        let seen = tokio::task::spawn_blocking(move || process_sees(process, &id, &asked)).await;
        Ok(match seen.ok().flatten() {
            Some(true) => Presence::Present,
            Some(false) => Presence::Absent,
            None if is_in_memory(&inspect, path) => Presence::Unknown,
            None => Presence::Absent,
        })
    }

    /// Whether the engine would hand this file out. The file itself is not read.
    async fn archives(&self, container: &str, path: &str) -> Result<bool, EngineError> {
        let api = self.version().await?.api;
        let call = format!("/v{api}/containers/{}/archive?path={}", escape(container), escape(path));
        let name = "GET /containers/archive";
        let asked = async {
            let (status, body) = self.http.send(Method::GET, &call, None, None).await?;
            if status.is_success() {
                return Ok(true);
            }
            let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            match check(name, status, &bytes) {
                Err(error) if error.is_not_found() => Ok(false),
                // What leads there is a file (status 500 on 20.10).
                Err(EngineError::Refused { message, .. }) if message.contains("not a directory") => Ok(false),
                answer => answer.map(|()| false),
            }
        };
        let deadline = self.http.deadline();
        tokio::time::timeout(deadline, asked)
            .await
            .unwrap_or_else(|_| Err(EngineError::TimedOut { call: name.to_owned(), deadline }))
    }
}

/// What the container's process finds at this path; `None` if the process cannot be seen. Symbolic links lead where they
/// lead inside.
fn process_sees(process: i64, id: &str, path: &str) -> Option<bool> {
    let folder = Path::new("/proc").join(process.to_string());
    // In another process namespace the number is somebody else's.
    let is_its = |file: &str| {
        std::fs::read_to_string(folder.join(file)).is_ok_and(|text| !id.is_empty() && text.contains(id))
    };
    if !is_its("cgroup") && !is_its("mountinfo") {
        return None;
    }
    let place = OFlags::PATH | OFlags::CLOEXEC;
    let root = open(folder.join("root"), place | OFlags::DIRECTORY, Mode::empty()).ok()?;
    let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    match openat2(root, path, place | OFlags::NOFOLLOW, Mode::empty(), inside) {
        Ok(_) => Some(true),
        Err(Errno::NOENT | Errno::NOTDIR) => Some(false),
        Err(_) => None,
    }
}

/// The path is below a memory file system of the container.
fn is_in_memory(inspect: &Json, path: &str) -> bool {
    let mounts = inspect["Mounts"].as_array().into_iter().flatten();
    let mounted =
        mounts.filter(|mount| mount["Type"] == "tmpfs").filter_map(|one| one["Destination"].as_str());
    let declared =
        inspect["HostConfig"]["Tmpfs"].as_object().into_iter().flatten().map(|(path, _)| path.as_str());
    mounted.chain(declared).chain(["/dev"]).any(|target| Path::new(path).starts_with(target))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{is_in_memory, process_sees};

    #[test]
    fn a_process_of_another_name_space_tells_nothing() {
        let own = i64::from(std::process::id());
        assert_eq!(process_sees(own, &"0".repeat(64), "/"), None);
        assert_eq!(process_sees(own, "", "/"), None);
    }

    #[test]
    fn memory_file_systems_are_known_by_their_targets() {
        let inspect = json!({
            "HostConfig": { "Tmpfs": { "/run": "" } },
            "Mounts": [{ "Type": "tmpfs", "Destination": "/cache/" }, { "Type": "volume", "Destination": "/data" }]
        });
        for (path, is) in [
            ("/run/a", true),
            ("/run", true),
            ("/cache/a", true),
            ("/dev/shm/a", true),
            ("/running", false),
            ("/data/a", false),
        ] {
            assert_eq!(is_in_memory(&inspect, path), is, "{path}");
        }
    }
}
