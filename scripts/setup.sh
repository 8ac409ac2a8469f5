#!/usr/bin/env bash
# Installs what this machine lacks for building, checking, testing or measuring Eigentime, from the
# distribution's packages and the Rust toolchain installer. The targets of the Makefile call it.
#
#   scripts/setup.sh [GROUP...]     build (the default), python, lint, packages, tests, bench
#
# It only changes packages: services that come with a package are neither started nor enabled.
# It is silent when nothing is missing. What `build`, `python`, `lint` and `packages` need is essential; what
# `tests` and `bench` need is optional: if it cannot be installed, the script says so and continues,
# and the tests or comparisons that need it are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly LOG=build/setup.log
readonly POLICY=/usr/sbin/policy-rc.d
readonly POLICY_MARK="eigentime's scripts/setup.sh"

say() { echo "setup: $*" >&2; }
die() { say "$@"; exit 1; }

# Runs a verbose command; its output is kept in a file, and shown if it fails.
logged() { # COMMAND...
    mkdir -p build
    if ! "$@" >"$LOG" 2>&1; then
        cat "$LOG" >&2
        die "this failed, with the output above: $*"
    fi
}

package_list() { # GROUP: the file that lists its packages
    case $1 in
        build | python | lint | packages) echo "scripts/packages/$1.txt" ;;
        tests | bench) echo "$1/PACKAGES.txt" ;;
        *) die "unknown group '$1'; there are build, python, lint, packages, tests and bench" ;;
    esac
}

installed() { # PACKAGE
    [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

available() { # PACKAGE: whether the distribution has it
    local policy
    policy=$(LC_ALL=C apt-cache policy "$1")
    grep -q '^  Candidate: [^(]' <<<"$policy"
}

# A package is not needed if its command is already there from elsewhere.
present() { # PACKAGE
    case $1 in
        clang) compgen -c clang | grep -xqE 'clang(-[0-9]+)?' ;;
        golang-go) command -v go >/dev/null ;;
        default-jdk-headless) command -v javac >/dev/null ;;
        linux-perf) command -v perf >/dev/null ;;
        maven) command -v mvn >/dev/null ;;
        nodejs) command -v node >/dev/null ;;
        npm) command -v npm >/dev/null ;;
        qemu-system-x86) command -v qemu-system-x86_64 >/dev/null ;;
        python3-venv) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
        docker.io) command -v dockerd >/dev/null ;;
        docker-cli) command -v docker >/dev/null ;;
        docker-compose) docker compose version >/dev/null 2>&1 || command -v docker-compose >/dev/null ;;
        python3 | pkg-config | shellcheck | chromium | curl | containerd | podman | runc | crun) command -v "$1" >/dev/null ;;
        *) false ;;
    esac || installed "$1"
}

missing_of() { # GROUP...: prints the packages of these groups that this machine lacks
    local group list package
    for group; do
        list=$(package_list "$group")
        [ -f "$list" ] || continue
        while read -r package; do
            present "$package" || echo "$package"
        done < <(sed 's/#.*//; /^[[:space:]]*$/d' "$list")
    done | sort -u
}

# Sets `as_root` to the prefix for commands that need root; fails if root is unavailable.
as_root=()
find_root() {
    if [ "$EUID" = 0 ]; then return 0; fi
    command -v sudo >/dev/null || return 1
    if ! sudo -n true 2>/dev/null && [ ! -t 0 ]; then return 1; fi # a password, and nobody to type it
    as_root=(sudo)
}

# While packages are installed, a policy file (Debian's own mechanism, see invoke-rc.d(8)) keeps
# maintainer scripts from starting services. An existing file is left alone.
forbid_service_starts() {
    if [ -e "$POLICY" ] && ! grep -qF "$POLICY_MARK" "$POLICY"; then return 0; fi
    trap allow_service_starts EXIT
    printf '#!/bin/sh\n# Put here for the time of an installation by %s; remove it if that was interrupted.\nexit 101\n' \
        "$POLICY_MARK" | "${as_root[@]}" tee "$POLICY" >/dev/null
    "${as_root[@]}" chmod 755 "$POLICY"
}

allow_service_starts() {
    if [ -e "$POLICY" ] && grep -qF "$POLICY_MARK" "$POLICY"; then "${as_root[@]}" rm "$POLICY"; fi
}

