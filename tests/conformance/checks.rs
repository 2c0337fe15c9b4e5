//! The six checks of a leaf of a container.

use plumbline::catalogue::Leaf;
use plumbline::proto::v1::path_segment::Step;
use plumbline::proto::v1::{Action, Cause, Change, Consequence, ModuleSpec, ObjectResult, RefusalReason};
use serde_json::{Value as Json, json};

use crate::gaps::NOT_REACHED;
use crate::report::{Row, Verdict};
use crate::samples::{Sample, over};
use crate::world::World;

/// Runs every check, and takes the container away.
pub(crate) async fn container(world: &World, module: &str, leaf: &Leaf, sample: &Sample, row: &mut Row) {
    let bare = json!({ "image": "plumbline/sample:1", "command": ["hold"] });
    let bare = if leaf.path == "container.command" { json!({ "image": "plumbline/sample:1" }) } else { bare };
    let base = over(&bare, &sample.base);
    let spec = |fragment: &Json| world.module(module, &over(&base, fragment), &sample.volumes);
    let subject = Subject {
        world,
        leaf,
        sample,
        base: spec(&Json::Null),
        a: spec(&sample.a),
        b: spec(&sample.b),
        name: format!("{module}-c"),
    };
    subject.run(row).await;
    world.remove(&subject.name).await;
    for name in subject.declared_names() {
        world.remove(name).await;
    }
}

struct Subject<'a> {
    world: &'a World,
    leaf: &'a Leaf,
    sample: &'a Sample,
    base: ModuleSpec,
    a: ModuleSpec,
    b: ModuleSpec,
    name: String,
}

type Checked = Result<String, String>;

