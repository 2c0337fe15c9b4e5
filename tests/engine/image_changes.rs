//! Another image under the same name: what it changes is told apart from what somebody declared and from what a hand did.

use plumbline::proto::v1::{Action, Outcome, RefusalReason};
use serde_json::{Value as Json, json};

use crate::served::{Served, lines};
use crate::site::{changes, docker, object, text};

/// A tag of this test on the host. It goes with the test.
struct Tag {
    reference: String,
}

impl Tag {
    fn of(host: &Served, image: &str) -> Self {
        let tag = Self { reference: format!("{}:v", host.site.name) };
        tag.moves_to(image);
        tag
    }

    fn moves_to(&self, image: &str) {
        docker(&["tag", image, &self.reference]);
    }
}

impl Drop for Tag {
    fn drop(&mut self) {
        docker(&["image", "rm", &self.reference]);
    }
}

fn id_of(image: &str) -> String {
    docker(&["image", "inspect", "-f", "{{.Id}}", image])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_that_moved_on_the_host_is_one_change_with_both_ids() {
    let host = Served::new("tagmoved").await;
    let tag = Tag::of(&host, "plumbline/sample:1");
    let spec = host.site.holding(&json!({ "image": tag.reference }));
    host.apply(&spec, false).await;
    let old = host.site.identity("c").await;
    tag.moves_to("plumbline/sample:2");
    let (one, two) = (id_of("plumbline/sample:1"), id_of("plumbline/sample:2"));
    let name = &tag.reference;
    let expected = [format!("image: {name} ({one}) -> {name} ({two}) (RECREATE, DECLARED)")];
    assert_eq!(host.differs(&spec).await, expected);
    host.engine.take_mutations();
    let refused = host.apply(&spec, false).await;
    assert_eq!(object(&refused, "c").reason(), RefusalReason::NeedsRecreation);
    assert_eq!(host.engine.take_mutations(), [""; 0]);
    assert_eq!(host.site.identity("c").await, old);

    let allowed = host.apply(&spec, true).await;
    assert_eq!(allowed.outcome(), Outcome::Recreated);
    assert_eq!(lines(&changes(object(&allowed, "c"))), expected);
    assert_eq!(host.site.inspect("c").await["Image"], json!(two));
    host.settled(&spec).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_left_the_host_under_a_running_container_is_no_difference() {
    let host = Served::new("imagegone").await;
    let tag = Tag::of(&host, "plumbline/defaults:1");
    let spec = |policy: &str| {
        host.site.holding(&json!({ "image": tag.reference, "pull_policy": policy, "labels": { "a": "1" } }))
    };
    host.apply(&spec("missing"), false).await;
    docker(&["image", "rm", &tag.reference]);
    for policy in ["missing", "never"] {
        assert_eq!(host.differs(&spec(policy)).await, [""; 0], "{policy}");
        host.settled(&spec(policy)).await;
    }
}

/// Everything that an image brings, taken away and given.
#[tokio::test(flavor = "multi_thread")]
async fn what_another_image_brings_has_the_image_as_its_cause() {
    let host = Served::new("imagecause").await;
    let tag = Tag::of(&host, "plumbline/defaults:1");
    let name = &tag.reference;
    let (plain, full) = (id_of("plumbline/sample:1"), id_of("plumbline/defaults:1"));
    // An image alone says how it is run: nothing of it is declared.
    let spec = host.site.module(json!({ "containers": { "c": { "image": name } } }));
    host.apply(&spec, false).await;
    tag.moves_to("plumbline/sample:1");
    let image =
        |from: &str, to: &str| format!("image: {name} ({from}) -> {name} ({to}) (RECREATE, DECLARED)");
    let serve = "[/bin/entry, httpd, -f, -p, 8080, -h, /data]";
    let leaves = [
        ("user", "nobody", "absent"),
        ("expose", "[7000/tcp]", "absent"),
        ("environment[IMAGE_ONE]", "secret", "absent"),
        ("environment[IMAGE_TWO]", "secret", "absent"),
        ("command", "[hold]", serve),
        ("entrypoint", "[/bin/entry]", "absent"),
        ("healthcheck.test", "[CMD, true]", "absent"),
        ("healthcheck.interval", "5s", "absent"),
        ("healthcheck.timeout", "2s", "absent"),
        ("healthcheck.retries", "2", "absent"),
        ("healthcheck.start_period", "1s", "absent"),
        ("working_dir", "/tmp", "absent"),
        ("labels[org.example.one]", "first", "absent"),
        ("labels[org.example.two]", "two words", "absent"),
        ("stop_signal", "SIGQUIT", "absent"),
        ("mounts[/imgvol].type", "volume", "absent"),
        ("mounts[/imgvol].target", "/imgvol", "absent"),
    ];
    let away =
        leaves.map(|(leaf, with, without)| format!("{leaf}: {with} -> {without} (RECREATE, IMAGE_DEFAULT)"));
    assert_eq!(host.differs(&spec).await, [vec![image(&full, &plain)], away.to_vec()].concat());
    // The image's volume goes with what the container has in it.
    let refused = host.apply(&spec, true).await;
    assert_eq!(object(&refused, "c").reason(), RefusalReason::DataGuard);
    let recreated = host.apply_accepting(&spec, &["/imgvol=removed"]).await;
    assert_eq!(recreated.outcome(), Outcome::Recreated);
    host.settled(&spec).await;

    tag.moves_to("plumbline/defaults:1");
    let given =
        leaves.map(|(leaf, with, without)| format!("{leaf}: {without} -> {with} (RECREATE, IMAGE_DEFAULT)"));
    assert_eq!(host.differs(&spec).await, [vec![image(&plain, &full)], given.to_vec()].concat());
    assert_eq!(host.apply(&spec, true).await.outcome(), Outcome::Recreated);
    host.settled(&spec).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_declared_has_the_declaration_as_its_cause_whatever_the_image_brings() {
    let host = Served::new("imagedeclared").await;
    let tag = Tag::of(&host, "plumbline/sample:1");
    let spec = |settings: Json| {
        let mut settings = settings;
        settings["image"] = json!(tag.reference);
        settings["command"] = json!(["/bin/hold"]);
        settings["entrypoint"] = json!([]);
        host.site.module(json!({ "containers": { "c": settings } }))
    };
    let before =
        spec(json!({ "user": "root", "labels": { "org.example.one": "mine" }, "working_dir": "/var" }));
    host.apply(&before, false).await;
    tag.moves_to("plumbline/defaults:1");
    let same = host.differs(&before).await;
    for declared in ["user", "labels[org.example.one]", "working_dir", "command", "entrypoint"] {
        assert!(!same.iter().any(|line| line.starts_with(declared)), "{declared} is as declared: {same:?}");
    }
    // The label is not declared any more: that the image has one, too, is not why it changes.
    let after = host.differs(&spec(json!({ "user": "nobody" }))).await;
    for expected in [
        "user: root -> nobody (RECREATE, DECLARED)",
        "labels[org.example.one]: mine -> first (RECREATE, DECLARED)",
        "labels[org.example.two]: absent -> two words (RECREATE, IMAGE_DEFAULT)",
        "working_dir: /var -> /tmp (RECREATE, DECLARED)",
    ] {
        assert!(after.contains(&expected.to_owned()), "without {expected}: {after:?}");
    }
    host.apply(&before, true).await;
    let again = host.differs(&spec(json!({ "user": "root", "working_dir": "/var" }))).await;
    assert_eq!(again, ["labels[org.example.one]: mine -> first (RECREATE, DECLARED)"]);
}

/// A hand changes the running container, and the tag moves: each has its own cause, also where the changed image was left
/// alone for a while.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_image_brings_is_not_said_to_be_changed_by_hand() {
    let host = Served::new("imagehand").await;
    let tag = Tag::of(&host, "plumbline/sample:1");
    let spec = |ignored: Json| {
        let mut spec = host.site.module(json!({
            "ignore_paths": ignored,
            "containers": { "c": { "image": tag.reference, "command": ["/bin/hold"], "entrypoint": [] } }
        }));
        spec.name = Some(host.site.name.clone());
        spec
    };
    host.apply(&spec(json!([])), false).await;
    let old = host.site.identity("c").await;
    tag.moves_to("plumbline/defaults:1");
    let everything = [
        "image",
        "user",
        "expose",
        "environment",
        "healthcheck",
        "working_dir",
        "labels",
        "stop_signal",
        "mounts",
    ];
    let ignored: Vec<String> = everything.iter().map(|field| format!("containers.c.{field}")).collect();
    let result = host.apply(&spec(json!(ignored)), false).await;
    assert_eq!(object(&result, "c").action(), Action::Unchanged);

    docker(&["update", "--cpu-shares", "512", &host.container()]);
    let lines = host.differs(&spec(json!([]))).await;
    assert!(lines.len() > 10, "{lines:?}");
    for line in &lines {
        let cause = match line.split(':').next() {
            Some("cpu_shares") => "CHANGED_BY_HAND)",
            Some("image") => "DECLARED)",
            _ => "IMAGE_DEFAULT)",
        };
        assert!(line.ends_with(cause), "{line}");
    }
    assert!(lines.iter().any(|line| line.starts_with("cpu_shares: 512 -> absent")), "{lines:?}");
    assert_eq!(host.site.identity("c").await, old);
    assert_eq!(text(&host.site.inspect("c").await["Image"]), id_of("plumbline/sample:1"));
}
