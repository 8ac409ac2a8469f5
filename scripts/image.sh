#!/usr/bin/env bash
# Builds the image for clusters from the workspace: build/eigentime-image.tar, an OCI archive of three
# static programs and nothing else. The same source and toolchain give the same archive, wherever the
# workspace is. `make image` calls it.
#
# The programs are linked with the C library of this machine, statically.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { echo "image: $*" >&2; exit 1; }

version=$(sed -nE 's/^version = "(.*)"/\1/p' Cargo.toml | head -n 1)
target=$(uname -m)-unknown-linux-gnu
built=${CARGO_TARGET_DIR:-target}/$target/release
programs=(eigentime-installer eigentime eigentime-oci eigentime-operator)

# No path of this machine is in the programs.
home=${CARGO_HOME:-$HOME/.cargo}
export RUSTFLAGS="-C target-feature=+crt-static -C strip=symbols --remap-path-prefix=$PWD=/eigentime --remap-path-prefix=$home=/cargo"
cargo build --release --locked --target "$target" --package eigentime-installer --package eigentime-cli --package eigentime-oci --package eigentime-operator
for program in "${programs[@]}"; do
    if readelf --program-headers "$built/$program" | grep -q INTERP; then
        die "$built/$program is not static: it asks for an interpreter"
    fi
done
python3 deploy/kubernetes/image.py build/eigentime-image.tar "localhost/eigentime:$version" "${programs[@]/#/$built/}" >build/eigentime-image.digest
echo "image: build/eigentime-image.tar is localhost/eigentime:$version, $(cat build/eigentime-image.digest)" >&2
