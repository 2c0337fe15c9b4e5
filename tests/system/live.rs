//! `plumb plan --live`: a module against what `docker inspect` printed, and nobody asked.

use crate::harness::{Fleet, Said, docker, plumb};
use crate::manifests::waiting;

/// A folder and names of its own. No agent, and its controller is asked by nobody here.
pub(crate) fn nothing() -> Fleet {
    Fleet::of(0)
}

/// Writes what inspect says of these into a file, and returns its path.
pub(crate) fn paste(host: &Fleet, file: &str, arguments: &[&str]) -> String {
    host.write(file, docker(arguments));
    host.path(file).display().to_string()
}

/// `plumb plan -f MANIFEST --exit-code --live FILE ...`, with no controller that it could ask.
pub(crate) fn plan(host: &Fleet, manifest: &str, live: &[&str], more: &[&str]) -> Said {
    host.write("module.yaml", manifest);
    let file = host.path("module.yaml").display().to_string();
    plumb(&[&["plan", "-f", &file, "--exit-code", "--live"][..], live, more].concat())
}

/// The lines of a plan, without the one that says on what.
fn below_the_title(said: &Said) -> Vec<&str> {
    said.stdout.lines().skip(1).collect()
}

#[test]
fn a_container_of_the_docker_command_equals_its_declaration_with_and_without_its_image() {
    let host = nothing();
    let module = host.module("cli");
    let name = format!("{module}-app");
    let run = ["run", "--detach", "--name", &name, "--env", "A=1", "--hostname", "Box", "--read-only"];
    let more = ["--mount", "type=bind,source=/tmp,target=/data,readonly", "--publish", "127.0.0.1::7000"];
    docker(&[&run[..], &more, &["--memory", "64m", "plumbline/defaults:1"]].concat());
    let container = paste(&host, "c.json", &["inspect", &name]);
    let image = paste(&host, "i.json", &["image", "inspect", "plumbline/defaults:1"]);
    let both = paste(&host, "both.json", &["inspect", &name, "plumbline/defaults:1"]);
    let declared = |source: &str| {
        format!(
            "name: {module}\ncontainers:\n  app:\n    image: plumbline/defaults:1\n    environment: {{A: '1'}}\n    \
             hostname: Box\n    read_only: true\n    mem_limit: 64m\n    mounts: ['{source}:/data:ro']\n    \
             ports: ['127.0.0.1::7000']\n"
        )
    };
    let without = plan(&host, &declared("/tmp"), &[&container], &[]).ended(0);
    assert_eq!(below_the_title(&without), [format!("  container {name}: unchanged")], "{without:?}");
    // Two variables, two labels, five members of the healthcheck, a volume, and five fields: what the image brings.
    let said = without.says(&["without the image", "app: 15 values: command, entrypoint, environment 2"]);
    assert_eq!(said.stderr.matches("note: without the image").count(), 1, "{said:?}");
    for files in [&[&*container, &image][..], &[&both]] {
        let said = plan(&host, &declared("/tmp"), files, &[]).ended(0).says(&["everything is as declared"]);
        assert!(!said.stderr.contains("without the image"), "{said:?}");
        let said = plan(&host, &declared("/var/tmp"), files, &[]).ended(2);
        assert_eq!(
            below_the_title(&said)[1..],
            [
                "    ~ containers.app.mounts[/data].source: \"/tmp\" -> \"/var/tmp\"  [needs recreation]",
                "    -> the change needs a new container; allow it with --recreate",
            ],
            "{said:?}"
        );
    }
    // Nobody declares the image's user: with the image at hand, another user in the container is a change.
    let other = docker(&["inspect", &name]).replace("\"User\": \"nobody\"", "\"User\": \"root\"");
    host.write("other.json", other);
    let other = host.path("other.json").display().to_string();
    plan(&host, &declared("/tmp"), &[&other], &[]).ended(0);
    let said = plan(&host, &declared("/tmp"), &[&other, &image], &[]).ended(2);
    said.says(&["~ containers.app.user: \"root\" -> \"nobody\"  [needs recreation, the image's default]"]);
}

