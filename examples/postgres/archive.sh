#!/usr/bin/env bash
# Writes the file system of an image of PostgreSQL, from the distribution's packages. It needs root.
#
#   examples/postgres/archive.sh FILE
set -euo pipefail
cd "$(dirname "$0")"
file=$(realpath "$1")

scratch=$(mktemp --directory --tmpdir eigentime-postgres.XXXXXX)
trap 'rm -rf "$scratch"' EXIT

codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
# shellcheck disable=SC2016 # These are apt's words.
mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Identifier: Packages' | awk -v codename="$codename" '$1 == codename && !found++ { print $2 }')

# Its mounts end with the script.
if ! unshare --mount debootstrap --variant=minbase --include=postgresql "$codename" "$scratch/root" "$mirror" >"$scratch/log" 2>&1; then
    tail --lines=20 "$scratch/log" >&2
    exit 1
fi
# The database is created on the first start. The folder of the server's commands has its version in its name.
rm -rf "$scratch"/root/var/lib/postgresql/*
(cd "$scratch/root/usr/local/bin" && ln --symbolic ../../lib/postgresql/*/bin/* .)
install --mode=755 entrypoint "$scratch/root/usr/local/bin/"
tar --numeric-owner --directory "$scratch/root" --create --file "$file.unfinished" \
    --exclude='./dev/*' --exclude='./proc/*' --exclude='./sys/*' --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' .
mv "$file.unfinished" "$file"
