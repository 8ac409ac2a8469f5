#!/usr/bin/env bash
# Unpacks a package of a later Debian into a folder, for tests that need what this machine's distribution lacks. Nothing
# is installed, and an ordinary user can run it. The package is verified with the key of Debian's archive.
#
#   scripts/unpack.sh SUITE PACKAGE FOLDER            the package alone
#   scripts/unpack.sh --needed SUITE PACKAGE FOLDER   with all packages that it needs
set -euo pipefail

say() { echo "unpack: $*" >&2; }
die() { say "$@"; exit 1; }

get=(download)
if [ "$1" = --needed ]; then get=(install --yes --download-only); shift; fi
readonly SUITE=$1 PACKAGE=$2 FOLDER=$3

command -v apt-get >/dev/null || die "$PACKAGE: this machine has no packages of Debian"
if [ "$(dpkg --print-architecture)" != amd64 ]; then die "$PACKAGE: only for amd64"; fi
# The archive that the machine itself uses.
archive=$(apt-get indextargets --format "\$(REPO_URI)" "Created-By: Packages" "Label: Debian" | sort -u | head -n 1)
if [ -z "$archive" ]; then die "$PACKAGE: this machine knows no archive of Debian"; fi

work=$(mktemp --directory)
# shellcheck disable=SC2064 # where it is now
trap "rm -rf '$work'" EXIT
mkdir -p "$work"/lists/partial "$work"/cache/archives/partial
touch "$work/status"
cat >"$work/$SUITE.sources" <<END
Types: deb
URIs: $archive
Suites: $SUITE
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
END
options=(
    -o "Dir::Etc::sourcelist=$work/$SUITE.sources" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::Lists=$work/lists" -o "Dir::State::status=$work/status" -o "Dir::Cache=$work/cache"
    -o APT::Install-Recommends=0 -o Debug::NoLocking=1 -o APT::Sandbox::User= --quiet=2
)
say "fetching $PACKAGE from Debian $SUITE"
cd "$work/cache/archives"
if ! { apt-get "${options[@]}" update && apt-get "${options[@]}" "${get[@]}" "$PACKAGE"; } >"$work/log" 2>&1; then
    cat "$work/log" >&2
    die "$PACKAGE could not be fetched"
fi
rm -rf "$FOLDER"
mkdir -p "$FOLDER"
for file in *.deb; do dpkg-deb --extract "$file" "$FOLDER"; done