#[test]
fn the_diff_is_the_agents_own_word_for_word() {
    let fleet = Fleet::start();
    let module = fleet.module("same");
    let manifest = |source: &str, more: &[&str]| {
        let mount = format!("mounts: ['{source}:/data:ro', 'own:/own']");
        let networks = "networks: {front: {aliases: [x]}}";
        let declared = [&[&*mount, networks, "environment: {PASSWORD: hunter22}"][..], more].concat();
        format!("{}networks: {{front: {{}}}}\nvolumes: {{own: {{}}}}\n", waiting(&module, &declared))
    };
    fleet.register(&module, &manifest("/tmp", &[]));
    fleet.plumb(["push", &module, "--node", "host-1"]).ended(0);
    let (name, network, volume) =
        (format!("{module}-app"), format!("{module}_front"), format!("{module}_own"));
    let whole = ["inspect", &name, "plumbline/sample:1", &network, &volume];
    let file = paste(&fleet, "all.json", &whole);
    let said = plan(&fleet, &manifest("/tmp", &[]), &[&file], &[]).ended(0);
    assert!(said.stdout.contains(&format!("{module} against {file}: unchanged, everything is as declared")));
    // All is there: one assumption is left.
    assert!(said.stderr.starts_with("note: compared as for engine API ") && said.stderr.lines().count() == 1);

    // Another path to the same data: the agent sees that, and may go on.
    let link = fleet.path("link");
    std::os::unix::fs::symlink("/tmp", &link).expect("the folder can be written");
    let link = link.display().to_string();
    for (changed, recreate) in [
        (manifest(&link, &[]), &[][..]),
        (manifest(&link, &["dns: [192.0.2.1]", "mem_limit: 64m"]), &["--recreate"]),
        (manifest("/tmp", &["mem_limit: 64m"]), &[]),
        (manifest("/tmp", &["hostname: other", "init: true"]), &[]),
    ] {
        let offline = plan(&fleet, &changed, &[&file], recreate).ended(2);
        let agents =
            [&["plan", "-f", "module.yaml", "--node", "host-1", "--exit-code"][..], recreate].concat();
        let agents = fleet.plumb(agents).ended(2);
        let mut agents = below_the_title(&agents);
        // What stands behind the mounts only the agent sees.
        let is_judged = agents.len();
        agents.retain(|line| !line.starts_with("    data "));
        assert_eq!(
            offline.stderr.contains("behind the mounts of app"),
            agents.len() < is_judged,
            "{offline:?}"
        );
        assert_eq!(below_the_title(&offline), agents);
    }
    // What was not pasted is not taken for missing, and that is said.
    let file = paste(&fleet, "one.json", &["inspect", &name]);
    plan(&fleet, &manifest("/tmp", &[]), &[&file], &[]).ended(0).says(&[
        "not compared, for they are not in",
        &network,
        &volume,
    ]);
}

#[test]
fn json_is_the_message_of_a_plan_and_the_notes_stand_in_it() {
    let host = nothing();
    let module = host.module("json");
    let name = format!("{module}-app");
    docker(&["create", "--name", &name, "plumbline/sample:1", "hold"]);
    let file = paste(&host, "c.json", &["inspect", &name]);
    let said = plan(&host, &waiting(&module, &["user: me"]), &[&file], &["-o", "json"]).ended(2);
    assert!(said.stderr.is_empty(), "{said:?}");
    let json = said.json().remove(0);
    let message = prost_reflect::DynamicMessage::deserialize(
        plumbline::proto::DESCRIPTOR_POOL
            .get_message_by_name("plumbline.v1.ModuleServicePlanResponse")
            .expect("it is in the contract"),
        &json,
    );
    assert!(message.is_ok(), "{message:?}");
    let plan = &json["nodes"][0]["plan"];
    assert_eq!(json["nodes"][0]["node"], file.as_str());
    assert_eq!(plan["result"]["objects"][0]["diff"]["changes"][0]["pathText"], "containers.app.user");
    let notes = plan["notes"].to_string();
    assert!(notes.contains("without the image") && notes.contains("plumb take"), "{notes}");
}

#[test]
fn a_secret_is_shown_as_a_hash_that_no_second_run_repeats() {
    let host = nothing();
    let module = host.module("secret");
    let name = format!("{module}-app");
    docker(&["create", "--name", &name, "--env", "PASSWORD=hunter22", "plumbline/sample:1", "hold"]);
    let file = paste(&host, "c.json", &["inspect", &name]);
    let changed = waiting(&module, &["environment: {PASSWORD: swordfish}"]);
    let run = |more: &[&str]| {
        let said = plan(&host, &changed, &[&file], more).ended(2).says(&["environment[PASSWORD]"]);
        assert!(!said.all().contains("hunter22") && !said.all().contains("swordfish"), "{said:?}");
        said.stdout
    };
    let text = run(&[]);
    assert!(text.contains("environment[PASSWORD]: (secret "), "{text}");
    assert_ne!(text, run(&[]));
    run(&["-o", "json"]);
    // Nor in an error: a file that was cut off in the middle, and one where a value is of another type.
    let whole = docker(&["inspect", &name]);
    let end = whole.find("hunter22").expect("inspect shows it") + "hunter22".len();
    host.write("cut.json", &whole[..end]);
    host.write("typed.json", whole.replace("\"Memory\": 0", "\"Memory\": \"hunter22\""));
    for (name, part) in [("cut.json", "this is not JSON"), ("typed.json", "mem_limit cannot be read as")] {
        let file = host.path(name).display().to_string();
        let said = plan(&host, &changed, &[&file], &[]).ended(1).says(&[part]);
        assert!(!said.all().contains("hunter22"), "{said:?}");
    }
}

