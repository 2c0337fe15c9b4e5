//! The plan: as on an agent, with pasted text in the engine's place, and notes on what text cannot tell.

use std::collections::{BTreeMap, BTreeSet};

use plumbline::catalogue::ApiVersion;
use plumbline::diff::SecretHasher;
use plumbline::order::mentioned;
use plumbline::plan::{Decision, Standing, are_made, decide};
use plumbline::proto::v1::{ContainerSpec, ModuleSpec, ObjectKind, PlanResponse};
use ring::rand::SecureRandom as _;
use serde_json::Value as Json;

use super::answers::Answers;
use super::pair::{Declared, Found, Why, pair};
use super::unknown_image::not_told_apart;
use super::{Pasted, PastedError};
use crate::apply::{ApplyError, Detail, Gathered, Host, gather, module_result};
use crate::container::{LABEL_CONTAINER, LABEL_INSTALLATION, LABEL_MODULE, Names};
use crate::engine::Version;
use crate::guard::HostFiles;
use crate::state::{ContainerState, Memory, ModuleState};

/// What is asked of pasted text.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// What is declared. All modules at once: a pasted container may be any one's.
    pub specs: &'a [ModuleSpec],
    /// The key (`KEY` or `MODULE/KEY`) of the declared container that the otherwise unknown one stands for.
    pub container: Option<&'a str>,
    /// The engine's API version; else the newest that fits what was pasted.
    pub api: Option<ApiVersion>,
    /// Containers may be recreated.
    pub recreate: bool,
}

/// The plan of every module, in the order given.
pub async fn plan(pasted: &Pasted, question: Question<'_>) -> Result<Vec<PlanResponse>, PastedError> {
    let declared: Vec<Declared> = question.specs.iter().flat_map(declared_of).collect();
    let found: Vec<Found> = found_in(pasted, question.specs);
    let pairs = pair(&declared, &found, question.container, &pasted.files)?;
    let mut matched: BTreeMap<(String, String), Matched> = BTreeMap::new();
    for pair in pairs {
        let (one, found) = (&declared[pair.declared], &found[pair.found]);
        let matched_with = Matched {
            id: found.id.clone(),
            name: found.name.clone(),
            is_owned: found.owner.is_some(),
            why: pair.why,
        };
        matched.insert((one.module.clone(), one.key.clone()), matched_with);
    }
    let hasher = random_hasher()?;
    let mut plans = Vec::new();
    for spec in question.specs {
        let matched: BTreeMap<&str, &Matched> = matched
            .iter()
            .filter(|((module, _), _)| module == spec.name())
            .map(|((_, key), matched)| (key.as_str(), matched))
            .collect();
        let one = One { pasted, spec, matched, api: question.api.unwrap_or_else(|| pasted.api()) };
        plans.push(one.plan(&hasher, question.recreate).await?);
    }
    Ok(plans)
}

/// Hashes of two runs are not to be compared: nobody keeps the key.
fn random_hasher() -> Result<SecretHasher, PastedError> {
    let mut key = [0_u8; 32];
    ring::rand::SystemRandom::new().fill(&mut key).map_err(|_| PastedError::NoRandomNumbers)?;
    Ok(SecretHasher::new(&key))
}

fn declared_of(spec: &ModuleSpec) -> Vec<Declared> {
    let names = Names::of(spec).containers.into_iter();
    names.map(|(key, name)| Declared { module: spec.name().to_owned(), key, name }).collect()
}

fn found_in(pasted: &Pasted, specs: &[ModuleSpec]) -> Vec<Found> {
    let mut referred_to: BTreeSet<&str> = pasted.containers.iter().flat_map(shared_ids).collect();
    let names: BTreeSet<String> =
        specs.iter().flat_map(|spec| spec.containers.values()).flat_map(mentioned).collect();
    for name in &names {
        referred_to.extend(pasted.find_container(name).and_then(|container| container["Id"].as_str()));
    }
    let read = |container: &Json| {
        let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
        let label = |name: &str| container["Config"]["Labels"][name].as_str().map(str::to_owned);
        let id = text(&container["Id"]);
        Found {
            name: text(&container["Name"]).trim_start_matches('/').to_owned(),
            owner: label(LABEL_MODULE).zip(label(LABEL_CONTAINER)),
            is_referred_to: referred_to.contains(id.as_str()),
            id,
        }
    };
    pasted.containers.iter().map(read).collect()
}

/// The ids of the containers whose namespaces this one shares.
fn shared_ids(container: &Json) -> impl Iterator<Item = &str> {
    let modes = ["NetworkMode", "IpcMode", "PidMode"].into_iter();
    modes.filter_map(|mode| container["HostConfig"][mode].as_str()?.strip_prefix("container:"))
}

/// The counterpart of a declared container.
struct Matched {
    id: String,
    name: String,
    /// It bears the labels of a module.
    is_owned: bool,
    why: Why,
}

