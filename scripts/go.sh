#!/usr/bin/env bash
# Tests the modules in kits/go/, or checks them and those in examples/, which scripts/examples.sh runs.
#
#   scripts/go.sh test    runs their tests on build/bin/eigentime
#   scripts/go.sh lint    checks their formatting, and runs go vet
#
# A module that needs a later Go than this machine has is skipped, as are all if there is none.
set -euo pipefail
cd "$(dirname "$0")/.."

export EIGENTIME=$PWD/build/bin/eigentime
# No other toolchain is downloaded, and no module that go.sum does not list.
export GOTOOLCHAIN=local GOFLAGS=-mod=readonly

what=${1:?test or lint}
modules=(kits/go kits/go/containers)
case $what in
    test) skipped="skipped: the tests of" ;;
    lint) skipped="skipped: the checks of" modules+=(examples/go examples/service) ;;
    *) echo "$0: unknown word '$what'; there are test and lint" >&2 && exit 2 ;;
esac

if ! command -v go >/dev/null; then
    echo "$skipped the Go kit: need go"
    exit
fi
log=$(mktemp)
trap 'rm "$log"' EXIT
have=$(go env GOVERSION)
status=0
for module in "${modules[@]}"; do
    need=$(sed -n 's/^go //p' "$module/go.mod")
    if [ "$(printf '%s\n' "$need" "${have#go}" | sort --version-sort | head -n 1)" != "$need" ]; then
        echo "$skipped the Go module $module: need Go $need or later"
        continue
    fi
    case $what in
        # As a single count: go test prints none.
        test)
            (cd "$module" && go test -count=1 -timeout=10m -v ./...) 2>&1 | tee "$log" || status=1
            echo "$(grep -cE '^ *--- PASS' "$log") passed, $(grep -cE '^ *--- FAIL' "$log") failed, $(grep -cE '^ *--- SKIP' "$log") skipped in $module"
            ;;
        lint)
            unformatted=$(gofmt -l "$module"/*.go)
            if [ -n "$unformatted" ]; then
                echo "not as gofmt writes them: $unformatted" >&2
                status=1
            fi
            (cd "$module" && go vet ./...) || status=1
            ;;
    esac
done
exit "$status"
