//! Putting a network back that was being made anew: from what the engine shows now, and as often as it takes.
//!
//! Measured on 20.10: a network can be removed while stopped containers are attached to it. They keep its id, and start no
//! more (404), even if there is another one of that name; taken off with force and attached again they do, with their
//! aliases, their addresses and the container's own hardware address.

use serde_json::{Map, Value as Json, json};

use super::ApplyError;
use crate::container::LABEL_MARK;
use crate::engine::{Engine, EngineError, EngineReader};
use crate::journal::NetworkChange;

/// The network is as it was, and what was attached to it is so again. `keep`: whichever is there stays, for a new container is
/// to run on it.
pub(super) async fn put_network_back(
    engine: &Engine,
    change: &NetworkChange,
    keep: bool,
) -> Result<(), ApplyError> {
    let mut there = named(engine, &change.name).await?;
    if let Some(new) = there.take_if(|found| !keep && found["Labels"][LABEL_MARK] == change.mark.as_str()) {
        match engine.remove_network(id_of(&new)).await {
            Err(error) if error.status() == Some(403) => {
                // Somebody attached another container meanwhile. The old ones run on the new network, or on none.
                tracing::warn!(network = change.name, %error, "a network that was made anew stays");
                there = Some(new);
            }
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
    }
    let id = match there {
        Some(found) => id_of(&found).to_owned(),
        None => engine.create_network(&change.before).await?,
    };
    for (container, endpoint) in &change.attached {
        attach_again(engine, &change.name, &id, container, endpoint).await?;
    }
    Ok(())
}

/// Attaches a container to the network that has this id now, if it is not, or only to one that is gone.
async fn attach_again(
    engine: &Engine,
    name: &str,
    id: &str,
    container: &str,
    endpoint: &Json,
) -> Result<(), EngineError> {
    let Some(shown) = engine.container(container).await? else { return Ok(()) };
    let known = &shown["NetworkSettings"]["Networks"][name];
    if known.is_object() {
        // One that was not started since knows the network by its name only.
        if known["NetworkID"].as_str().unwrap_or_default().is_empty() || known["NetworkID"] == id {
            return Ok(());
        }
        engine.disconnect(name, container).await?;
    }
    engine.connect(name, container, endpoint).await
}

/// Where no journal tells: the endpoints of a container that are on networks which were made anew since get those of the same
/// name.
pub(super) async fn follow_networks(engine: &Engine, container: &str) -> Result<(), EngineError> {
    let shown = engine.container(container).await?.unwrap_or_default();
    for (name, known) in shown["NetworkSettings"]["Networks"].as_object().into_iter().flatten() {
        // The engine's own networks may have another id after each of its starts.
        if matches!(name.as_str(), "bridge" | "host" | "none") {
            continue;
        }
        if let Some(found) = named(engine, name).await? {
            attach_again(engine, name, id_of(&found), container, &endpoint_of(known)).await?;
        }
    }
    Ok(())
}

/// The network that has this very name. An inspect by name also finds an id that starts like it.
pub(super) async fn named(reader: &EngineReader, name: &str) -> Result<Option<Json>, EngineError> {
    Ok(reader.network(name).await?.filter(|found| found["Name"] == name))
}

fn id_of(network: &Json) -> &str {
    network["Id"].as_str().unwrap_or_default()
}

/// The settings of an endpoint that attach a container as it is: what inspect shows, without what the engine chose.
pub(super) fn endpoint_of(shown: &Json) -> Json {
    taken(shown, &["IPAMConfig", "Links", "Aliases", "DriverOpts", "GwPriority"])
}

/// The body that makes a network as it is, with the addresses that the engine chose.
pub(super) fn body_of(shown: &Json) -> Json {
    let mut body = taken(
        shown,
        &[
            "Name",
            "Driver",
            "Scope",
            "EnableIPv4",
            "EnableIPv6",
            "IPAM",
            "Internal",
            "Attachable",
            "ConfigOnly",
            "Options",
            "Labels",
        ],
    );
    if shown["ConfigFrom"]["Network"].as_str().is_some_and(|from| !from.is_empty()) {
        body["ConfigFrom"] = shown["ConfigFrom"].clone();
        // They come from there, and are refused beside it.
        for member in ["IPAM", "Options", "EnableIPv6", "Internal", "Attachable"] {
            body.as_object_mut().and_then(|body| body.remove(member));
        }
    }
    body["CheckDuplicate"] = json!(true);
    body
}

fn taken(shown: &Json, members: &[&str]) -> Json {
    let of = |member: &&str| {
        let value = shown.get(*member).filter(|value| !value.is_null())?;
        Some(((*member).to_owned(), value.clone()))
    };
    Json::Object(members.iter().filter_map(of).collect::<Map<String, Json>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_made_as_inspect_shows_it() {
        let shown = json!({
            "Name": "m_n", "Id": "1", "Created": "2026", "Driver": "bridge", "EnableIPv6": false, "Containers": {},
            "IPAM": { "Driver": "default", "Options": null, "Config": [{ "Subnet": "10.0.0.0/24" }] },
            "ConfigFrom": { "Network": "" }, "ConfigOnly": false, "Ingress": false, "Options": {}, "Labels": { "a": "b" }
        });
        let body = body_of(&shown);
        for gone in ["Id", "Created", "Containers", "ConfigFrom", "Ingress"] {
            assert!(body.get(gone).is_none(), "{body}");
        }
        for kept in ["Name", "Driver", "IPAM", "Labels", "Options", "EnableIPv6", "ConfigOnly"] {
            assert_eq!(body[kept], shown[kept]);
        }
    }

    #[test]
    fn an_endpoint_keeps_what_was_asked_for() {
        let shown = json!({
            "IPAMConfig": { "IPv4Address": "10.0.0.9" }, "Links": null, "Aliases": ["a"], "NetworkID": "1",
            "IPAddress": "10.0.0.9", "MacAddress": "02:42:0a:00:00:09"
        });
        assert_eq!(
            endpoint_of(&shown),
            json!({ "IPAMConfig": { "IPv4Address": "10.0.0.9" }, "Aliases": ["a"] })
        );
    }
}
