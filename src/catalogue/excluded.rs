//! What engines take at container creation and a spec does not declare, each with the reason.

/// Engine path in the create body, and why no field of the spec declares it.
pub const EXCLUDED: &[(&str, &str)] = &[
    ("Config.ArgsEscaped", "Windows only: stored on Linux without effect"),
    ("Config.Volumes", "an anonymous volume is declared as a mount of type volume without a source"),
    (
        "HostConfig.Binds",
        "declared as mounts, and observed as such; the form would let the engine make host paths",
    ),
    ("HostConfig.CpuCount", "Windows only: stored on Linux without effect"),
    ("HostConfig.CpuPercent", "Windows only: Linux discards it"),
    ("HostConfig.IOMaximumIOps", "Windows only: Linux refuses it"),
    ("HostConfig.IOMaximumBandwidth", "Windows only: Linux refuses it"),
    ("HostConfig.DiskQuota", "Windows only, and in no present engine"),
    (
        "HostConfig.KernelMemory",
        "deprecated and without effect on present kernels; dropped by engines from API 1.42",
    ),
    ("HostConfig.KernelMemoryTCP", "deprecated and without effect; removed in API 1.52, reads 0 on 20.10"),
    ("HostConfig.Capabilities", "documented in API 1.40 only and dropped by every engine"),
    ("HostConfig.Isolation", "Windows only: Linux accepts the default alone"),
    (
        "HostConfig.ContainerIDFile",
        "an option of docker's command line: the engine stores it and writes no file",
    ),
    ("HostConfig.Mounts[].ClusterOptions", "swarm cluster volumes only, an empty object"),
    ("NetworkSettings.Networks.{}.NetworkID", "written by the engine: never part of a declaration"),
    ("NetworkSettings.Networks.{}.EndpointID", "written by the engine: never part of a declaration"),
    ("NetworkSettings.Networks.{}.Gateway", "written by the engine: never part of a declaration"),
    ("NetworkSettings.Networks.{}.IPAddress", "written by the engine: declare ipv4_address"),
    ("NetworkSettings.Networks.{}.IPPrefixLen", "written by the engine: never part of a declaration"),
    ("NetworkSettings.Networks.{}.IPv6Gateway", "written by the engine: never part of a declaration"),
    ("NetworkSettings.Networks.{}.GlobalIPv6Address", "written by the engine: declare ipv6_address"),
    ("NetworkSettings.Networks.{}.GlobalIPv6PrefixLen", "written by the engine: never part of a declaration"),
    ("NetworkSettings.Networks.{}.DNSNames", "written by the engine from name and aliases"),
];
