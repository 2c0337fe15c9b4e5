use plumbline::manifest::{Source, read};
use plumbline::proto::v1::{ModuleSpec, PlanResponse};
use serde_json::{Value as Json, json};

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
    answered(objects, &spec).await.response
}

async fn answered(objects: &[Json], spec: &ModuleSpec) -> Planned {
    let specs = std::slice::from_ref(spec);
    let question = Question { specs, containers: &[], api: None, recreate: false };
    plan(&pasted(objects), question).await.expect("it can be compared").remove(0)
}

/// What differs, as paths below the container.
fn paths(plan: &PlanResponse) -> Vec<&str> {
    let objects = &plan.result.as_ref().expect("a plan has a result").objects;
    let changes = objects.iter().filter_map(|object| object.diff.as_ref()).flat_map(|diff| &diff.changes);
    changes.map(|change| change.path_text.trim_start_matches("containers.a.")).collect()
}

/// The note where the image brings nothing that could not be told apart.
const ONLY_THE_IMAGE: &str = "without the image in i.json the image itself was compared by its name only;";

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
        ("", &nothing, &[][..], ONLY_THE_IMAGE),
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
        ("user: you", &nothing, &["user"], ONLY_THE_IMAGE),
        // A declared entrypoint drops the command, whatever the image is.
        ("entrypoint: [e]", &entry, &["command"], ONLY_THE_IMAGE),
        ("entrypoint: []", &entry, &["entrypoint"], "(a: 1 value: command)"),
        ("entrypoint: []", &run, &[], "(a: 2 values: command, user)"),
        ("healthcheck: {retries: 3}", &health, &["healthcheck.retries"], "(a: 1 value: healthcheck)"),
        ("healthcheck: {test: [NONE]}", &health, &["healthcheck.test"], "(a: 1 value: healthcheck)"),
        ("healthcheck: {test: [NONE]}", &off, &[], ONLY_THE_IMAGE),
        ("", &exposed, &[], "(a: 1 value: expose)"),
        ("expose: ['80']", &exposed, &[], ONLY_THE_IMAGE),
        ("expose: ['81']", &exposed, &["expose"], "(a: 1 value: expose)"),
        // The engine exposes what is published: no trace of the image.
        ("", &published, &["ports[80/tcp].target", "ports[80/tcp].published"], ONLY_THE_IMAGE),
        ("", &volume, &[], "(a: 1 value: mounts)"),
        ("mounts: [/v]", &volume, &[], ONLY_THE_IMAGE),
        // What no image can bring is compared as ever.
        ("", &bind, &["mounts[/v].type", "mounts[/v].source", "mounts[/v].target"], ONLY_THE_IMAGE),
        ("", &dns, &["dns"], ONLY_THE_IMAGE),
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

