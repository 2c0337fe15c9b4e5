use plumbline::manifest::{Source, read};
use plumbline::proto::v1::{ModuleSpec, PlanResponse};
use serde_json::{Value as Json, json};

use super::pair::{Declared, Found, Why, pair};
use super::*;

const ID: &str = "0123456789ab0123456789ab0123456789ab0123456789ab0123456789ab0123";

/// A module with one container `a`, of the image app:1 unless these lines name another.
fn spec(lines: &str) -> ModuleSpec {
    let image = if lines.contains("image:") { "" } else { "    image: app:1\n" };
    let text = format!("name: m\ncontainers:\n  a:\n{image}    {lines}\n");
    let specs = read(&Source { name: "m.yaml", text: text.as_bytes() });
    specs.unwrap_or_else(|error| panic!("{error}\n{text}")).remove(0)
}

/// A container as an engine shows one that says nothing itself, with these settings.
fn container(settings: &Json) -> Json {
    let mut inspect = json!({
        "Id": ID, "Name": "/m-a", "Image": "sha256:feed00000000", "Platform": "linux",
        "State": { "Running": true },
        "Config": { "Image": "app:1", "Hostname": &ID[..12] },
        "HostConfig": { "NetworkMode": "default" },
        "NetworkSettings": { "Networks": { "bridge": { "DNSNames": null } } },
    });
    for (name, member) in settings.as_object().into_iter().flatten() {
        match member {
            Json::Object(settings) if matches!(name.as_str(), "Config" | "HostConfig") => {
                settings.iter().for_each(|(setting, value)| inspect[name][setting] = value.clone());
            }
            member => inspect[name] = member.clone(),
        }
    }
    inspect
}

fn pasted(objects: &[Json]) -> Pasted {
    let text = serde_json::to_vec(objects).expect("it is JSON");
    Pasted::read(&[("i.json".to_owned(), text)]).expect("it can be read")
}

async fn planned(objects: &[Json], spec: ModuleSpec) -> PlanResponse {
    let question = Question { specs: &[spec], container: None, api: None, recreate: false };
    plan(&pasted(objects), question).await.expect("it can be compared").remove(0)
}

/// What differs, as paths below the container.
fn paths(plan: &PlanResponse) -> Vec<&str> {
    let objects = &plan.result.as_ref().expect("a plan has a result").objects;
    let changes = objects.iter().filter_map(|object| object.diff.as_ref()).flat_map(|diff| &diff.changes);
    changes.map(|change| change.path_text.trim_start_matches("containers.a.")).collect()
}

