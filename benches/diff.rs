//! What comparing costs: one container of thirty environment entries and thirty mounts, from the wire to the changes.
//!
//! `cargo bench --bench diff`. Machines differ: read the ratios between rows, not the seconds.

use plumbline::catalogue::{ApiVersion, Path};
use plumbline::diff::{Comparison, diff};
use plumbline::normal::normalise;
use plumbline::proto::v1::{ContainerSpec, Mount};
use prost_reflect::ReflectMessage as _;

fn main() {
    divan::main();
}

fn container() -> ContainerSpec {
    let mount = |index| Mount {
        r#type: Some("bind".to_owned()),
        source: Some(format!("/srv/data/{index}")),
        target: Some(format!("/data/{index}")),
        ..Mount::default()
    };
    ContainerSpec {
        image: Some("app:1".to_owned()),
        environment: (0..30).map(|index| (format!("KEY_{index}"), format!("value {index}"))).collect(),
        mounts: (0..30).map(mount).collect(),
        ..ContainerSpec::default()
    }
}

/// From the typed message to its normal form.
#[divan::bench]
fn normal_form(bencher: divan::Bencher<'_, '_>) {
    let spec = container();
    bencher.bench(|| {
        let mut message = spec.transcode_to_dynamic();
        normalise(&mut message);
        message
    });
}

/// The walker alone, on two equal specs.
#[divan::bench]
fn walk_equal(bencher: divan::Bencher<'_, '_>) {
    let mut spec = container().transcode_to_dynamic();
    normalise(&mut spec);
    bencher.bench(|| compare(&spec, &spec));
}

/// The walker alone, with one leaf that differs.
#[divan::bench]
fn walk_one_change(bencher: divan::Bencher<'_, '_>) {
    let mut spec = container();
    let mut desired = spec.transcode_to_dynamic();
    normalise(&mut desired);
    spec.mounts[7].source = Some("/srv/elsewhere".to_owned());
    let mut observed = spec.transcode_to_dynamic();
    normalise(&mut observed);
    bencher.bench(|| compare(&desired, &observed));
}

fn compare(
    desired: &prost_reflect::DynamicMessage,
    observed: &prost_reflect::DynamicMessage,
) -> Vec<plumbline::diff::LeafChange> {
    let comparison = Comparison {
        declared: desired,
        desired,
        observed,
        previous: Some(desired),
        as_running: None,
        api: ApiVersion::NEWEST,
    };
    diff(&comparison, &Path::default().field("containers").key("web"))
}