impl Subject<'_> {
    async fn run(&self, row: &mut Row) {
        if !self.leaf.supported_by(self.world.host.version.api) {
            let verdict = match self.refused_as_unsupported().await {
                Ok(detail) => Verdict::Pass(detail),
                Err(detail) => Verdict::Fail(detail),
            };
            row.set("create", verdict);
            row.all(&Verdict::Exempt(format!("this engine is too old: needs API {}", self.leaf.rule.since)));
            return;
        }
        if !self.keep(row, "create", self.create().await) {
            row.all(&Verdict::Fail(format!("{NOT_REACHED}: it could not be created")));
            return;
        }
        self.keep(row, "again", self.again(&self.a).await);
        self.keep(row, "removed", self.removed().await);
        self.keep(row, "refuse", self.refuse().await);
        self.keep(row, "allow", self.allow().await);
        if self.sample.hand.is_null() {
            row.set(
                "by_hand",
                Verdict::Exempt("no call of the engine changes it on a running container".to_owned()),
            );
        } else {
            self.keep(row, "by_hand", self.by_hand().await);
        }
    }

    /// Notes what a check came to. True: go on.
    fn keep(&self, row: &mut Row, check: &str, checked: Checked) -> bool {
        let verdict = match (self.sample.exempt.get(check), checked) {
            (Some(reason), _) => Verdict::Exempt(reason.clone()),
            (None, Ok(detail)) => Verdict::Pass(detail),
            (None, Err(detail)) => Verdict::Fail(detail),
        };
        let go_on = matches!(verdict, Verdict::Pass(_));
        row.set(check, verdict);
        go_on
    }

    async fn refused_as_unsupported(&self) -> Checked {
        let result = self.world.apply(&self.a, true).await?;
        if result.reason() != RefusalReason::Unsupported {
            return Err(format!("not refused as unsupported: {:?} {}", result.action(), result.detail));
        }
        match self.world.engine.container(&self.name).await {
            Ok(None) => Ok("refused as unsupported".to_owned()),
            _ => Err("refused, and yet a container was made".to_owned()),
        }
    }

    async fn create(&self) -> Checked {
        let result = self.world.apply(&self.a, false).await?;
        if result.action() != Action::Created {
            return Err(format!("not created: {}", words(&result)));
        }
        self.world.gaps.residue(&result)?;
        Ok("created and read back equal".to_owned())
    }

    async fn again(&self, spec: &ModuleSpec) -> Checked {
        let result = self.world.apply(spec, false).await?;
        if result.action() == Action::Unchanged && changes(&result).is_empty() {
            return Ok("unchanged".to_owned());
        }
        Err(format!("not unchanged: {}", words(&result)))
    }

    /// The value is taken out of the spec: inspect still shows it, so it is a change.
    async fn removed(&self) -> Checked {
        let result = self.world.plan(&self.base, false).await?;
        self.is_about_the_leaf(&result, self.sample.whole || self.sample.whole_removal, true)?;
        Ok("noticed".to_owned())
    }

    async fn refuse(&self) -> Checked {
        let before = self.identity().await;
        let result = self.world.apply(&self.b, false).await?;
        self.is_about_the_leaf(&result, self.sample.whole, false)?;
        let after = self.identity().await;
        match result.action() {
            Action::Updated => {
                if before != after {
                    return Err(format!("in place, yet not the same process: {before:?} {after:?}"));
                }
                self.again(&self.b).await?;
                self.control_groups(after.2)?;
                Ok("in place, same process, read back equal".to_owned())
            }
            Action::Refused if result.reason() == RefusalReason::NeedsRecreation => {
                if before == after {
                    Ok("refused, untouched".to_owned())
                } else {
                    Err(format!("refused, yet touched: {before:?} {after:?}"))
                }
            }
            _ => Err(format!("neither in place nor refused: {}", words(&result))),
        }
    }

    async fn allow(&self) -> Checked {
        let result = self.world.apply(&self.b, true).await?;
        if !matches!(result.action(), Action::Recreated | Action::Unchanged) {
            return Err(format!("not recreated: {}", words(&result)));
        }
        self.world.gaps.residue(&result)?;
        self.again(&self.b).await?;
        self.control_groups(self.identity().await.2)?;
        Ok("read back equal".to_owned())
    }

    async fn by_hand(&self) -> Checked {
        let (engine, id) = (&self.world.engine, self.identity().await.0);
        let failed = |error: plumbline_agent::engine::EngineError| format!("the hand failed: {error}");
        let network = self.world.network("plc-net");
        match &self.sample.hand {
            Json::String(word) if word == "rename" => {
                engine.rename(&id, &self.name).await.map_err(failed)?;
            }
            Json::String(word) if word == "disconnect" => {
                engine.disconnect(&self.world.network("plc-other"), &id).await.map_err(failed)?;
            }
            Json::String(_) => {
                engine.disconnect(&network, &id).await.map_err(failed)?;
                engine.connect(&network, &id, &json!({})).await.map_err(failed)?;
            }
            body => engine.update(&id, body).await.map_err(failed)?,
        }
        let result = self.world.plan(&self.b, false).await?;
        self.is_about_the_leaf(&result, self.sample.whole, true)?;
        let by_hand = changes(&result).iter().any(|change| change.cause() == Cause::ChangedByHand);
        if by_hand {
            Ok("noticed, as changed by hand".to_owned())
        } else {
            Err(format!("its cause: {}", words(&result)))
        }
    }

    /// The diff has a change at this leaf, and none elsewhere. `whole`: other leaves may differ, too. `element`: the
    /// whole element may have come or gone, so other leaves of the same field may differ.
    fn is_about_the_leaf(&self, result: &ObjectResult, whole: bool, element: bool) -> Result<(), String> {
        let fields: Vec<String> = self
            .leaf
            .path
            .split('.')
            .skip(1)
            .map(|step| step.trim_end_matches("[]").trim_end_matches("[*]").to_owned())
            .collect();
        let all = changes(result);
        let at_leaf = |change: &&Change| fields_of(change) == fields;
        if !all.iter().any(|change| at_leaf(&change)) {
            return Err(format!("no change at the leaf: {}", words(result)));
        }
        let of_the_element = |change: &&Change| element && fields_of(change)[0] == fields[0];
        let strangers = all.iter().filter(|change| !at_leaf(change)).filter(|change| !of_the_element(change));
        if !whole && strangers.count() > 0 {
            return Err(format!("more changes than the one: {}", words(result)));
        }
        if !whole && !element && all.len() > 1 {
            return Err(format!("{} changes where one was made: {}", all.len(), words(result)));
        }
        let live = all.iter().all(|change| change.consequence() == Consequence::InPlace);
        let expected = if live { Action::Updated } else { Action::Refused };
        if result.action() != expected {
            return Err(format!("consequence and action disagree: {}", words(result)));
        }
        Ok(())
    }

    /// What the kernel was told, below the control group in which the process really is (version 1).
    fn control_groups(&self, pid: i64) -> Result<(), String> {
        for (file, expected) in &self.sample.cgroup {
            let (controller, file) = file.split_once('/').expect("controller/file");
            let groups =
                std::fs::read_to_string(format!("/proc/{pid}/cgroup")).map_err(|error| error.to_string())?;
            let group = groups.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                parts.next()?.split(',').any(|name| name == controller).then(|| parts.next())?
            });
            let group = group.ok_or(format!("no control group of {controller}"))?;
            let path = format!("/sys/fs/cgroup/{controller}{group}/{file}");
            let found = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
            if found.trim() != expected {
                return Err(format!("{path} holds {}, not {expected}", found.trim()));
            }
        }
        Ok(())
    }

    /// The names that the samples declare, where it is the name that is looked at.
    fn declared_names(&self) -> impl Iterator<Item = &str> {
        let sides = [&self.sample.a, &self.sample.b];
        sides.into_iter().filter_map(|side| side["container_name"].as_str())
    }

    async fn identity(&self) -> (String, String, i64) {
        for name in self.declared_names().chain([self.name.as_str()]) {
            let identity = self.world.identity(name).await;
            if !identity.0.is_empty() {
                return identity;
            }
        }
        Default::default()
    }
}

/// The field names of a path below the object.
fn fields_of(change: &Change) -> Vec<String> {
    let steps = change.path.iter().skip(2).filter_map(|segment| match &segment.step {
        Some(Step::Field(name)) => Some(name.clone()),
        Some(Step::Key(_)) | None => None,
    });
    steps.collect()
}

pub(crate) fn changes(result: &ObjectResult) -> Vec<Change> {
    result.diff.clone().unwrap_or_default().changes
}

/// A result in a line.
pub(crate) fn words(result: &ObjectResult) -> String {
    let changes: Vec<String> = changes(result)
        .iter()
        .map(|change| {
            let value = |value: &Option<plumbline::proto::v1::Value>| {
                value
                    .as_ref()
                    .and_then(|value| value.kind.as_ref())
                    .map(|kind| format!("{kind:?}"))
                    .unwrap_or_default()
            };
            format!(
                "{} {} -> {} ({:?}, {:?})",
                change.path_text,
                value(&change.before),
                value(&change.after),
                change.consequence(),
                change.cause()
            )
        })
        .collect();
    format!("{:?} {:?} {} [{}]", result.action(), result.reason(), result.detail, changes.join("; "))
}
