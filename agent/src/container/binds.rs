//! Mounts in the engine's three forms: `HostConfig.Mounts`, `HostConfig.Binds` as text, `Config.Volumes` as keys.

use plumbline::normal::clean_path;
use serde_json::{Map, Value as Json, json};

/// One list in the shape of `HostConfig.Mounts`, from all three. A key of `Config.Volumes` is an anonymous volume
/// unless something else is mounted there.
pub(super) fn merge(inspect: &Json) -> Json {
    let host = &inspect["HostConfig"];
    let mut mounts: Vec<Json> = host["Mounts"].as_array().cloned().unwrap_or_default();
    for mount in &mut mounts {
        // Engine 28.5 marks the anonymous volumes that it makes for a mount with labels.
        if let Some(labels) = mount.pointer_mut("/VolumeOptions/Labels").and_then(Json::as_object_mut) {
            labels.remove("com.docker.volume.anonymous");
        }
    }
    for bind in host["Binds"].as_array().into_iter().flatten().filter_map(Json::as_str) {
        mounts.push(read_bind(bind));
    }
    let empty = Map::new();
    let tmpfs = host["Tmpfs"].as_object().unwrap_or(&empty);
    for target in inspect["Config"]["Volumes"].as_object().unwrap_or(&empty).keys() {
        let clean = clean(target);
        let taken = mounts
            .iter()
            .any(|mount| mount["Target"].as_str().is_some_and(|other| self::clean(other) == clean))
            || tmpfs.keys().any(|other| self::clean(other) == clean);
        if !taken {
            mounts.push(anonymous(&clean));
        }
    }
    Json::Array(mounts)
}

/// An anonymous volume at a target.
pub(super) fn anonymous(target: &str) -> Json {
    json!({ "Type": "volume", "Target": target })
}

/// A mount target as engines compare it.
pub(super) fn clean(target: &str) -> String {
    clean_path(&format!("/{target}"))
}

/// `source:target[:mode,...]`; a source that is no path is the name of a volume. Paths with colons cannot be written
/// in this form, so there are never more than three parts.
fn read_bind(bind: &str) -> Json {
    let parts: Vec<&str> = bind.splitn(3, ':').collect();
    let (source, target, modes) = match parts.as_slice() {
        [source, target, modes] => (*source, *target, *modes),
        [source, target] => (*source, *target, ""),
        _ => return anonymous(bind),
    };
    let is_bind = source.starts_with('/');
    let kind = if is_bind { "bind" } else { "volume" };
    let mut mount = json!({ "Type": kind, "Source": source, "Target": target });
    for mode in modes.split(',').filter(|mode| !mode.is_empty()) {
        match mode {
            "ro" => mount["ReadOnly"] = json!(true),
            "z" | "Z" => mount["BindOptions"]["SELinux"] = json!(mode),
            "nocopy" => mount["VolumeOptions"]["NoCopy"] = json!(true),
            "cached" | "delegated" | "consistent" => mount["Consistency"] = json!(mode),
            "private" | "rprivate" | "shared" | "rshared" | "slave" | "rslave" => {
                mount["BindOptions"]["Propagation"] = json!(mode);
            }
            _ => {}
        }
    }
    mount
}

/// The other way, for the one mount option that `HostConfig.Mounts` does not have.
pub(super) fn write_bind(mount: &Json) -> String {
    let text = |name: &str| mount[name].as_str().unwrap_or_default();
    let mut modes = vec![mount["BindOptions"]["SELinux"].as_str().unwrap_or_default()];
    modes.push(if mount["ReadOnly"] == json!(true) { "ro" } else { "rw" });
    modes.extend(mount["BindOptions"]["Propagation"].as_str());
    modes.extend(mount["Consistency"].as_str());
    modes.retain(|mode| !mode.is_empty());
    format!("{}:{}:{}", text("Source"), text("Target"), modes.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms_become_one_list() {
        let inspect = json!({
            "Config": { "Volumes": { "/anon": {}, "/data/": {}, "/run": {} } },
            "HostConfig": {
                "Binds": ["/h/d:/data:ro,rslave", "vol:/v:nocopy"],
                "Mounts": [{ "Type": "tmpfs", "Target": "/t" }],
                "Tmpfs": { "/run": "" }
            }
        });
        assert_eq!(
            merge(&inspect),
            json!([
                { "Type": "tmpfs", "Target": "/t" },
                { "Type": "bind", "Source": "/h/d", "Target": "/data", "ReadOnly": true, "BindOptions": { "Propagation": "rslave" } },
                { "Type": "volume", "Source": "vol", "Target": "/v", "VolumeOptions": { "NoCopy": true } },
                { "Type": "volume", "Target": "/anon" }
            ])
        );
    }

    #[test]
    fn a_target_is_compared_as_engines_do() {
        for target in ["/data/sub", "/data//sub/", "/data/./x/../sub", "data/sub"] {
            assert_eq!(clean(target), "/data/sub", "{target}");
        }
    }

    #[test]
    fn a_relabelled_bind_goes_out_as_text_and_comes_back() {
        let mount = json!({ "Type": "bind", "Source": "/h", "Target": "/t", "ReadOnly": true, "BindOptions": { "SELinux": "Z" } });
        assert_eq!(write_bind(&mount), "/h:/t:Z,ro");
        assert_eq!(read_bind(&write_bind(&mount)), mount);
    }
}
