#!/usr/bin/env bash
# Fetches Docker 26 for the examples: build/docker/usr/sbin/dockerd. It is Debian trixie's, which Debian 12 and its
# containerd can run; theirs passes no annotations. It does nothing if that is already there, or if the machine has
# Docker 24 or later. If it cannot be fetched, it says so and succeeds: examples with annotations are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly FIRST=24
export PATH=$PWD/build/docker/usr/sbin:$PATH:/usr/sbin:/sbin

version=$(dockerd --version | sed -nE 's/^Docker version ([0-9]+).*/\1/p') || version=0
if [ "$version" -ge "$FIRST" ]; then exit 0; fi
scripts/unpack.sh trixie docker.io "$PWD/build/docker" || echo "docker: the examples with annotations are skipped" >&2
