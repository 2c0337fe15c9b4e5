//! Plan and apply, from the request to the answer.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Mutex;

use plumbline::diff::SecretHasher;
use plumbline::plan::{Decision, gravest, outcome};
use plumbline::proto::v1::{
    Action, ApplyRequest, ModuleResult, ModuleSpec, ObjectResult, Outcome, Phase, PlanRequest, PlanResponse,
    RecreatePolicy, RefusalReason,
};
use prost::Message as _;

use super::execute::Executor;
use super::guarded::Allowed;
use super::recovery::recover;
use super::{ApplyError, Detail, Host, gather, module_result};
use crate::engine::{Engine, EngineReader};
use crate::guard::HostFiles;
use crate::settings::Settings;
use crate::state::State;

/// Hears what happens.
pub trait Report: Sync {
    /// Something happened to an object (empty: to the module).
    fn progress(&self, phase: Phase, object: &str, detail: &str);
    /// An image is being pulled.
    fn pulling(&self, image: &str, done: u64, total: u64);
    /// Data is being moved to this place: bytes copied and compared, and how many there are of both.
    fn moving(&self, to: &str, done: u64, total: u64);
}

/// What came of an apply.
#[derive(Debug)]
pub struct Applied {
    /// The result, as far as it got.
    pub result: Option<ModuleResult>,
    /// Why it failed, if it did.
    pub error: Option<ApplyError>,
}

/// What an apply would do. The engine handle has no mutating call.
pub async fn plan(
    reader: &EngineReader,
    state: &State,
    installation: &str,
    files: &HostFiles,
    request: &PlanRequest,
) -> Result<PlanResponse, ApplyError> {
    let spec = valid(request.spec.as_ref())?;
    let recreate = request.recreate() == RecreatePolicy::Allow;
    let allowed = Allowed::of(spec, recreate, &request.accepted_data)?;
    let host = Host { files: files.clone(), ..Host::ask(reader, installation).await? };
    let objects = gather(reader, &state.memory(spec.name()), &host, spec).await?;
    let (decisions, details) = allowed.decide(reader, &host, objects).await?;
    let mut result = module_result(spec, request.revision, &decisions, state.hasher());
    let plan_token = token(spec, &allowed, &result, &details, state.hasher());
    say_not_asked(&mut result, &details, ASKS);
    Ok(PlanResponse { result: Some(result), plan_token, notes: Vec::new() })
}

/// Applies a module. Whatever happens, the answer says how far it got.
pub async fn apply(
    engine: &Engine,
    state: &State,
    installation: &str,
    settings: &Settings,
    request: &ApplyRequest,
    report: &dyn Report,
) -> Applied {
    let mut result = None;
    let error = run(engine, state, installation, settings, request, report, &mut result).await.err();
    if let Some(result) = &mut result
        && !state.module(&result.module).notes.is_empty()
    {
        // Told until they are known to be told no more.
        result.notes.clone_from(&state.module(&result.module).notes);
        if let Err(error) = state.change(&result.module, |module| module.notes.clear()) {
            tracing::warn!(%error, "what was told is told again");
        }
    }
    Applied { result, error }
}