/// The module's lines, settings of the container, what differs, and what the note says of the rest.
#[tokio::test]
async fn without_its_image_only_what_is_declared_is_compared_and_the_rest_is_counted() {
    let env = json!({ "Config": { "Env": ["PATH=/bin", "A=1"] } });
    let health = json!({ "Config": { "Healthcheck": { "Test": ["CMD", "true"], "Retries": 2 } } });
    let off = json!({ "Config": { "Healthcheck": { "Test": ["NONE"] } } });
    let run = json!({ "Config": { "User": "me", "Cmd": ["run"] } });
    let entry = json!({ "Config": { "Entrypoint": ["e"], "Cmd": ["x"] } });
    let exposed = json!({ "Config": { "ExposedPorts": { "80/tcp": {} } } });
    let mut published = exposed.clone();
    published["HostConfig"]["PortBindings"]["80/tcp"] = json!([{ "HostIp": "", "HostPort": "80" }]);
    let volume = json!({ "Config": { "Volumes": { "/v": {} } } });
    let bind = json!({ "HostConfig": { "Binds": ["/h:/v"] } });
    let dns = json!({ "HostConfig": { "Dns": ["192.0.2.1"] } });
    let nothing = json!({});
    let mut wrong = Vec::new();
    for (lines, settings, expected, note) in [
        ("", &nothing, &[][..], "(a: nothing)"),
        ("", &env, &[], "(a: 2 values: environment 2)"),
        ("environment: {A: '1'}", &env, &[], "(a: 1 value: environment)"),
        ("environment: {A: '2'}", &env, &["environment[A]"], "(a: 1 value: environment)"),
        ("environment: {B: '2'}", &env, &["environment[B]"], "(a: 2 values: environment 2)"),
        (
            "unset_environment: [A]",
            &env,
            &["environment[A]", "unset_environment"],
            "(a: 1 value: environment)",
        ),
        ("", &run, &[], "(a: 2 values: command, user)"),
        ("command: [walk]", &run, &["command"], "(a: 1 value: user)"),
        ("user: you", &run, &["user"], "(a: 1 value: command)"),
        ("user: you", &nothing, &["user"], "(a: nothing)"),
        // A declared entrypoint drops the command, whatever the image is.
        ("entrypoint: [e]", &entry, &["command"], "(a: nothing)"),
        ("entrypoint: []", &entry, &["entrypoint"], "(a: 1 value: command)"),
        ("entrypoint: []", &run, &[], "(a: 2 values: command, user)"),
        ("healthcheck: {retries: 3}", &health, &["healthcheck.retries"], "(a: 1 value: healthcheck)"),
        ("healthcheck: {test: [NONE]}", &health, &["healthcheck.test"], "(a: 1 value: healthcheck)"),
        ("healthcheck: {test: [NONE]}", &off, &[], "(a: nothing)"),
        ("", &exposed, &[], "(a: 1 value: expose)"),
        ("expose: ['80']", &exposed, &[], "(a: nothing)"),
        ("expose: ['81']", &exposed, &["expose"], "(a: 1 value: expose)"),
        // The engine exposes what is published: no trace of the image.
        ("", &published, &["ports[80/tcp].target", "ports[80/tcp].published"], "(a: nothing)"),
        ("", &volume, &[], "(a: 1 value: mounts)"),
        ("mounts: [/v]", &volume, &[], "(a: nothing)"),
        // What no image can bring is compared as ever.
        ("", &bind, &["mounts[/v].type", "mounts[/v].source", "mounts[/v].target"], "(a: nothing)"),
        ("", &dns, &["dns"], "(a: nothing)"),
        // The image itself is compared by its name.
        ("image: docker.io/library/app:1", &env, &[], "docker image inspect docker.io/library/app:1"),
        ("image: app:2", &env, &["image"], "docker image inspect app:2"),
        ("{image: app:1, pull_policy: never}", &nothing, &[], "docker image inspect app:1"),
    ] {
        let plan = planned(&[container(settings)], spec(lines)).await;
        let is_said = plan.notes.iter().any(|said| said.contains(note));
        if paths(&plan) != expected || !is_said {
            wrong.push(format!("{lines} {settings}: {:?} {:?}", paths(&plan), plan.notes));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn with_its_image_everything_is_compared() {
    let image = json!({
        "Id": "sha256:feed00000000", "RepoTags": ["app:1"], "Architecture": "amd64", "Os": "linux",
        "Config": { "Env": ["PATH=/bin"], "Cmd": ["serve"] },
    });
    let settings = json!({ "Config": { "Env": ["PATH=/bin", "A=1"], "Cmd": ["run"] } });
    let plan = planned(&[container(&settings), image.clone()], spec("")).await;
    assert_eq!(paths(&plan), ["environment[A]", "command"]);
    assert!(!plan.notes.iter().any(|note| note.contains("image")), "{:?}", plan.notes);

    // The tag moved on: the image that runs is known, the declared one only by its name.
    let mut moved = image;
    moved["RepoTags"] = json!([]);
    let plan = planned(&[container(&settings), moved], spec("")).await;
    assert_eq!(paths(&plan), ["environment[A]", "command"]);
    assert!(plan.notes.iter().any(|note| note.contains("by its name only")), "{:?}", plan.notes);
}

#[tokio::test]
async fn a_namespace_is_named_only_if_its_container_is_there_too() {
    let other = "ab".repeat(32);
    let mode = format!("container:{other}");
    let guest = container(&json!({ "HostConfig": { "NetworkMode": mode }, "Config": { "Hostname": "h" } }));
    let lines = "network_mode: container:vpn";
    let alone = planned(std::slice::from_ref(&guest), spec(lines)).await;
    assert_eq!(paths(&alone), ["network_mode"]);
    assert!(alone.notes.iter().any(|note| note.contains("compared by its id")), "{:?}", alone.notes);

    let vpn = container(&json!({ "Id": other, "Name": "/vpn" }));
    let together = planned(&[guest, vpn], spec(lines)).await;
    assert_eq!(paths(&together), [""; 0]);
    assert!(!together.notes.iter().any(|note| note.contains("compared by its id")), "{:?}", together.notes);
}

#[tokio::test]
async fn in_the_hosts_network_the_hosts_name_is_no_difference_and_a_declared_one_is() {
    let settings = json!({
        "HostConfig": { "NetworkMode": "host" }, "Config": { "Hostname": "box" },
        "NetworkSettings": { "Networks": { "host": { "DNSNames": null } } },
    });
    let plan = planned(&[container(&settings)], spec("network_mode: host")).await;
    assert_eq!(paths(&plan), [""; 0]);
    assert!(plan.notes.iter().any(|note| note.contains("box was taken for")), "{:?}", plan.notes);
    let same =
        planned(&[container(&settings)], spec("{image: app:1, network_mode: host, hostname: box}")).await;
    assert_eq!(paths(&same), [""; 0]);
    let other =
        planned(&[container(&settings)], spec("{image: app:1, network_mode: host, hostname: b}")).await;
    assert_eq!(paths(&other), ["hostname"]);
}

#[test]
fn the_api_version_is_the_newest_that_fits_what_was_pasted() {
    use plumbline::catalogue::ApiVersion;
    assert_eq!(pasted(&[container(&json!({}))]).api(), ApiVersion::NEWEST);
    let old = json!({ "NetworkSettings": { "Networks": { "bridge": {} } } });
    assert_eq!(pasted(&[container(&old)]).api(), ApiVersion { major: 1, minor: 43 });
    assert_eq!(
        pasted(&[container(&json!({ "NetworkSettings": { "Networks": {} } }))]).api(),
        ApiVersion::NEWEST
    );
}

#[test]
fn what_is_no_inspect_is_named() {
    let one = container(&json!({})).to_string();
    let changed = container(&json!({ "State": { "Running": false } })).to_string();
    for (text, part) in [
        ("", "i.json is empty"),
        (" \n", "i.json is empty"),
        ("[]", "there is no container in it"),
        ("[\n  {\"Id\": \"x\",\n]", "i.json:3:1: this is not JSON"),
        ("[{}]", "an empty object"),
        ("[[]]", "a list in a list"),
        ("\"x\"", "a text"),
        ("{\"Env\": [\"PASSWORD=hunter22\"]}", "an object with Env, which is no container"),
        (format!("{one}{changed}").as_str(), "m-a stands there twice"),
    ] {
        let said = Pasted::read(&[("i.json".to_owned(), text.as_bytes().to_vec())]);
        let said = said.expect_err("it is no inspect").to_string();
        assert!(said.contains(part) && !said.contains("hunter22"), "{text}: {said}");
    }
    for text in [one.clone(), format!("[{one}]"), format!("[{one}]\n[{one}]"), format!("\u{feff}{one}")] {
        let read = Pasted::read(&[("i.json".to_owned(), text.into_bytes())]).expect("it is");
        assert_eq!(read.containers.len(), 1);
    }
}

/// `module/key=name`.
fn declared(text: &str) -> Declared {
    let (owner, name) = text.split_once('=').expect("a name");
    let (module, key) = owner.split_once('/').expect("a key");
    Declared { module: module.to_owned(), key: key.to_owned(), name: name.to_owned() }
}

/// `name`, `name=module/key` with labels, `*name` if others refer to it.
fn found(text: &str) -> Found {
    let (name, owner) = text.split_once('=').map_or((text, None), |(name, owner)| (name, Some(owner)));
    let owner = owner.and_then(|owner| owner.split_once('/'));
    Found {
        id: name.to_owned(),
        name: name.trim_start_matches('*').to_owned(),
        owner: owner.map(|(module, key)| (module.to_owned(), key.to_owned())),
        is_referred_to: name.starts_with('*'),
    }
}

/// What is pasted, the wish, and the pairs or a part of the error. Declared are m/a (m-a), m/b (m-b), and n/a (n-a).
#[test]
fn containers_are_paired_by_labels_then_by_name_then_by_wish_or_as_the_last_of_each() {
    use Why::{Asked, Labels, Name, OnlyOne};
    let three = ["m/a=m-a", "m/b=m-b", "n/a=n-a"].map(declared);
    for (pasted, wish, expected) in [
        (&["m-a"][..], None, Ok(&[(0, 0, Name)][..])),
        (&["old=m/b", "m-a"], None, Ok(&[(1, 0, Labels), (0, 1, Name)])),
        // Labels are stronger than a name, and who only has the name is seen as its holder.
        (&["m-a", "old=m/a"], None, Ok(&[(0, 1, Labels)])),
        // One that left the declaration, and a second one of the same labels, are the plan's to judge.
        (&["m-x=m/x"], None, Ok(&[])),
        (&["m-a=m/a", "m-a-old=m/a"], None, Ok(&[(0, 0, Labels)])),
        (&["m-a", "*vpn"], None, Ok(&[(0, 0, Name)])),
        (&["m-a", "m-b", "web"], None, Ok(&[(0, 0, Name), (1, 1, Name), (2, 2, OnlyOne)])),
        (&["web"], Some("b"), Ok(&[(1, 0, Asked)])),
        (&["web"], Some("n/a"), Ok(&[(2, 0, Asked)])),
        (&["m-a=m/a"], Some("b"), Ok(&[(1, 0, Asked)])),
        (&["m-a", "web"], Some("b"), Ok(&[(0, 0, Name), (1, 1, Asked)])),
        (&["web"], None, Err("the container web (web), which the manifest")),
        (&["web"], None, Err("one of m/a, b, n/a")),
        (&["m-a", "x", "y"], Some("b"), Err("the container x (x) and the container y (y)")),
        (&["m-a", "m-b", "web=z/q"], None, Err("container q of module z")),
        (&["web"], Some("a"), Err("several modules")),
        (&["web"], Some("c"), Err("declares no container c (it declares a, b, a)")),
        (&["m-a", "m-b"], Some("n/a"), Err("has its counterpart already")),
        (&["m-b", "web"], Some("b"), Err("compared with the container m-b (m-b) already, by its name")),
    ] {
        let pasted_list: Vec<Found> = pasted.iter().map(|text| found(text)).collect();
        let answer = pair(&three, &pasted_list, wish, "i.json");
        match (answer, expected) {
            (Ok(pairs), Ok(expected)) => {
                let pairs: Vec<_> = pairs.iter().map(|pair| (pair.declared, pair.found, pair.why)).collect();
                assert_eq!(pairs, expected, "{pasted:?} {wish:?}");
            }
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part), "{pasted:?} {wish:?}: {error}");
            }
            (answer, _) => panic!("{pasted:?} {wish:?}: {answer:?}"),
        }
    }
}
