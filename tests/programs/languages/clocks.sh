#!/bin/bash
# Waits by the usual means of a shell; `clocks.sh SECONDS` makes every wait last
# that long. The monotonic time is the shell's own count, in seconds.
set -u
wanted=$1

measure() {
    local name=$1 start end
    shift
    echo "$name begin"
    start=$(date +%s%N)
    "$@"
    end=$(date +%s%N)
    echo "$name end wanted_ms=$(awk "BEGIN { print $wanted * 1000 }")" \
        "wall_ms=$(awk "BEGIN { print ($end - $start) / 1000000 }")"
}

echo "date=$(date +%s)"
before=$SECONDS
measure sleep sleep "$wanted"
echo "shell_seconds=$((SECONDS - before))"
measure read read -r -t "$wanted" -u 9 9<> <(:)
measure timeout timeout "$wanted" sleep 1000000