/// One module.
struct One<'a> {
    pasted: &'a Pasted,
    spec: &'a ModuleSpec,
    /// By key.
    matched: BTreeMap<&'a str, &'a Matched>,
    api: ApiVersion,
}

impl One<'_> {
    async fn plan(&self, hasher: &SecretHasher, recreate: bool) -> Result<PlanResponse, PastedError> {
        let memory = Memory { module: self.memory(), hasher: hasher.clone() };
        let host = self.host();
        let objects = gather(&self.answers(), &memory, &host, self.spec).await;
        let mut objects = objects.map_err(|error| self.failed(error))?;
        let mut notes = self.notes_on_pairs();
        notes.extend(self.notes_on_images(&objects)?);
        notes.extend(self.notes_on_references(&host));
        notes.extend(self.leave_out_what_is_not_there(&mut objects));
        for object in &mut objects {
            // An image that was not pasted may be on the host all the same.
            object.facts.image_missing = false;
        }
        notes.extend(note_on_mounts(&objects));
        let decisions = decide(objects.into_iter().map(|object| object.facts).collect(), recreate);
        let mut result = module_result(self.spec, 0, &decisions, hasher);
        for (object, decision) in result.objects.iter_mut().zip(&decisions) {
            if is_absent_container(decision) {
                let not_there = format!("not in {}", self.pasted.files);
                object.detail = match object.detail.as_str() {
                    "" => not_there,
                    detail => format!("{not_there}; {detail}"),
                };
            }
        }
        // Nothing that an apply could be bound to was seen: no token.
        Ok(PlanResponse { result: Some(result), plan_token: String::new(), notes })
    }

    /// What an agent that had adopted the counterparts would remember: whose they are, and nothing of what was desired.
    fn memory(&self) -> ModuleState {
        let container =
            |matched: &Matched| ContainerState { id: matched.id.clone(), ..ContainerState::default() };
        let containers = self.matched.iter().map(|(key, matched)| ((*key).to_owned(), container(matched)));
        ModuleState { containers: containers.collect(), ..ModuleState::default() }
    }

    fn answers(&self) -> Answers<'_> {
        let takes_away = |key: &str| {
            let entrypoint = self.spec.containers.get(key).and_then(|one| one.entrypoint.as_ref());
            entrypoint.is_some_and(|entrypoint| entrypoint.values.is_empty())
        };
        let matched = self.matched.iter().filter(|(key, _)| takes_away(key));
        Answers {
            pasted: self.pasted,
            without_entrypoint: matched.map(|(_, matched)| matched.id.as_str()).collect(),
        }
    }

    fn host(&self) -> Host {
        let of_this_module = |labels: &&Json| labels[LABEL_MODULE] == self.spec.name();
        let labels = self.pasted.labels().find(of_this_module);
        let installation = labels.and_then(|labels| labels[LABEL_INSTALLATION].as_str());
        Host {
            installation: installation.unwrap_or_default().to_owned(),
            version: Version { engine: String::new(), api: self.api },
            host_name: self.host_name().map(|(_, name)| name.to_owned()).unwrap_or_default(),
            engine_root: String::new(),
            files: HostFiles::default(),
        }
    }

    /// In the host's network a container is named like the host, unless it says otherwise: so the host's name is that of
    /// such a container whose declaration is silent. With the container's name.
    fn host_name(&self) -> Option<(&str, &str)> {
        self.matched.iter().find_map(|(key, matched)| {
            let container = self.pasted.find_container(&matched.id)?;
            let is_silent = self.spec.containers.get(*key)?.hostname.is_none();
            let host_name = container["Config"]["Hostname"].as_str().filter(|name| !name.is_empty())?;
            (is_silent && container["HostConfig"]["NetworkMode"] == "host")
                .then_some((matched.name.as_str(), host_name))
        })
    }

    fn notes_on_pairs(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (key, matched) in &self.matched {
            let name = &matched.name;
            if matched.why == Why::OnlyOne {
                notes.push(format!("{name} is compared with {key}: no other is left on either side"));
            }
            if !matched.is_owned {
                notes.push(format!(
                    "{name} bears no label of Plumbline: an apply touches it only once it is adopted (`plumb take`)"
                ));
            }
        }
        notes
    }

    /// What is not known for want of an image, in one note for each way of not knowing.
    fn notes_on_images(&self, objects: &[Gathered]) -> Result<Vec<String>, PastedError> {
        let (mut assumed, mut by_name) = (Vec::new(), Vec::new());
        let mut images = BTreeSet::new();
        for object in objects {
            let Detail::Container(container) = &object.detail else { continue };
            let (None, Some(observed)) = (&container.image_id, &container.observed) else { continue };
            images.insert(container.image.as_str());
            let key = &object.facts.key;
            if self.pasted.find_image(&observed.image_id).is_some() {
                by_name.push(key.clone());
                continue;
            }
            let Some(inspect) = self.pasted.find_container(&observed.id) else { continue };
            let fields = not_told_apart(&container.declared, inspect, self.api)
                .map_err(|error| self.failed(error.into()))?;
            assumed.push(format!("{key}: {}", counted(&fields)));
        }
        let complete = format!(
            "for a whole comparison add `docker image inspect {}`",
            images.into_iter().collect::<Vec<_>>().join(" ")
        );
        let mut notes = Vec::new();
        if !assumed.is_empty() {
            notes.push(format!(
                "without the image in {} what nobody declares and the image may have brought was not compared ({}), and the \
                 image itself only by its name; {complete}",
                self.pasted.files,
                assumed.join("; ")
            ));
        }
        if !by_name.is_empty() {
            notes.push(format!(
                "the declared image of {} is not in {}: it was compared by its name only, with the defaults of the image that \
                 runs; {complete}",
                by_name.join(", "),
                self.pasted.files
            ));
        }
        Ok(notes)
    }

    fn notes_on_references(&self, host: &Host) -> Vec<String> {
        let mut notes = Vec::new();
        for matched in self.matched.values() {
            let ids = self.pasted.find_container(&matched.id).into_iter().flat_map(shared_ids);
            let unknown: BTreeSet<&str> = ids.filter(|id| self.pasted.find_container(id).is_none()).collect();
            for id in unknown {
                let id = id.get(..12).unwrap_or(id);
                notes.push(format!(
                    "{} shares a namespace with the container {id}, which is not in {}: it was compared by its id, as the name \
                     is not known; add `docker inspect {id}`",
                    matched.name, self.pasted.files
                ));
            }
        }
        if let Some((container, _)) = self.host_name() {
            notes.push(format!(
                "{container} is in the host's network: {} was taken for the host's own name, which is not known",
                host.host_name
            ));
        }
        notes
    }

    /// Networks and volumes stand in no container's inspect: that they were not pasted does not mean that they are missing.
    fn leave_out_what_is_not_there(&self, objects: &mut Vec<Gathered>) -> Option<String> {
        let mut names = Vec::new();
        objects.retain(|object| {
            let facts = &object.facts;
            let word = match facts.kind {
                ObjectKind::Network => "network",
                ObjectKind::Volume => "volume",
                ObjectKind::Container | ObjectKind::Unspecified => return true,
            };
            let is_there = !matches!(facts.standing, Standing::Absent | Standing::ExternalMissing);
            if !is_there {
                names.push(format!("{word} {}", facts.engine_name));
            }
            is_there
        });
        (!names.is_empty()).then(|| {
            format!(
                "not compared, for they are not in {}: {} (`docker network inspect`, `docker volume inspect`)",
                self.pasted.files,
                names.join(", ")
            )
        })
    }

    fn failed(&self, error: ApplyError) -> PastedError {
        match error {
            ApplyError::Form(form) => PastedError::Unreadable {
                files: self.pasted.files.clone(),
                field: form.field,
                expected: form.expected,
            },
            source => PastedError::Module { module: self.spec.name().to_owned(), source },
        }
    }
}

