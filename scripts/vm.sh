#!/usr/bin/env bash
# Fetches the distribution's kernel for virtual machines (eigentime bench --level vm) and builds the
# module eigentime_hrtimer for it. Nothing is installed: packages are unpacked below build/vm, and
# what is needed from them goes to build/share/eigentime/vm:
#
#   vmlinuz, version    the kernel, and its release
#   modules/*.ko        what it needs there; modules/list has their names in loading order
#   modules/criu        the names of those that CRIU also needs, for the tests of checkpoints
#
# `scripts/vm.sh rt` fetches the distribution's real-time kernel (PREEMPT_RT) for bench/mechanisms.py, to
# build/share/eigentime/vm-rt, without modules.
#
# An ordinary user can run it. It does nothing if that is already there. If the kernel cannot be
# fetched, it says so and succeeds: tests that need it are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly WORK=$PWD/build/vm
readonly KIND=${1-}
readonly TARGET=$PWD/build/share/eigentime/vm${KIND:+-$KIND}
readonly SOURCE=kernel/hrtimer

# The kernels that distributions make for virtual machines, with their headers; the first available
# one is used: Debian's, Ubuntu's.
case $KIND in
    "") readonly KERNELS=("linux-image-cloud-amd64 linux-headers-cloud-amd64" "linux-image-virtual linux-headers-virtual") ;;
    rt) readonly KERNELS=("linux-image-rt-amd64") ;;
    *)
        echo "vm: unknown kind of kernel '$KIND': there is rt, and the one for virtual machines without a word" >&2
        exit 1
        ;;
esac

# Which of their dependencies are part of the kernel. Compilers are the machine's.
readonly PARTS='linux-(image|modules|headers|kbuild)-'

# What the kernel needs in the virtual machine: a port, a disk, and its file system. What is built
# in is not a module.
readonly MODULES=(virtio_pci virtio_console virtio_blk crc32c_generic ext4)

# What CRIU checks before it does anything: sockets, and packet filter rules.
readonly FOR_CRIU=(nf_tables unix_diag tcp_diag udp_diag raw_diag netlink_diag af_packet_diag)

say() { echo "vm: $*" >&2; }
skip() {
    say "$@"
    say "virtual machines need a kernel that is named, then, or one in /boot; their tests are skipped"
    exit 0
}

