"""The static release runs where there is a kernel and nothing else."""

import os
import shutil
import unittest
from pathlib import Path

from roots import HERE, PACKAGES, TOP, InRoots, inside, need, package, run

# A program of the C library that it is built with.
DATE_C = """
#include <stdio.h>
#include <time.h>
int main(void) {
    time_t now = time(NULL);
    char text[11];
    strftime(text, sizeof text, "%F", gmtime(&now));
    return puts(text) < 0;
}
"""
RELEASE = "eigentime-*-x86_64-linux.tar.zst"


class Release(InRoots):
    """What is in it, and where it works."""

    def unpack(self, root: Path) -> None:
        """Puts it where a user would."""
        need("zstd")
        release = root / "opt/eigentime"
        release.mkdir(parents=True)
        run("tar", "-C", release, "--strip-components=1", "-xf", package(RELEASE))
        shutil.copy(HERE / "session.sh", root / "opt/session.sh")

    def lives(self, root: Path, *programs: str) -> None:
        """Runs the session there."""
        self.unpack(root)
        said = inside(root, "sh", "/opt/session.sh", *programs)
        self.assertTrue(said.endswith("session: done\n"), said)

    def small_root(self, name: str) -> Path:
        """A root that has a shell and little else."""
        need("busybox")
        root = self.folder / name
        (root / "bin").mkdir(parents=True)
        shutil.copy(shutil.which("busybox"), root / "bin/busybox")
        if "statically" not in run("file", "-L", root / "bin/busybox"):
            self.skipTest("needs a static busybox")
        run("chroot", root, "/bin/busybox", "--install", "-s", "/bin")
        (root / "usr/bin").mkdir(parents=True)
        (root / "usr/bin/env").symlink_to("/bin/busybox")
        return root

    def build(self, compiler: str, to: Path, *options: str) -> None:
        """Compiles the program that prints the date."""
        source = self.folder / "date.c"
        source.write_text(DATE_C)
        run(compiler, "-O2", *options, "-o", to, source)

    def test_in_debian_11(self) -> None:
        self.in_distribution("bullseye")

    def test_in_debian_12(self) -> None:
        self.in_distribution("bookworm")

    def test_in_debian_13(self) -> None:
        self.in_distribution("trixie")

    def test_in_ubuntu_22_04(self) -> None:
        self.in_distribution("jammy")

    def test_in_ubuntu_24_04(self) -> None:
        self.in_distribution("noble")

    def in_distribution(self, name: str) -> None:
        """With a program of the distribution, and a static one."""
        need("gcc")
        root = self.distribution(name)
        self.build("gcc", root / "opt/static", "-static")
        self.lives(root, "date -u +%F", "/opt/static")

    def test_with_musl(self) -> None:
        """As in Alpine: a busybox, and musl with its loader."""
        need("musl-gcc")
        loader = Path("/lib/ld-musl-x86_64.so.1")
        if not loader.exists():
            self.skipTest(f"needs {loader}")
        root = self.small_root("alpine-like")
        (root / "lib").mkdir()
        shutil.copy(loader, root / "lib")
        self.build("musl-gcc", root / "bin/shared")
        self.build("musl-gcc", root / "bin/static", "-static")
        self.lives(root, "shared", "static", "busybox date -u +%F")

    def test_without_libraries(self) -> None:
        """No /lib, no /usr/lib, no /etc."""
        need("gcc")
        root = self.small_root("bare")
        self.build("gcc", root / "bin/static", "-static")
        self.lives(root, "static", "date -u +%F")
        self.assertEqual(
            {"bin", "dev", "opt", "proc", "tmp", "usr"}, set(os.listdir(root))
        )

    def test_pages_and_completions(self) -> None:
        """Shells and man accept those of every command."""
        self.unpack(self.folder)
        share = self.folder / "opt/eigentime/share"
        pages = {page.name for page in (share / "man/man1").iterdir()}
        for name in (
            "eigentime",
            "eigentime-run",
            "eigentime-ctl",
            "eigentime-ctl-leap",
        ):
            self.assertIn(f"{name}.1", pages)
        self.assertIn(
            "--skip-idle",
            (share / "man/man1/eigentime-run.1").read_text().replace("\\-", "-"),
        )
        completions = {
            "bash": "bash-completion/completions/eigentime",
            "zsh": "zsh/site-functions/_eigentime",
            "fish": "fish/vendor_completions.d/eigentime.fish",
        }
        missing = [shell for shell in completions if shutil.which(shell) is None]
        for shell, file in completions.items():
            self.assertIn("skip-idle", (share / file).read_text())
            if shell not in missing:
                run(shell, "-n", share / file)
        asked = 'source "$1"; COMP_WORDS=(eigentime run --skip-i) COMP_CWORD=2; _eigentime eigentime --skip-i run; echo "${COMPREPLY[@]}"'
        said = run("bash", "-c", asked, "bash", share / completions["bash"])
        self.assertEqual("--skip-idle", said.strip())
        if missing:
            self.skipTest(f"needs {', '.join(missing)}; the others were checked")

    def test_packing_again_gives_the_same(self) -> None:
        """The archive and the image are the same bytes, whenever and by whomever they are packed."""
        made = [package(RELEASE), package("eigentime-[0-9]*-oci.tar")]
        before = [file.read_bytes() for file in made]
        for file in (PACKAGES / "tree").rglob("*"):
            os.utime(file)
        run("bash", "-c", 'umask 077; exec "$0" pack', TOP / "scripts/packages.sh")
        self.assertEqual(before, [file.read_bytes() for file in made])


if __name__ == "__main__":
    unittest.main()
