#!/usr/bin/env bash
# Tests the clock library built for AArch64, under qemu's user emulation, and that the probe builds;
# `make test` calls it.
# The counter's instructions work, but it is not trusted there: the kernel under the emulation
# keeps time with something else.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly TARGET=aarch64-unknown-linux-musl
readonly QEMU=qemu-aarch64-static

if ! command -v $QEMU >/dev/null; then
    echo "skipped: the clock on AArch64: needs $QEMU (Debian's qemu-user-static)"
    exit 0
fi
if ! rustup target add $TARGET >/dev/null 2>&1; then
    echo "skipped: the clock on AArch64: needs the rustup target $TARGET"
    exit 0
fi
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER=$QEMU
cargo test --target $TARGET --package eigentime-clock --lib --test process
cargo check --target $TARGET --package eigentime-probe
