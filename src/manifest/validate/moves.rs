//! Data that is to be moved: from one place to one other.

use std::collections::BTreeMap;

use super::Findings;
use crate::catalogue::Path;
use crate::manifest::node::quoted;
use crate::manifest::short::is_name;
use crate::normal::clean_path;
use crate::proto::v1::{ModuleSpec, Mount};

/// Containers may share data, and each may say where it was; they have to agree.
pub(super) fn check(spec: &ModuleSpec, findings: &mut Findings) {
    let (mut to, mut from) = (BTreeMap::new(), BTreeMap::new());
    for (key, container) in &spec.containers {
        let mounts = Path::default().field("containers").key(key).field("mounts");
        for (index, mount) in container.mounts.iter().enumerate() {
            let Some(former) = &mount.moved_from else { continue };
            let path = mounts.key(&index.to_string()).field("moved_from");
            if !check_one(mount, former, &path, findings) {
                continue;
            }
            let (former, source) = (place(former), place(mount.source()));
            let other = to.insert(former.clone(), source.clone()).filter(|other| *other != source);
            if let Some(other) = other {
                let message = format!(
                    "{} cannot move to {} and to {}",
                    quoted(&former),
                    quoted(&other),
                    quoted(&source)
                );
                findings.add(&path, message, "let it move to one place");
            }
            let other = from.insert(source.clone(), former.clone()).filter(|other| *other != former);
            if let Some(other) = other {
                let message = format!(
                    "{} and {} cannot both move to {}",
                    quoted(&other),
                    quoted(&former),
                    quoted(&source)
                );
                findings.add(&path, message, "give each a place of its own");
            }
        }
    }
}

fn check_one(mount: &Mount, former: &str, path: &Path, findings: &mut Findings) -> bool {
    let is_volume = mount.r#type.as_deref() == Some("volume");
    let problem = if !matches!(mount.r#type.as_deref(), Some("bind" | "volume")) || mount.source().is_empty()
    {
        Some(("only the data of a bind or of a named volume can be moved".to_owned(), "take moved_from out"))
    } else if !former.starts_with('/') && !is_name(former) {
        let message = format!("{} is neither an absolute path nor the name of a volume", quoted(former));
        Some((message, "write the whole path of the data on the host, or the volume's key or name"))
    } else if place(former) == place(mount.source()) {
        Some((format!("{} is where the data shall be", quoted(former)), "name the place where it was"))
    } else if is_inside(former, mount.source()) || is_inside(mount.source(), former) {
        Some(("one of the two places lies inside the other".to_owned(), "choose a place beside it"))
    } else if is_volume && mount.volume.as_ref().is_some_and(|volume| volume.subpath.is_some()) {
        Some((
            "data is moved to a whole volume, not to a part of one".to_owned(),
            "take subpath or moved_from out",
        ))
    } else {
        None
    };
    if let Some((message, remedy)) = &problem {
        findings.add(path, message, *remedy);
    }
    problem.is_none()
}

fn place(text: &str) -> String {
    if text.starts_with('/') { clean_path(text) } else { text.to_owned() }
}

fn is_inside(inner: &str, outer: &str) -> bool {
    let (inner, outer) = (place(inner), place(outer));
    let rest = inner.strip_prefix(outer.trim_end_matches('/'));
    outer.starts_with('/') && rest.is_some_and(|rest| rest.starts_with('/'))
}
