//! Every leaf of the catalogue on a real engine: created, compared, changed the way it claims, read back, noticed when it
//! is taken away, noticed when somebody changes it by hand.
//!
//! The suite is driven by the catalogue. A leaf without samples fails it; what cannot be done on this host is exempt with
//! a reason that the report prints. What an engine that is no Docker does otherwise is a known gap (`podman.yaml`). The engine
//! is that of `PLUMBLINE_ENGINE` (a Unix socket), else the host's.
//!
//! With `PLUMBLINE_ENGINE_API` the engine is asked in that API version; the verdicts must be those of an earlier run
//! without, except for fields that this version does not have.
//!
//! It writes `target/conformance/<engine version>.json`; with `PLUMBLINE_DOCS=1` also `docs/fields.md`.

mod checks;
#[path = "../free.rs"]
mod free;
mod gaps;
mod mixture;
mod objects;
mod random;
mod report;
mod samples;
mod soak;
mod world;

use futures_util::StreamExt as _;
use plumbline::catalogue::{Leaf, leaves};
use plumbline::proto::v1::Means;

use report::{Report, Row, Verdict};
use samples::Samples;
use world::World;

/// How many leaves are checked side by side.
const SIDE_BY_SIDE: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn every_leaf_is_compared_changed_and_read_back() {
    let world = World::prepare("leaf").await;
    let all = leaves();
    let samples = Samples::read(&all, &world.places(0));
    world.gaps.refuse_strangers(&all);
    let (world_ref, samples_ref) = (&world, &samples);
    let rows: Vec<Row> = futures_util::stream::iter(all.iter().enumerate())
        .map(|(index, leaf)| async move { check(world_ref, samples_ref, index, leaf).await })
        .buffered(SIDE_BY_SIDE)
        .collect()
        .await;
    let version = world.host.version.clone();
    let asked_older = world::asked_api().is_some();
    let report = Report {
        engine: version.engine,
        api: version.api.to_string(),
        asked_older,
        added: world.gaps.added.clone(),
        rows,
    };
    world.clean_up().await;
    if std::env::var_os("PLUMBLINE_LEAF").is_some() {
        // A part is no report, and a name that fits nothing is no success.
        assert!(report.passed() > 0, "PLUMBLINE_LEAF fits no leaf that could be checked");
    } else {
        report.write();
    }
    let mut failures = report.failures();
    if asked_older {
        failures.extend(report.differs_from_newest(&all, version.api));
    }
    if std::env::var_os("PLUMBLINE_LEAF").is_none() {
        failures.extend(world.gaps.unseen());
    }
    for gap in report.gaps() {
        println!("known gap: {gap}");
    }
    println!("{}", report.summary());
    assert!(failures.is_empty(), "{} checks failed:\n{}", failures.len(), failures.join("\n"));
}

async fn check(world: &World, samples: &Samples, index: usize, leaf: &Leaf) -> Row {
    let mut row = Row::new(leaf);
    if leaf.rule.means() == Means::Instruction {
        row.all(&Verdict::Exempt("an instruction to the agent: not compared".to_owned()));
        return row;
    }
    let Some(sample) = samples.of(&leaf.path) else {
        row.all(&Verdict::Fail(
            "has no samples: add two values to tests/conformance/samples.yaml".to_owned(),
        ));
        return row;
    };
    if let Some(reason) = sample.exempt.get("all") {
        row.all(&Verdict::Exempt(reason.clone()));
        return row;
    }
    if sample.only_if == "all_capabilities" && !world::has_all_capabilities() {
        row.all(&Verdict::Exempt("this host cannot give every capability away".to_owned()));
        return row;
    }
    let only = std::env::var("PLUMBLINE_LEAF").unwrap_or_default();
    if !leaf.path.contains(&only) {
        row.all(&Verdict::Exempt("not asked for (PLUMBLINE_LEAF)".to_owned()));
        return row;
    }
    let module = format!("{}-{index}", world.prefix);
    if leaf.path.starts_with("container.") {
        checks::container(world, &module, leaf, sample, &mut row).await;
    } else {
        objects::network_or_volume(world, &module, leaf, sample, &mut row).await;
    }
    world.gaps.judge(&mut row);
    row
}
