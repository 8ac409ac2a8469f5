"""The wheels: for every glibc of the last years, and found by `eigentime report`."""

import sys
import unittest
from pathlib import Path

from roots import PACKAGES, TOP, InRoots, package, run

ENVIRONMENT = TOP / "build/venv"


class Wheels(InRoots):
    """Installed in environments of their own."""

    def install(self, wheel: Path) -> Path:
        """An environment that has the wheel; the folder of its commands."""
        run(sys.executable, "-m", "venv", self.folder / "venv")
        pip = [
            self.folder / "venv/bin/pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        run(*pip, "--no-deps", "--no-index", wheel)
        return self.folder / "venv/bin"

    def test_the_library_for_python(self) -> None:
        wheel = package("eigentime-*.whl")
        self.assertIn("manylinux2014_x86_64", wheel.name)
        audited = PACKAGES / "tools/python/bin/auditwheel"
        if audited.exists():
            self.assertIn("manylinux_2_17_x86_64", run(audited, "show", wheel))
        python = self.install(wheel) / "python"
        said = run(
            python,
            "-c",
            "import eigentime; print(eigentime.now_with_error().error_ns >= 0)",
        )
        self.assertEqual("True\n", said)

    def test_the_report(self) -> None:
        """What its wheel depends on is that of the environment that `make build` has made."""
        wheel = package("eigentime_report-*.whl")
        if sys.version_info < (3, 11) or not ENVIRONMENT.exists():
            self.skipTest("needs Python 3.11 or later, and build/venv")
        commands = self.install(wheel)
        needed = next(ENVIRONMENT.glob("lib/python*/site-packages"))
        sites = next((self.folder / "venv/lib").glob("python*/site-packages"))
        (sites / "needed.pth").write_text(f"{needed}\n")
        eigentime = PACKAGES / "tree/bin/eigentime"
        said = run(
            "env", f"PATH={commands}:/usr/bin:/bin", eigentime, "report", "--version"
        )
        self.assertIn(wheel.name.split("-")[1], said)


if __name__ == "__main__":
    unittest.main()