stamp() { cat scripts/vm.sh "$SOURCE"/* | sha256sum | cut -c1-12; }

# Our own package lists, for when the machine has none, or they are too old.
own_lists() {
    options+=(-o "Dir::State::Lists=$WORK/lists" -o "Dir::Cache=$WORK/cache" -o Debug::NoLocking=1)
    mkdir -p "$WORK/lists/partial" "$WORK/cache/archives/partial"
    say "reading the distribution's package lists"
    if ! apt-get "${options[@]}" update --quiet=2 >"$WORK/update.log" 2>&1; then
        cat "$WORK/update.log" >&2
        return 1
    fi
}

# The parts of packages: themselves and their dependencies that belong to the kernel.
parts_of() { # PACKAGE...
    local all=("$@") next=0 found
    while [ "$next" -lt "${#all[@]}" ]; do
        found=$(LC_ALL=C apt-cache "${options[@]}" depends --no-recommends --no-suggests --no-conflicts --no-breaks \
            --no-replaces --no-enhances "${all[$next]}" | sed -nE "s/^ *[|]?Depends: ($PARTS.*)/\1/p")
        while read -r part; do
            if [ -n "$part" ] && [[ " ${all[*]} " != *" $part "* ]]; then all+=("$part"); fi
        done <<<"$found"
        next=$((next + 1))
    done
    printf '%s\n' "${all[@]}"
}

candidate_of() { # PACKAGE: its version, nothing if there is none
    LC_ALL=C apt-cache "${options[@]}" policy "$1" | sed -nE 's/^  Candidate: ([^(].*)/\1/p'
}

# Downloads a kernel with its headers into build/vm/packages.
fetch() {
    local kernel package parts
    for kernel in "${KERNELS[@]}"; do
        for package in $kernel; do
            if [ -z "$(candidate_of "$package")" ]; then continue 2; fi
        done
        # shellcheck disable=SC2086 # two packages
        mapfile -t parts < <(parts_of $kernel)
        rm -rf "$WORK/packages"
        mkdir -p "$WORK/packages"
        say "downloading ${kernel%% *} $(candidate_of "${kernel%% *}")"
        (cd "$WORK/packages" && apt-get "${options[@]}" download --quiet=2 "${parts[@]}")
        return
    done
    say "the package lists have none of these kernels: ${KERNELS[*]%% *}"
    return 1
}

# A field of a module's information: `name=value`, each followed by a zero byte.
modinfo_of() { # FILE FIELD
    LC_ALL=C tr '\0' '\n' <"$1" | LC_ALL=C sed -n "s/^$2=//p"
}

# Puts a module where virtual machines load it from, after those that it needs.
add_module() { # NAME LIST
    local name=${1//-/_} list=$new/modules/$2 file needed
    if grep -qsx "$name.ko" "$new/modules/list" "$list"; then return 0; fi
    file=$(find "$root" -path "*/lib/modules/*" -name '*.ko*' | sed -nE "\#/${name//_/[-_]}[.]ko([.](xz|zst|gz))?\$#p" | head -n 1)
    if [ -z "$file" ]; then return 0; fi
    case $file in
        *.xz) xz --decompress --stdout "$file" ;;
        *.zst) zstd --decompress --stdout --quiet "$file" ;;
        *.gz) gzip --decompress --stdout "$file" ;;
        *) cat "$file" ;;
    esac >"$new/modules/$name.ko"
    needed=$(modinfo_of "$new/modules/$name.ko" depends)
    for needed in ${needed//,/ }; do add_module "$needed" "$2"; done
    echo "$name.ko" >>"$list"
}

# Builds our own module with the kernel's headers, which look for each other in /usr/src.
build_module() { # RELEASE
    local headers=$root/usr/src/linux-headers-$1
    sed -i "s#\([[:space:]]\)/usr/src/#\1$root/usr/src/#" "$headers/Makefile"
    rm -rf "$WORK/module"
    cp -r "$SOURCE" "$WORK/module"
    make -C "$headers" "M=$WORK/module" modules
    strip --strip-debug "$WORK/module/eigentime_hrtimer.ko"
    cp "$WORK/module/eigentime_hrtimer.ko" "$new/modules/"
    echo eigentime_hrtimer.ko >>"$new/modules/list"
}

build() { # RELEASE: builds our own module, or says that it cannot
    local log=$WORK/module.log
    say "building eigentime_hrtimer for $1"
    if ! build_module "$1" >"$log" 2>&1; then
        cat "$log" >&2
        say "eigentime_hrtimer can't be built, with the output above: virtual machines are without it"
    fi
}

main() {
    local key root new release package module
    key=$(stamp)
    if [ "$(cat "$TARGET/stamp" 2>/dev/null)" = "$key" ]; then return 0; fi

    if [ "$(uname -m)" != x86_64 ]; then skip "no kernel is fetched for $(uname -m)"; fi
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        skip "this is neither Debian nor Ubuntu: no kernel is fetched"
    fi
    options=(-o APT::Sandbox::User=root)
    mkdir -p "$WORK"
    if ! fetch; then
        if ! own_lists || ! fetch; then skip "the distribution's kernel can't be fetched"; fi
    fi

    root=$WORK/root new=$WORK/new
    rm -rf "$root" "$new"
    mkdir -p "$root" "$new/modules"
    : >"$new/modules/list"
    : >"$new/modules/criu"
    for package in "$WORK"/packages/*.deb; do dpkg-deb --extract "$package" "$root"; done
    release=$(find "$root/boot" -name 'vmlinuz-*' -printf '%f\n' | sed 's/^vmlinuz-//' | head -n 1)
    install --mode=644 "$root/boot/vmlinuz-$release" "$new/vmlinuz"
    echo "$release" >"$new/version"
    if [ -z "$KIND" ]; then
        for module in "${MODULES[@]}"; do add_module "$module" list; done
        for module in "${FOR_CRIU[@]}"; do add_module "$module" criu; done
        build "$release"
    fi
    echo "$key" >"$new/stamp"
    rm -rf "$TARGET"
    mkdir -p "${TARGET%/*}"
    mv "$new" "$TARGET"
    rm -rf "$WORK"
}

main
