#!/usr/bin/env bash
# Makes the packages of a release in build/packages: the same bytes wherever and whenever the same
# source is built. `make packages` calls it.
#
#   scripts/packages.sh              makes all
#   scripts/packages.sh PACKAGE...   makes these, the static release first: static, image, cluster, bill,
#                                    report, deb, rpm, wheel, recipes, crates
#   scripts/packages.sh pack         repacks what is built: the static release and its image
#   scripts/packages.sh reproduce    builds the committed source in two other folders, and compares
#
# The contents of the packages are defined in deploy/packages/ and in the manifests of crates/cli and crates/capi.
set -euo pipefail
# Not through a link: cargo names folders by their real paths.
cd -P "$(dirname "$0")/.."

readonly ALL=(image cluster bill report deb rpm wheel recipes crates)
readonly OUT=$PWD/build/packages
# The packaging tools, built from source or taken from the registries once.
readonly TOOLS=$OUT/tools
readonly CARGO_DEB=3.8.0 CARGO_GENERATE_RPM=0.21.1 CARGO_CYCLONEDX=0.5.9
readonly MATURIN=1.16.0 ZIGLANG=0.17.1 CARGO_ZIGBUILD=0.24.1 AUDITWHEEL=6.8.2
# The oldest C library that the library and the wheel run with, as stated by "manylinux2014".
readonly GLIBC=2.17
readonly MUSL=x86_64-unknown-linux-musl GNU=x86_64-unknown-linux-gnu
readonly COMMANDS=(eigentime eigentime-oci eigentime-path)

version=$(sed -nE 's/^version *= *"(.*)"/\1/p' Cargo.toml)
# The commands and their files, as in the static release.
readonly NAME=eigentime-$version-x86_64-linux
readonly TREE=$OUT/tree
# The files of an image.
readonly ROOT=$OUT/root
# The plugin of kubectl and its files.
readonly PLUGIN=$OUT/plugin

say() { echo "packages: $*" >&2; }
die() { say "$@"; exit 1; }

# Fixed timestamps in packages, and no path of this machine in the build output.
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) ||
        die "no commit to date them by: set SOURCE_DATE_EPOCH to seconds since 1970"
