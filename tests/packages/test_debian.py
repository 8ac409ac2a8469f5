"""The Debian packages: installed, used and purged in a fresh root, of which nothing is changed then."""

import hashlib
import shutil
import unittest
from pathlib import Path

from roots import HERE, InRoots, inside, need, package, run

NAMES = (
    "eigentime_*_amd64.deb",
    "libeigentime0_*_amd64.deb",
    "libeigentime-dev_*_amd64.deb",
)
# What dpkg, apt and ldconfig themselves keep of what they have done.
OF_THE_TOOLS = (
    "etc/ld.so.cache",
    "tmp",
    "var/cache/apt",
    "var/cache/debconf",
    "var/cache/ldconfig",
    "var/lib/apt",
    "var/lib/dpkg",
    "var/log",
)
USES_THE_LIBRARY = """
#include <eigentime.h>
#include <stdio.h>
int main(void) { return puts(eigentime_version()) < 0; }
"""


def tree(root: Path) -> dict[str, str]:
    """All files of a root, with what tells their contents."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if name.startswith(OF_THE_TOOLS) or name.split("/")[0] in (
            "proc",
            "dev",
            "opt",
        ):
            continue
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[name] = "a folder"
    return found


class Packages(InRoots):
    """Installed by apt in Debian 12."""

    def test_installed_used_and_purged(self) -> None:
        files = [package(name) for name in NAMES]
        root = self.distribution("bookworm")
        before = tree(root)
        (root / "opt").mkdir(exist_ok=True)
        for file in files:
            shutil.copy(file, root / "opt" / file.name)
        shutil.copy(HERE / "session.sh", root / "opt/session.sh")
        within = [f"/opt/{file.name}" for file in files]
        inside(root, "apt-get", "install", "--yes", "--no-install-recommends", *within)
        installed = set(tree(root)) - set(before)
        for name in (
            "usr/bin/eigentime",
            "usr/bin/eigentime-oci",
            "usr/include/eigentime.h",
            "usr/lib/x86_64-linux-gnu/libeigentime.so",
            "usr/lib/x86_64-linux-gnu/pkgconfig/eigentime.pc",
            "usr/share/bash-completion/completions/eigentime",
        ):
            self.assertIn(name, installed)
        said = inside(root, "sh", "/opt/session.sh", "date -u +%F")
        self.assertTrue(said.endswith("session: done\n"), said)
        self.compile_and_run(root)
        inside(
            root, "dpkg", "--verify", "eigentime", "libeigentime0", "libeigentime-dev"
        )
        inside(
            root,
            "apt-get",
            "purge",
            "--yes",
            "eigentime",
            "libeigentime0",
            "libeigentime-dev",
        )
        self.assertEqual(before, tree(root))

    def compile_and_run(self, root: Path) -> None:
        """A C program that finds the library by pkg-config, linked with it either way."""
        need("gcc", "pkg-config")
        source = self.folder / "uses.c"
        source.write_text(USES_THE_LIBRARY)
        pc = root / "usr/lib/x86_64-linux-gnu/pkgconfig"
        asked = [
            "env",
            f"PKG_CONFIG_LIBDIR={pc}",
            f"PKG_CONFIG_SYSROOT_DIR={root}",
            "pkg-config",
        ]
        flags = run(*asked, "--cflags", "--libs", "eigentime").split()
        run("gcc", source, *flags, "-o", root / "opt/uses")
        version = package(NAMES[0]).name.split("_")[1]
        self.assertEqual(version, inside(root, "/opt/uses").strip())

    def test_what_they_say(self) -> None:
        need("dpkg-deb")

        def field(name: str, of: str) -> str:
            return run("dpkg-deb", "--field", package(of), name).strip()

        self.assertEqual("", field("Depends", NAMES[0]))
        self.assertRegex(
            field("Depends", NAMES[1]), r"^libc6 \(>= 2\.(1\d|2\d|3[01])\)"
        )
        version = field("Version", NAMES[1])
        self.assertEqual(f"libeigentime0 (= {version})", field("Depends", NAMES[2]))
        self.assertEqual({version}, {field("Version", name) for name in NAMES})


if __name__ == "__main__":
    unittest.main()
