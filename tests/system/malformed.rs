//! Manifests that mean nothing: each gets an error with its place or its size, and nothing comes of it.

use serde_json::json;

use crate::harness::Fleet;
use crate::manifests::waiting;
use crate::tools::{containers_of, inspect};

/// Ten of them: why, what the file holds, and what is said about it after the file's name.
fn ten(module: &str) -> Vec<(&'static str, Vec<u8>, &'static [&'static str])> {
    let with = |line: &str| waiting(module, &[line]).into_bytes();
    let nested = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    vec![
        ("wrong type", with("privileged: [yes]"), &[":6:17: ", "found a list, expected true or false"]),
        ("unknown key", with("volumes: ['/a:/b']"), &[":6:5: ", "unknown key", "did you mean `mounts`?"]),
        (
            "duplicate key",
            with("image: other"),
            &[":6:5: ", "\"image\" is given twice: in line 4 and in line 6"],
        ),
        ("bad unit", with("mem_limit: 64q"), &[":6:16: ", "\"64q\" is not a size"]),
        ("bad port", with("ports: ['70000:80']"), &[":6:13: ", "\"70000\" is not a port (1 to 65535)"]),
        ("empty file", Vec::new(), &[": the file is empty"]),
        ("50 MB file", vec![b'a'; 50_000_000], &[": the file has 50000000 bytes", "1048576"]),
        ("binary", b"\x7fELF\x02\x01\x01\x00\xff\xfe".to_vec(), &[": the file is not text: byte 8"]),
        ("deep nesting", nested, &[":1:33: ", "nested more than 32 deep"]),
        ("alias bomb", alias_bomb(), &[":", "aliases make the manifest grow by more than 1048576 bytes"]),
    ]
}

/// A list of nine, of which a list of nine is made, and so on, nine times: 387 million entries.
fn alias_bomb() -> Vec<u8> {
    let mut bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for pair in ["ab", "bc", "cd", "de", "ef", "fg", "gh", "hi"] {
        let (from, to) = pair.split_at(1);
        let entries = [format!("*{from}").as_str(); 9].join(", ");
        bomb.extend([to, ": &", to, " [", &entries, "]\n"]);
    }
    bomb.into_bytes()
}

#[test]
fn ten_malformed_manifests_are_refused_with_their_place_and_register_nothing() {
    let fleet = Fleet::start();
    let (module, sound) = (fleet.module("malformed"), fleet.module("sound"));
    fleet.plumb(["policy", &module, "roll_out", "--node", "host-1"]).ended(0);
    fleet.write("sound.yaml", waiting(&sound, &[]));
    fleet.engine().forget();
    for (name, contents, parts) in ten(&module) {
        fleet.write("module.yaml", &contents);
        for command in [
            &["build", "-f", "sound.yaml", "-f", "module.yaml"][..],
            &["plan", "-f", "module.yaml", "--node", "host-1"],
            &["up", "-f", "module.yaml", "--data-dir", "up"],
        ] {
            let said = fleet.plumb(command);
            assert!(said.code == 1 || said.code == 64, "{name}: {said:?}");
            assert_eq!(said.stdout, "", "{name}");
            assert!(said.stderr.contains(&format!("module.yaml{}", parts[0])), "{name}: {}", said.stderr);
            assert!(parts.iter().all(|part| said.stderr.contains(part)), "{name}: {}", said.stderr);
            assert!(said.stderr.len() < 4096 && said.took.as_secs() < 5, "{name}: {:?}", said.took);
        }
    }
    let status = fleet.plumb(["status", "-o", "json"]).ended(0).json().remove(0);
    let modules = status["modules"].as_array().expect("the policy is known");
    assert_eq!(modules.len(), 1, "{status}");
    assert_eq!(modules[0].get("latestRevision"), None, "{status}");
    assert!(!fleet.path("up").exists(), "plumb up reads before it does anything");
    assert_eq!(fleet.engine().calls(), 0);
    assert_eq!(containers_of(&module), Vec::<String>::new());
}

#[test]
fn a_folder_without_manifests_and_a_file_that_is_not_there_are_said_to_be_so() {
    let fleet = Fleet::start();
    std::fs::create_dir(fleet.path("empty")).expect("the folder can be written");
    fleet.plumb(["build", "-f", "empty"]).ended(64).says(&["empty holds no manifest (*.yaml, *.yml)"]);
    fleet.plumb(["build", "-f", "no.yaml"]).ended(1).says(&["no.yaml cannot be read", "No such file"]);
    fleet.write("two.yaml", format!("{}---\n{}", waiting("twice", &[]), waiting("twice", &[])));
    fleet.plumb(["build", "-f", "two.yaml"]).ended(1).says(&["twice", "nothing was registered"]);
    fleet.plumb(["status"]).ended(0).says(&["no modules"]);
}

/// H46: unquoted 2122:22 becomes 127342, as YAML 1.1 reads a number to the base of 60.
#[test]
fn h46_ports_without_quotes_are_read_as_they_are_written() {
    let fleet = Fleet::start();
    let module = fleet.module("h46");
    // 1:59 would need the port 1 of this host: that one is planned only.
    fleet.register(&module, &waiting(&module, &["ports: [2122:22, 1:59, 49100:22]"]));
    let plan = fleet.plumb(["plan", &module, "--node", "host-1"]).ended(0);
    for (target, published) in [("22", "2122"), ("59", "1"), ("22", "49100")] {
        let line = plan.stdout.lines().find(|line| line.contains(&format!(": \"{published}\"")));
        assert!(line.is_some_and(|line| line.contains(target)), "{published}: {}", plan.stdout);
    }
    fleet.register(&module, &waiting(&module, &["ports: [127.0.0.1:22122:22, 127.0.0.1:29100:22]"]));
    fleet.plumb(["push", &module, "--node", "host-1"]).ended(0);
    let bound = &inspect(&format!("{module}-app"))["HostConfig"]["PortBindings"]["22/tcp"];
    let address = "127.0.0.1";
    assert_eq!(
        *bound,
        json!([{"HostIp": address, "HostPort": "22122"}, {"HostIp": address, "HostPort": "29100"}])
    );
}

/// H47: values come from the caller's shell, and two terminals differ.
#[test]
fn h47_nothing_is_taken_from_the_callers_environment() {
    let fleet = Fleet::start();
    let module = fleet.module("h47");
    let manifest = waiting(&module, &["environment: {TAG: '$TAG', HOME_OF: '${HOME}'}"]);
    fleet.write("env.yaml", &manifest);
    let mut build = fleet.command(["build", "-f", "env.yaml"]);
    assert!(build.env("TAG", "one").status().expect("plumb was built").success());
    let again = fleet.plumb(["build", "-f", "env.yaml"]).ended(0);
    assert!(again.stdout.contains("revision 1 is registered already"), "{}", again.stdout);
    fleet.plumb(["push", &module, "--node", "host-1"]).ended(0);
    let environment = inspect(&format!("{module}-app"))["Config"]["Env"].clone();
    let environment: Vec<&str> =
        environment.as_array().into_iter().flatten().filter_map(|entry| entry.as_str()).collect();
    assert!(environment.contains(&"TAG=$TAG") && environment.contains(&"HOME_OF=${HOME}"), "{environment:?}");

    fleet.write("image.yaml", manifest.replace("plumbline/sample:1", "plumbline/sample:${TAG}"));
    let said =
        fleet.command(["build", "-f", "image.yaml"]).env("TAG", "1").output().expect("plumb was built");
    let stderr = String::from_utf8_lossy(&said.stderr);
    assert_eq!(said.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("image.yaml:4:12: ") && stderr.contains("${TAG}"), "{stderr}");
}
