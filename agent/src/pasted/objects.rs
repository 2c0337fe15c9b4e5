//! From text to objects.

use plumbline::catalogue::ApiVersion;
use serde_json::Value as Json;

use super::PastedError;
use crate::container::same_reference;

/// The fewest digits of an id that are taken for one.
const SHORT_ID: usize = 12;

/// Everything that was pasted.
#[derive(Debug, Clone, Default)]
pub struct Pasted {
    /// The names of the files, for people.
    pub(super) files: String,
    pub(super) containers: Vec<Json>,
    images: Vec<Json>,
    networks: Vec<Json>,
    volumes: Vec<Json>,
}

impl Pasted {
    /// Reads files, each given with its name. A file holds an array, one object, or several of these after one another, as
    /// several calls of `docker inspect` write them.
    pub fn read(files: &[(String, Vec<u8>)]) -> Result<Self, PastedError> {
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        let mut pasted = Self { files: names.join(", "), ..Self::default() };
        for (file, text) in files {
            for object in read(file, text)? {
                pasted.add(file, object)?;
            }
        }
        if pasted.containers.is_empty() {
            return Err(PastedError::NoContainer { files: pasted.files });
        }
        Ok(pasted)
    }

    /// The names of the files.
    pub fn files(&self) -> &str {
        &self.files
    }

    fn add(&mut self, file: &str, object: Json) -> Result<(), PastedError> {
        let list = match Kind::of(&object) {
            Some(Kind::Container) => &mut self.containers,
            Some(Kind::Image) => &mut self.images,
            Some(Kind::Network) => &mut self.networks,
            Some(Kind::Volume) => &mut self.volumes,
            None => return Err(PastedError::NotInspect { file: file.to_owned(), what: describe(&object) }),
        };
        let identity = |object: &Json| object.get("Id").or(object.get("Name")).cloned();
        match list.iter().find(|known| identity(known) == identity(&object)) {
            // `docker inspect` shows an object once for every name that it is asked for.
            Some(known) if *known == object => {}
            Some(known) => {
                let name = known["Name"].as_str().or(known["Id"].as_str()).unwrap_or_default();
                let name = name.trim_start_matches('/').to_owned();
                return Err(PastedError::Twice { file: file.to_owned(), name });
            }
            None => list.push(object),
        }
        Ok(())
    }

    /// The API version of the engine that wrote this, as far as it shows: since 1.44 the attachments have `DNSNames`.
    pub fn api(&self) -> ApiVersion {
        let mut endpoints = self
            .containers
            .iter()
            .filter_map(|container| container["NetworkSettings"]["Networks"].as_object())
            .flat_map(|networks| networks.values())
            .peekable();
        let any = endpoints.peek().is_some();
        if any && endpoints.all(|endpoint| endpoint.get("DNSNames").is_none()) {
            ApiVersion { major: 1, minor: 43 }
        } else {
            ApiVersion::NEWEST
        }
    }

    /// Everything that can carry a module's labels.
    pub(super) fn labels(&self) -> impl Iterator<Item = &Json> {
        let containers = self.containers.iter().map(|container| &container["Config"]["Labels"]);
        containers.chain(self.networks.iter().chain(&self.volumes).map(|object| &object["Labels"]))
    }

    /// A network by name or id.
    pub(super) fn find_network(&self, name: &str) -> Option<&Json> {
        self.networks.iter().find(|one| text(one, "Name") == name || is_id(text(one, "Id"), name))
    }

    /// A volume by name.
    pub(super) fn find_volume(&self, name: &str) -> Option<&Json> {
        self.volumes.iter().find(|one| text(one, "Name") == name)
    }

    /// A container by name or id.
    pub(super) fn find_container(&self, name: &str) -> Option<&Json> {
        let named =
            |container: &&Json| text(container, "Name").trim_start_matches('/') == name && !name.is_empty();
        let by_id = |container: &&Json| is_id(text(container, "Id"), name);
        self.containers.iter().find(named).or_else(|| self.containers.iter().find(by_id))
    }

    /// An image by reference or id.
    pub(super) fn find_image(&self, reference: &str) -> Option<&Json> {
        let listed = |image: &Json, member: &str| {
            let references = image[member].as_array().into_iter().flatten().filter_map(Json::as_str);
            references.into_iter().any(|other| same_reference(other, reference))
        };
        let id = reference.strip_prefix("sha256:").unwrap_or(reference);
        self.images.iter().find(|image| {
            listed(image, "RepoTags")
                || listed(image, "RepoDigests")
                || is_id(text(image, "Id").trim_start_matches("sha256:"), id)
        })
    }
}

fn text<'a>(object: &'a Json, member: &str) -> &'a str {
    object[member].as_str().unwrap_or_default()
}

fn is_id(id: &str, start: &str) -> bool {
    start.len() >= SHORT_ID && id.starts_with(start)
}

/// Every object of a file.
fn read(file: &str, text: &[u8]) -> Result<Vec<Json>, PastedError> {
    // Windows programs begin a text file with a byte order mark.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut objects = Vec::new();
    let mut values = 0;
    for value in serde_json::Deserializer::from_slice(text).into_iter::<Json>() {
        let value = value.map_err(|error| {
            // The position is told in front, where editors look for it.
            let position = format!(" at line {} column {}", error.line(), error.column());
            let reason = error.to_string().replace(&position, "");
            PastedError::NotJson { file: file.to_owned(), line: error.line(), column: error.column(), reason }
        })?;
        values += 1;
        match value {
            Json::Array(elements) => objects.extend(elements),
            value => objects.push(value),
        }
    }
    if values == 0 {
        return Err(PastedError::Empty { file: file.to_owned() });
    }
    Ok(objects)
}

enum Kind {
    Container,
    Image,
    Network,
    Volume,
}

impl Kind {
    /// By the members that only this kind has.
    fn of(object: &Json) -> Option<Self> {
        let is_text = |name: &str| object[name].is_string();
        let is_object = |name: &str| object[name].is_object();
        if !object.is_object() {
            None
        } else if is_text("Id") && is_text("Name") && is_object("Config") && is_object("HostConfig") {
            Some(Self::Container)
        } else if is_text("Id") && is_text("Architecture") && object.get("RepoTags").is_some() {
            Some(Self::Image)
        } else if is_text("Id") && is_text("Name") && is_text("Driver") && is_object("IPAM") {
            Some(Self::Network)
        } else if is_text("Name") && is_text("Driver") && is_text("Mountpoint") {
            Some(Self::Volume)
        } else {
            None
        }
    }
}

/// Names members, never values.
fn describe(object: &Json) -> String {
    match object {
        Json::Object(members) if members.is_empty() => "it holds an empty object".to_owned(),
        Json::Object(members) => {
            let names: Vec<&str> = members.keys().take(5).map(String::as_str).collect();
            let more = if members.len() > names.len() { ", ..." } else { "" };
            format!("it holds an object with {}{more}", names.join(", "))
        }
        Json::Array(_) => "it holds a list in a list".to_owned(),
        Json::String(_) => "it holds a text".to_owned(),
        Json::Number(_) => "it holds a number".to_owned(),
        Json::Bool(_) | Json::Null => "it holds a single word".to_owned(),
    }
}
