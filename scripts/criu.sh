#!/usr/bin/env bash
# Fetches CRIU 4 for the tests of checkpoints: build/criu/criu. Nothing is installed: the packages of
# Debian trixie, whose CRIU is the first that knows today's kernels, are unpacked below build/criu with
# the libraries that they need, and run by the loader that comes with these.
#
# An ordinary user can run it. It does nothing when that is there already, or when the machine has a CRIU
# of version 4 or later. Where it can't be had, it says so and ends well: tests that need it are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly WORK=$PWD/build/criu
readonly SUITE=trixie FIRST=4

say() { echo "criu: $*" >&2; }
skip() {
    say "$@"
    say "the tests of checkpoints are skipped"
    exit 0
}

is_new() { # COMMAND
    local major
    major=$("$1" --version 2>/dev/null | sed -nE 's/^Version: ([0-9]+).*/\1/p')
    [ "${major:-0}" -ge "$FIRST" ]
}

if command -v criu >/dev/null && is_new criu; then exit 0; fi
if [ -x "$WORK/criu" ] && is_new "$WORK/criu"; then exit 0; fi
command -v apt-get >/dev/null || skip "this machine has no packages of Debian"
if [ "$(dpkg --print-architecture)" != amd64 ]; then skip "only for amd64"; fi

# The archive that the machine itself uses.
archive=$(apt-get indextargets --format "\$(REPO_URI)" "Created-By: Packages" "Label: Debian" | sort -u | head -n 1)
if [ -z "$archive" ]; then skip "this machine knows no archive of Debian"; fi

rm -rf "$WORK"
mkdir -p "$WORK"/lists/partial "$WORK"/cache/archives/partial
touch "$WORK/status"
cat >"$WORK/criu.sources" <<END
Types: deb
URIs: $archive
Suites: $SUITE
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
END
options=(
    -o "Dir::Etc::sourcelist=$WORK/criu.sources" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::Lists=$WORK/lists" -o "Dir::State::status=$WORK/status" -o "Dir::Cache=$WORK/cache"
    -o APT::Install-Recommends=0 -o Debug::NoLocking=1 -o APT::Sandbox::User=
)
say "fetching CRIU and its libraries from Debian $SUITE"
if ! { apt-get "${options[@]}" --quiet=2 update && apt-get "${options[@]}" --quiet=2 --yes --download-only install criu; } >"$WORK/log" 2>&1; then
    cat "$WORK/log" >&2
    skip "its packages could not be fetched"
fi
for package in "$WORK"/cache/archives/*.deb; do dpkg-deb --extract "$package" "$WORK/root"; done
rm -rf "$WORK"/{cache,lists,status,criu.sources,log}

cat >"$WORK/criu" <<'END'
#!/bin/sh
# CRIU by the loader and the libraries beside it.
root=$(dirname "$(readlink -f "$0")")/root
exec "$root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" "$root/usr/sbin/criu" "$@"
END
chmod 755 "$WORK/criu"
is_new "$WORK/criu" || skip "the CRIU of Debian $SUITE does not run here"
