//! Many modules, applied many times: after the first time nothing changes.
//!
//! `PLUMBLINE_MODULES`: how many modules; each is applied twenty times.

use futures_util::{StreamExt as _, TryStreamExt as _};
use plumbline::catalogue::leaves;
use plumbline::proto::v1::{Action, ModuleSpec};

use crate::checks::words;
use crate::mixture::{Part, Side, assemble, usable};
use crate::samples::Samples;
use crate::world::World;

/// So many in `scripts/test`; `scripts/conformance` takes more.
const MODULES: usize = 20;

/// How often each is applied.
const TIMES: usize = 20;

/// What only one container at a time can have, or what a host has only a few of.
const SCARCE: [&str; 5] = ["container_name", "_address", "published", "network.", "mac_address"];

#[tokio::test(flavor = "multi_thread")]
async fn applying_again_changes_nothing() {
    let modules = std::env::var("PLUMBLINE_MODULES").map_or(MODULES, |text| text.parse().expect("a number"));
    let world = World::prepare("soak").await;
    let catalogue = leaves();
    let samples = Samples::read(&catalogue, &world.places(0));
    let parts: Vec<Part<'_>> = usable(&world, &catalogue, &samples)
        .into_iter()
        .filter(|part| !SCARCE.iter().any(|scarce| part.leaf.path.contains(scarce)))
        .collect();
    // The parts of a module lie apart in the catalogue; neighbours describe the same thing.
    let stride = parts.len() / 8;
    let specs: Vec<ModuleSpec> = (0..modules)
        .map(|number| {
            let name = format!("{}-{number}", world.prefix);
            let side = if number % 2 == 0 { Side::A } else { Side::B };
            let wanted = (0..8).map(|step| {
                let part = &parts[(number + step * stride) % parts.len()];
                Part { side, ..part.clone() }
            });
            assemble(&world, &name, wanted.collect()).1
        })
        .collect();
    let soaked = soak(&world, &specs).await;
    for spec in &specs {
        world.remove_module(spec.name()).await;
    }
    world.clean_up().await;
    let applies = soaked.unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(applies, modules * TIMES);
    println!("soak: {modules} modules, {applies} applies, no change after the first");
}

async fn soak(world: &World, specs: &[ModuleSpec]) -> Result<usize, String> {
    let (mut ids, mut applies) = (Vec::new(), 0);
    for round in 0..TIMES {
        let before = world.engine.mutations();
        let applied = futures_util::stream::iter(specs).map(|spec| apply(world, spec, round == 0));
        let found: Vec<String> = applied.buffered(4).try_collect().await?;
        if round == 0 {
            ids = found;
        } else if ids != found {
            return Err(format!("other containers in round {round}"));
        } else if world.engine.mutations() != before {
            return Err(format!("round {round} made calls that change something"));
        }
        applies += specs.len();
    }
    Ok(applies)
}

/// Applies a module, and returns its container's id.
async fn apply(world: &World, spec: &ModuleSpec, first: bool) -> Result<String, String> {
    let expected = if first { Action::Created } else { Action::Unchanged };
    let objects = world.objects(spec, true).await.map_err(|error| format!("{}: {error}", spec.name()))?;
    let container = objects.iter().find(|object| object.key == "c").ok_or("no container")?;
    if container.action() != expected || !container.residue.is_empty() {
        return Err(format!("{}: not {expected:?}: {}", spec.name(), words(container)));
    }
    Ok(container.engine_id.clone())
}
