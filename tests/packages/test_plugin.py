"""The plugin of kubectl: static, with its licences, and found by kubectl."""

import os
import unittest
from pathlib import Path

from roots import PACKAGES, InRoots, need, package, run

ARCHIVE = "kubectl-eigentime-*-x86_64-linux.tar.zst"


class Plugin(InRoots):
    """The archive, unpacked."""

    def unpack(self, folder: Path) -> Path:
        """Where its files are."""
        need("zstd")
        archive = package(ARCHIVE)
        folder.mkdir(parents=True)
        run("tar", "-C", folder, "--strip-components=1", "-xf", archive)
        files = {"kubectl-eigentime", "LICENSE-APACHE", "LICENSE-MIT", "NOTICES"}
        self.assertEqual(files, set(os.listdir(folder)))
        self.assertIn("kube-client ", (folder / "NOTICES").read_text())
        return folder

    def version(self) -> str:
        """That of the commands beside it."""
        return run(PACKAGES / "tree/bin/eigentime", "--version").split()[1]

    def test_it_needs_nothing_else(self) -> None:
        folder = self.unpack(self.folder / "plugin")
        said = run("chroot", folder, "/kubectl-eigentime", "--version")
        self.assertEqual(self.version(), said.split()[-1])

    def test_kubectl_finds_it(self) -> None:
        need("kubectl")
        folder = self.unpack(self.folder / "plugin")
        path = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
        said = run("kubectl", "eigentime", "--version", env=path)
        self.assertEqual(self.version(), said.split()[-1])


if __name__ == "__main__":
    unittest.main()