# Undoes what the installation of a package has enabled for the next boot.
disable_services_of() { # PACKAGE
    local files units scripts unit now=()
    files=$(dpkg-query --listfiles "$1")
    mapfile -t units < <(sed -nE 's#.*/systemd/system/([^/@]+[.](service|socket|timer))$#\1#p' <<<"$files" | sort -u)
    mapfile -t scripts < <(sed -nE 's#^/etc/init[.]d/([^/]+)$#\1#p' <<<"$files")
    if [ -d /run/systemd/system ]; then now=(--now); fi
    if command -v systemctl >/dev/null; then
        for unit in "${units[@]}"; do logged "${as_root[@]}" systemctl "${now[@]}" disable "$unit"; done
    fi
    for unit in "${scripts[@]}"; do logged "${as_root[@]}" update-rc.d "$unit" disable; done
}

install_packages() { # PACKAGE...
    local package
    say "installing $*"
    forbid_service_starts
    logged "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
        apt-get install --yes --quiet=2 --no-install-recommends --no-remove "$@"
    for package; do disable_services_of "$package"; done
    allow_service_starts
}

setup_packages() { # GROUP...
    local group package needed=() wanted=() essential=() optional=() found=() absent=()
    for group; do
        case $group in
            build | python | lint | packages) needed+=("$group") ;;
            tests | bench) wanted+=("$group") ;;
        esac
    done
    mapfile -t essential < <(missing_of "${needed[@]}")
    if ! command -v rustup >/dev/null; then essential+=(rustup); fi
    mapfile -t optional < <(missing_of "${wanted[@]}" | grep -vxF "$(printf '%s\n' "${essential[@]}")")
    if [ "${#essential[@]}" = 0 ] && [ "${#optional[@]}" = 0 ]; then return 0; fi

    if ! find_root; then
        if [ "${#optional[@]}" -gt 0 ]; then say "neither root nor sudo here; these packages stay missing, and what needs them is skipped: ${optional[*]}"; fi
        if [ "${#essential[@]}" -gt 0 ]; then die "neither root nor sudo here; please have these packages installed: ${essential[*]}"; fi
        return 0
    fi

    say "reading the distribution's package lists"
    logged "${as_root[@]}" apt-get update --quiet=2
    for package in "${essential[@]}" "${optional[@]}"; do
        if available "$package"; then found+=("$package"); else absent+=("$package"); fi
    done
    if [ "${#found[@]}" -gt 0 ]; then install_packages "${found[@]}"; fi
    for package in "${absent[@]}"; do
        if [ "$package" = rustup ]; then
            die "this distribution has no package of rustup; install rustup as \"Install Rust\" on the Rust website says, open a new shell and try again"
        fi
        case " ${essential[*]} " in
            *" $package "*) die "this distribution has no package $package, and nothing works without it" ;;
        esac
        say "this distribution has no package $package; what needs it is skipped"
    done
}

# The toolchain, its components and targets are those of rust-toolchain.toml.
setup_rust() {
    local channel components targets toolchains have wanted
    channel=$(sed -nE 's/^channel *= *"(.*)"/\1/p' rust-toolchain.toml)
    components=$(sed -nE 's/^components *= *\[(.*)\]/\1/p' rust-toolchain.toml | tr -d '" ')
    targets=$(sed -nE 's/^targets *= *\[(.*)\]/\1/p' rust-toolchain.toml | tr -d '" ')

    toolchains=$(rustup toolchain list)
    if grep -q "^$channel-" <<<"$toolchains"; then
        have=$(rustup component list --installed --toolchain "$channel")
        for wanted in ${components//,/ } ${targets//,/ }; do
            grep -qE "^(rust-std-)?$wanted(-|\$)" <<<"$have" || have=
        done
        if [ -n "$have" ]; then return 0; fi
    fi
    say "installing Rust $channel with $components and the targets $targets"
    logged rustup toolchain install "$channel" --profile minimal --no-self-update \
        --component "$components" --target "$targets"
}

main() {
    local group groups=("$@")
    if [ "$#" = 0 ]; then groups=(build); fi
    for group in "${groups[@]}"; do package_list "$group" >/dev/null; done

    if command -v apt-get >/dev/null; then
        setup_packages "${groups[@]}"
    else
        say "this is neither Debian nor Ubuntu: what $(for group in "${groups[@]}"; do package_list "$group"; done | paste -sd' ') list has to be there already"
        command -v rustup >/dev/null || die "rustup is missing; install it as \"Install Rust\" on the Rust website says"
    fi
    setup_rust
}

main "$@"
