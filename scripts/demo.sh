#!/usr/bin/env bash
# Shows what `eigentime run` does to three unmodified programs, and checks itself:
# it fails unless each of them lived ten seconds of 19 January 2038 in about one second of the host.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly DATE=2038-01-19T03:14:00Z RATE=10
readonly RUN=(build/bin/eigentime run --date "$DATE" --rate "$RATE" --)
# In milliseconds; wide, because other programs may keep this machine busy.
readonly VIRTUAL_MIN=9900 VIRTUAL_MAX=20000 HOST_MIN=900 HOST_MAX=3000

built=build/demo
failures=0

build_static_program() { # sets `static_kind`
    mkdir -p "$built"
    if command -v go >/dev/null; then
        static_kind="Go, static"
        GOTOOLCHAIN=local CGO_ENABLED=0 GOCACHE="$PWD/$built/go-cache" go build -o "$built/static" scripts/demo/demo.go
    else
        static_kind="C, static"
        cc -static -O1 -Wall -o "$built/static" scripts/demo/demo.c
    fi
}

# Prints each line as it comes, with the host's time in milliseconds before it.
with_host_time() {
    local line
    while IFS= read -r line; do
        echo "$((${EPOCHREALTIME/[.,]/} / 1000)) $line"
    done
}

milliseconds() { date --date "$1" +%s%3N; }
day_and_time() { date --utc --date "@$(($1 / 1000)).$(printf %03d $(($1 % 1000)))" '+%Y-%m-%d %H:%M:%S.%3N'; }
seconds() { printf '%d.%02d s' $(($1 / 1000)) $(($1 % 1000 / 10)); }

row() { printf '%-12s  %-23s  %-12s  %8s   %-23s  %-12s  %8s\n' "$@"; }

complain() {
    echo "demo: $*" >&2
    failures=$((failures + 1))
}

show() { # KIND COMMAND...: runs one program in the timeline, prints its row, checks it
    local kind=$1 host_before host_after before after virtual host
    shift
    { read -r host_before before && read -r host_after after; } < <("${RUN[@]}" "$@" | with_host_time) ||
        { complain "$kind: the program did not print two times"; return 0; }
    wait "$!" || complain "$kind: exit status $?"

    virtual=$(($(milliseconds "$after") - $(milliseconds "$before")))
    host=$((host_after - host_before))
    before=${before/T/ } after=${after/T/ }
    host_after=$(day_and_time "$host_after") host_before=$(day_and_time "$host_before")
    row "$kind" "${before%Z}" "$(cut -c12-23 <<<"$after")" "$(seconds "$virtual")" \
        "$host_before" "${host_after#* }" "$(seconds "$host")"

    [[ $before == 2038-01-19* && $after == 2038-01-19* ]] || complain "$kind: its date is not 2038-01-19"
    ((virtual >= VIRTUAL_MIN && virtual <= VIRTUAL_MAX)) || complain "$kind: ten virtual seconds were asked for, $virtual ms passed"
    ((host >= HOST_MIN && host <= HOST_MAX)) || complain "$kind: about one host second was expected, $host ms passed"
}

build_static_program
python=$(python3 -c 'import sys; print(sys.executable)') # a version manager's python3 is a shell script

cat <<TEXT

Three programs print the date, sleep ten seconds and print the date again. Each runs as

    ${RUN[*]} PROGRAM

and crosses 03:14:07 UTC, where 32-bit time ends. All times are UTC.

TEXT
printf '%-12s  %-49s   %s\n' "" "THE PROGRAM'S CLOCK" "THE HOST'S CLOCK"
row program before after passed before after passed
show "shell" sh scripts/demo/demo.sh
show "$static_kind" "$built/static"
show "Python" "$python" scripts/demo/demo.py

show_leap() { # a program in a named timeline sleeps a day, which is skipped
    local begin took
    runtime=$(mktemp -d)
    trap 'rm -rf "$runtime"' EXIT
    export XDG_RUNTIME_DIR=$runtime
    build/bin/eigentime run --timeline demo -- sleep 86400 &
    until build/bin/eigentime ctl show demo 2>/dev/null | grep -q 'until monotonic'; do
        kill -0 "$!" || return 1 # it has ended
    done
    begin=${EPOCHREALTIME/[.,]/}
    build/bin/eigentime ctl leap demo +1d
    wait "$!"
    took=$(((${EPOCHREALTIME/[.,]/} - begin) / 1000))
    build/bin/eigentime ctl rm demo
    echo "A day was leapt over, and \`sleep 86400\` ended $took ms after the command."
}

printf '\nA program in a timeline called demo sleeps a day:\n\n    %s\n\n' \
    'eigentime run --timeline demo -- sleep 86400 &   eigentime ctl leap demo +1d'
show_leap || complain "the leap"

if ((failures > 0)); then
    printf '\ndemo: FAILED\n' >&2
    exit 1
fi
printf '\nEach of them slept ten seconds of its own in about one second of the host.\n'
