#!/usr/bin/env bash
# Installs the checkers that come from language registries, at the versions pinned here, into
# build/tools. `make lint` calls it once. It takes about a minute and a half on two cores, nearly all
# of it for cargo-deny and cbindgen. These are built from source, without optimization: with it,
# compiling would take two and a half times as long, and a run takes well under a second either way.
#
# cbindgen writes the C header, which is kept in the repository: no build needs it.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly CARGO_DENY=0.20.2
readonly CBINDGEN=0.29.4
readonly RUFF=0.17.5
readonly TOOLS=$PWD/build/tools

echo "tools: installing cargo-deny $CARGO_DENY, cbindgen $CBINDGEN and ruff $RUFF into build/tools" >&2
CARGO_TARGET_DIR=$TOOLS/target cargo install --quiet --locked --debug --root "$TOOLS" "cargo-deny@$CARGO_DENY" "cbindgen@$CBINDGEN"
rm -r "$TOOLS/target"

python3 -m venv "$TOOLS/python"
"$TOOLS/python/bin/pip" install --quiet --disable-pip-version-check "ruff==$RUFF"
ln -sf ../python/bin/ruff "$TOOLS/bin/ruff"
