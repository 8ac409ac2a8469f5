"""The cost of a report, and the reason where there is none."""

import unittest
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from eigenbench import reporting
from eigenbench.levels import Level
from eigenbench.processes import Deadline
from eigenbench.reporting import LARGE, SMALL, Intervals, Reports, reporting_levels
from eigenbench.suites import Failure, Outcome, Suite, Value

# It certainly needs this beside the interpreter and the shell.
HELD_MIB = 64
HOLD = f"""
import sys, time
assert sys.argv[1] == {str(reporting.KEPT)!r} and sys.argv[2] == "-o", sys.argv
held = bytearray({HELD_MIB} << 20)
time.sleep(0.3)
"""


@contextmanager
def script(text: str, interpreter: str = "sh") -> Iterator[Path]:
    """A program that is a script."""
    with TemporaryDirectory() as folder:
        program = Path(folder) / "program"
        program.write_text(f"#!/usr/bin/env {interpreter}\n{text}\n")
        program.chmod(0o755)
        yield program


def measured(suite: Suite, program: Path, wanted: Sequence[str]) -> list[Outcome]:
    """A round with this program."""
    level = Level("here", "here", "", ((str(program),),))
    return list(suite.measure(level, wanted, Deadline(20)))


class WholeReports(unittest.TestCase):
    WANTED = (f"{SMALL}/wall", f"{SMALL}/cpu", f"{SMALL}/peak")

    def test_time_and_memory_are_those_of_the_command(self) -> None:
        with script(HOLD, "python3") as program:
            outcomes = measured(Reports(program.parent), program, self.WANTED)
        values = {it.probe: it.value for it in outcomes if isinstance(it, Value)}
        self.assertEqual(set(values), set(self.WANTED))
        self.assertGreater(values[f"{SMALL}/wall"], 0.3e9)
        # It sleeps for most of its time.
        self.assertLess(values[f"{SMALL}/cpu"], values[f"{SMALL}/wall"])
        self.assertGreater(values[f"{SMALL}/peak"], HELD_MIB * 2**20)
        self.assertLess(values[f"{SMALL}/peak"], 4 * HELD_MIB * 2**20)

    def test_a_report_that_fails_has_no_figures(self) -> None:
        with script("echo 'no such folder' >&2; exit 2") as program:
            outcomes = measured(Reports(program.parent), program, self.WANTED[:2])
        self.assertEqual(
            outcomes, [Failure(probe, "no such folder") for probe in self.WANTED[:2]]
        )

    def test_without_the_large_folder_it_says_why(self) -> None:
        with script("exit 0") as program, TemporaryDirectory() as folder:
            gone = Path(folder) / "gone"
            before, reporting.PYTHON = reporting.PYTHON, gone
            try:
                [outcome] = measured(Reports(gone), program, (f"{LARGE}/wall",))
            finally:
                reporting.PYTHON = before
        assert isinstance(outcome, Failure)
        self.assertIn("no folder to report on", outcome.reason)


class QuantileIntervals(unittest.TestCase):
    WANTED = ("interval/0.5", "interval/0.99")

    def test_each_quantile_has_its_own_seconds(self) -> None:
        with script('[ "$*" = "0.5 0.99" ] && echo "[0.25, 2.0]"') as program:
            outcomes = measured(Intervals(), program, self.WANTED)
        self.assertEqual(
            outcomes, [Value("interval/0.5", 0.25e9), Value("interval/0.99", 2e9)]
        )

    def test_other_ends_are_no_interval(self) -> None:
        with script("echo 'scipy: 1.0 to 2.0, and not (1.5, 2.5)' >&2; exit 1") as it:
            outcomes = measured(Intervals(), it, self.WANTED[:1])
        self.assertEqual(
            outcomes,
            [Failure("interval/0.5", "scipy: 1.0 to 2.0, and not (1.5, 2.5)")],
        )


class Levels(unittest.TestCase):
    def test_suites_have_their_levels(self) -> None:
        known = {level.key for level in reporting_levels(Path("/nonexistent"))}
        self.assertEqual(known, {*Reports(Path()).levels, *Intervals().levels})

    def test_what_is_not_built_is_not_measured(self) -> None:
        for level in reporting_levels(Path("/nonexistent")):
            self.assertEqual(level.absent, "not built")


if __name__ == "__main__":
    unittest.main()
