//! References to images: one image is written in several ways.

/// Name and tag (or digest) of a reference; without either the tag is latest, or the engine would pull every tag.
pub(crate) fn split_reference(reference: &str) -> (&str, &str) {
    if let Some((name, digest)) = reference.split_once('@') {
        return (name, digest);
    }
    match reference.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (reference, "latest"),
    }
}

/// Do both mean the same image to an engine? `nginx`, `docker.io/library/nginx:latest`; beside a digest a tag is for people.
pub(crate) fn same_reference(left: &str, right: &str) -> bool {
    let parts = |reference| {
        let (name, version) = split_reference(reference);
        let name = if version.contains(':') { split_reference(name).0 } else { name };
        let hub = name.strip_prefix("docker.io/").or_else(|| name.strip_prefix("index.docker.io/"));
        let path = hub.unwrap_or(name);
        (path.strip_prefix("library/").unwrap_or(path), version)
    };
    parts(left) == parts(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_not_a_tag() {
        assert_eq!(split_reference("app"), ("app", "latest"));
        assert_eq!(split_reference("app:1"), ("app", "1"));
        assert_eq!(split_reference("host:5000/app"), ("host:5000/app", "latest"));
        assert_eq!(split_reference("host:5000/app:1"), ("host:5000/app", "1"));
        assert_eq!(split_reference("app@sha256:ab"), ("app", "sha256:ab"));
    }

    #[test]
    fn an_image_is_written_in_several_ways() {
        for (left, right, same) in [
            ("nginx", "docker.io/library/nginx:latest", true),
            ("index.docker.io/team/app:1", "team/app:1", true),
            ("app:1@sha256:ab", "app@sha256:ab", true),
            ("nginx:1", "nginx:2", false),
            ("nginx", "library/nginx", true),
            ("host:5000/app", "app", false),
            ("app@sha256:ab", "app@sha256:cd", false),
        ] {
            assert_eq!(same_reference(left, right), same, "{left} {right}");
        }
    }
}
