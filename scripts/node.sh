#!/usr/bin/env bash
# Tests, checks or packs the package in kits/node/, in a copy of it in build/node.
#
#   scripts/node.sh test    runs its tests on build/bin/eigentime
#   scripts/node.sh lint    checks its formatting and its types
#   scripts/node.sh pack    makes build/node/eigentime-VERSION.tgz
#
# Tests and checks are skipped if this machine has no Node, one older than the package needs, or no npm.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly KIT=kits/node COPY=build/node
export EIGENTIME=$PWD/build/bin/eigentime

what=${1:?test, lint or pack}
case $what in
    test) skipped="skipped: the tests of the Node kit" ;;
    lint) skipped="skipped: the checks of the Node kit" ;;
    pack) skipped="not packed" ;;
    *) echo "$0: unknown word '$what'; there are test, lint and pack" >&2 && exit 2 ;;
esac

need=$(sed -nE 's/.*"node": ">=([0-9.]+)".*/\1/p' "$KIT/package.json")
have=$(node --version 2>/dev/null) || have=v0
if [ "$(printf '%s\n' "$need" "${have#v}" | sort --version-sort | head -n 1)" != "$need" ] || ! command -v npm >/dev/null; then
    echo "$skipped: needs Node $need or later, and npm"
    if [ "$what" = pack ]; then exit 1; fi
    exit
fi

# Installed packages are kept while the lock file is unchanged.
mkdir -p "$COPY"
lock=$(sha256sum "$KIT/package-lock.json" | cut -c1-12)
find "$COPY" -mindepth 1 -maxdepth 1 ! -name node_modules ! -name "installed-$lock" -exec rm -rf {} +
cp --recursive --dereference "$KIT/." "$COPY"
cd "$COPY"
if [ ! -e "installed-$lock" ]; then
    # Install scripts are not run: they would build parts that nothing here uses.
    npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2
    touch "installed-$lock"
fi

case $what in
    test)
        npm run --silent build
        log=$(mktemp)
        trap 'rm "$log"' EXIT
        status=0
        npm test --silent 2>&1 | tee "$log" || status=1
        count() { sed -nE "s/^ℹ $1 ([0-9]+)$/\1/p" "$log"; }
        # As a single count: "cancelled" is node:test's word for tests that took too long.
        echo "$(count pass) passed, $(($(count fail) + $(count cancelled))) failed, $(count skipped) skipped in $KIT"
        exit "$status"
        ;;
    lint) npm run --silent lint ;;
    pack) npm pack --silent ;;
esac
