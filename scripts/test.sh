#!/usr/bin/env bash
# Runs all test suites, each to its end regardless of the others, then repeats the counts that the
# runners printed, with the reasons of failures, and says which suites failed. `make test` calls it,
# after building what the suites need.
set -euo pipefail
cd "$(dirname "$0")/.."

# What runners print as their result: Rust's, unittest's, pytest's, and the skipped parts of a suite.
readonly COUNTS='^(test result: |Ran [0-9]+ tests? |OK\b|FAILED \(|[0-9]+ (passed|failed)|skipped: the |[0-9]+ test binaries have begun)'
# The result of a crate without doctests and examples.
readonly EMPTY='^test result: ok\. 0 passed; 0 failed; 0 ignored'
# Where runners begin to explain failures, and how much of that is repeated.
readonly FAILURES='^failures:$|^✖ failing tests|^=+ FAILURES =+$|^(FAIL|ERROR): |--- FAIL: |^\[ERROR\]'
readonly MOST_LINES=60
# The line under which the Rust test harness says why a test failed, and how much of each is repeated
# right before the counts.
readonly REASON='^---- .+ ----$' REASON_LINES=3
# Where they have finished, and continue with what is of no use there.
readonly TOLD='^(test result: |Ran [0-9]+ tests? )'

# With it, Linux 6.18 may give processes in other sessions than the tests, such as supervisors, no
# processor for seconds (docs/limits.md).
readonly AUTOGROUP=/proc/sys/kernel/sched_autogroup_enabled

logs=$(mktemp -d)
failed=() beside=()
trap 'end' EXIT
readonly SUITES=(bench python report kubernetes unit aarch64 go java node action examples packages end-to-end)

end() {
    local group
    # On interrupt: what runs in the background is not interrupted.
    for group in "${beside[@]}"; do
        if kill -0 -- -"$group" 2>/dev/null; then kill -- -"$group"; fi
    done
    rm -rf "$logs"
}

suite() { # NAME COMMAND...
    local name=$1 begin=$SECONDS
    shift
    printf '\n==== %s: %s\n' "$name" "$*"
    if "$@" 2>&1 | tee "$logs/$name" && tells_results "$name"; then touch "$logs/$name.passed"; fi
    echo "$((SECONDS - begin)) s" >"$logs/$name.time"
}

# Whether each Rust test binary that began has reported a result. One that has become another program
# meanwhile exits successfully all the same.
tells_results() { # NAME
    local begun told
    begun=$(grep -cE '^running [0-9]+ tests?$' "$logs/$1") || begun=0
    told=$(grep -c '^test result: ' "$logs/$1") || told=0
    [ "$begun" = "$told" ] || {
        echo "$begun test binaries have begun, and $told told a result" | tee -a "$logs/$1"
        return 1
    }
}

# Makes the scheduler ignore sessions until this script has ended, however it does.
leave_autogroups() {
    if [ ! -w "$AUTOGROUP" ] || [ "$(cat "$AUTOGROUP")" = 0 ]; then return; fi
    setsid sh -c "tail --pid=$$ --follow /dev/null; echo 1 >$AUTOGROUP" </dev/null >/dev/null 2>&1 &
    echo 0 >"$AUTOGROUP"
}

# The tests of `eigentime report` run where it is built, for which Python may be too old.
report() {
    scripts/report.sh tests || return
    if [ -e build/report/tests ]; then
        build/report/tests/bin/python -m pytest --quiet --numprocesses auto --dist loadfile --rootdir python/eigentime_report python/eigentime_report/tests
    else
        echo "skipped: the tests of eigentime report: needs Python 3.11 or later"
    fi
}

in_python() {
    suite bench python3 -m unittest discover --start-directory bench/tests --top-level-directory bench
    suite python build/python/venv/bin/python -m unittest discover --start-directory python/eigentime/tests
    suite report report
    suite kubernetes python3 -m unittest discover --start-directory deploy/kubernetes/tests --pattern test_chart.py
}

in_other_languages() {
    suite aarch64 scripts/test-aarch64.sh
    suite go scripts/go.sh test
    suite java scripts/java.sh test
    suite node scripts/node.sh test
    suite action scripts/action.sh test
    suite examples scripts/examples.sh
    suite packages python3 -m unittest discover --start-directory tests/packages
}

# The output of what runs in the background is shown once that has ended.
in_background() { # FUNCTION
    set -m
    "$1" >"$logs/$1" 2>&1 </dev/null &
    set +m
    beside+=($!)
}

leave_autogroups
# The tests in Python compute, examples wait for engines, and unit tests mostly wait: they run in parallel.
in_background in_python
in_background in_other_languages
suite unit cargo test --no-fail-fast --workspace --exclude eigentime-tests
wait "${beside[@]}"
beside=()
cat "$logs/in_other_languages" "$logs/in_python"
suite end-to-end cargo test --package eigentime-tests

counts() { # NAME
    echo "==== $1, $(cat "$logs/$1.time")"
    grep -E "$COUNTS" "$logs/$1" | grep -vE "$EMPTY" || echo "no counts: it did not get as far as running tests"
}

reasons() { # NAME
    sed -nE "/$REASON/,+${REASON_LINES}p" "$logs/$1"
}

printf '\n'
for name in "${SUITES[@]}"; do
    if [ -e "$logs/$name.passed" ]; then counts "$name"; else failed+=("$name"); fi
done
if [ ${#failed[@]} -gt 0 ]; then
    for name in "${failed[@]}"; do
        sed -nE "/$FAILURES/,\$p" "$logs/$name" | sed -E "/$TOLD/,\$d" | sed -n "1,${MOST_LINES}p"
        reasons "$name"
        counts "$name"
    done
    echo "failed: ${failed[*]}"
    exit 1
fi
echo "all suites passed"
