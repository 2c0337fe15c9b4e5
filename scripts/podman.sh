# shellcheck shell=bash
# What scripts/engine does for Podman alone; it is read by that script and uses its variables.
# shellcheck disable=SC2154 # folder, root, group, socket, pid_file

# In the new namespaces: turns this process into Podman's service. Its run root is the default below /run, which is this
# engine's own.
become_podman() {
    local hierarchy conf=$folder/home/.config/containers
    # It keeps a cache there, whatever its options say.
    mount -t tmpfs -o mode=755 tmpfs /var/lib
    # What it reads in /etc is read here first; the host may have none, or its own.
    rm -rf "$conf"
    mkdir -p "$conf"
    cp -r "$root/etc/containers/." "$conf"
    # There is no journal.
    printf '[engine]\nevents_logger = "file"\n[containers]\nlog_driver = "k8s-file"\n' >"$folder/containers.conf"
    # Its containers, and the monitors that outlive it, would be in /libpod_parent of the host: what is below its own
    # group is its whole world.
    for hierarchy in $(hierarchies); do
        mkdir -p "$hierarchy/$group"
        if [ -f "$hierarchy/cpuset.cpus" ] && [ -f "$hierarchy/cgroup.clone_children" ]; then
            cat "$hierarchy/cpuset.cpus" >"$hierarchy/$group/cpuset.cpus"
            cat "$hierarchy/cpuset.mems" >"$hierarchy/$group/cpuset.mems"
        fi
        echo $$ >"$hierarchy/$group/cgroup.procs"
        mount --bind "$hierarchy/$group" "$hierarchy"
    done
    printf '%s\n' $$ >"$pid_file"
    # A group that has processes of its own cannot have controllers for others (version 2).
    # shellcheck disable=SC2016 # For the inner shell.
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME="$folder/home" CONTAINERS_CONF="$folder/containers.conf" \
        PODMAN_IGNORE_CGROUPSV1_WARNING=1 unshare --cgroup sh -c 'mkdir -p "$1/engine" && echo $$ >"$1/engine/cgroup.procs" && shift && exec "$@"' \
        sh "$(dirname "$(marker)")" podman --root="$folder/data" --network-config-dir="$folder/networks" \
        --cgroup-manager=cgroupfs system service --time=0 "unix://$socket"
}
hierarchies() { awk '$3 ~ "^cgroup2?$" { print $2 }' /proc/self/mounts | grep -E '^/sys/fs/cgroup(/[^/]*)?$' | sort -u; }

# They do not depend on the service, and outlive it.
stop_podmans_containers() {
    local -a containers
    mapfile -t containers < <(DOCKER_HOST=unix://$socket docker ps --quiet)
    [ ${#containers[@]} -eq 0 ] || DOCKER_HOST=unix://$socket docker stop "${containers[@]}" >/dev/null || true
}
