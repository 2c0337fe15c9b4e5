//! The host's files, as the agent sees them: as a process of the host, or in a container below a mount of the host's root.

use std::path::{Path, PathBuf};
use std::time::Duration;

use plumbline::guard::{FileIdentity, Holds, Place};
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2};
use rustix::io::Errno;

use crate::moving::place::{LOST_AND_FOUND, is_empty_directory};

/// A file system that does not answer (a network's) keeps nobody waiting for longer.
const DEADLINE: Duration = Duration::from_secs(5);

/// To look at, not to read.
const PLACE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// How often a path is resolved anew that changed meanwhile.
const TRIES: u32 = 8;

/// Where the host's files are.
#[derive(Debug, Clone)]
pub struct HostFiles {
    root: PathBuf,
}

impl Default for HostFiles {
    /// Of a process of the host.
    fn default() -> Self {
        Self::below(Path::new("/"))
    }
}

/// What was found at a path.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) place: Place,
    /// No path leads to it any more.
    pub(super) is_unlinked: bool,
    /// It is no directory.
    pub(super) is_file: bool,
}

impl Seen {
    pub(super) fn only(place: Place) -> Self {
        Self { place, is_unlinked: false, is_file: false }
    }

    pub(super) fn unseen(why: String) -> Self {
        Self::only(Place::Unseen { why, exists: false })
    }
}