fi
export SOURCE_DATE_EPOCH
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/build/target}
cargo_home=${CARGO_HOME:-$HOME/.cargo}
remap="--remap-path-prefix=$PWD=/eigentime --remap-path-prefix=$cargo_home=/cargo"
map="-ffile-prefix-map=$PWD=/eigentime -ffile-prefix-map=$cargo_home=/cargo"
for target in "$MUSL" "$GNU"; do
    variable=${target//-/_}
    export "CARGO_TARGET_${variable^^}_RUSTFLAGS=$remap" "CFLAGS_$variable=$map"
done

# Installs a crate's commands, unless that version is there.
crate() { # NAME VERSION
    if grep -qs "^\"$1 $2 " "$TOOLS/.crates.toml"; then return 0; fi
    say "installing $1 $2 into ${TOOLS#"$PWD"/}"
    cargo install --quiet --locked --debug --root "$TOOLS" --target-dir "$TOOLS/target" "$1@$2"
    rm -r "$TOOLS/target"
}

# The linker that knows the symbols of old C libraries, and the tools that build and check wheels.
python_tools() {
    local made="$MATURIN $ZIGLANG $CARGO_ZIGBUILD $AUDITWHEEL"
    if [ "$(cat "$TOOLS/python/made-of" 2>/dev/null)" = "$made" ]; then return 0; fi
    say "installing maturin, ziglang, cargo-zigbuild and auditwheel into ${TOOLS#"$PWD"/}/python"
    rm -rf "$TOOLS/python"
    python3 -m venv "$TOOLS/python"
    "$TOOLS/python/bin/pip" install --quiet --disable-pip-version-check "maturin==$MATURIN" \
        "ziglang==$ZIGLANG" "cargo-zigbuild==$CARGO_ZIGBUILD" "auditwheel==$AUDITWHEEL"
    echo "$made" >"$TOOLS/python/made-of"
}

build() { # the contents of the static release, and the pages
    cargo build --locked --release --target "$MUSL" --package eigentime-cli --package eigentime-oci --package eigentime-path
    cargo build --locked --profile static --target "$MUSL" --package eigentime-probe
    # Used only here, and so not optimized.
    cargo build --locked --package eigentime-cli --example pages
}

all_static() { # FOLDER of programs
    local file
    for file in "$1"/*; do
        if readelf --program-headers "$file" | grep -q INTERP; then die "$file is not static: it asks for an interpreter"; fi
    done
}

# Lays the tree out.
lay_out() {
    local command doc=$TREE/share/doc/eigentime built=$CARGO_TARGET_DIR/$MUSL
    rm -rf "$TREE"
    for command in "${COMMANDS[@]}"; do
        install -D --mode=755 --strip "$built/release/$command" "$TREE/bin/$command"
    done
    install -D --mode=755 --strip "$built/static/eigentime-probe" "$TREE/bin/eigentime-probe"
    all_static "$TREE/bin"
    "$CARGO_TARGET_DIR/debug/examples/pages" "$TREE"
    install -D --mode=644 --target-directory="$doc" README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT docs/install.md
    notices eigentime-cli eigentime-oci eigentime-path eigentime-probe >"$doc/NOTICES"
    chmod --recursive u=rwX,go=rX "$TREE"
}

notices() { # CRATE...
    cargo metadata --locked --format-version 1 --filter-platform "$MUSL" | python3 deploy/packages/notices.py "$@"
}

archive() { # FOLDER NAME
    tar --directory="$1" --transform="s:^[.]:$2:" --sort=name --owner=0 --group=0 --numeric-owner \
        --mtime="@$SOURCE_DATE_EPOCH" --format=gnu -cf - . | zstd --quiet --force -19 --threads=1 -o "$OUT/$2.tar.zst"
}

# Writes a crate's software bill of materials. Its tool writes beside each manifest, and names crates by their folders.
bill() { # FOLDER TARGET FILE
    local name=eigentime-bill
    crate cargo-cyclonedx "$CARGO_CYCLONEDX"
    "$TOOLS/bin/cargo-cyclonedx" cyclonedx --quiet --format json --spec-version 1.5 --no-build-deps \
        --target "$2" --override-filename "$name"
    sed "s|file://$PWD/|file:///eigentime/|g" "$1/$name.json" >"$3"
    find . -path ./build -prune -o -name "$name.json" -exec rm {} +
}

make_bill() {
    bill crates/cli "$MUSL" "$OUT/$NAME.cdx.json"
}

pack_static() {
    lay_out
    archive "$TREE" "$NAME"
}

make_static() {
    mkdir -p "$OUT"
    build
    pack_static
}

make_report() {
    rm -f build/report/*.whl
    scripts/report.sh wheel
    compgen -G 'build/report/*.whl' >/dev/null || die "there is no wheel of eigentime-report: that takes Python 3.11"
    cp build/report/eigentime_report-"$version"-*.whl "$OUT/"
}

# The libraries for old C libraries, laid out in build/packages/library.
library() {
    local lib=$OUT/library/lib
    python_tools
    rm -rf "$OUT/library"
    PATH=$TOOLS/python/bin:$PATH cargo-zigbuild zigbuild --locked --release --target "$GNU.$GLIBC" --package eigentime-capi
    PATH=$TOOLS/python/bin:$PATH cargo-zigbuild zigbuild --locked --profile unwinding --target "$GNU.$GLIBC" --package eigentime-preload
    scripts/library.sh "$CARGO_TARGET_DIR/$GNU/release" "$OUT/library"
    install -D --mode=755 --strip "$CARGO_TARGET_DIR/$GNU/unwinding/libeigentime_preload.so" "$lib/libeigentime_preload.so"
    # shellcheck disable=SC2016 # a variable of pkg-config
    sed --in-place -e 's:^prefix=.*:prefix=/usr:; s:^libdir=.*:libdir=${prefix}/lib/x86_64-linux-gnu:' "$lib/pkgconfig/eigentime.pc"
}

make_deb() {
    crate cargo-deb "$CARGO_DEB"
    library
    rm -f "$OUT"/*.deb
    deb eigentime-cli
    deb eigentime-capi
    deb eigentime-capi --variant=dev
}

deb() { # CRATE OPTION...
    "$TOOLS/bin/cargo-deb" deb --quiet --no-build --no-strip --compress-system --package "$@" --output "$OUT/"
}

make_rpm() {
    crate cargo-generate-rpm "$CARGO_GENERATE_RPM"
    "$TOOLS/bin/cargo-generate-rpm" generate-rpm --package crates/cli --target "$MUSL" --auto-req disabled \
        --payload-compress zstd --source-date "$SOURCE_DATE_EPOCH" --output "$OUT/"
}

make_wheel() {
    python_tools
    rm -rf "$OUT/wheel" "$OUT"/eigentime-*.whl
    mkdir "$OUT/wheel"
    bill python/eigentime "$GNU" "$OUT/wheel/eigentime.cdx.json"
    PATH=$TOOLS/python/bin:$PATH maturin build --quiet --zig --compatibility manylinux2014 \
        --manifest-path python/eigentime/Cargo.toml --target "$GNU" --out "$OUT/wheel" \
        --sbom-include "$OUT/wheel/eigentime.cdx.json"
    mv "$OUT"/wheel/*.whl "$OUT/"
    rm -r "$OUT/wheel"
}

# Writes the image of what is in build/packages/root.
image() { # NAME CONFIGURATION
    local of=org.opencontainers.image
    local labels="{\"$of.title\": \"$1\", \"$of.version\": \"$version\", \"$of.licenses\": \"MIT OR Apache-2.0\"}"
    say "$1 is $(python3 deploy/image.py "$ROOT" "$OUT/$1-$version-oci.tar" "localhost/$1:$version" "{$2, \"Labels\": $labels}" "$SOURCE_DATE_EPOCH")"
}

make_image() {
    rm -rf "$ROOT"
    mkdir -p "$ROOT"/{dev,etc,proc,root,run,sys,tmp,usr/share/doc}
    cp --recursive "$TREE/bin" "$ROOT/usr/bin"
    cp --recursive "$TREE/share/doc/eigentime" "$ROOT/usr/share/doc/eigentime"
    chmod --recursive u=rwX,go=rX "$ROOT"
    chmod 1777 "$ROOT/tmp"
    image eigentime '"Entrypoint": ["/usr/bin/eigentime"], "Cmd": ["--help"], "Env": ["PATH=/usr/bin"]'
}

# The image for clusters: only static programs, run by a user that no machine has unless another is named.
# Beside it, the plugin of kubectl for those who use the cluster.
make_cluster() {
    cargo build --locked --release --target "$MUSL" --package eigentime-installer --package eigentime-operator
    rm -rf "$ROOT" "$PLUGIN" "$OUT"/{eigentime-cluster,kubectl-eigentime}-*
    install -D --mode=755 --strip --target-directory="$ROOT" "$CARGO_TARGET_DIR/$MUSL"/release/eigentime-{installer,operator}
    install --mode=755 --target-directory="$ROOT" "$TREE"/bin/eigentime{,-oci}
    all_static "$ROOT"
    image eigentime-cluster '"Entrypoint": ["/eigentime-installer"], "User": "65532:65532"'
    install -D --mode=755 --strip --target-directory="$PLUGIN" "$CARGO_TARGET_DIR/$MUSL/release/kubectl-eigentime"
    all_static "$PLUGIN"
    install --mode=644 --target-directory="$PLUGIN" LICENSE-APACHE LICENSE-MIT
    notices eigentime-operator >"$PLUGIN/NOTICES"
    chmod --recursive u=rwX,go=rX "$PLUGIN"
    archive "$PLUGIN" "kubectl-$NAME"
}

# The Nix expression and the Homebrew formula, with the version and the checksum of the static release.
make_recipes() {
    local recipe sum
    sum=$(sha256sum "$OUT/$NAME.tar.zst" | cut -d ' ' -f 1)
    for recipe in eigentime.nix eigentime.rb; do
        sed -e "s/@VERSION@/$version/g; s/@SHA256@/$sum/g" "deploy/packages/$recipe.in" >"$OUT/$recipe"
    done
}

# The crates that others build upon.
make_crates() {
    cargo publish --dry-run --quiet --locked --allow-dirty --workspace
}

checksums() {
    local sums
    cd "$OUT"
    rm -f SHA256SUMS
    sums=$(find . -maxdepth 1 -type f -printf '%P\n' | LC_ALL=C sort | xargs sha256sum)
    echo "$sums" >SHA256SUMS
}

# Builds a copy of the committed source. Folder, user and time zone must not matter.
build_copy() { # FOLDER UMASK TZ PACKAGE...
    mkdir -p "$1/build/packages" "$TOOLS"
    git archive HEAD | tar --directory="$1" -xf -
    ln -s "$TOOLS" "$1/build/packages/tools"
    say "building in $1"
    (umask "$2" && TZ=$3 CARGO_TARGET_DIR=$1/build/target "$1/scripts/packages.sh" "${@:4}")
}

reproduce() {
    local work
    work=$(mktemp --directory)
    # shellcheck disable=SC2064 # where it is now
    trap "rm -rf '$work'" EXIT
    build_copy "$work/one" 022 UTC "$@"
    build_copy "$work/two/of" 077 Asia/Tokyo "$@"
    diff "$work"/{one,two/of}/build/packages/SHA256SUMS || die "the two builds differ"
    cat "$work/one/build/packages/SHA256SUMS"
    say "the two builds are the same"
}

case ${1-} in
    pack) pack_static; make_image; exit ;;
    reproduce) reproduce "${@:2}"; exit ;;
esac
packages=("${@:-${ALL[@]}}")
for package in "${packages[@]}"; do
    case " static ${ALL[*]} " in
        *" $package "*) ;;
        *) die "unknown package '$package'; there are static ${ALL[*]}" ;;
    esac
done
make_static
for package in "${packages[@]}"; do
    if [ "$package" != static ]; then "make_$package"; fi
done
checksums
