#!/usr/bin/env bash
# Builds the Python package: the wheel in build/python, and an environment build/python/venv that has
# it installed, with what its tests use. The builder and the type checker come from the registry, at
# the versions pinned here, into build/python/tools; this is done once.
#
#   scripts/python.sh [PYTHON]      PYTHON: the interpreter of the environments, python3 by default
set -euo pipefail
cd "$(dirname "$0")/.."

# As in the Makefile, for direct calls of this script.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/build/target}

readonly MATURIN=1.16.0
readonly MYPY=2.4.1
readonly PYTEST=9.2.0
readonly XDIST=3.8.0
readonly TESTCONTAINERS=4.15.0
readonly PYTHON=${1:-python3}
readonly OUT=$PWD/build/python
readonly TOOLS=$OUT/tools

# Recreates an environment, unless it exists and was made from the same inputs.
environment() { # FOLDER PACKAGE...
    local folder=$1 made
    shift
    made="$("$PYTHON" -c 'import sys; print(sys.executable, sys.version)') $*"
    if [ "$(cat "$folder/made-of" 2>/dev/null)" = "$made" ]; then return 0; fi
    echo "python: installing $* into ${folder#"$PWD"/}" >&2
    rm -rf "$folder"
    "$PYTHON" -m venv "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check "$@"
    echo "$made" >"$folder/made-of"
}

environment "$TOOLS" "maturin==$MATURIN"
environment "$OUT/venv" "mypy==$MYPY" "pytest==$PYTEST" "pytest-xdist==$XDIST" "testcontainers==$TESTCONTAINERS"

rm -rf "$OUT/wheel"
"$TOOLS/bin/maturin" build --quiet --manifest-path python/eigentime/Cargo.toml --out "$OUT/wheel"
"$OUT/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-index --force-reinstall "$OUT"/wheel/*.whl
rm -f "$OUT"/*.whl
mv "$OUT"/wheel/*.whl "$OUT"
rmdir "$OUT/wheel"