#[test]
fn standard_input_is_a_file_like_any_other() {
    let host = nothing();
    let module = host.module("stdin");
    let name = format!("{module}-app");
    docker(&["run", "--detach", "--name", &name, "plumbline/sample:1", "hold"]);
    host.write("m.yaml", waiting(&module, &[]));
    let command = || host.command(["plan", "-f", "m.yaml", "--live", "-", "--exit-code"]);
    let said = Said::of(&mut command(), &docker(&["inspect", &name])).ended(0);
    said.says(&[&format!("{module} against standard input, once adopted: unchanged")]);
    Said::of(&mut command(), "").ended(1).says(&["standard input is empty", "docker inspect CONTAINER"]);
}

#[test]
fn a_file_that_is_no_inspect_is_an_error_that_says_what_it_should_be() {
    let host = nothing();
    let module = host.module("bad");
    let manifest = waiting(&module, &[]);
    host.write("manifest.yaml", &manifest);
    host.write("cut.json", "[\n  {\n    \"Id\": \"0123\",\n");
    host.write("none.json", docker(&["inspect", "plumbline/sample:1", "--format", "[]"]));
    host.write("config.json", docker(&["inspect", "plumbline/sample:1", "--format", "{{json .Config}}"]));
    host.write("image.json", docker(&["image", "inspect", "plumbline/sample:1"]));
    host.write("nothing.json", "");
    for (file, parts) in [
        ("cut.json", &["cut.json:4:0: this is not JSON", "docker inspect CONTAINER"][..]),
        ("manifest.yaml", &["manifest.yaml:1:", "this is not JSON"]),
        ("none.json", &["no container in it", "docker ps -a"]),
        ("image.json", &["no container in it"]),
        ("config.json", &["which is no container, image, network or volume", "without --format"]),
        ("nothing.json", &["is empty"]),
        ("missing.json", &["missing.json cannot be read", "No such file"]),
        ("", &["cannot be read"]),
    ] {
        let path = host.path(file).display().to_string();
        let said = plan(&host, &manifest, &[&path], &[]).ended(1).says(parts);
        assert!(said.stdout.is_empty(), "{said:?}");
    }
}

#[test]
fn options_that_ask_a_controller_do_not_go_with_it() {
    for (arguments, part) in [
        (&["plan", "web", "--live", "c.json"][..], "cannot be used with"),
        (&["plan", "--live", "c.json"], "--live compares with a manifest: name it with -f MANIFEST"),
        (&["plan", "--live", "c.json", "w.json"], "name it with -f MANIFEST"),
        (&["plan"], "name a registered module, or a manifest with -f MANIFEST"),
        (&["plan", "-f", "m.yaml", "--live", "c.json", "--node", "host-1"], "cannot be used with"),
        (&["plan", "-f", "m.yaml", "--live", "c.json", "--revision", "2"], "cannot be used with"),
        (&["plan", "-f", "m.yaml", "--container", "db"], "--live"),
        (&["plan", "-f", "m.yaml", "--engine-api", "1.41"], "--live"),
        (&["plan", "-f", "m.yaml", "--live", "c.json", "--engine-api", "1.9"], "1.41 to"),
        (&["plan", "-f", "m.yaml", "--live", "c.json", "--engine-api", "new"], "such as 1.41"),
        (&["plan", "-f", "-", "--live", "-"], "only once"),
        (&["plan", "-f", "m.yaml", "--live", "-", "--live", "-"], "only once"),
    ] {
        let said = plumb(arguments).ended(64);
        assert!(said.stdout.is_empty() && said.stderr.contains(part), "{arguments:?}: {said:?}");
    }
}

#[test]
fn what_the_engine_is_too_old_for_is_refused_as_an_agent_would() {
    let host = nothing();
    let module = host.module("api");
    let name = format!("{module}-app");
    docker(&["create", "--name", &name, "plumbline/sample:1", "hold"]);
    let file = paste(&host, "c.json", &["inspect", &name]);
    let manifest = waiting(&module, &["annotations: {a: b}"]);
    plan(&host, &manifest, &[&file], &["--engine-api", "1.41"])
        .ended(2)
        .says(&["refused (unsupported)", "needs API 1.43"]);
    plan(&host, &manifest, &[&file], &["--engine-api", "1.43"])
        .ended(2)
        .says(&["refused (needs recreation)"]);
}

#[test]
fn the_help_has_each_option_under_its_heading() {
    let help = plumb(&["plan", "--help"]).ended(0).stdout;
    let heading = |option: &str| {
        let at = help.find(&format!(" {option}")).unwrap_or_else(|| panic!("{option} is not in {help}"));
        let mut above = help[..at].lines().filter(|line| line.ends_with(':') && !line.starts_with(' '));
        above.next_back().map(str::to_owned).unwrap_or_default()
    };
    for option in ["--file", "--revision", "--node", "--recreate", "--exit-code"] {
        assert_eq!(heading(option), "Options:", "{option}: {help}");
    }
    for option in ["--live", "--container", "--engine-api"] {
        assert_eq!(heading(option), "Without a controller:", "{option}: {help}");
    }
    assert_eq!(heading("--cert"), "Connection:", "{help}");
}
