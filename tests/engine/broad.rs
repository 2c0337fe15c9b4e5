//! Everything at once: containers that declare as many fields as work together on this engine.

use plumbline::catalogue::container_descriptor;
use plumbline::proto::v1::{Action, ContainerSpec, ModuleSpec};
use plumbline_agent::container::Names;
use plumbline_agent::pasted::{Pasted, Question, plan};
use prost_reflect::ReflectMessage;

use crate::free::{free_ports, own_subnet};
use crate::served::Served;

fn nearly_everything(host: &Served) -> ModuleSpec {
    let text = include_str!("broad.yaml")
        .replace("{NAME}", &host.site.name)
        .replace("{DIR}", &host.site.host_folder("data"))
        .replace("{SUBNET}", &own_subnet())
        .replace("{PORT}", &free_ports().to_string());
    host.site.module(serde_saphyr::from_str(&text).expect("broad.yaml is YAML"))
}

/// Fields that this engine is too old for, that this host lacks something for, or that no other field goes with.
const LEFT_OUT: [&str; 9] = [
    "annotations",
    "blkio_config",
    "cgroup_container",
    "console_size",
    "cpu_rt_period",
    "cpu_rt_runtime",
    "device_requests",
    "privileged",
    "storage_opt",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_module_that_declares_nearly_everything_is_created_once_and_at_rest() {
    let host = Served::new("broad").await;
    let spec = nearly_everything(&host);
    let declared = |name: &str| {
        let all = spec.containers.values().map(ReflectMessage::transcode_to_dynamic);
        all.into_iter().any(|container| container.has_field_by_name(name))
    };
    let missing: Vec<String> = container_descriptor()
        .fields()
        .map(|field| field.name().to_owned())
        .filter(|name| !declared(name) && !LEFT_OUT.contains(&name.as_str()))
        .collect();
    assert_eq!(missing, [""; 0], "add it to broad.yaml, or to what is left out");

    let result = host.apply(&spec, false).await;
    for object in &result.objects {
        assert_eq!(object.action(), Action::Created, "{}", object.key);
        let residue: Vec<&String> = object.residue.iter().map(|residue| &residue.path_text).collect();
        assert_eq!(residue, [""; 0], "read back differently");
    }
    host.settled(&spec).await;
    pasted_it_is_at_rest_too(&host, &spec).await;

    // The engine leaves a parent control group behind.
    let parent = host.site.name.clone();
    drop(host);
    for controller in std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
        let _ = std::fs::remove_dir(controller.path().join(&parent));
    }
}

/// What inspect says of it, given as text: nothing differs, with or without the image, networks and volumes.
async fn pasted_it_is_at_rest_too(host: &Served, spec: &ModuleSpec) {
    let reader = host.site.engine.reader();
    let api = reader.version().await.expect("the engine answers").api;
    let names = Names::of(spec);
    let (mut containers, mut others) = (Vec::new(), Vec::new());
    for name in names.containers.values() {
        containers.extend(reader.container(name).await.expect("the engine answers"));
    }
    for name in names.networks.values() {
        others.extend(reader.network(name).await.expect("the engine answers"));
    }
    for name in names.volumes.values() {
        others.extend(reader.volume(name).await.expect("the engine answers"));
    }
    for image in spec.containers.values().map(ContainerSpec::image) {
        others.extend(reader.image(image).await.expect("the engine answers"));
    }
    assert_eq!(containers.len(), spec.containers.len());
    let everything = [&containers[..], &others].concat();
    for (objects, is_whole) in [(&containers, false), (&everything, true)] {
        let text = serde_json::to_vec(objects).expect("it was JSON");
        let pasted = Pasted::read(&[("inspect.json".to_owned(), text)]).expect("it is inspect's");
        let specs = std::slice::from_ref(spec);
        let question = Question { specs, containers: &[], api: Some(api), recreate: false };
        let planned = plan(&pasted, question).await.expect("a plan").remove(0).response;
        for object in planned.result.expect("a plan has one").objects {
            let changes = object.diff.iter().flat_map(|diff| &diff.changes);
            let changes: Vec<&String> = changes.map(|change| &change.path_text).collect();
            assert_eq!((changes.as_slice(), object.action()), (&[][..], Action::Unchanged), "{}", object.key);
        }
        // No text tells whether there is a file in a container.
        let notes: Vec<&String> = planned.notes.iter().filter(|note| !note.contains("update lock")).collect();
        assert_eq!(planned.notes.len(), notes.len() + 1, "{notes:?}");
        assert_eq!(notes.is_empty(), is_whole, "{notes:?}");
    }
}