/// The declared mode, the observed one, whether the other container is pasted, what differs, and the note.
#[tokio::test]
async fn a_namespace_of_a_container_that_was_not_pasted_is_left_out_and_counted() {
    let other = "ab".repeat(32);
    let (mode, third) = (format!("container:{other}"), "cd".repeat(32));
    let vpn = container(&json!({ "Id": other, "Name": "/vpn" }));
    let log = container(&json!({ "Id": third, "Name": "/log" }));
    let by_id = format!("container:{third}");
    let note =
        Some("a was not compared where it names a container by an id that is not in i.json (1 value: ");
    let mut wrong = Vec::new();
    for (declared, observed, also, differs, said) in [
        ("container:vpn", &*mode, None, false, note),
        ("container:vpn", &mode, Some(&vpn), false, None),
        ("container:log", &mode, Some(&vpn), true, None),
        // The declared one is there, under another id; a whole id is another one; and what is no container's is known.
        ("container:log", &mode, Some(&log), true, None),
        (&by_id, &mode, None, true, None),
        ("host", &mode, None, true, None),
        ("container:vpn", "host", None, true, None),
    ] {
        for (field, member) in [("network_mode", "NetworkMode"), ("ipc", "IpcMode"), ("pid", "PidMode")] {
            let mut settings = json!({ "HostConfig": { member: observed }, "Config": { "Hostname": "h" } });
            if observed == "host" {
                settings["NetworkSettings"]["Networks"]["host"] = json!({ "DNSNames": null });
            }
            let objects: Vec<Json> = std::iter::once(container(&settings)).chain(also.cloned()).collect();
            let plan = planned(&objects, spec(&format!("{field}: {declared}"))).await;
            let is_said = plan.notes.iter().any(|one| one.contains("by an id"));
            let names_it =
                said.is_none_or(|said| plan.notes.iter().any(|one| one.contains(&format!("{said}{field})"))));
            if paths(&plan).contains(&field) != differs || is_said != said.is_some() || !names_it {
                wrong.push(format!("{field} {declared} {observed}: {:?} {:?}", paths(&plan), plan.notes));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_link_declared_by_an_id_is_left_out_while_its_container_is_not_pasted() {
    let other = "ab".repeat(32);
    let linked = container(&json!({ "HostConfig": { "Links": ["/db:/m-a/d"] } }));
    let lines = format!("links: ['{other}:d']");
    let alone = planned(std::slice::from_ref(&linked), spec(&lines)).await;
    assert_eq!(paths(&alone), [""; 0]);
    assert!(alone.notes.iter().any(|note| note.contains("1 value: links")), "{:?}", alone.notes);
    let db = container(&json!({ "Id": other, "Name": "/db" }));
    let together = planned(&[linked.clone(), db], spec(&lines)).await;
    assert_eq!(paths(&together), [""; 0]);
    assert!(!together.notes.iter().any(|note| note.contains("links")), "{:?}", together.notes);
    // A name is a name.
    assert_eq!(paths(&planned(&[linked], spec("links: ['web:d']")).await), ["links"]);
}

/// A module with the containers `a` and `b`, of which `a` has these lines.
fn two(lines: &str) -> ModuleSpec {
    let mut two = spec(lines);
    let b = spec("").containers.remove("a").expect("it is there");
    two.containers.insert("b".to_owned(), b);
    two
}

#[tokio::test]
async fn what_was_not_pasted_is_named_and_no_part_of_the_decision() {
    use plumbline::proto::v1::{Action, RefusalReason};
    // `a` lives in the namespace of `b`, which is not there: that recreates nothing.
    let guest = json!({ "HostConfig": { "NetworkMode": format!("container:{}", "ab".repeat(32)) } });
    for (lines, settings, action) in [
        ("", json!({}), Action::Unchanged),
        ("network_mode: container:b", guest, Action::Unchanged),
        ("mem_limit: 64m", json!({}), Action::Updated),
        ("init: true", json!({}), Action::Refused),
    ] {
        let planned = answered(&[container(&settings)], &two(lines)).await;
        let result = planned.response.result.expect("a plan has one");
        assert_eq!(
            (result.action(), planned.not_judged.as_slice()),
            (action, &["b".to_owned()][..]),
            "{lines}"
        );
        let [a, b] = result.objects.as_slice() else { panic!("{:?}", result.objects) };
        assert_eq!((a.key.as_str(), a.action()), ("a", action), "{lines}");
        assert_eq!((b.key.as_str(), b.action()), ("b", Action::Created), "{lines}");
        assert_eq!(
            (b.reason(), b.detail.as_str()),
            (RefusalReason::Unspecified, "not in i.json, so not compared")
        );
        assert!(b.diff.as_ref().is_some_and(|diff| diff.changes.is_empty()));
    }
    // Of a module that is not there at all nothing is called equal.
    let (here, mut elsewhere) = (spec(""), spec(""));
    elsewhere.name = Some("n".to_owned());
    let question = Question { specs: &[here, elsewhere], containers: &[], api: None, recreate: false };
    let plans = plan(&pasted(&[container(&json!({}))]), question).await.expect("it can be compared");
    let actions = plans.iter().map(|plan| plan.response.result.as_ref().expect("a plan has one").action());
    assert_eq!(actions.collect::<Vec<_>>(), [Action::Unchanged, Action::Created]);
    assert!(plans.iter().all(|plan| plan.not_judged.is_empty()));
}

#[tokio::test]
async fn what_bears_no_label_of_the_module_is_compared_as_if_it_were_adopted() {
    let labels = |module: &str| {
        json!({ "Config": { "Labels": { "dev.plumbline.module": module, "dev.plumbline.container": "a",
            "dev.plumbline.installation": "i" } } })
    };
    for (settings, wishes, part) in [
        (json!({}), &[][..], Some("m-a bears no label of Plumbline: it is compared as if it were adopted")),
        (
            labels("z"),
            &["a".to_owned()],
            Some("m-a bears the labels of container a of module z: it is compared"),
        ),
        (labels("m"), &[], None),
    ] {
        let specs = [spec("")];
        let question = Question { specs: &specs, containers: wishes, api: None, recreate: false };
        let planned =
            plan(&pasted(&[container(&settings)]), question).await.expect("it can be compared").remove(0);
        let notes = planned.response.notes;
        assert_eq!(planned.once_adopted, part.is_some(), "{notes:?}");
        assert_eq!(notes.iter().any(|note| note.contains("adopted")), part.is_some(), "{notes:?}");
        assert!(part.is_none_or(|part| notes.iter().any(|note| note.starts_with(part))), "{notes:?}");
    }
}

#[tokio::test]
async fn the_api_version_is_said_unless_it_was_asked_for() {
    use plumbline::catalogue::ApiVersion;
    let specs = [spec("")];
    let old = container(&json!({ "NetworkSettings": { "Networks": { "bridge": {} } } }));
    for (object, api, said) in [
        (container(&json!({})), None, Some(ApiVersion::NEWEST)),
        (old, None, Some(ApiVersion { major: 1, minor: 43 })),
        (container(&json!({})), Some(ApiVersion::OLDEST), None),
    ] {
        let question = Question { specs: &specs, containers: &[], api, recreate: false };
        let notes =
            plan(&pasted(&[object]), question).await.expect("it can be compared").remove(0).response.notes;
        let expected = said.map(|api| format!("compared as for engine API {api}; --engine-api says another"));
        assert_eq!(notes.iter().find(|note| note.contains("API")), expected.as_ref());
    }
}

#[tokio::test]
async fn without_any_declared_container_those_of_the_module_are_left_over() {
    use plumbline::proto::v1::{Action, RefusalReason};
    let mut none = spec("");
    none.containers.clear();
    let labels = json!({ "Config": { "Labels": { "dev.plumbline.module": "m", "dev.plumbline.container": "a",
        "dev.plumbline.installation": "i" } } });
    let result = planned(&[container(&labels)], none.clone()).await.result.expect("a plan has one");
    assert_eq!(result.objects.len(), 1);
    assert_eq!((result.action(), result.objects[0].reason()), (Action::Refused, RefusalReason::NeedsRemoval));
    let specs = [none];
    for (containers, part) in [
        (
            &[][..],
            "i.json holds the container m-a (0123456789ab), and the manifest declares no container that",
        ),
        (&["job".to_owned()], "the manifest declares no container job (it declares none)"),
    ] {
        let question = Question { specs: &specs, containers, api: None, recreate: false };
        let error = plan(&pasted(&[container(&json!({}))]), question).await.expect_err("nothing is declared");
        assert!(error.to_string().starts_with(part), "{error}");
    }
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
