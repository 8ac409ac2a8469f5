"""Where packages are tried: root file systems of distributions, each test with a copy of its own."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
PACKAGES = TOP / "build/packages"
# Made once.
KEPT = PACKAGES / "roots"
# `make test-packages` sets it: distributions are fetched. `make test` uses those that are there.
FETCH = "EIGENTIME_FETCH_ROOTS"
UBUNTU_KEYS = "usr/share/keyrings/ubuntu-archive-keyring.gpg"
UBUNTU = ("jammy", "noble")

# What is mounted in a root, by a process in a mount namespace of its own, before it is entered.
ENTER = """
set -e
root=$1; shift
for folder in proc dev tmp; do mkdir -p "$root/$folder"; done
mount -t tmpfs none "$root/tmp"
mkdir -m 700 "$root/tmp/eigentime"
mount -t tmpfs none "$root/dev"
for device in null zero urandom; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mount -t proc none "$root/proc"
exec chroot "$root" /usr/bin/env -i PATH=/opt/eigentime/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    EIGENTIME_RUNTIME_DIR=/tmp/eigentime DEBIAN_FRONTEND=noninteractive "$@"
"""


def need(*tools: str) -> None:
    """Skips the test where one of these commands is missing."""
    for tool in tools:
        if shutil.which(tool) is None:
            raise unittest.SkipTest(f"needs {tool}")


def package(pattern: str) -> Path:
    """The package with such a name, or a skipped test where none is made."""
    found = sorted(PACKAGES.glob(pattern))
    if not found:
        raise unittest.SkipTest(f"needs {pattern} in build/packages: make packages")
    return found[-1]


def run(*command: object, timeout: int = 600, **options: object) -> str:
    """The standard output of a command that must end well."""
    ended = subprocess.run(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        **options,
    )
    if ended.returncode != 0:
        raise AssertionError(
            f"{command} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}"
        )
    return ended.stdout


def inside(root: Path, *command: object) -> str:
    """What a command prints in a root file system, in namespaces of its own."""
    private = [
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--propagation",
        "private",
    ]
    return run(*private, "sh", "-c", ENTER, "sh", root, *command)


class InRoots(unittest.TestCase):
    """A test with a folder of its own that can make root file systems in it."""

    def setUp(self) -> None:
        """Makes the folder."""
        need("unshare", "chroot", "tar")
        if os.geteuid() != 0:
            self.skipTest("needs root")
        folder = tempfile.TemporaryDirectory(prefix="eigentime-packages-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def distribution(self, name: str) -> Path:
        """A fresh copy of a distribution's smallest variant."""
        kept = KEPT / f"{name}.tar"
        if not kept.exists():
            fetch(name, kept, self.folder / "fetched")
        root = self.folder / name
        root.mkdir()
        run("tar", "-C", root, "-xf", kept)
        return root


def ubuntu_keys() -> Path:
    """By which Ubuntu signs its packages: from the machine, or from Debian's package of them."""
    fetched = PACKAGES / "keys"
    for root in (Path("/"), fetched):
        if (root / UBUNTU_KEYS).exists():
            return root / UBUNTU_KEYS
    try:
        run(TOP / "scripts/unpack.sh", "trixie", "ubuntu-keyring", fetched)
    except AssertionError as error:
        raise unittest.SkipTest(
            f"needs the keys of Ubuntu's archive: {error}"
        ) from error
    return fetched / UBUNTU_KEYS


def fetch(name: str, kept: Path, work: Path) -> None:
    """Fetches a distribution from its own archive, and keeps it as one file."""
    if FETCH not in os.environ:
        raise unittest.SkipTest(f"needs {kept.relative_to(TOP)}: make test-packages")
    need("debootstrap")
    # What it mounts goes with the namespace.
    private = ["unshare", "--mount", "--propagation", "private"]
    options, archive = [], []
    if name in UBUNTU:
        options = [f"--keyring={ubuntu_keys()}"]
        # An empty name of a mirror stands for the archive's own, and Ubuntu's scripts are all this one.
        archive = ["", "/usr/share/debootstrap/scripts/gutsy"]
    try:
        run(
            *private,
            "debootstrap",
            "--variant=minbase",
            *options,
            name,
            work,
            *archive,
            timeout=3600,
        )
    except AssertionError as error:
        if name in UBUNTU and "Failed getting release file" in str(error):
            raise unittest.SkipTest(
                "needs Ubuntu's archive, which does not answer"
            ) from error
        raise
    kept.parent.mkdir(parents=True, exist_ok=True)
    unfinished = kept.with_suffix(".unfinished")
    run(
        "tar",
        "-C",
        work,
        "--numeric-owner",
        "--exclude=./dev/*",
        "-cf",
        unfinished,
        ".",
    )
    unfinished.rename(kept)
