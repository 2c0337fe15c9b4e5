//! The plan: as on an agent, with pasted text in the engine's place, and notes on what text cannot tell.

use std::collections::{BTreeMap, BTreeSet};

use plumbline::catalogue::ApiVersion;
use plumbline::diff::SecretHasher;
use plumbline::order::mentioned;
use plumbline::plan::{Decision, Facts, Standing, are_made, decide};
use plumbline::proto::v1::{Action, ContainerSpec, Diff, ModuleSpec, ObjectKind, ObjectResult, PlanResponse};
use ring::rand::SecureRandom as _;
use serde_json::Value as Json;

use super::answers::Answers;
use super::notes::notes_on_compose;
use super::pair::{Declared, Found, Sides, Why, pair};
use super::references::{leave_out_unknown, shared_ids};
use super::{Pasted, PastedError};
use crate::apply::{ApplyError, Detail, Gathered, Host, gather, module_result};
use crate::container::{LABEL_CONTAINER, LABEL_INSTALLATION, LABEL_MODULE, Names};
use crate::engine::Version;
use crate::guard::HostFiles;
use crate::state::{ContainerState, Memory, ModuleState};

/// Labels of Docker Compose, as its documentation names them.
const COMPOSE_PROJECT: &str = "com.docker.compose.project";
const COMPOSE_SERVICE: &str = "com.docker.compose.service";

/// What is asked of pasted text.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// What is declared. All modules at once: a pasted container may be any one's.
    pub specs: &'a [ModuleSpec],
    /// Which declared container stands for which pasted one, where neither labels nor names say so: `KEY=NAME`, or `KEY` for
    /// the one that is otherwise unknown. A key can be written `MODULE/KEY`.
    pub containers: &'a [String],
    /// The engine's API version; else the newest that fits what was pasted.
    pub api: Option<ApiVersion>,
    /// Containers may be recreated.
    pub recreate: bool,
}

/// The plan of a module, and under which conditions it holds.
#[derive(Debug, Clone)]
pub struct Planned {
    /// As an agent would answer.
    pub response: PlanResponse,
    /// A container that no label calls this module's was taken for adopted.
    pub once_adopted: bool,
    /// The keys of the declared containers that were not pasted, and so were not judged.
    pub not_judged: Vec<String>,
}

/// The plan of every module, in the order given.
pub async fn plan(pasted: &Pasted, question: Question<'_>) -> Result<Vec<Planned>, PastedError> {
    let modules: Vec<&str> = question.specs.iter().map(ModuleSpec::name).collect();
    let declared: Vec<Declared> = question.specs.iter().flat_map(declared_of).collect();
    let found: Vec<Found> = found_in(pasted, question.specs);
    let sides = Sides { modules: &modules, declared: &declared, found: &found, files: &pasted.files };
    let pairs = pair(sides, question.containers)?;
    let mut matched: BTreeMap<(String, String), Matched> = BTreeMap::new();
    for pair in pairs {
        let (one, found) = (&declared[pair.declared], &found[pair.found]);
        let matched_with = Matched {
            id: found.id.clone(),
            name: found.name.clone(),
            owner: found.owner.clone(),
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
        let is_api_assumed = question.api.is_none();
        let api = question.api.unwrap_or_else(|| pasted.api());
        let one = One { pasted, spec, matched, api, is_api_assumed };
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
            service: label(COMPOSE_PROJECT).zip(label(COMPOSE_SERVICE)),
            is_referred_to: referred_to.contains(id.as_str()),
            id,
        }
    };
    pasted.containers.iter().map(read).collect()
}

/// The counterpart of a declared container.
pub(super) struct Matched {
    pub(super) id: String,
    pub(super) name: String,
    /// Module and key in its labels. Another module's is compared only if that was asked for.
    pub(super) owner: Option<(String, String)>,
    pub(super) why: Why,
}

/// One module.
pub(super) struct One<'a> {
    pub(super) pasted: &'a Pasted,
    pub(super) spec: &'a ModuleSpec,
    /// By key.
    pub(super) matched: BTreeMap<&'a str, &'a Matched>,
    pub(super) api: ApiVersion,
    /// Nobody said which version it is.
    pub(super) is_api_assumed: bool,
}

