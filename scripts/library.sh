#!/usr/bin/env bash
# Lays out the C library in build/lib and build/include, from what cargo has built. `make build`
# calls it, and `make install` copies the result; `make packages` uses another folder.
#
#   scripts/library.sh [BUILT FOLDER]     build/target/release, build
set -euo pipefail
cd "$(dirname "$0")/.."

readonly BUILT=${1:-build/target/release}
readonly SOURCE=crates/capi
readonly LIB=${2:-build}/lib INCLUDE=${2:-build}/include

# The archive also holds Rust's standard library. Two such archives in one program conflict
# unless symbols that are not in the header are local.
static_library() { # FROM TO
    local work
    work=$(mktemp --directory)
    ld -r --whole-archive "$1" -o "$work/all.o"
    objcopy --strip-debug --remove-section=.llvmbc --remove-section=.llvmcmd \
        --wildcard --keep-global-symbol='eigentime_*' "$work/all.o" "$work/eigentime.o"
    ar rcsD "$work/eigentime.a" "$work/eigentime.o"
    install --mode=644 "$work/eigentime.a" "$2"
    rm -r "$work"
}

version=$(sed -nE 's/^version *= *"(.*)"/\1/p' Cargo.toml)
soname=libeigentime.so.${version%%.*}

mkdir -p "$LIB/pkgconfig" "$INCLUDE"
install --mode=755 "$BUILT/libeigentime.so" "$LIB/libeigentime.so.$version"
strip --strip-debug "$LIB/libeigentime.so.$version"
ln -sf "libeigentime.so.$version" "$LIB/$soname"
ln -sf "$soname" "$LIB/libeigentime.so"
if [ "$BUILT/libeigentime.a" -nt "$LIB/libeigentime.a" ] || [ "$0" -nt "$LIB/libeigentime.a" ]; then
    static_library "$BUILT/libeigentime.a" "$LIB/libeigentime.a"
fi
install --mode=644 --target-directory="$INCLUDE" "$SOURCE/include/eigentime.h" "$SOURCE/include/eigentime.hpp"
sed -e "s:@PREFIX@:../..:; s:@INCLUDEDIR@:include:; s:@LIBDIR@:lib:; s:@VERSION@:$version:" \
    "$SOURCE/eigentime.pc.in" >"$LIB/pkgconfig/eigentime.pc"
