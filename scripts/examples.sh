#!/usr/bin/env bash
# Runs the tests in examples/, each in its ecosystem, with containers of a separate dockerd, whose state is in a
# directory that is removed with it. If the machine's dockerd passes no annotations, they run again with the one
# that `make docker` has fetched. examples/README.md describes the environment of the tests.
#
#   scripts/examples.sh [ECOSYSTEM...]      all, unless some are named
#   scripts/examples.sh --shell             a shell where the tests would run
#
# The file system of PostgreSQL's image is kept in build/examples.
set -euo pipefail
cd "$(dirname "$0")/.."

# A distribution's administrative commands, which are not on every user's PATH.
export PATH=$PATH:/usr/sbin:/sbin
readonly EIGENTIME=$PWD/build/bin/eigentime KEPT=$PWD/build/examples NEWER=$PWD/build/docker/usr/sbin
# The exit status of `run` when something is missing.
readonly SKIPPED=77
readonly ECOSYSTEMS=(python go java node compose)

if [ "${1-}" = --shell ]; then chosen=() shell=true; else chosen=("${@:-${ECOSYSTEMS[@]}}") shell=; fi

missing() { # what all examples need, and this machine lacks
    local tool
    if [ "$EUID" != 0 ]; then echo root; fi
    for tool in dockerd docker containerd debootstrap go ip setpriv; do
        if ! command -v "$tool" >/dev/null; then echo "$tool"; fi
    done
}
lacking=$(missing | paste --serial --delimiters=, | sed 's/,/, /g')
if [ -n "$lacking" ]; then
    echo "skipped: the examples: need $lacking"
    exit
fi

scratch=$(mktemp --directory --tmpdir eigentime-examples.XXXXXX)
# The bridge of the daemon, whose name is at most 15 bytes long.
readonly BRIDGE=eigentime$$
daemon='' running=''

stop() {
    set +e
    if [ -n "$running" ]; then kill -- -"$running" 2>/dev/null; wait "$running"; fi
    stop_daemon
    rm -rf "$scratch"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

stop_daemon() {
    if [ -z "$daemon" ]; then return; fi
    docker ps --all --quiet | xargs --no-run-if-empty docker rm --force --volumes >/dev/null
    docker network prune --force >/dev/null
    kill "$daemon" && wait "$daemon"
    daemon=
    ip link delete "$BRIDGE"
}

# The host's network is unchanged except for bridges, which are removed with the daemon.
start_daemon() {
    rm -rf "${scratch:?}"/*
    mkdir "$scratch/client" "$scratch/timelines"
    export DOCKER_HOST=unix://$scratch/socket DOCKER_CONFIG=$scratch/client EIGENTIME_RUNTIME_DIR=$scratch/timelines
    cat >"$scratch/daemon.json" <<EOF
{
  "data-root": "$scratch/data",
  "exec-root": "$scratch/run",
  "pidfile": "$scratch/pid",
  "hosts": ["$DOCKER_HOST"],
  "exec-opts": ["native.cgroupdriver=cgroupfs"],
  "deprecated-key-path": "$scratch/key.json",
  "bridge": "$BRIDGE",
  "iptables": false,
  "ip6tables": false,
  "ip-forward": false,
  "ip-masq": false
}
EOF
    "$EIGENTIME" setup docker --yes --trust-environment --config "$scratch/daemon.json" >/dev/null
    ip link add "$BRIDGE" type bridge
    # It ends with this script, however that ends, and not on Ctrl-C, before the containers are removed.
    setsid setpriv --pdeathsig TERM -- dockerd --config-file "$scratch/daemon.json" >"$scratch/log" 2>&1 </dev/null &
    daemon=$!
    until docker version >/dev/null 2>&1; do
        if ! kill -0 "$daemon" 2>/dev/null; then
            tail --lines=5 "$scratch/log" >&2
            echo "the examples: dockerd has ended, with the output above" >&2
            exit 1
        fi
    done
}

import_postgres() {
    local archive
    archive=$KEPT/postgres-$(cat /etc/os-release examples/postgres/* | sha256sum | cut --characters=1-12).tar
    if [ ! -e "$archive" ]; then
        echo "examples: making an image of PostgreSQL from the distribution's packages" >&2
        rm -f "$KEPT"/postgres-*
        examples/postgres/archive.sh "$archive"
    fi
    docker import --change 'ENV LANG=C.UTF-8 PGDATA=/var/lib/postgresql/data' --change 'EXPOSE 5432' \
        --change 'ENTRYPOINT ["entrypoint"]' --change 'CMD ["postgres"]' "$archive" postgres >/dev/null
}

import_shop() {
    (cd examples/service && CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-mod=readonly go build -trimpath -o "$scratch/image/shop" .)
    tar --directory "$scratch/image" --create . | docker import --change 'EXPOSE 8080' --change 'ENTRYPOINT ["/shop"]' - shop >/dev/null
}

run() { # ECOSYSTEM: how it ended
    local status=0
    mkdir -p "$KEPT/$1"
    (cd "examples/$1" && EXAMPLES_OUT=$KEPT/$1 exec setsid ./run) &
    running=$!
    wait "$running" || status=$?
    running=
    return "$status"
}

passed=0 failed=0 skipped=0
run_all() {
    local ecosystem status
    for ecosystem in "${chosen[@]}"; do
        echo "---- $ecosystem, Docker $1"
        status=0
        run "$ecosystem" || status=$?
        case $status in
            0) passed=$((passed + 1)) ;;
            "$SKIPPED") skipped=$((skipped + 1)) ;;
            *)
                failed=$((failed + 1))
                echo "the example of $ecosystem failed, with status $status" >&2
                ;;
        esac
    done
}

# Whether the running engine passes annotations to the runtime.
passes_annotations() {
    printf '%s\n' 1.43 "$(docker version --format '{{.Server.APIVersion}}')" | sort --version-sort --check=quiet
}

mkdir -p "$KEPT"
export EIGENTIME TESTCONTAINERS_RYUK_DISABLED=true TESTCONTAINERS_HOST_OVERRIDE=localhost
for folder in '' "$NEWER:"; do
    PATH=$folder$PATH
    start_daemon
    import_postgres
    import_shop
    if [ -n "$shell" ]; then
        echo "DOCKER_HOST=$DOCKER_HOST, until this shell ends" >&2
        # Its status is that of its last command, and says nothing about the examples.
        "${SHELL:-bash}" || true
        exit
    fi
    run_all "$(docker version --format '{{.Server.Version}}')"
    if passes_annotations; then break; fi
    stop_daemon
    if [ ! -x "$NEWER/dockerd" ]; then
        echo "skipped: the examples with annotations: need Docker 24 or later: make docker"
        skipped=$((skipped + ${#chosen[@]}))
        break
    fi
done
echo "$passed passed, $failed failed, $skipped skipped of the examples"
[ "$failed" = 0 ]
