//! The checks of a leaf of a network or volume: created if missing and compared; a network made anew if that is allowed, a
//! volume never.

use plumbline::catalogue::Leaf;
use plumbline::proto::v1::{Action, ModuleSpec, RefusalReason};
use serde_json::{Value as Json, json};

use crate::checks::{changes, words};
use crate::report::{Row, Verdict};
use crate::samples::{Sample, over};
use crate::world::{World, read_module};

/// Runs every check, and takes the object away.
pub(crate) async fn network_or_volume(
    world: &World,
    module: &str,
    leaf: &Leaf,
    sample: &Sample,
    row: &mut Row,
) {
    let is_network = leaf.path.starts_with("network.");
    let spec = |fragment: &Json| {
        let object = over(&over(&json!({}), &sample.base), fragment);
        let objects = json!({ "n": object });
        let kind = if is_network { "networks" } else { "volumes" };
        // A module needs a container; this one is not attached to anything.
        let container = json!({ "image": "plumbline/sample:1", "command": ["hold"], "network_mode": "none" });
        let mut module = json!({ "name": module, "containers": { "other": container } });
        module[kind] = objects;
        read_module(&module).unwrap_or_else(|error| panic!("a sample is no manifest: {error}\n{module}"))
    };
    let subject =
        Subject { world, leaf, sample, base: spec(&Json::Null), a: spec(&sample.a), b: spec(&sample.b) };
    subject.run(row).await;
    world.remove(&format!("{module}-other")).await;
    let name = format!("{module}_n");
    let _ = if is_network {
        world.engine.remove_network(&name).await
    } else {
        world.engine.remove_volume(&name).await
    };
}

struct Subject<'a> {
    world: &'a World,
    leaf: &'a Leaf,
    sample: &'a Sample,
    base: ModuleSpec,
    a: ModuleSpec,
    b: ModuleSpec,
}

impl Subject<'_> {
    async fn run(&self, row: &mut Row) {
        if !self.leaf.supported_by(self.world.host.version.api) {
            let refused = self.expect(&self.a, true, Action::Refused, RefusalReason::Unsupported).await;
            self.keep(row, "create", refused);
            row.all(&Verdict::Exempt(format!("this engine is too old: needs API {}", self.leaf.rule.since)));
            return;
        }
        let created = self.expect(&self.a, false, Action::Created, RefusalReason::Unspecified).await;
        self.keep(row, "create", created.map(|_| "created".to_owned()));
        let again = self.expect(&self.a, false, Action::Unchanged, RefusalReason::Unspecified).await;
        self.keep(row, "again", again);
        let reason = if self.leaf.path.starts_with("network.") {
            RefusalReason::NeedsRecreation
        } else {
            RefusalReason::WouldLoseData
        };
        let refused = self.expect(&self.b, false, Action::Refused, reason).await;
        self.keep(row, "refuse", refused);
        let removed = self.expect(&self.base, false, Action::Refused, reason).await;
        self.keep(row, "removed", removed);
        let allowed = if reason == RefusalReason::NeedsRecreation {
            let anew = self.expect(&self.b, true, Action::Recreated, RefusalReason::Unspecified).await;
            anew.map(|_| "made anew".to_owned())
        } else {
            self.expect(&self.b, true, Action::Refused, reason).await
        };
        self.keep(row, "allow", allowed);
        row.set("by_hand", Verdict::Exempt("no call of the engine changes it".to_owned()));
    }

    fn keep(&self, row: &mut Row, check: &str, checked: Result<String, String>) {
        let verdict = match (self.sample.exempt.get(check).or(self.exempt_with(check)), checked) {
            (Some(reason), _) => Verdict::Exempt(reason.clone()),
            (None, Ok(detail)) => Verdict::Pass(detail),
            (None, Err(detail)) => Verdict::Fail(detail),
        };
        row.set(check, verdict);
    }

    /// What no change can be seen of can be changed by no permission either.
    fn exempt_with(&self, check: &str) -> Option<&String> {
        (check == "allow").then(|| self.sample.exempt.get("refuse")).flatten()
    }

    async fn expect(
        &self,
        spec: &ModuleSpec,
        allow: bool,
        action: Action,
        reason: RefusalReason,
    ) -> Result<String, String> {
        let result = self.world.apply(spec, allow).await?;
        if result.action() != action || result.reason() != reason {
            return Err(format!("expected {action:?} {reason:?}, found {}", words(&result)));
        }
        self.world.gaps.residue(&result)?;
        if action == Action::Refused && reason != RefusalReason::Unsupported {
            let member = self.leaf.path.split(['.', '[']).nth(1).unwrap_or_default();
            let elsewhere = |text: &str| !text.contains(&format!(".{member}"));
            let found = changes(&result);
            if !self.sample.whole
                && !self.sample.whole_removal
                && found.iter().any(|change| elsewhere(&change.path_text))
            {
                return Err(format!("changes elsewhere: {}", words(&result)));
            }
            return Ok(format!("refused, with {} changes", found.len()));
        }
        Ok("as expected".to_owned())
    }
}
