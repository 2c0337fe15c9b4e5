//! Random modules on the real engine: after creation nothing differs, and every random edit is noticed.
//!
//! The samples of the catalogue's leaves are mixed. `PLUMBLINE_SPECS`: how many modules; `PLUMBLINE_SEED`: with which
//! random numbers. A failure is shrunk to the leaves that it takes.

use plumbline::catalogue::leaves;
use plumbline::proto::v1::path_segment::Step;
use plumbline::proto::v1::{Action, Change, ModuleSpec};
use proptest::collection::vec;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use tokio::runtime::Handle;

use crate::checks::words;
use crate::mixture::{Part, Side, assemble, declare, usable};
use crate::samples::Samples;
use crate::world::World;

/// How many modules are on the engine at once.
const LANES: u32 = 4;

/// So many in `scripts/test`; `scripts/conformance` takes more.
const SPECS: u32 = 60;

/// Indexes of leaves, each with a choice.
type Choices = Vec<(usize, bool)>;

/// What was done, so that a run that checked nothing is no success.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    specs: u64,
    leaves: u64,
    edits: u64,
    applied: u64,
}

#[tokio::test(flavor = "multi_thread")]
async fn random_modules_do_not_differ_once_created_and_every_edit_is_noticed() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u32>().expect("a number"));
    let (specs, seed) = (number("PLUMBLINE_SPECS").unwrap_or(SPECS), number("PLUMBLINE_SEED").unwrap_or(1));
    let again = format!("PLUMBLINE_SEED={seed} PLUMBLINE_SPECS={specs}");
    println!("{again}");
    let world = World::prepare("random").await;
    let lanes = 0..LANES;
    let lanes: Vec<_> = std::thread::scope(|scope| {
        let world = &world;
        let handle = Handle::current();
        let lane = |lane: u32| {
            let handle = handle.clone();
            scope.spawn(move || run_lane(world, &handle, lane, specs.div_ceil(LANES), seed))
        };
        let lanes: Vec<_> = lanes.map(lane).collect();
        tokio::task::block_in_place(|| lanes.into_iter().map(|lane| lane.join().expect("it ends")).collect())
    });
    world.clean_up().await;
    let mut all = Tally::default();
    let mut failures = Vec::new();
    for (tally, failure) in lanes {
        all.specs += tally.specs;
        all.leaves += tally.leaves;
        all.edits += tally.edits;
        all.applied += tally.applied;
        failures.extend(failure);
    }
    println!("random modules: {all:?}");
    assert!(failures.is_empty(), "with {again}:\n{}", failures.join("\n"));
    assert!(all.specs >= u64::from(specs), "only {} modules were made", all.specs);
    assert!(all.edits >= all.specs && all.applied > 0, "too few edits were checked: {all:?}");
}

/// One module after the other.
fn run_lane(world: &World, handle: &Handle, lane: u32, specs: u32, seed: u32) -> (Tally, Option<String>) {
    let catalogue = leaves();
    let samples = Samples::read(&catalogue, &world.places(lane as usize));
    let parts = usable(world, &catalogue, &samples);
    let module = format!("{}-{lane}", world.prefix);
    let config =
        Config { cases: specs, max_shrink_iters: 80, failure_persistence: None, ..Config::default() };
    let seeds: Vec<u8> = [seed, lane].iter().flat_map(|number| number.to_le_bytes()).chain([0; 24]).collect();
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seeds));
    let choice = || (0..parts.len(), proptest::bool::ANY);
    let tally = std::cell::Cell::new(Tally::default());
    let ran = runner.run(&(vec(choice(), 1..14), vec(choice(), 1..8)), |(chosen, edits)| {
        let checked = handle.block_on(check(world, &module, &parts, &chosen, &edits, &tally));
        handle.block_on(world.remove_module(&module));
        checked.map_err(TestCaseError::fail)
    });
    let failure = match ran {
        Ok(()) => None,
        Err(TestError::Abort(reason)) => Some(reason.to_string()),
        Err(TestError::Fail(reason, (chosen, edits))) => {
            let named = |choices: &Choices| {
                let names = choices.iter().map(|(index, side)| format!("{} {side}", parts[*index].leaf.path));
                names.collect::<Vec<_>>().join(", ")
            };
            Some(format!("{reason}\n  leaves: {}\n  edits: {}", named(&chosen), named(&edits)))
        }
    };
    (tally.get(), failure)
}

