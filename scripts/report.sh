#!/usr/bin/env bash
# Installs `eigentime report`, the Python package python/eigentime_report, with its dependencies, into
# a separate environment, build/venv; build/bin/eigentime-report runs it. It does nothing if that
# already exists.
#
#   scripts/report.sh          for `make build`
#   scripts/report.sh wheel    for `make packages`: only the wheel, build/report/*.whl
#   scripts/report.sh tests    for `make test`: also build/report/tests, where its tests run
#   scripts/report.sh types    for `make lint`: checks the types of the package
#   scripts/report.sh lock     regenerates the lists of versions from pyproject.toml: requirements.lock,
#                              and requirements-build.lock and requirements-tests.lock for what only
#                              building and testing need
#
# Versions are those of the lists, and each file's checksum must match the one there. If there is no
# Python 3.11, it says so and succeeds: all other commands work without it.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly SOURCE=python/eigentime_report
readonly VENV=build/venv
readonly WORK=build/report
readonly TESTS=$WORK/tests
# The tools that install and build, so that build/venv has only what `eigentime report` needs.
readonly TOOLS=$WORK/tools
readonly UV=0.9.10
# The oldest Python that the lists support.
readonly OLDEST=3.11

# Compiled files belong beside their source: a later user may not be allowed to write there.
unset PYTHONPYCACHEPREFIX PYTHONDONTWRITEBYTECODE

say() { echo "report: $*" >&2; }

# The first Python that is new enough and can make environments. The system's comes first: every user
# can run it once that is installed.
interpreter() {
    local python
    for python in /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11; do
        if "$python" -c "import ensurepip, sys, venv; sys.exit(sys.version_info < (${OLDEST/./, }))" 2>/dev/null; then
            command -v "$python"
            return
        fi
    done
    return 1
}

# The inputs of an environment.
made_of() { # LIST
    "$python" -c 'import sys; print(sys.executable, sys.version)'
    sha256sum <"$1"
}

# Whether the text is in the file already. If not, it must be put there when that is done.
is_done() { # FILE TEXT
    [ "$(cat "$1" 2>/dev/null)" = "$2" ]
}

pip() { # FOLDER ARGUMENT...: does something to an environment
    local folder=$1
    shift
    "$TOOLS/bin/python" -m pip --python "$folder/bin/python" --quiet --disable-pip-version-check "$@"
}

# Recreates an environment, unless it exists and was made from the same inputs.
environment() { # FOLDER LIST OPTION...: of venv
    local folder=$1 list=$SOURCE/$2 made
    shift 2
    made=$(made_of "$list")
    if is_done "$folder/made-of" "$made"; then return 0; fi
    say "installing what $list lists into $folder"
    rm -rf "$folder"
    "$python" -m venv "$@" "$folder"
    if ! pip "$folder" install --no-deps --only-binary=:all: --require-hashes --requirement "$list"; then
        say "$list cannot be installed for $("$python" --version), with the reason above: that takes a connection to the package registry, once"
        return 1
    fi
    echo "$made" >"$folder/made-of"
}

wheel() {
    rm -f "$WORK"/*.whl
    pip "$TOOLS" wheel --no-deps --no-index --no-build-isolation --wheel-dir "$WORK" "./$SOURCE"
}

# Builds the package's wheel and installs it, unless it was made from the same files.
package() {
    local made
    made=$(find "$SOURCE"/{pyproject.toml,README.md,LICENCES.md,LICENSE-*,src} -type f ! -name '*.pyc' -print0 | sort --zero-terminated |
        xargs --null sha256sum)
    if is_done "$VENV/package-made-of" "$made"; then return 0; fi
    wheel
    pip "$VENV" install --no-deps --no-index --force-reinstall "$WORK"/*.whl
    echo "$made" >"$VENV/package-made-of"
}

launcher() {
    if ! cmp --quiet scripts/report/eigentime-report "$VENV/eigentime-report"; then
        install --mode=755 scripts/report/eigentime-report "$VENV/eigentime-report"
    fi
    install --mode=644 "$SOURCE/LICENCES.md" "$VENV/LICENCES.md"
    mkdir -p build/bin
    ln -sfn ../venv/eigentime-report build/bin/eigentime-report
}

# What only tests need, in addition to the contents of build/venv.
tests() {
    local sites
    environment "$TESTS" requirements-tests.lock --without-pip
    sites=$("$TESTS/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    realpath --relative-to="$sites" "$VENV"/lib/python*/site-packages >"$sites/eigentime-report.pth"
}

lock() {
    local tool=$WORK/lock all
    if ! is_done "$tool/made-of" "$UV"; then
        rm -rf "$tool"
        "$python" -m venv "$tool"
        "$tool/bin/pip" install --quiet --disable-pip-version-check "uv==$UV"
        echo "$UV" >"$tool/made-of"
    fi
    compile() { # LIST ARGUMENT...
        local list=$SOURCE/$1
        shift
        UV_CACHE_DIR=$WORK/uv-cache UV_CUSTOM_COMPILE_COMMAND='scripts/report.sh lock' "$tool/bin/uv" pip compile \
            --quiet --upgrade --universal --python-version "$OLDEST" --generate-hashes --no-annotate --output-file "$list" "$@"
    }
    compile requirements.lock "$SOURCE/pyproject.toml"
    sed -nE 's/^requires = \["(.*)"\]$/\1/p' "$SOURCE/pyproject.toml" | compile requirements-build.lock -
    mapfile -t all < <(sed -nE 's/^([a-z0-9-]+)==.*/--no-emit-package=\1/p' "$SOURCE/requirements.lock")
    compile requirements-tests.lock --constraints "$SOURCE/requirements.lock" "${all[@]}" --group "$SOURCE/pyproject.toml:tests"
}

main() {
    if ! python=$(interpreter); then
        say "there is no Python $OLDEST or later here, with its module venv: 'eigentime report' is not built, all else is"
        say "Ubuntu 22.04 has it in the package python3.11-venv"
        return 0
    fi
    case ${1-} in
        lock) lock; return ;;
        "" | tests | types | wheel) ;;
        *) say "unknown argument '$1'; there are wheel, tests, types and lock"; return 1 ;;
    esac
    mkdir -p "$WORK"
    environment "$TOOLS" requirements-build.lock
    if [ "${1-}" = wheel ]; then
        wheel
        return
    fi
    environment "$VENV" requirements.lock --without-pip
    package
    launcher
    case ${1-} in
        tests) tests ;;
        types)
            tests
            "$TESTS/bin/python" -m mypy --config-file "$SOURCE/pyproject.toml" --cache-dir "$WORK/mypy" --package eigentime_report
            ;;
    esac
}

main "$@"
