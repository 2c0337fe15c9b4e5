//! Mounts that come, move and go: each is noticed, and what is not declared is not mounted after a recreation.

use plumbline::proto::v1::{Action, RefusalReason};
use serde_json::{Value as Json, json};

use crate::served::Served;
use crate::site::{changes, object, paths};

/// Where something is mounted in the container, in order.
async fn targets(host: &Served) -> Vec<String> {
    let inspect = host.site.inspect("c").await;
    let mounts = inspect["Mounts"].as_array().into_iter().flatten();
    let mut targets: Vec<String> =
        mounts.filter_map(|mount| mount["Destination"].as_str().map(str::to_owned)).collect();
    targets.sort();
    targets
}

#[tokio::test(flavor = "multi_thread")]
async fn h01_h02_h07_a_bind_that_is_added_moved_or_removed() {
    let host = Served::new("h01").await;
    let (one, other) = (host.site.host_folder("one"), host.site.host_folder("other"));
    let spec = |mounts: Json| host.site.holding(&json!({ "mounts": mounts }));
    let first = format!("{one}:/m");
    host.apply(&spec(json!([first])), false).await;
    for (mounts, changed, mounted) in [
        // H01: one was added.
        (json!([first, format!("{other}:/n:ro")]), "mounts[/n].", vec!["/m", "/n"]),
        // H02: its target moved.
        (json!([first, format!("{other}:/o:ro")]), "mounts[/o].", vec!["/m", "/o"]),
        // H07: one was removed.
        (json!([first]), "mounts[/o].", vec!["/m"]),
        // H07: all were.
        (json!([]), "mounts[/m].", vec![]),
    ] {
        let (spec, before) = (spec(mounts), host.site.identity("c").await);
        let refused = host.apply(&spec, false).await;
        assert_eq!(object(&refused, "c").reason(), RefusalReason::NeedsRecreation);
        let changes = changes(object(&refused, "c"));
        assert!(
            paths(&changes).iter().any(|path| path.starts_with(changed)),
            "{changed}: {:?}",
            paths(&changes)
        );
        assert!(paths(&changes).iter().all(|path| path.starts_with("mounts[")), "{:?}", paths(&changes));
        assert_eq!(host.site.identity("c").await, before);

        let recreated = host.apply(&spec, true).await;
        assert_eq!(object(&recreated, "c").action(), Action::Recreated);
        assert_eq!(targets(&host).await, mounted);
        host.settled(&spec).await;
    }
}
