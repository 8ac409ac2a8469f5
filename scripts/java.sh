#!/usr/bin/env bash
# Tests or checks the modules in kits/java/; the build output is in build/java.
#
#   scripts/java.sh test       runs their tests on build/bin/eigentime
#   scripts/java.sh lint       checks formatting, warnings, documentation, and the licences of dependencies
#   scripts/java.sh example    runs examples/java, for scripts/examples.sh
#
# They are skipped if the JDK or Maven is missing or too old.
set -euo pipefail
cd "$(dirname "$0")/.."

export EIGENTIME=$PWD/build/bin/eigentime

skipped=0
case ${1:?test, lint or example} in
    test) what="the tests of the Java kit" goals=(test) ;;
    # Packaging runs javadoc; the enforcer checks that the version of each plugin is fixed.
    lint) what="the checks of the Java kit" goals=(spotless:check verify -DskipTests -Pexamples) ;;
    example)
        what="the example of Java" skipped=77
        # In a container, it would ask a container from a registry's image for the daemon's address.
        export TESTCONTAINERS_HOST_OVERRIDE=localhost
        goals=(test -Pexamples '-Dtest=ShopTest,ClockTest' -Dsurefire.failIfNoSpecifiedTests=false "-Dbuild.root=$EXAMPLES_OUT")
        ;;
    *) echo "$0: unknown word '$1'; there are test, lint and example" >&2 && exit 2 ;;
esac

# at_least NEED HAVE: whether HAVE is that version or a later one.
at_least() { [ "$(printf '%s\n' "$1" "$2" | sort --version-sort | head -n 1)" = "$1" ]; }

# They print `javac 17.0.15` and `Apache Maven 3.8.7`, in colour or with more after it. If one is missing or does not
# run, it has no version and counts as too old below.
javac=$(javac -version 2>/dev/null | sed -nE 's/^javac ([0-9.]+).*/\1/p') || true
maven=$(mvn --version 2>/dev/null | sed -nE 's/.*Apache Maven ([0-9.]+).*/\1/p') || true
if ! at_least 17 "${javac:-0}" || ! at_least 3.6.3 "${maven:-0}"; then
    echo "skipped: $what: need a JDK from 17 and Maven from 3.6.3"
    exit "$skipped"
fi

log=$(mktemp)
trap 'rm "$log"' EXIT
status=0
# Without the escape sequence that it appends even so.
mvn --file kits/java/pom.xml --batch-mode --fail-at-end -Dstyle.color=never "${goals[@]}" 2>&1 |
    sed 's/\x1b\[0m//g' | tee "$log" || status=$?
if [ "$1" = test ]; then
    # The last line of each module, as a single count.
    sed -nE 's/.*Tests run: ([0-9]+), Failures: ([0-9]+), Errors: ([0-9]+), Skipped: ([0-9]+)$/\1 \2 \3 \4/p' "$log" |
        awk '{ run += $1; failed += $2 + $3; skipped += $4 }
            END { printf "%d passed, %d failed, %d skipped in kits/java\n", run - failed - skipped, failed, skipped }'
fi
exit "$status"
