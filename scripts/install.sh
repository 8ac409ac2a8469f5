#!/usr/bin/env bash
# Copies what `make build` has built to where a system keeps its programs and libraries, or removes
# it from there. `make install` and `make uninstall` call it; it builds nothing, so that only this step
# needs to run as root.
#
#   scripts/install.sh [--remove]
#
# Environment variables: PREFIX (/usr/local), BINDIR (PREFIX/bin), LIBDIR (PREFIX/lib), INCLUDEDIR
# (PREFIX/include), and DESTDIR, which is prepended to all of them, for packagers, and is the only one
# that may contain spaces. REPORT=no leaves out `eigentime report`, a Python environment of some hundred
# megabytes in BINDIR/../lib/eigentime; nothing else uses it, and it touches no other Python.
set -euo pipefail
cd "$(dirname "$0")/.."

: "${PREFIX:=/usr/local}"
: "${BINDIR:=$PREFIX/bin}" "${LIBDIR:=$PREFIX/lib}" "${INCLUDEDIR:=$PREFIX/include}" "${DESTDIR:=}"
: "${REPORT:=yes}"
readonly PC=build/lib/pkgconfig/eigentime.pc
readonly VENV=build/venv

say() { echo "install: $*" >&2; }
die() { say "$@"; exit 1; }

# What goes where: a file or link under build/, and its destination folder.
files() {
    local file
    for file in build/bin/*; do
        if [ "$file" != build/bin/eigentime-report ]; then echo "$file $BINDIR"; fi
    done
    for file in build/lib/*.so* build/lib/*.a; do echo "$file $LIBDIR"; done
    for file in build/include/*; do echo "$file $INCLUDEDIR"; done
}

# The pkg-config file names the folders relative to its own.
pkgconfig() {
    local from="$LIBDIR/pkgconfig"
    sed -e "s:^prefix=.*:prefix=\${pcfiledir}/$(realpath -ms --relative-to="$from" "$PREFIX"):" \
        -e "s:^includedir=.*:includedir=\${pcfiledir}/$(realpath -ms --relative-to="$from" "$INCLUDEDIR"):" \
        -e "s:^libdir=.*:libdir=\${pcfiledir}/..:" "$PC"
}

# Where `eigentime report` looks for its program.
private() { echo "$DESTDIR$(realpath -ms "$BINDIR/../lib/eigentime")"; }

# The environment can be relocated, except for the scripts that contain its path, which are left out.
# Timestamps are kept: compiled files record their source's.
copy_report() {
    local to new
    if [ "$REPORT" != yes ]; then return 0; fi
    if [ ! -x "$VENV/eigentime-report" ]; then
        say "without 'eigentime report': there is no $VENV, because 'make build' has found no Python that is new enough"
        return 0
    fi
    case $(realpath "$VENV/bin/python") in
        /home/* | /root/*) say "'eigentime report' is for those only who may read $(realpath "$VENV/bin/python")" ;;
    esac
    to=$(private) new=$(private)/report.new
    rm -rf "$new"
    mkdir -p "$new/bin"
    cp --recursive --no-dereference --preserve=mode,timestamps,links "$VENV"/lib* "$VENV"/{eigentime-report,LICENCES.md} "$new/"
    cp --no-dereference "$VENV"/bin/python* "$new/bin/"
    grep -E '^(home|include-system-site-packages|version) *=' "$VENV/pyvenv.cfg" >"$new/pyvenv.cfg"
    chmod --recursive u+w,go-w,a+rX "$new"
    rm -rf "$to/report"
    mv "$new" "$to/report"
    ln -sfn report/eigentime-report "$to/eigentime-report"
}

copy() {
    local file folder
    files | while read -r file folder; do
        mkdir -p "$DESTDIR$folder"
        if [ -L "$file" ]; then
            cp -P --remove-destination "$file" "$DESTDIR$folder/"
        elif [ -x "$file" ]; then
            install --mode=755 "$file" "$DESTDIR$folder/"
        else
            install --mode=644 "$file" "$DESTDIR$folder/"
        fi
    done
    mkdir -p "$DESTDIR$LIBDIR/pkgconfig"
    pkgconfig >"$DESTDIR$LIBDIR/pkgconfig/eigentime.pc"
    chmod 644 "$DESTDIR$LIBDIR/pkgconfig/eigentime.pc"
    copy_report
}

remove() {
    local file folder
    files | while read -r file folder; do
        rm -f "$DESTDIR$folder/$(basename "$file")"
    done
    rm -f "$DESTDIR$LIBDIR/pkgconfig/eigentime.pc"
    rm -rf "$(private)/report" "$(private)/report.new" "$(private)/eigentime-report"
    if [ -d "$(private)" ]; then rmdir --ignore-fail-on-non-empty "$(private)"; fi
}

for variable in PREFIX BINDIR LIBDIR INCLUDEDIR ${DESTDIR:+DESTDIR}; do
    folder=${!variable}
    case $variable=$folder in
        DESTDIR=/*) ;; # No pkg-config file contains it.
        *=/*[[:space:]]*) die "'$folder' has a space in it, which pkg-config files cannot have: choose another folder" ;;
        *=/*) ;;
        *) die "'$folder' is not an absolute path: say $variable=\$PWD/$folder, for example" ;;
    esac
done
case $REPORT in
    yes | no) ;;
    *) die "REPORT is '$REPORT': say yes or no" ;;
esac
[ -e "$PC" ] || die "there is no $PC: run 'make build' first, as yourself"
case ${1-} in
    "") copy ;;
    --remove) remove ;;
    *) die "unknown option '$1'; there is --remove" ;;
esac
