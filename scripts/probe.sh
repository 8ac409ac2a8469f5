#!/usr/bin/env bash
# Builds eigentime-probe: one static file, to be copied to wherever something is measured.
#
#   scripts/probe.sh            for this machine: build/bin/eigentime-probe
#   scripts/probe.sh TARGET     for another, such as aarch64-unknown-linux-musl:
#                               build/TARGET/eigentime-probe
set -euo pipefail
cd "$(dirname "$0")/.."

die() { echo "probe: $*" >&2; exit 1; }

here=$(uname -m)-unknown-linux-musl
readonly TARGET=${1-$here}
readonly BUILT=${CARGO_TARGET_DIR:-target}/$TARGET/static/eigentime-probe

# rust-toolchain.toml lists the targets that everybody needs.
if ! rustup target list --installed | grep -qx "$TARGET"; then
    rustup target add "$TARGET" || die "there is no Rust target $TARGET"
fi
folder=build/bin
if [ "$TARGET" != "$here" ]; then
    folder=build/$TARGET
    linker=CARGO_TARGET_${TARGET//-/_}_LINKER
    export "${linker^^}=rust-lld"
fi
cargo build --profile static --target "$TARGET" --package eigentime-probe
if readelf --program-headers "$BUILT" | grep -q INTERP; then
    die "$BUILT is not static: it asks for an interpreter"
fi
install -D --mode=755 --target-directory="$folder" "$BUILT"