async fn check(
    world: &World,
    module: &str,
    parts: &[Part<'_>],
    chosen: &Choices,
    edits: &Choices,
    tally: &std::cell::Cell<Tally>,
) -> Result<(), String> {
    let wanted = chosen.iter().map(|(index, first)| {
        let part = parts[*index].clone();
        // The second values of networks are compared and never made: this host may have no driver for them.
        let side = if *first || part.leaf.path.starts_with("network.") { Side::A } else { Side::B };
        Part { side, ..part }
    });
    let (taken, spec) = assemble(world, module, wanted.collect());
    equal_once_applied(world, &spec, Action::Created).await?;
    let mut count = tally.get();
    count.specs += 1;
    count.leaves += taken.len() as u64;
    let mut last = None;
    for (index, other) in edits {
        let Some((edited, leaf)) = edit(world, module, &taken, &parts[*index], *other) else { continue };
        if edited == spec {
            continue;
        }
        let changes = world.changes(&edited).await?;
        if !changes.iter().any(|change| is_of(change, &leaf)) {
            return Err(format!("an edit of {leaf} is not noticed: {} changes", changes.len()));
        }
        count.edits += 1;
        if leaf.starts_with("container.") {
            last = Some(edited);
        }
    }
    if let Some(edited) = last {
        equal_once_applied(world, &edited, Action::Recreated).await?;
        count.applied += 1;
    }
    tally.set(count);
    Ok(())
}

/// One leaf of the module changed: another value, taken out, or new. `None`: it would not be valid, or nothing could
/// tell it from what was there.
fn edit(
    world: &World,
    module: &str,
    taken: &[Part<'_>],
    part: &Part<'_>,
    other: bool,
) -> Option<(ModuleSpec, String)> {
    let path = &part.leaf.path;
    let can = |check: &str| !part.sample.exempt.contains_key(check);
    let at = taken.iter().position(|taken| taken.leaf.path == *path);
    let edited: Vec<Part<'_>> = match at {
        None if can("removed") && can("added") => {
            let new = Part { side: Side::A, ..part.clone() };
            let wanted = taken.iter().cloned().chain([new]).collect();
            // What came last may have been left out.
            let (edited, _) = assemble(world, module, wanted);
            (edited.len() > taken.len()).then_some(edited)?
        }
        None => return None,
        Some(at) => {
            let side = match taken[at].side {
                Side::A if other && can("refuse") => Side::B,
                Side::A if can("removed") => Side::Base,
                Side::B if can("refuse") => Side::A,
                _ => return None,
            };
            let mut edited = taken.to_vec();
            edited[at].side = side;
            edited
        }
    };
    Some((declare(world, module, &edited)?, path.clone()))
}

/// Applies, and applies again: what was made reads back equal, and nothing differs.
async fn equal_once_applied(world: &World, spec: &ModuleSpec, action: Action) -> Result<(), String> {
    let objects = world.objects(spec, true).await?;
    // The others are external.
    for object in objects.iter().filter(|object| matches!(object.key.as_str(), "c" | "n")) {
        let fine = match action {
            Action::Created => object.action() == Action::Created,
            _ => object.action() != Action::Refused,
        };
        if !fine || !object.residue.is_empty() {
            let residue: Vec<&str> = object.residue.iter().map(|one| one.path_text.as_str()).collect();
            return Err(format!("applied: {}, residue: {}", words(object), residue.join(", ")));
        }
    }
    for object in world.objects(spec, true).await? {
        if object.action() != Action::Unchanged {
            return Err(format!("applied again: {}", words(&object)));
        }
    }
    Ok(())
}

/// Is the change at the leaf, or at another of the same field?
fn is_of(change: &Change, leaf: &str) -> bool {
    let field = leaf.split(['.', '[']).nth(1).unwrap_or_default();
    let steps = change.path.iter().skip(2).find_map(|segment| match &segment.step {
        Some(Step::Field(name)) => Some(name.as_str()),
        Some(Step::Key(_)) | None => None,
    });
    steps == Some(field)
}
