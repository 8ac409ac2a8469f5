#!/usr/bin/env bash
# Measures the contents of docs/results: every level and load of this machine, in some thirty minutes,
# best on an idle machine. It needs what `make build` and `make vm` make, and root for all of it.
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

# $(measure NAME ARGUMENT...): one run, and the table at its end.
parts=()
measure() {
    local name=$1
    shift
    set -- "$@" --level "$levels"
    printf '$ eigentime bench %s\n\n' "$*" >"$folder/$name.txt"
    build/bin/eigentime bench "$@" --out "$work/$name" >>"$folder/$name.txt"
    parts+=("$work/$name")
}

# The papers' counts, reduced where they would take hours: a hundred thousand calls in a record, and
# two thousand under loads, not a million. Five blocks without load: what one block shares with itself
# says nothing about the machine. One or two under loads, where everything takes ten times as long.
measure calls calls --records 60 --calls 100000 --blocks 5 --load idle
measure reads-and-sleeps read sleep warp --interval 1ms --policy other --blocks 5 --load idle
measure events events --preset paper --blocks 5 --load idle
measure calls-under-load calls --records 30 --calls 2000 --blocks 2 --load "$loads"
measure reads-and-sleeps-under-load read sleep --interval 1ms --policy other --blocks 1 --load "$loads"
measure events-under-load events --preset paper --blocks 1 --load "$loads"
build/bin/eigentime bench merge "${parts[@]}" --out "$folder/data"