impl One<'_> {
    async fn plan(&self, hasher: &SecretHasher, recreate: bool) -> Result<Planned, PastedError> {
        let memory = Memory { module: self.memory(), hasher: hasher.clone() };
        let host = self.host();
        let objects = gather(&self.answers(), &memory, &host, self.spec).await;
        let mut objects = objects.map_err(|error| self.failed(error))?;
        let mut notes = self.notes_on_pairs();
        notes.extend(self.notes_on_images(&objects)?);
        notes.extend(leave_out_unknown(self.pasted, &mut objects));
        notes.extend(self.notes_on_the_host(&host));
        notes.extend(self.notes_on_update_locks());
        notes.extend(self.leave_out_what_is_not_there(&mut objects));
        notes.extend(notes_on_compose(&objects));
        for object in &mut objects {
            // An image that was not pasted may be on the host all the same.
            object.facts.image_missing = false;
        }
        notes.extend(note_on_mounts(&objects));
        let facts = objects.into_iter().map(|object| object.facts);
        let (absent, judged): (Vec<Facts>, Vec<Facts>) = facts.partition(is_absent_container);
        // What was not pasted is no reason to refuse or to recreate anything that was.
        let absent: Vec<Decision> =
            absent.into_iter().flat_map(|facts| decide(vec![facts], recreate)).collect();
        let decisions = decide(judged, recreate);
        let any = decisions.iter().any(|decision| decision.facts.kind == ObjectKind::Container);
        let not_judged = absent.iter().map(|decision| decision.facts.key.clone()).filter(|_| any).collect();
        let mut result = if any || absent.is_empty() {
            module_result(self.spec, 0, &decisions, hasher)
        } else {
            // Nothing of it is there. That is not to be called equal.
            module_result(self.spec, 0, &absent, hasher)
        };
        result.objects = module_result(self.spec, 0, &decisions, hasher).objects;
        let absent = module_result(self.spec, 0, &absent, hasher).objects;
        result.objects.extend(absent.into_iter().map(|object| self.not_there(object)));
        let once_adopted = self.matched.values().any(|matched| !self.is_ours(matched));
        // Nothing that an apply could be bound to was seen: no token.
        let response = PlanResponse { result: Some(result), plan_token: String::new(), notes };
        Ok(Planned { response, once_adopted, not_judged })
    }

    /// A container that was not pasted: nothing of it was compared, so there is no diff to show.
    fn not_there(&self, mut object: ObjectResult) -> ObjectResult {
        let not_there = format!("not in {}", self.pasted.files);
        if object.action() == Action::Created {
            object.diff = Some(Diff::default());
            object.detail = format!("{not_there}, so not compared");
        } else {
            object.detail = format!("{not_there}; {}", object.detail);
        }
        object
    }

    /// Its labels say so.
    pub(super) fn is_ours(&self, matched: &Matched) -> bool {
        matched.owner.as_ref().is_some_and(|(module, _)| module == self.spec.name())
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
    pub(super) fn host_name(&self) -> Option<(&str, &str)> {
        self.matched.iter().find_map(|(key, matched)| {
            let container = self.pasted.find_container(&matched.id)?;
            let is_silent = self.spec.containers.get(*key)?.hostname.is_none();
            let host_name = container["Config"]["Hostname"].as_str().filter(|name| !name.is_empty())?;
            (is_silent && container["HostConfig"]["NetworkMode"] == "host")
                .then_some((matched.name.as_str(), host_name))
        })
    }

    fn notes_on_update_locks(&self) -> Vec<String> {
        let locks =
            self.spec.containers.iter().filter_map(|(key, one)| Some((key, one.update_lock.as_ref()?)));
        let of_matched = locks.filter(|(key, _)| self.matched.contains_key(key.as_str()));
        let note = |(key, path)| format!("whether {key} holds its update lock ({path}) was not looked at");
        of_matched.map(note).collect()
    }

    pub(super) fn failed(&self, error: ApplyError) -> PastedError {
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
fn is_absent_container(facts: &Facts) -> bool {
    facts.kind == ObjectKind::Container && facts.standing == Standing::Absent
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
