//! What inspect shows in other words than a declaration: brought to the declaration's words before comparing.

use plumbline::catalogue::ApiVersion;
use prost_reflect::{DynamicMessage, Value};

use super::{is_generated_name, same_reference};

/// From this version on engines show the aliases that were declared, and no others.
const ALIASES_AS_DECLARED_SINCE: ApiVersion = ApiVersion { major: 1, minor: 45 };

/// Changes `observed` where it says the same as `desired` in other words.
///
/// * The image is compared by id: if both references mean the same image, the declared reference stands for it. If one
///   reference now means another image (a tag that moved), the ids tell them apart.
/// * An anonymous volume has a generated name; a declaration has none.
/// * Older engines add the host name to the aliases.
/// * Privileged, and the host's process or shared-memory namespace, make the engine add `label=disable`.
pub fn align(
    desired: &mut DynamicMessage,
    observed: &mut DynamicMessage,
    desired_image_id: Option<&str>,
    observed_image_id: &str,
    api: ApiVersion,
) {
    align_image(desired, observed, desired_image_id, observed_image_id);
    align_generated_names(desired, observed);
    align_security(desired, observed);
    if api < ALIASES_AS_DECLARED_SINCE {
        align_aliases(desired, observed);
    }
}

/// Engine 20.10, and newer ones asked in an API below 1.45, add a declared host name to the aliases on every network.
fn align_aliases(desired: &DynamicMessage, observed: &mut DynamicMessage) {
    let host_name = text(observed, "hostname");
    let Some(Value::Map(mut networks)) =
        observed.get_field_by_name("networks").map(std::borrow::Cow::into_owned)
    else {
        return;
    };
    let wanted = desired.get_field_by_name("networks").map(std::borrow::Cow::into_owned);
    for (name, endpoint) in &mut networks {
        let aliases = |endpoint: &Value| match endpoint.as_message()?.get_field_by_name("aliases")?.as_ref() {
            Value::List(aliases) => Some(aliases.clone()),
            _ => None,
        };
        let is_host_name =
            |alias: &Value| alias.as_str().is_some_and(|alias| alias.eq_ignore_ascii_case(&host_name));
        let declared =
            wanted.as_ref().and_then(|wanted| aliases(wanted.as_map()?.get(name)?)).unwrap_or_default();
        let Some(mut kept) = aliases(endpoint) else { continue };
        if !host_name.is_empty() && !declared.iter().any(is_host_name) {
            kept.retain(|alias| !is_host_name(alias));
        }
        if let Some(endpoint) = endpoint.as_message_mut() {
            if kept.is_empty() {
                endpoint.clear_field_by_name("aliases");
            } else {
                endpoint.set_field_by_name("aliases", Value::List(kept));
            }
        }
    }
    if !networks.is_empty() {
        observed.set_field_by_name("networks", Value::Map(networks));
    }
}

fn text(message: &DynamicMessage, name: &str) -> String {
    message.get_field_by_name(name).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn align_image(
    desired: &mut DynamicMessage,
    observed: &mut DynamicMessage,
    desired_id: Option<&str>,
    observed_id: &str,
) {
    let (wanted, running) = (text(desired, "image"), text(observed, "image"));
    match desired_id {
        Some(id) if id == observed_id => observed.set_field_by_name("image", Value::String(wanted)),
        Some(id) if wanted == running => {
            desired.set_field_by_name("image", Value::String(format!("{wanted} ({id})")));
            observed.set_field_by_name("image", Value::String(format!("{running} ({observed_id})")));
        }
        // The image is not known: only the reference can be compared.
        None if same_reference(&wanted, &running) => {
            observed.set_field_by_name("image", Value::String(wanted));
        }
        Some(_) | None => {}
    }
    if desired.has_field_by_name("platform") && text(observed, "platform").split('/').count() == 1 {
        // The image is gone, so only the operating system is known.
        let os = text(desired, "platform").split('/').next().unwrap_or_default().to_owned();
        if os == text(observed, "platform") {
            observed.set_field_by_name("platform", Value::String(text(desired, "platform")));
        }
    }
    let declared = text(desired, "platform");
    if !declared.is_empty() && text(observed, "platform").starts_with(&format!("{declared}/")) {
        // linux/arm64 is satisfied by linux/arm64/v8.
        observed.set_field_by_name("platform", Value::String(declared));
    }
}

fn align_generated_names(desired: &DynamicMessage, observed: &mut DynamicMessage) {
    let Some(Value::List(wanted)) = desired.get_field_by_name("mounts").map(std::borrow::Cow::into_owned)
    else {
        return;
    };
    let Some(Value::List(mut mounts)) =
        observed.get_field_by_name("mounts").map(std::borrow::Cow::into_owned)
    else {
        return;
    };
    for mount in mounts.iter_mut().filter_map(Value::as_message_mut) {
        let target = text(mount, "target");
        let mut wanted = wanted.iter().filter_map(Value::as_message);
        // Also one that is no longer declared: nobody chose its name.
        let unnamed = wanted
            .find(|wanted| text(wanted, "target") == target)
            .is_none_or(|wanted| text(wanted, "type") == "volume" && !wanted.has_field_by_name("source"));
        if unnamed && text(mount, "type") == "volume" && is_generated_name(&text(mount, "source")) {
            mount.clear_field_by_name("source");
        }
    }
    observed.set_field_by_name("mounts", Value::List(mounts));
}

fn align_security(desired: &DynamicMessage, observed: &mut DynamicMessage) {
    let disable = Value::String("label=disable".to_owned());
    let options = |message: &DynamicMessage| match message.get_field_by_name("security_opt").as_deref() {
        Some(Value::List(options)) => options.clone(),
        _ => Vec::new(),
    };
    let privileged =
        observed.get_field_by_name("privileged").and_then(|value| value.as_bool()).unwrap_or_default();
    let added = privileged || text(observed, "pid") == "host" || text(observed, "ipc") == "host";
    if added && !options(desired).contains(&disable) {
        let mut kept = options(observed);
        kept.retain(|option| *option != disable);
        if kept.is_empty() {
            observed.clear_field_by_name("security_opt");
        } else {
            observed.set_field_by_name("security_opt", Value::List(kept));
        }
    }
}
