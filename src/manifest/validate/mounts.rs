//! What is mounted where, and what the networks and volumes of a container refer to.

use std::collections::BTreeMap;

use super::Findings;
use super::module::has_subnet;
use crate::catalogue::Path;
use crate::manifest::node::quoted;
use crate::manifest::scalar::NO_INTERPOLATION;
use crate::manifest::short::is_name;
use crate::normal::clean_path;
use crate::proto::v1::{ContainerSpec, ModuleSpec, Mount};

pub(super) fn check(container: &ContainerSpec, spec: &ModuleSpec, path: &Path, findings: &mut Findings) {
    let mut targets: BTreeMap<String, String> = BTreeMap::new();
    for (index, mount) in container.mounts.iter().enumerate() {
        let path = path.field("mounts").key(&index.to_string());
        check_source(mount, spec, &path, findings);
        check_options(mount, &path, findings);
        if let Some(target) = &mount.target {
            check_target(target, &path.field("target"), &mut targets, findings);
        }
    }
    for target in container.tmpfs.keys() {
        let path = path.field("tmpfs").key(target);
        if !target.is_empty() {
            check_target(target, &path, &mut targets, findings);
        }
    }
    check_networks(container, spec, path, findings);
}

fn check_target(target: &str, path: &Path, targets: &mut BTreeMap<String, String>, findings: &mut Findings) {
    if !target.starts_with('/') {
        // The form of both fields in the catalogue says that they are absolute: `rules` has refused this one.
        return;
    }
    let clean = clean_path(&format!("/{target}"));
    if clean == "/" {
        findings.add(path, "nothing can be mounted over the whole container", "name a directory below /");
    } else if let Some(other) = targets.insert(clean.clone(), path.to_string()) {
        let message = format!("{} is already the target of {other}", quoted(&clean));
        findings.add(path, message, "mount one of them elsewhere");
    }
}

fn check_source(mount: &Mount, spec: &ModuleSpec, path: &Path, findings: &mut Findings) {
    let path = path.field("source");
    let source = mount.source.as_deref();
    if let Some(source) = source
        && source.contains("${")
    {
        findings.add(&path, format!("{} is not a source", quoted(source)), NO_INTERPOLATION);
        return;
    }
    match (mount.r#type.as_deref(), source) {
        (Some("bind"), None) => findings.add(&path, "a bind mount needs a source", "name a path on the host"),
        (Some("bind"), Some(source)) if !source.starts_with('/') => {
            let message = format!("{} is not an absolute path", quoted(source));
            findings.add(
                &path,
                message,
                "write the whole path on the host: there is no folder that it is relative to",
            );
        }
        (Some("volume"), Some(source)) if !is_name(source) => {
            let message = format!("{} is not the name of a volume", quoted(source));
            findings.add(&path, message, "for a path on the host, write type: bind");
        }
        (Some("volume"), Some(source)) if !spec.volumes.contains_key(source) => {
            let remedy = format!(
                "declare it under volumes of the module, as {source}: {{}}; with external: true if it exists"
            );
            findings.add(&path, format!("{} is not a volume of this module", quoted(source)), remedy);
        }
        (Some("tmpfs"), Some(_)) => findings.add(&path, "a tmpfs mount has no source", "take it out"),
        (Some("image"), None | Some("")) => {
            findings.add(&path, "an image mount needs a source", "name an image");
        }
        _ => {}
    }
}

fn check_options(mount: &Mount, path: &Path, findings: &mut Findings) {
    if mount.r#type.as_deref() == Some("volume") && mount.source.is_none() && mount.read_only == Some(true) {
        let remedy = "name a volume of the module as its source, or take read_only out";
        findings.add(&path.field("read_only"), "engines take no anonymous volume that is read only", remedy);
    }
    let groups = [
        ("bind", mount.bind.is_some()),
        ("volume", mount.volume.is_some()),
        ("tmpfs", mount.tmpfs.is_some()),
        ("image", mount.image.is_some()),
    ];
    let Some(kind) = mount.r#type.as_deref() else { return };
    for (group, declared) in groups {
        if declared && group != kind {
            findings.add(
                &path.field(group),
                format!("options of {group} on a mount of type {kind}"),
                "take them out",
            );
        }
    }
}

fn check_networks(container: &ContainerSpec, spec: &ModuleSpec, path: &Path, findings: &mut Findings) {
    for (key, endpoint) in &container.networks {
        let path = path.field("networks").key(key);
        if key != "bridge" && !spec.networks.contains_key(key) {
            let remedy = format!(
                "declare it under networks of the module, as {key}: {{}}; with external: true if it exists"
            );
            findings.add(&path, format!("{} is not a network of this module", quoted(key)), remedy);
            continue;
        }
        if key == "bridge" && !endpoint.aliases.is_empty() {
            let remedy = "attach the container to a network of the module instead";
            findings.add(&path.field("aliases"), "engines take no aliases on the default bridge", remedy);
        }
        let addresses = [("ipv4_address", &endpoint.ipv4_address), ("ipv6_address", &endpoint.ipv6_address)];
        for (field, address) in addresses {
            if address.is_some() && !has_subnet(spec, key) {
                let message =
                    format!("a static address needs a network with a declared subnet, and {key} has none");
                findings.add(
                    &path.field(field),
                    message,
                    "declare ipam.config of the network, or take it out",
                );
            }
        }
    }
}
