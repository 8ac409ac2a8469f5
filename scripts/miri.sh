#!/usr/bin/env bash
# Runs the parts of the clock library that need no kernel under Miri, which finds undefined behaviour
# and data races: the latch, the lines, the discipline, the mock. It needs a nightly toolchain, which it
# installs; so it is not part of `make test`. It takes about three minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

rustup toolchain install nightly --profile minimal --component miri --component rust-src
export CARGO_TARGET_DIR=$PWD/build/miri
# Property tests read their own source, to find where to record failures.
export MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=2
cargo +nightly miri test --package eigentime-clock --test latch plain
# The harness of the unit tests accepts only one filter.
for module in line interval discipline mock bound; do
    cargo +nightly miri test --package eigentime-clock --lib -- "$module::" --skip timeline::
done