async fn run(
    engine: &Engine,
    state: &State,
    installation: &str,
    settings: &Settings,
    request: &ApplyRequest,
    report: &dyn Report,
    reached: &mut Option<ModuleResult>,
) -> Result<(), ApplyError> {
    let spec = valid(request.spec.as_ref())?;
    let last = state.module(spec.name()).revision;
    if request.revision != 0 && request.revision < last {
        return Err(ApplyError::OlderRevision { asked: request.revision, last });
    }
    let recreate = request.recreate() == RecreatePolicy::Allow;
    let allowed = Allowed::of(spec, recreate, &request.accepted_data)?;
    let files = &settings.files;
    let host = Host { files: files.clone(), ..Host::ask(engine, installation).await? };
    recover(engine, state, files, (installation, spec.name()), false).await?;
    for note in &state.module(spec.name()).notes {
        report.progress(Phase::Recovered, "", note);
    }
    let look = async || {
        let objects = gather(engine.reader(), &state.memory(spec.name()), &host, spec).await?;
        allowed.decide(engine.reader(), &host, objects).await
    };
    let (mut decisions, mut details) = look().await?;
    let mut result = module_result(spec, request.revision, &decisions, state.hasher());
    if !request.plan_token.is_empty()
        && request.plan_token != token(spec, &allowed, &result, &details, state.hasher())
    {
        refuse_stale(&mut result);
        *reached = Some(result);
        return Ok(());
    }
    // The image's defaults are part of what is desired: with the image come the final facts, and the final decision.
    let mut pulled = BTreeSet::new();
    if result.outcome() != Outcome::RefusedNeedsRecreation {
        pulled = images_to_pull(&decisions, &details, recreate, !request.plan_token.is_empty());
    }
    for image in &pulled {
        report.pulling(image, 0, 0);
        engine.pull(image, |progress| report.pulling(image, progress.done, progress.total)).await?;
    }
    if !pulled.is_empty() {
        (decisions, details) = look().await?;
        result = module_result(spec, request.revision, &decisions, state.hasher());
    }
    if !recreate || !request.plan_token.is_empty() {
        say_not_asked(&mut result, &details, if recreate { AS_PLANNED } else { ASKS });
    }
    report.progress(Phase::Planned, "", &words(&result));
    if result.outcome() == Outcome::RefusedNeedsRecreation {
        say_pulled(&mut result, &pulled);
        *reached = Some(result);
        return Ok(());
    }
    let (monitor, arrived) = (settings.monitor, Mutex::default());
    let executor = Executor { engine, state, host: &host, module: spec.name(), monitor, report, arrived };
    let work: Vec<(Decision, Detail)> = decisions.into_iter().zip(details).collect();
    let mut done = executor.execute(&work, &mut result).await;
    // What this engine did not change in place is remembered now: the same decision makes it a recreation.
    while recreate && done.as_ref().is_err_and(|error| error.not_in_place().is_some()) {
        let Ok((decisions, details)) = look().await else { break };
        let mut next = module_result(spec, request.revision, &decisions, state.hasher());
        if next.outcome() == Outcome::RefusedNeedsRecreation {
            break;
        }
        report.progress(Phase::Planned, "", &words(&next));
        let work: Vec<(Decision, Detail)> = decisions.into_iter().zip(details).collect();
        done = executor.execute(&work, &mut next).await;
        result = continued(&result, next);
    }
    *reached = Some(result);
    done?;
    let keys: BTreeSet<String> = spec.containers.keys().cloned().collect();
    let remembered = state.change(spec.name(), |module| {
        module.revision = module.revision.max(request.revision);
        module.containers.retain(|key, _| keys.contains(key));
    });
    remembered.map_err(|error| ApplyError::unremembered(spec.name(), error))?;
    Ok(())
}

pub(super) fn valid(spec: Option<&ModuleSpec>) -> Result<&ModuleSpec, ApplyError> {
    let spec = spec.ok_or_else(|| ApplyError::Invalid("the request has no spec".to_owned()))?;
    plumbline::manifest::validate(spec).map_err(|violations| {
        let texts: Vec<String> = violations.iter().map(ToString::to_string).collect();
        ApplyError::Invalid(texts.join("; "))
    })?;
    Ok(spec)
}

/// What is missing, and what is to be pulled always. A container that is there is not asked about unless it may be
/// recreated: a pull could only end in a refusal after a mutating call. A plan is applied with the images that it saw.
fn images_to_pull(
    decisions: &[Decision],
    details: &[Detail],
    recreate: bool,
    planned: bool,
) -> BTreeSet<String> {
    let mut images = BTreeSet::new();
    for (decision, detail) in decisions.iter().zip(details) {
        let Detail::Container(object) = detail else { continue };
        let will_be_made = matches!(decision.action, Action::Created | Action::Recreated);
        let missing = object.image_id.is_none() && will_be_made;
        let always = object.pull_policy == "always" && !planned && (will_be_made || recreate);
        if missing || always {
            images.insert(object.image.clone());
        }
    }
    images
}

const ASKS: &str = "only an apply with --recreate asks";
const AS_PLANNED: &str = "it was applied as planned";

/// A container that is as declared by the image on the host, although its image is to be pulled always.
fn say_not_asked(result: &mut ModuleResult, details: &[Detail], why: &str) {
    for (object, detail) in result.objects.iter_mut().zip(details) {
        let Detail::Container(container) = detail else { continue };
        let stays = matches!(object.action(), Action::Unchanged | Action::Updated | Action::Started);
        if stays && container.pull_policy == "always" {
            let image = &container.image;
            object.detail =
                format!("the registry was not asked whether {image} means another image now: {why}");
        }
    }
}

