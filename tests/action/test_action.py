"""Runs the steps of action.yml as a runner of GitHub Actions does, with a release made of build/bin.

Only what a runner does is imitated here, and the server from which releases come; the steps are the real ones.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.server
import os
import pathlib
import re
import subprocess
import tempfile
import threading
import time
import unittest
from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "github-action"
VERSION = re.search(r'(?m)^version = "(.*)"', (ROOT / "Cargo.toml").read_text())[1]
NAME = f"eigentime-{VERSION}-x86_64-linux"
REPOSITORY = "someone/eigentime"


def load(path: pathlib.Path) -> dict[str, Any]:
    # As text: what a runner passes on is text, too.
    return YAML(typ="base", pure=True).load(path)


def expand(text: str, context: dict[str, str]) -> str:
    """Replaces the expressions in a text."""
    return re.sub(r"\$\{\{ *([\w.-]+) *\}\}", lambda found: context[found[1]], text)


def holds(condition: str, context: dict[str, str]) -> bool:
    """The result of `NAME != ''`, the one kind of condition that there is."""
    return context[re.fullmatch(r"([\w.-]+) != ''", condition)[1]] != ""


class Ran(Exception):
    """A step has failed."""


class Runner:
    """A job on a runner, of which the action is a step."""

    def __init__(
        self, directory: pathlib.Path, server: str = "http://nowhere.invalid"
    ) -> None:
        self.directory = directory
        self.path = os.environ["PATH"]
        self.environment = {
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_REPOSITORY": "someone/else",
            "GITHUB_SERVER_URL": server,
            "RUNNER_TEMP": str(directory / "temporary files"),
            "EIGENTIME_RUNTIME_DIR": str(directory),
            "HOME": str(directory),
            "TZ": "UTC",
        }
        os.mkdir(self.environment["RUNNER_TEMP"])

    def uses(self, **given: str) -> str:
        """Runs the steps of the action with these inputs; what they print."""
        action = load(ROOT / "action.yml")
        inputs = {
            name: declared["default"] for name, declared in action["inputs"].items()
        }
        given = {name.replace("_", "-"): value for name, value in given.items()}
        assert given.keys() <= inputs.keys(), given
        context = {f"inputs.{name}": value for name, value in (inputs | given).items()}
        context["github.action_repository"] = REPOSITORY
        printed = ""
        for step in action["runs"]["steps"]:
            if holds(step.get("if", "inputs.shell != ''"), context):
                printed += self.step(step, context)
        self.outputs = {
            name: expand(output["value"], context)
            for name, output in action["outputs"].items()
        }
        return printed

    def step(self, step: dict[str, Any], context: dict[str, str]) -> str:
        """Runs one step; what it prints."""
        assert step["shell"] == "bash", step
        files = {
            name: self.directory / name for name in ("GITHUB_PATH", "GITHUB_OUTPUT")
        }
        for file in files.values():
            file.write_text("")
        script = self.directory / "step.sh"
        script.write_text(expand(step["run"], context))
        ended = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", script],
            cwd=self.directory / expand(step.get("working-directory", "."), context),
            env={
                "PATH": self.path,
                **self.environment,
                **{name: str(file) for name, file in files.items()},
                **{
                    name: expand(text, context)
                    for name, text in step.get("env", {}).items()
                },
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if ended.returncode != 0:
            raise Ran(f"status {ended.returncode}\n{ended.stdout}")
        for line in files["GITHUB_PATH"].read_text().splitlines():
            self.path = f"{line}:{self.path}"
        for line in files["GITHUB_OUTPUT"].read_text().splitlines():
            name, _, value = line.partition("=")
            context[f"steps.{step['id']}.outputs.{name}"] = value
        return ended.stdout


@contextlib.contextmanager
def served(directory: pathlib.Path) -> Iterator[str]:
    """Serves a directory; its address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class ActionTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        """Packs a release of what was built."""
        temporary = tempfile.TemporaryDirectory(prefix="eigentime-action-")
        cls.addClassCleanup(temporary.cleanup)
        cls.release = (
            pathlib.Path(temporary.name) / REPOSITORY / f"releases/download/v{VERSION}"
        )
        cls.release.mkdir(parents=True)
        cls.served = pathlib.Path(temporary.name)
        cls.archive = str(cls.release / f"{NAME}.tar.zst")
        packed = ["--transform", f"s:^:{NAME}/:", "bin/eigentime", "bin/eigentime-oci"]
        subprocess.run(
            ["tar", "-C", ROOT / "build", "--zstd", "-cf", cls.archive, *packed],
            check=True,
        )
        cls.checksum = hashlib.sha256(
            pathlib.Path(cls.archive).read_bytes()
        ).hexdigest()

    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory(prefix="eigentime-action-")
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name)
        self.runner = Runner(self.directory)

    def uses(self, **given: str) -> str:
        """Runs the action with the archive."""
        return self.runner.uses(archive=self.archive, checksum=self.checksum, **given)

    def sums(self, text: str) -> None:
        path = self.release / "SHA256SUMS"
        path.write_text(text)
        self.addCleanup(path.unlink, missing_ok=True)

    def fails(self, pattern: str, **given: str) -> None:
        with self.assertRaisesRegex(Ran, pattern):
            self.runner.uses(**given)

    def test_a_date(self) -> None:
        printed = self.uses(run="date +%F", date="2038-01-19")
        self.assertEqual(printed, f"installed eigentime {VERSION}\n2038-01-19\n")
        self.assertEqual(self.runner.outputs, {"version": VERSION})

    def test_without_commands_it_is_installed_for_later_steps(self) -> None:
        self.uses()
        found = subprocess.run(
            ["eigentime", "--version"],
            env={"PATH": self.runner.path},
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual(found.stdout, f"eigentime {VERSION}\n")

    def test_offset_rate_and_options(self) -> None:
        options = "--settable-by anyone --timeline shop"
        printed = self.uses(
            run="eigentime ctl show shop --json",
            offset="+30d",
            rate="2.5",
            options=options,
        )
        remove = {"shell": "bash", "run": "eigentime ctl rm shop --force"}
        self.addCleanup(self.runner.step, remove, {})
        for told in ('"rate": 2.5', '"settable_by": "anyone"'):
            self.assertIn(told, printed)
        ahead = (
            int(self.uses(run="date +%s", offset="+30d").splitlines()[-1]) - time.time()
        )
        self.assertAlmostEqual(ahead, 30 * 86400, delta=3600)

    def test_options_have_quotes(self) -> None:
        self.assertEqual(
            self.uses(
                run="date +%FT%H", options="--date '2038-01-19 10:00'"
            ).splitlines()[-1],
            "2038-01-19T10",
        )

    def test_commands_end_at_the_first_that_fails(self) -> None:
        with self.assertRaisesRegex(Ran, r"status 7\nbefore\n$"):
            self.uses(run="echo before\n(exit 7)\necho after")
        self.assertEqual(
            self.uses(run="echo one\necho two").splitlines()[1:], ["one", "two"]
        )

    def test_shells(self) -> None:
        for shell, run in {
            "bash": "[[ $(date +%Y) == 2038 ]]; echo year $(date +%Y)",
            "sh": "set -- $(date +%Y); echo year $1",
            "python": "import datetime\nprint('year', datetime.date.today().year)",
            "env -i PATH=/usr/bin:/bin sh {0}": "echo year $(date +%Y)",
        }.items():
            with self.subTest(shell):
                self.assertEqual(
                    self.uses(run=run, shell=shell, date="2038-06-01").splitlines()[-1],
                    "year 2038",
                )
        with self.assertRaisesRegex(
            Ran, "shell: 'fish' is not known\nhelp: write bash"
        ):
            self.uses(run="date", shell="fish")

    def test_options_that_are_wrong(self) -> None:
        for given, said in [
            (
                {"options": "--skipidle"},
                "unexpected argument '--skipidle' found\n(.|\n)*'--skip-idle'",
            ),
            (
                {"rate": "fast"},
                "invalid value 'fast' for '--rate <R>': it is not a plain number",
            ),
        ]:
            with (
                self.subTest(given),
                self.assertRaisesRegex(
                    Ran, f"status 125\n(.|\n)*::error::eigentime run: {said}"
                ),
            ):
                self.uses(run="date", **given)

    def test_quotes_that_do_not_match(self) -> None:
        with self.assertRaisesRegex(
            Ran, "options: the quotes in '--date \"2038' do not match"
        ):
            self.uses(run="date", options='--date "2038')

    def test_the_working_directory(self) -> None:
        (self.directory / "project").mkdir()
        self.assertEqual(
            self.uses(run="basename $PWD", working_directory="project").splitlines()[
                -1
            ],
            "project",
        )

    def test_a_download_of_the_version_of_the_action(self) -> None:
        self.sums(f"{'0' * 64}  other.tar.zst\n{self.checksum}  {NAME}.tar.zst\n")
        with served(self.served) as address:
            self.runner.environment["GITHUB_SERVER_URL"] = address
            self.assertEqual(
                self.runner.uses(run="date +%F", date="2038-01-19").splitlines()[-1],
                "2038-01-19",
            )
            self.fails(
                "::error::version 9.9.9: .*/v9.9.9/.* cannot be downloaded: .*404.*\nhelp: set the input version",
                version="v9.9.9",
            )

    def test_checksums(self) -> None:
        other = "0" * 64
        self.fails(
            f"is {self.checksum}, and should be {other}",
            archive=self.archive,
            checksum=other,
        )
        self.runner.uses(archive=self.archive, checksum=self.checksum.upper())
        self.fails(
            "checksum of .* is not known\nhelp: set the input checksum",
            archive=self.archive,
        )
        self.sums(f"{other}  {NAME}.tar.zst\n")
        self.fails(f"should be {other}", archive=self.archive)
        self.sums(f"{self.checksum}  another.tar.zst\n")
        self.fails("is not known", archive=self.archive)
        self.fails("there is no file 'missing'", archive="missing")

    def test_the_example_with_a_matrix_of_dates(self) -> None:
        job = load(EXAMPLES / "dates.yml")["jobs"]["dates"]
        (self.directory / "Makefile").write_text("test:\n\t@date +%FT%T\n")
        dates = job["strategy"]["matrix"]["date"]
        self.assertGreater(len(dates), 2)
        for date in dates:
            given = {
                name: expand(text, {"matrix.date": date})
                for name, text in job["steps"][-1]["with"].items()
            }
            self.assertEqual(
                self.uses(**given).splitlines()[-1][:15], f"{date}T00:00:00"[:15]
            )

    def test_the_example_with_a_leap(self) -> None:
        server = self.directory / "server"
        server.write_text("#!/bin/sh\nsleep 1d\ndate +%F\n")
        server.chmod(0o755)
        self.uses()
        step = load(EXAMPLES / "leap.yml")["jobs"]["leap"]["steps"][-1]
        self.assertIn("\n2038-01-20\n", self.runner.step({"shell": "bash", **step}, {}))


if __name__ == "__main__":
    unittest.main()