/// What text cannot tell of containers that would be put on mounts that hold data.
fn note_on_mounts(objects: &[Gathered]) -> Option<String> {
    let facts: Vec<_> = objects.iter().map(|object| object.facts.clone()).collect();
    let stands_on_data = |object: &&Gathered| {
        let Detail::Container(container) = &object.detail else { return false };
        let spec: ContainerSpec = container.desired.transcode_to().unwrap_or_default();
        container.observed.is_some()
            && spec.mounts.iter().any(|mount| matches!(mount.r#type(), "bind" | "volume"))
    };
    let made = objects.iter().zip(are_made(&facts)).filter_map(|(object, is_made)| is_made.then_some(object));
    let keys: Vec<&str> = made.filter(stands_on_data).map(|object| object.facts.key.as_str()).collect();
    (!keys.is_empty()).then(|| {
        format!(
            "what stands behind the mounts of {} was not judged: only an agent sees the host's files, and it may refuse",
            keys.join(", ")
        )
    })
}

fn is_absent_container(decision: &Decision) -> bool {
    decision.facts.kind == ObjectKind::Container && decision.facts.standing == Standing::Absent
}

/// `3 values: command, environment 2`.
fn counted(fields: &BTreeMap<String, usize>) -> String {
    let all: usize = fields.values().sum();
    if all == 0 {
        return "nothing".to_owned();
    }
    let word = if all == 1 { "value" } else { "values" };
    let fields: Vec<String> = fields
        .iter()
        .map(|(field, count)| if *count == 1 { field.clone() } else { format!("{field} {count}") })
        .collect();
    format!("{all} {word}: {}", fields.join(", "))
}
