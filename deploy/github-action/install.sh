#!/usr/bin/env bash
# Installs the static release of Eigentime for the following steps. A step of action.yml, which sets the
# variables REPOSITORY, VERSION, ARCHIVE and CHECKSUM.
set -euo pipefail

die() { # MESSAGE HELP
    echo "::error::$1"
    echo "help: $2"
    exit 1
}

: "${VERSION:=$(sed -nE 's/^version *= *"(.*)"/\1/p' "$GITHUB_ACTION_PATH/Cargo.toml")}"
VERSION=${VERSION#v}
readonly INTO=$RUNNER_TEMP/eigentime
rm -rf "$INTO"
mkdir -p "$INTO"

file=$ARCHIVE
if [ -z "$file" ]; then
    if [ "$(uname -sm)" != "Linux x86_64" ]; then die "Eigentime runs on Linux on x86-64, and this is $(uname -sm)" "set runs-on to ubuntu-latest"; fi
    name=eigentime-$VERSION-x86_64-linux.tar.zst
    release=$GITHUB_SERVER_URL/${REPOSITORY:-$GITHUB_REPOSITORY}/releases/download/v$VERSION
    for part in "$name" SHA256SUMS; do
        said=$(curl --fail --silent --show-error --location --output "$INTO/$part" "$release/$part" 2>&1) ||
            die "version $VERSION: $release/$part cannot be downloaded: ${said#curl: }" "set the input version to that of a release, or archive to the path of a static release"
    done
    file=$INTO/$name
elif [ ! -f "$file" ]; then
    die "archive: there is no file '$file'" "a step before this one has to make it"
fi

sums=$(dirname "$file")/SHA256SUMS
if [ -z "$CHECKSUM" ] && [ -f "$sums" ]; then
    CHECKSUM=$(awk -v name="$(basename "$file")" '$2 == name || $2 == "*" name { print $1 }' "$sums")
fi
if [ -z "$CHECKSUM" ]; then die "the checksum of '$file' is not known" "set the input checksum to its SHA-256, or put SHA256SUMS beside it"; fi
found=$(sha256sum "$file" | cut -d ' ' -f 1)
if [ "$found" != "${CHECKSUM,,}" ]; then
    die "the checksum of '$file' is $found, and should be $CHECKSUM" "get the archive anew, or correct the input checksum, or SHA256SUMS"
fi

tar --directory "$INTO" --zstd --strip-components 1 --extract --file "$file"
version=$("$INTO/bin/eigentime" --version)
echo "$INTO/bin" >>"$GITHUB_PATH"
echo "version=${version#eigentime }" >>"$GITHUB_OUTPUT"
echo "installed $version"
