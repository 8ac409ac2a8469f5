#!/usr/bin/env bash
# Tests or checks the action for GitHub, action.yml, and the workflows in examples/github-action/.
#
#   scripts/action.sh test    runs its steps, on a release made from build/bin
#   scripts/action.sh lint    checks them against GitHub's schemas, and with actionlint
#
# The checkers come from the language registries into build/action, at the versions pinned here. actionlint is
# skipped if Go is older than it needs.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly CHECK_JSONSCHEMA=0.39.0
readonly ACTIONLINT=1.7.12 ACTIONLINT_GO=1.25.0
readonly OUT=$PWD/build/action
export PYTHONPYCACHEPREFIX=$PWD/build/pycache
readonly WORKFLOWS=(examples/github-action/*.yml)

# Includes the YAML reader, which the tests also use.
environment() {
    if [ "$(cat "$OUT/venv/made-of" 2>/dev/null)" = "$CHECK_JSONSCHEMA" ]; then return 0; fi
    echo "action: installing check-jsonschema $CHECK_JSONSCHEMA into build/action" >&2
    rm -rf "$OUT/venv"
    python3 -m venv "$OUT/venv"
    "$OUT/venv/bin/pip" install --quiet --disable-pip-version-check "check-jsonschema==$CHECK_JSONSCHEMA"
    echo "$CHECK_JSONSCHEMA" >"$OUT/venv/made-of"
}

# actionlint checks a workflow's inputs to an action of its own repository: the examples are changed to use such.
lint_workflows() {
    local have repository file
    have=$(go env GOVERSION 2>/dev/null) || have=go0
    if [ "$(printf '%s\n' "$ACTIONLINT_GO" "${have#go}" | sort --version-sort | head -n 1)" != "$ACTIONLINT_GO" ]; then
        echo "skipped: the check of workflows by actionlint: needs Go $ACTIONLINT_GO or later"
        return 0
    fi
    if [ ! -x "$OUT/actionlint-$ACTIONLINT" ]; then
        echo "action: installing actionlint $ACTIONLINT into build/action" >&2
        GOBIN=$OUT GOTOOLCHAIN=local GOFLAGS="" go install "github.com/rhysd/actionlint/cmd/actionlint@v$ACTIONLINT"
        mv "$OUT/actionlint" "$OUT/actionlint-$ACTIONLINT"
    fi
    repository=$OUT/repository
    rm -rf "$repository"
    mkdir -p "$repository/.git" "$repository/.github/workflows"
    cp action.yml "$repository"
    for file in "${WORKFLOWS[@]}"; do
        sed 's#uses: OWNER/eigentime@.*#uses: ./#' "$file" >"$repository/.github/workflows/$(basename "$file")"
    done
    (cd "$repository" && "$OUT/actionlint-$ACTIONLINT")
}

mkdir -p "$OUT"
case ${1:?test or lint} in
    test)
        if [ "$(uname -m)" != x86_64 ] || ! command -v zstd >/dev/null || ! command -v curl >/dev/null; then
            echo "skipped: the tests of the action for GitHub: need x86-64, curl and zstd"
            exit
        fi
        environment
        "$OUT/venv/bin/python" -m unittest discover --start-directory tests/action
        ;;
    lint)
        environment
        "$OUT/venv/bin/check-jsonschema" --quiet --builtin-schema vendor.github-actions action.yml
        "$OUT/venv/bin/check-jsonschema" --quiet --builtin-schema vendor.github-workflows "${WORKFLOWS[@]}"
        lint_workflows
        ;;
    *) echo "$0: unknown word '$1'; there are test and lint" >&2 && exit 2 ;;
esac
