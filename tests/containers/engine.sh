#!/usr/bin/env bash
# Runs a command where a Docker engine answers, so that tests/containers run for real:
#
#   tests/containers/engine.sh make test
#
# An engine that answers is used as it is. Where none does, Debian's is installed (as root), started in a folder of its
# own, and stopped and removed after the command. Images that no registry gives it are made from Debian's packages
# (standins/). Where this can't be had, one line says why and the command runs without: these tests are skipped then.
# Its exit code is the command's.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
project=$(cd "$here/../.." && pwd)
# The mirror that this machine itself installs from.
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Label: Debian' 2>/dev/null | head -n 1)}
suite=trixie # has pgvector, Redis 8 and the second version of Compose; bookworm has none of them
work=
engine=

say() { echo "engine.sh: $*" >&2; }

main() {
    if docker info >/dev/null 2>&1; then
        say "a Docker engine answers"
        exec "$@"
    fi
    work=$(mktemp -d)
    trap clean_up EXIT
    local started=$SECONDS
    if prepare >"$work/log" 2>&1; then
        say "Docker $(docker version --format '{{.Server.Version}}') is ready after $((SECONDS - started)) s;" \
            "storage: $(docker info --format '{{.Driver}}'); stand-in images: ${stand_ins:-none}"
    else
        say "no Docker engine, so tests of containers are skipped: $failed. Its log ends:"
        tail -n 15 "$work/log" >&2
        stop_engine
        unset DOCKER_HOST DOCKER_CONFIG
    fi
    "$@"
}

prepare() {
    failed="only root can start one" && [ "$(id -u)" = 0 ] || return
    failed="only Debian's packages are known here, and apt-get is missing" && command -v apt-get || return
    failed="this machine knows no mirror of Debian" && [ -n "$mirror" ] || return
    failed="Debian's packages can't be installed" && install_packages || return
    failed="Debian's docker-compose can't be had" && install_plugins || return
    failed="dockerd does not start" && start_engine || return
    failed="the images can't be made" && make_images || return
}

install_packages() {
    apt-get -q update
    RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends docker.io mmdebstrap
}

# Compose and buildx are single programs that run on any Debian since 12: taken out of their packages, not installed.
install_plugins() {
    export DOCKER_CONFIG=$work/config
    local apt=$work/apt
    mkdir -p "$DOCKER_CONFIG" "$apt/lists/partial" "$apt/archives/partial" "$apt/unpacked"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$apt/sources.list"
    local options=(-q -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt" -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update &&
        (cd "$apt" && apt-get "${options[@]}" download docker-compose docker-buildx) &&
        for package in "$apt"/*.deb; do dpkg-deb --extract "$package" "$apt/unpacked" || return; done &&
        mv "$apt/unpacked/usr/libexec/docker/cli-plugins" "$DOCKER_CONFIG/" &&
        docker compose version
}

# dockerd takes overlayfs for its images where the kernel has it, else vfs (whole copies).
start_engine() {
    export DOCKER_HOST=unix://$work/docker.sock
    dockerd --host "$DOCKER_HOST" --pidfile "$work/docker.pid" --data-root "$work/data" --exec-root "$work/exec" &
    engine=$!
    local deadline=$((SECONDS + 60))
    until docker info >/dev/null 2>&1; do
        kill -0 "$engine" && ((SECONDS < deadline)) && sleep 0.2 || return
    done
}

make_images() {
    stand_ins=
    local image
    for image in $(sed -nE 's/^FROM ([^ ]*:[^ ]*).*/\1/p; s/^ +image: (.*)/\1/p' \
        "$project/Dockerfile" "$project/docker-compose.yml" | grep -v ^retrieval-worker: | sort -u); do
        timeout 300 docker pull --quiet "$image" || make_stand_in "$image" || return
    done
}

make_stand_in() {
    docker image inspect standin/debian >/dev/null 2>&1 || make_debian || return
    local target
    case $1 in
    python:*) target=python ;;
    redis:*) target=redis ;;
    pgvector/*) target=postgres ;;
    *) failed="$here/standins knows no $1" && return 1 ;;
    esac
    docker build --network host --target "$target" --tag "$1" "$here/standins" && stand_ins="$stand_ins${stand_ins:+, }$1"
}

# A small Debian with this machine's certificates and pip's settings: the way to its registries is the machine's own.
make_debian() {
    local certificates=/etc/ssl/certs/ca-certificates.crt changes=() name
    for name in PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST PIP_DEFAULT_TIMEOUT; do
        [ -z "${!name:-}" ] || changes+=(--change "ENV $name=${!name}")
    done
    changes+=(--change "ENV PIP_CERT=$certificates")
    mmdebstrap --variant=minbase --include=ca-certificates \
        --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --customize-hook="upload ${PIP_CERT:-$certificates} $certificates" "$suite" - "$mirror" |
        docker import "${changes[@]}" - standin/debian
}

stop_engine() {
    [ -n "$engine" ] || return 0
    kill "$engine" 2>/dev/null
    wait "$engine" 2>/dev/null
    engine=
}

clean_up() {
    stop_engine
    rm -rf --one-file-system "$work"
}

main "$@"