impl HostFiles {
    /// The host's root is mounted here, with all that is mounted in it.
    pub fn below(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Where the host's root is.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// What is at a path of the host.
    pub(crate) async fn place(&self, path: &str) -> Place {
        look(self.root.clone(), path.to_owned()).await.place
    }

    /// What is at a path of the host and the directories that it lies in, inner ones first, without the host's root; links
    /// are followed. Nothing of what is not there, or not to be seen.
    pub(super) async fn chain(&self, path: &str) -> Vec<FileIdentity> {
        let (root, path) = (self.root.clone(), path.to_owned());
        let looked = tokio::task::spawn_blocking(move || chain(&root, &path).unwrap_or_default());
        tokio::time::timeout(DEADLINE, looked).await.ok().and_then(Result::ok).unwrap_or_default()
    }

    /// Something is at a path of the host, and is no directory.
    pub(super) async fn is_file(&self, path: &str) -> bool {
        look(self.root.clone(), path.to_owned()).await.is_file
    }

    /// What a container sees at a path, by its first process.
    pub(super) async fn place_in(&self, container: &str, pid: u64, path: &str) -> Seen {
        let process = self.root.join("proc").join(pid.to_string());
        // In another PID namespace than the host's, this number is somebody else's.
        let groups = tokio::fs::read_to_string(process.join("cgroup")).await.unwrap_or_default();
        if !groups.contains(container) {
            return Seen::unseen(format!(
                "process {pid} is not the container's below {}: the agent does not see the host's processes",
                self.root.display()
            ));
        }
        look(process.join("root"), path.to_owned()).await
    }

    /// Why this is not the host of an engine that keeps its files in `engine_root`.
    pub(super) async fn is_not_the_host(&self, engine_root: &str) -> Option<String> {
        let why = match self.place(engine_root).await {
            Place::Found { .. } => return None,
            Place::Unseen { why, .. } => why,
            Place::Missing | Place::New => {
                format!("{engine_root}, where the engine keeps its files, is not there")
            }
        };
        Some(format!(
            "the agent does not see the host's files below {} ({why}); in a container it needs the host's root, with what \
             is mounted in it, and --host-root",
            self.root.display()
        ))
    }
}

async fn look(root: PathBuf, path: String) -> Seen {
    let shown = path.clone();
    let looked = tokio::task::spawn_blocking(move || match find(&root, &path) {
        Ok(seen) => seen,
        Err(Errno::NOENT | Errno::NOTDIR) => Seen::only(Place::Missing),
        Err(error) => Seen::unseen(format!("the agent cannot look at {path}: {error}")),
    });
    match tokio::time::timeout(DEADLINE, looked).await {
        Ok(Ok(seen)) => seen,
        Ok(Err(fault)) => Seen::unseen(format!("a fault of the agent at {shown}: {fault}")),
        Err(_) => Seen::unseen(format!("the file system of {shown} does not answer")),
    }
}

/// Follows symbolic links as one would whose root this is.
fn find(root: &Path, path: &str) -> Result<Seen, Errno> {
    let root = match openat(CWD, root, PLACE | OFlags::DIRECTORY, Mode::empty()) {
        // Without a root nothing is known to be missing.
        Err(Errno::NOENT | Errno::NOTDIR) => {
            let why = format!("the agent does not see {}", root.display());
            return Ok(Seen::unseen(why));
        }
        root => root?,
    };
    let file = resolve(&root, path)?;
    let stat = fstat(&file)?;
    let identity = identity_of(&stat);
    let kind = FileType::from_raw_mode(stat.st_mode);
    let holds = match kind {
        FileType::Directory => list(&file)?,
        FileType::Socket | FileType::Fifo => Holds::Endpoint,
        _ => Holds::Data,
    };
    Ok(Seen {
        place: Place::Found { file: identity, holds },
        is_unlinked: stat.st_nlink == 0,
        is_file: kind != FileType::Directory,
    })
}

fn resolve(root: &OwnedFd, path: &str) -> Result<OwnedFd, Errno> {
    let mut tries = 0;
    loop {
        tries += 1;
        match openat2(root, path, PLACE, Mode::empty(), ResolveFlags::IN_ROOT) {
            Err(Errno::AGAIN) if tries < TRIES => {}
            file => return file,
        }
    }
}

fn identity_of(stat: &Stat) -> FileIdentity {
    FileIdentity { device: stat.st_dev, inode: stat.st_ino }
}

fn chain(root: &Path, path: &str) -> Result<Vec<FileIdentity>, Errno> {
    let root = openat(CWD, root, PLACE | OFlags::DIRECTORY, Mode::empty())?;
    let top = identity_of(&fstat(&root)?);
    let mut here = resolve(&root, path)?;
    let mut chain = Vec::new();
    let stat = fstat(&here)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        chain.push(identity_of(&stat));
        // Where a file lies, only its own path tells.
        let at = std::fs::read_link(format!("/proc/self/fd/{}", here.as_raw_fd()));
        let parent = at.ok().and_then(|at| at.parent().map(Path::to_owned)).ok_or(Errno::NOENT)?;
        here = openat(CWD, parent, PLACE | OFlags::DIRECTORY, Mode::empty())?;
    }
    loop {
        let identity = identity_of(&fstat(&here)?);
        if identity == top || chain.last() == Some(&identity) {
            return Ok(chain);
        }
        chain.push(identity);
        here = openat(&here, "..", PLACE | OFlags::DIRECTORY, Mode::empty())?;
    }
}

