#!/usr/bin/env bash
# Fetches CRIU 4.2 for the tests of checkpoints: build/criu/criu. Nothing is installed. It is Debian forky's: earlier
# versions cannot dump TCP sockets on Linux 6.16 and later. It runs with the libraries it needs, through the loader that
# comes with them.
#
# It does nothing if that is already there, or if the machine has CRIU 4.2 or later. If it cannot be fetched,
# the script says so and succeeds: tests that need it are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly WORK=$PWD/build/criu
readonly FIRST=4.2

skip() {
    echo "criu: ${1-}the tests of checkpoints are skipped" >&2
    exit 0
}

is_new() { # COMMAND
    local version
    version=$("$1" --version 2>/dev/null | sed -n 's/^Version: //p')
    [ -n "$version" ] && printf '%s\n' "$FIRST" "$version" | sort --check=quiet --version-sort
}

if command -v criu >/dev/null && is_new criu; then exit 0; fi
if [ -x "$WORK/criu" ] && is_new "$WORK/criu"; then exit 0; fi
rm -rf "$WORK"
scripts/unpack.sh --needed forky criu "$WORK/root" || skip

cat >"$WORK/criu" <<'END'
#!/bin/sh
# CRIU by the loader and the libraries beside it.
root=$(dirname "$(readlink -f "$0")")/root
exec "$root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" "$root/usr/sbin/criu" "$@"
END
chmod 755 "$WORK/criu"
is_new "$WORK/criu" || skip "the CRIU of Debian forky does not run here: "
