#!/usr/bin/env bash
# Measures what docs/results holds: every level and load of this machine, in some thirty minutes, best
# on one that does nothing else. It needs what `make build` and `make vm` make, and root for all of it.
#
#   scripts/results.sh [FOLDER]      the folder to write, docs/results by default
set -euo pipefail
cd "$(dirname "$0")/.."

readonly folder=${1:-docs/results}
readonly levels=baseline,namespace,container,vm
readonly loads=cpu,io,network
work=$(mktemp -d build/results.XXXXXXXX)
readonly work
trap 'rm -rf "$work"' EXIT

mkdir -p "$folder"
rm -rf "$folder/data" "$folder"/*.txt

# $(measure NAME ARGUMENT...): one run, and the table that it ends with.
parts=()
measure() {
    local name=$1
    shift
    set -- "$@" --level "$levels"
    printf '$ eigentime bench %s\n\n' "$*" >"$folder/$name.txt"
    build/bin/eigentime bench "$@" --out "$work/$name" >>"$folder/$name.txt"
    parts+=("$work/$name")
}

# The papers' counts, less what would take hours: a hundred thousand calls in a record, and under loads
# two thousand, not a million. Five blocks where nothing else runs: what one block has in common with
# itself is no news of the machine. One or two under loads, where everything takes ten times as long.
measure calls calls --records 60 --calls 100000 --blocks 5 --load idle
measure reads-and-sleeps read sleep warp --interval 1ms --policy other --blocks 5 --load idle
measure events events --preset paper --blocks 5 --load idle
measure calls-under-load calls --records 30 --calls 2000 --blocks 2 --load "$loads"
measure reads-and-sleeps-under-load read sleep --interval 1ms --policy other --blocks 1 --load "$loads"
measure events-under-load events --preset paper --blocks 1 --load "$loads"
build/bin/eigentime bench merge "${parts[@]}" --out "$folder/data"