fn list(directory: &OwnedFd) -> Result<Holds, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listed = match openat(directory, ".", flags, Mode::empty()) {
        Err(Errno::ACCESS | Errno::PERM) => return Ok(Holds::Unreadable),
        // Removed while a container has it mounted.
        Err(Errno::NOENT) => return Ok(Holds::Nothing),
        listed => listed?,
    };
    for entry in Dir::new(listed)? {
        let entry = entry?;
        let is_data = match entry.file_name().to_bytes() {
            b"." | b".." => false,
            LOST_AND_FOUND => !is_empty_directory(directory, entry.file_name())?,
            _ => true,
        };
        if is_data {
            return Ok(Holds::Data);
        }
    }
    Ok(Holds::Nothing)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use super::*;

    fn host() -> (tempfile::TempDir, HostFiles) {
        let folder = tempfile::tempdir().expect("a folder");
        let files = HostFiles::below(folder.path());
        (folder, files)
    }

    fn found(path: &Path, holds: Holds) -> Place {
        let metadata = std::fs::metadata(path).expect("it is there");
        Place::Found { file: FileIdentity { device: metadata.dev(), inode: metadata.ino() }, holds }
    }

    #[tokio::test]
    async fn a_directory_holds_nothing_file_or_data() {
        let (folder, files) = host();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("empty/lost+found")).expect("a folder");
        std::fs::create_dir_all(at("full/one")).expect("a folder");
        std::fs::create_dir_all(at("found/lost+found/#12")).expect("a folder");
        std::fs::write(at("file"), "").expect("a file");
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).expect("a socket");
        assert_eq!(files.place("/empty").await, found(&at("empty"), Holds::Nothing));
        assert_eq!(files.place("/found").await, found(&at("found"), Holds::Data));
        assert_eq!(files.place("/full/").await, found(&at("full"), Holds::Data));
        assert_eq!(files.place("/file").await, found(&at("file"), Holds::Data));
        assert_eq!(files.place("/socket").await, found(&at("socket"), Holds::Endpoint));
        assert_eq!(files.place("/file/below").await, Place::Missing);
        assert_eq!(files.place("/gone").await, Place::Missing);
    }

    /// An absolute link of the host leads below the mount of its root, and none leads out of it.
    #[tokio::test]
    async fn links_are_followed_as_the_host_would() {
        let (folder, files) = host();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("mnt/disk")).expect("a folder");
        std::fs::create_dir_all(at("srv")).expect("a folder");
        symlink("/mnt/disk", at("srv/data")).expect("a link");
        symlink("../../../../mnt", at("srv/up")).expect("a link");
        symlink("/etc/passwd", at("srv/out")).expect("a link");
        symlink("loop", at("srv/loop")).expect("a link");
        let disk = found(&at("mnt/disk"), Holds::Nothing);
        assert_eq!(files.place("/srv/data").await, disk);
        assert_eq!(files.place("/srv/up/disk").await, disk);
        assert_eq!(files.place("/srv/out").await, Place::Missing);
        assert!(matches!(files.place("/srv/loop").await, Place::Unseen { .. }));
    }

    #[tokio::test]
    async fn a_chain_goes_up_to_the_root_whatever_the_path_is() {
        let (folder, files) = host();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("srv/app/part")).expect("a folder");
        std::fs::write(at("srv/app/file"), "").expect("a file");
        symlink("/srv/app", at("link")).expect("a link");
        symlink("/link/file", at("to-file")).expect("a link");
        let file = |name: &str| {
            let metadata = std::fs::metadata(at(name)).expect("it is there");
            FileIdentity { device: metadata.dev(), inode: metadata.ino() }
        };
        let app = [file("srv/app"), file("srv")];
        assert_eq!(files.chain("/link").await, app);
        assert_eq!(files.chain("/link/part/").await, [file("srv/app/part"), app[0], app[1]]);
        assert_eq!(files.chain("/to-file").await, [file("srv/app/file"), app[0], app[1]]);
        assert_eq!(files.chain("/").await, []);
        assert_eq!(files.chain("/gone").await, []);
    }

    #[tokio::test]
    async fn without_the_hosts_root_nothing_is_known() {
        let nowhere = HostFiles::below(Path::new("/no/such/root"));
        assert!(matches!(nowhere.place("/etc").await, Place::Unseen { exists: false, .. }));
        let why = nowhere.is_not_the_host("/var/lib/docker").await.expect("it is not");
        assert!(why.contains("--host-root"), "{why}");
        let (_folder, files) = host();
        let why = files.is_not_the_host("/var/lib/docker").await.expect("it is not");
        assert!(why.contains("/var/lib/docker, where the engine keeps its files"), "{why}");
    }

    #[tokio::test]
    async fn a_process_that_is_not_the_containers_tells_nothing() {
        let seen = HostFiles::default().place_in("0123456789abcdef", std::process::id().into(), "/").await;
        let Place::Unseen { why, .. } = seen.place else { panic!("{seen:?}") };
        assert!(why.contains("is not the container's"), "{why}");
    }
}