/// What was pulled brought changes that are refused. Nothing but the pull was done.
fn say_pulled(result: &mut ModuleResult, pulled: &BTreeSet<String>) {
    if pulled.is_empty() {
        return;
    }
    let pulled: Vec<&str> = pulled.iter().map(String::as_str).collect();
    let refused = |object: &&mut ObjectResult| object.action() == Action::Refused;
    for object in result.objects.iter_mut().filter(refused) {
        let _ = write!(object.detail, " ({} was pulled; nothing else was done)", pulled.join(", "));
    }
}

/// The result of a second pass. What the first one did is found done by the second.
fn continued(first: &ModuleResult, mut second: ModuleResult) -> ModuleResult {
    for object in second.objects.iter_mut().filter(|object| object.action() == Action::Unchanged) {
        // Of what was not done the detail says why; of moved data, where it is.
        let was_done = |before: &ObjectResult| {
            before.detail.is_empty() || before.mounts.iter().any(|mount| mount.data_move.is_some())
        };
        let same = |before: &&ObjectResult| {
            (before.kind, &before.key) == (object.kind, &object.key) && was_done(before)
        };
        if let Some(before) = first.objects.iter().find(same) {
            *object = before.clone();
        }
    }
    let action = gravest(second.objects.iter().map(ObjectResult::action));
    second.action = action.into();
    second.outcome = outcome(action).into();
    second
}

/// Binds what was planned: the spec, what is allowed, what stands behind the mounts, every object with its id and its diff, the images.
fn token(
    spec: &ModuleSpec,
    allowed: &Allowed<'_>,
    result: &ModuleResult,
    details: &[Detail],
    hasher: &SecretHasher,
) -> String {
    let mut result = result.clone();
    // Who uses data changes how much it is.
    for data in result.objects.iter_mut().flat_map(|object| &mut object.mounts) {
        if let Some(data_move) = &mut data.data_move {
            (data_move.bytes, data_move.entries) = (0, 0);
            data.detail.clear();
        }
    }
    let mut text = format!("{:?}{}{:?}", spec.encode_to_vec(), allowed.text(), result.encode_to_vec());
    for detail in details {
        if let Detail::Container(object) = detail {
            let live = object.observed.as_ref().map(|observed| {
                (&observed.id, &observed.image_id, observed.running, observed.spec.encode_to_vec().len())
            });
            let _ = write!(text, "{:?}{live:?}", object.image_id);
            // The JSON of a normal form has its keys in one order, the encoding of a map has not.
            let observed =
                object.observed.as_ref().and_then(|observed| serde_json::to_value(&observed.spec).ok());
            text.push_str(&observed.map(sorted).unwrap_or_default());
        }
    }
    hasher.hash(&text)
}

fn sorted(json: serde_json::Value) -> String {
    match json {
        serde_json::Value::Object(map) => {
            let map: std::collections::BTreeMap<String, String> =
                map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            format!("{map:?}")
        }
        serde_json::Value::Array(values) => {
            format!("{:?}", values.into_iter().map(sorted).collect::<Vec<_>>())
        }
        value => value.to_string(),
    }
}

fn refuse_stale(result: &mut ModuleResult) {
    result.outcome = Outcome::RefusedNeedsRecreation.into();
    result.action = Action::Refused.into();
    for object in &mut result.objects {
        object.outcome = Outcome::RefusedNeedsRecreation.into();
        object.action = Action::Refused.into();
        object.reason = RefusalReason::StalePlan.into();
        object.detail = "the plan that the request names no longer holds: plan again".to_owned();
    }
}

fn words(result: &ModuleResult) -> String {
    let changes: usize =
        result.objects.iter().map(|object| object.diff.as_ref().map_or(0, |diff| diff.changes.len())).sum();
    match changes {
        0 if result.action() == Action::Unchanged => "nothing differs".to_owned(),
        0 => "no field differs; containers are started, or what left the declaration is removed".to_owned(),
        1 => "1 change".to_owned(),
        count => format!("{count} changes"),
    }
}
