//! Networks and volumes that left the declaration.
//!
//! A network goes with an apply that may recreate, once nobody is attached any more. A volume stays: no apply removes one.
//! Neither is ever a reason to refuse, and one that stays is unchanged, so that a module that is as declared stays so.

use std::collections::BTreeSet;

use plumbline::plan::{Decision, Facts, Standing, gravest, outcome};
use plumbline::proto::v1::{Action, ModuleResult, ObjectKind, ObjectResult, Phase};

use super::execute::Executor;
use super::neighbours::own_ids;
use super::networks::{no_container, others_key};
use super::{ApplyError, Detail, Gathered, Host};
use crate::container::{LABEL_INSTALLATION, LABEL_MODULE};
use crate::engine::EngineReader;

/// The module's networks and volumes by their labels that are not among the declared `objects`.
pub(super) async fn gather(
    reader: &EngineReader,
    host: &Host,
    module: &str,
    objects: &[Gathered],
) -> Result<Vec<Gathered>, ApplyError> {
    let labels = [(LABEL_INSTALLATION, host.installation.as_str()), (LABEL_MODULE, module)];
    let own = own_ids(objects.iter().map(|object| &object.facts));
    let declared = |kind, name: &str| {
        objects.iter().any(|object| object.facts.kind == kind && object.facts.engine_name == name)
    };
    let mut left = Vec::new();
    for (kind, inspects) in [
        (ObjectKind::Network, reader.networks_with(&labels).await?),
        (ObjectKind::Volume, reader.volumes_with(&labels).await?),
    ] {
        for inspect in inspects {
            let text = |member: &str| inspect[member].as_str().unwrap_or_default().to_owned();
            let (name, id) = (text("Name"), text("Id"));
            if declared(kind, &name) {
                continue;
            }
            let users = match kind {
                ObjectKind::Network => reader.attached_to(&name, &id).await?,
                _ => reader.users_of("volume", &[name.as_str()]).await?,
            };
            let others = users.into_iter().filter(|(id, _)| kind == ObjectKind::Volume || !own.contains(id));
            let mut facts = Facts {
                kind,
                key: name.strip_prefix(&format!("{module}_")).unwrap_or(&name).to_owned(),
                engine_id: if id.is_empty() { name.clone() } else { id },
                engine_name: name,
                standing: Standing::LeftOver,
                ..no_container(host)
            };
            facts.neighbours.in_the_way = others.map(|(_, name)| name).collect();
            left.push(Gathered { facts, detail: Detail::LeftBehind });
        }
    }
    Ok(left)
}

impl Executor<'_> {
    /// Removes the networks that are to go, now that all the rest stands. One that somebody still uses stays, which is no
    /// failure: the next apply looks again.
    pub(super) async fn remove_left_networks(
        &self,
        decisions: &[(Decision, Detail)],
        result: &mut ModuleResult,
    ) -> Result<(), ApplyError> {
        for (index, (decision, detail)) in decisions.iter().enumerate() {
            if decision.action != Action::Removed || !matches!(detail, Detail::LeftBehind) {
                continue;
            }
            let Facts { key, engine_name: name, engine_id: id, .. } = &decision.facts;
            match self.try_remove_network(name, id).await {
                Ok(()) => {
                    self.report.progress(Phase::Removed, name, "it left the declaration");
                    let known = others_key(ObjectKind::Network, key);
                    self.state.change(self.module, |module| {
                        module.others.remove(&known);
                        module.others_residue.remove(&known);
                    })?;
                }
                Err(why) => {
                    let shown = &mut result.objects[index];
                    shown.action = Action::Unchanged.into();
                    shown.outcome = outcome(Action::Unchanged).into();
                    shown.detail = format!("it left the declaration and could not be removed yet: {why}");
                }
            }
        }
        let action = gravest(result.objects.iter().map(ObjectResult::action));
        result.action = action.into();
        result.outcome = outcome(action).into();
        Ok(())
    }

    async fn try_remove_network(&self, name: &str, id: &str) -> Result<(), String> {
        let text = |error: crate::engine::EngineError| error.to_string();
        let attached = self.engine.attached_to(name, id).await.map_err(text)?;
        if !attached.is_empty() {
            let names: BTreeSet<String> = attached.into_values().collect();
            return Err(format!("attached: {}", Vec::from_iter(names).join(", ")));
        }
        match self.engine.remove_network(id).await {
            Err(error) if !error.is_not_found() => Err(text(error)),
            _ => Ok(()),
        }
    }
}
