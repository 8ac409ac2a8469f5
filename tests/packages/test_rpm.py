"""The RPM package: what it says, and installed and removed by rpm in a root of its own."""

import os
import unittest
from pathlib import Path

from roots import InRoots, need, package, run

NAME = "eigentime-*.x86_64.rpm"


class Package(InRoots):
    """By rpm itself, with a database of its own."""

    def test_what_it_says(self) -> None:
        need("rpm")
        file = package(NAME)
        said = run("rpm", "--query", "--package", "--info", file)
        for line in (
            "Name        : eigentime",
            "Architecture: x86_64",
            "License     : MIT OR Apache-2.0",
        ):
            self.assertIn(line, said)
        needed = run("rpm", "--query", "--package", "--requires", file).split("\n")
        self.assertEqual(
            [], [line for line in needed if line and not line.startswith("rpmlib(")]
        )
        listed = run("rpm", "--query", "--package", "--list", file).split()
        for name in ("/usr/bin/eigentime", "/usr/share/man/man1/eigentime-run.1"):
            self.assertIn(name, listed)

    def test_installed_used_and_removed(self) -> None:
        need("rpm")
        file = package(NAME)
        root = self.folder / "root"
        root.mkdir()
        rpm = ["rpm", "--root", root, "--dbpath", "/database"]
        run(*rpm, "--install", file)
        self.assertEqual("", run(*rpm, "--verify", "eigentime"))
        date = ["run", "--date", "2038-01-19T03:14:00Z", "--", "date", "-u", "+%F"]
        self.assertEqual("2038-01-19\n", run(root / "usr/bin/eigentime", *date))
        run(*rpm, "--erase", "eigentime")
        left = [
            Path(folder, name) for folder, _, names in os.walk(root) for name in names
        ]
        self.assertEqual(
            [], [file for file in left if not file.is_relative_to(root / "database")]
        )


if __name__ == "__main__":
    unittest.main()
