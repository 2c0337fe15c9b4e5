//! Certificates, made with `plumb ca` as an operator makes them.

use std::path::{Path, PathBuf};

use super::said::plumb;

/// A certificate with its key and the authority's certificate.
#[derive(Debug, Clone)]
pub(crate) struct Certificate {
    pub(crate) ca: PathBuf,
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificate {
    /// The options that name it.
    pub(crate) fn options(&self) -> [&str; 6] {
        ["--ca", utf8(&self.ca), "--cert", utf8(&self.cert), "--key", utf8(&self.key)]
    }
}

pub(super) fn utf8(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}

/// A certificate authority in a folder.
#[derive(Debug)]
pub(crate) struct Authority {
    folder: PathBuf,
}

impl Authority {
    pub(crate) fn init(folder: &Path) -> Self {
        plumb(&["ca", "init", "--dir", utf8(folder)]).ended(0);
        Self { folder: folder.to_owned() }
    }

    /// Issues a certificate for a role into a folder of its own.
    pub(crate) fn issue(&self, role: &str, name: &str) -> Certificate {
        let to = self.folder.with_file_name(format!("{role}-{name}"));
        let issue = ["ca", "issue", role, name, "--dir", utf8(&self.folder), "--write-to", utf8(&to)];
        plumb(&issue).ended(0);
        let file = |extension: &str| to.join(format!("{role}-{name}.{extension}"));
        Certificate { ca: to.join("ca.pem"), cert: file("pem"), key: file("key") }
    }
}
