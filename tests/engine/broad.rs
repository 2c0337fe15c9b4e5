//! Everything at once: containers that declare as many fields as work together on this engine.

use plumbline::catalogue::container_descriptor;
use plumbline::proto::v1::{Action, ModuleSpec};
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

    // The engine leaves a parent control group behind.
    let parent = host.site.name.clone();
    drop(host);
    for controller in std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
        let _ = std::fs::remove_dir(controller.path().join(&parent));
    }
}
