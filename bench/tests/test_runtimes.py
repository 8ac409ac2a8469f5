"""Runtimes are distinguished, and called as engines call them."""

import os
import tempfile
import unittest
from pathlib import Path
from unittest.mock import patch

from eigenbench import levels
from eigenbench.bundles import container_levels
from eigenbench.ground import Ground
from eigenbench.processes import Deadline
from eigenbench.runtimes import VARIABLE, Runtime, container, found, keyed
from eigenbench.timing import CommandError

WITHIN = Deadline(10)


def script(file: Path, text: str) -> Path:
    """A program that is a shell script."""
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


class Finding(unittest.TestCase):
    def test_names_are_told_apart(self) -> None:
        names = ["runc", "crun", "runc", "runc"]
        self.assertEqual(keyed(names), ["runc", "crun", "runc-2", "runc-3"])

    def test_the_search_path_comes_first_and_nothing_comes_twice(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "new").mkdir()
            old = script(folder / "runc", "echo runc version 1.1.5")
            new = script(folder / "new" / "runc", "echo runc version 1.5.2")
            environment = {"PATH": f"{folder}:/bin", VARIABLE: f"{new}:{old}"}
            with patch.dict(os.environ, environment):
                runtimes = [one for one in found() if one.path.name == "runc"]
        titles = [(one.key, one.title) for one in runtimes]
        self.assertEqual(titles, [("runc", "runc 1.1.5"), ("runc-2", "runc 1.5.2")])


class Calling(unittest.TestCase):
    """Containers of a runtime that records how it was called."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.ground = Ground(self.folder)

    def runtime(self, text: str) -> Runtime:
        """A runtime that does this."""
        log = f'echo "$@" >> {self.folder / "calls"}'
        path = script(self.folder / "runc", f"{log}\n{text}")
        return Runtime("runc", path, "1.0")

    def calls(self) -> list[str]:
        """The verbs of its calls."""
        lines = (self.folder / "calls").read_text().splitlines()
        return [line.split()[2] for line in lines]

    def test_a_container_is_made_started_and_removed(self) -> None:
        bare = container_levels(Path("/nonexistent"))[0]
        # `create` passes its own standard output to the program.
        runtime = self.runtime('if [ "$3" = create ]; then printf x; fi')
        with container(runtime, bare, self.ground, ("/inside",)) as made:
            self.assertTrue((made.bundle / "config.json").exists())
            ended, byte = made.started(WITHIN)
            self.assertTrue(0 < byte and 0 < ended)
            self.assertGreater(made.entered(("/inside", "once"), WITHIN), 0)
        self.assertEqual(self.calls(), ["create", "start", "exec", "delete"])

    def test_a_program_that_does_not_run_has_no_figures(self) -> None:
        bare = container_levels(Path("/nonexistent"))[0]
        with (
            container(self.runtime(""), bare, self.ground, ("/inside",)) as made,
            self.assertRaisesRegex(CommandError, "has not run"),
        ):
            made.started(WITHIN)
        self.assertEqual(self.calls()[-1], "delete")

    def test_a_failure_is_told_and_the_container_removed(self) -> None:
        bare = container_levels(Path("/nonexistent"))[0]
        runtime = self.runtime("echo no room >&2; exit 1")
        with (
            container(runtime, bare, self.ground, ("/inside",)) as made,
            self.assertRaisesRegex(CommandError, "no room"),
        ):
            made.started(WITHIN)
        self.assertEqual(self.calls(), ["create", "delete"])

    def test_the_wrapper_is_told_which_runtime(self) -> None:
        runtime = self.runtime("")
        wrapper = script(self.folder / "wrapper", f'echo "$1" > {self.folder}/first')
        dated = next(
            level
            for level in container_levels(wrapper)
            if level.key == levels.CONTAINER_DATE
        )
        with container(runtime, dated, self.ground, ("/inside",)):
            pass
        first = (self.folder / "first").read_text().strip()
        self.assertEqual(first, f"--eigentime-runtime={runtime.path}")


if __name__ == "__main__":
    unittest.main()
