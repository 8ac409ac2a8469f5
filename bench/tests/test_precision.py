"""Records of the Rust program become values of their own level and probe."""

import io
import os
import re
import sys
import unittest
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import drift as script
from eigenbench import bounds, drift, events, pauses, reads, sleeps
from eigenbench.levels import Level
from eigenbench.long_sleeps import SCRIPT, LongSleep, begun, long_sleeps
from eigenbench.precision import (
    SOURCE,
    Failed,
    Load,
    Program,
    Shares,
    loaded,
    peers,
)
from eigenbench.processes import Deadline
from eigenbench.suites import Failure, Outcome, Suite, Value

# Runs until it is ended, as a load does.
FOR_EVER = 'echo $$ >> "$0.pids"; exec sleep 600'


@contextmanager
def program(script: str) -> Iterator[Program]:
    """A shell script in place of the program."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "precision"
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        yield Program(file)


def measured(suite: Suite, key: str, wanted: Sequence[str]) -> list[Outcome]:
    """A round at one level."""
    return list(suite.measure(Level(key, "", "", ((),)), wanted, Deadline(10)))


class Programs(unittest.TestCase):
    def test_what_is_no_record_is_passed_over(self) -> None:
        with program("echo hello; echo '{\"a\": 1}'") as there:
            self.assertEqual(there.records([], Deadline(10)), [{"a": 1}])

    def test_a_failure_says_why(self) -> None:
        with (
            program("echo broken >&2; exit 1") as there,
            self.assertRaisesRegex(Failed, "broken"),
        ):
            there.records([], Deadline(10))

    def test_several_at_once_keep_their_records_apart(self) -> None:
        with program('echo "{\\"number\\": $1}"') as there:
            found = there.together([["1"], ["2"]], Deadline(10))
        self.assertEqual(found, [[{"number": 1}], [{"number": 2}]])

    def test_one_of_several_that_hangs_is_ended(self) -> None:
        with program(FOR_EVER) as there, self.assertRaisesRegex(Failed, "timed out"):
            there.together([["1"], ["2"]], Deadline(0.3))

    def test_the_manifest_pins_the_peers(self) -> None:
        self.assertEqual(
            sorted(peers()), ["fastant", "minstant", "quanta", "spin_sleep"]
        )


class Loads(unittest.TestCase):
    LOAD = Load("cpu", "CPU load", "cpu")

    def test_a_load_is_gone_afterwards_and_its_folder_too(self) -> None:
        with program(FOR_EVER) as there:
            with self.assertRaises(KeyboardInterrupt), loaded(there, self.LOAD):
                raise KeyboardInterrupt
            pids = there.file.with_name("precision.pids").read_text().split()
            self.assertEqual(len(pids), len(os.sched_getaffinity(0)))
            self.assertFalse([pid for pid in pids if Path("/proc", pid).exists()])
            self.assertEqual(list(there.file.parent.glob("eigenbench-*")), [])

    def test_a_load_that_ends_by_itself_is_none(self) -> None:
        with (
            program("exit 0") as there,
            self.assertRaisesRegex(Failed, "ended by itself"),
            loaded(there, self.LOAD),
        ):
            pass


class Sharing(unittest.TestCase):
    def test_one_start_serves_each_level_once(self) -> None:
        starts: list[int] = []

        def begin() -> dict[str, list[Outcome]]:
            starts.append(1)
            return {key: [Value("probe", float(len(starts)))] for key in "ab"}

        shares = Shares()
        taken = [list(shares.take(key, ("probe",), begin)) for key in "abab"]
        values = [outcome.value for (outcome,) in taken if isinstance(outcome, Value)]
        self.assertEqual((values, len(starts)), ([1.0, 1.0, 2.0, 2.0], 2))

    def test_what_is_not_wanted_any_more_is_left_out(self) -> None:
        begun = {"a": [Value("probe", 1.0)]}
        self.assertEqual(list(Shares().take("a", (), lambda: begun)), [])


class Names(unittest.TestCase):
    """The harness expects the names that the program uses."""

    def names(self, file: str, pattern: str) -> set[str]:
        return set(re.findall(pattern, (SOURCE / "src" / file).read_text()))

    def keys(self, rows: Sequence[tuple[str, str, str]]) -> set[str]:
        return {key for key, *_ in rows}

    def test_clocks(self) -> None:
        found = self.names("reads.rs", r'reader\("([\w-]+)"')
        self.assertEqual(found, self.keys(reads.ROWS))
        found = self.names("clocks.rs", r'Subject::new\("([\w-]+)"')
        self.assertEqual(found, self.keys(bounds.RATE_ROWS))

    def test_ways_of_sleeping(self) -> None:
        found = self.names("sleeps/ways.rs", r'plain\(\s*"([\w-]+)"')
        self.assertEqual(found, self.keys(sleeps.ROWS))

    def test_sources_of_events(self) -> None:
        found = self.names("events/sources.rs", r'name: "([\w-]+)"')
        self.assertEqual(found, self.keys(events.ROWS))

    def test_keys_of_probes_are_unlike_in_all_suites(self) -> None:
        nowhere = Program(Path())
        suites: list[Suite] = [
            reads.Reads(nowhere),
            bounds.Rates(nowhere, quick=True),
            bounds.Bounds(nowhere, quick=True),
            pauses.Pauses(nowhere, True, long_sleeps(nowhere, quick=True)),
            pauses.Disturbances(nowhere, quick=True),
            sleeps.Sleeps(nowhere, quick=True),
            events.Events(nowhere, quick=True),
        ]
        keys = [probe.key for suite in suites for probe in suite.probes]
        self.assertEqual(len(keys), len(set(keys)))


class Reading(unittest.TestCase):
    def test_the_median_of_the_batches_counts(self) -> None:
        with program('echo \'{"clock": "quanta", "nanos": [9, 50, 8]}\'') as there:
            found = measured(reads.Reads(there), reads.QUANTA, (reads.PROBE,))
        self.assertEqual(found, [Value(reads.PROBE, 9)])

    def test_a_program_that_fails_fails_each_clock(self) -> None:
        with program("echo no such CPU >&2; exit 1") as there:
            found = measured(reads.Reads(there), reads.NOW, (reads.PROBE,))
        self.assertEqual(found, [Failure(reads.PROBE, "no such CPU")])


class Bounding(unittest.TestCase):
    def test_only_what_is_proved_is_outside(self) -> None:
        readings = [
            {"least": 0, "most": 20, "bound": 30, "width": 40},
            {"least": 0, "most": 35, "bound": 30, "width": 40},
            {"least": 31, "most": 71, "bound": 30, "width": 40},
            {"least": 0, "most": 0, "bound": None, "width": 40},
        ]
        found = {it.probe: it.value for it in bounds.judged("b", readings)}
        self.assertEqual(found["b"], 50.0)
        self.assertEqual(found["b/unsure"], 75.0)
        self.assertEqual(found["b/bound"], 30)

    def test_no_readings_are_no_success(self) -> None:
        self.assertEqual(list(bounds.judged("b", [])), [Failure("b", "no readings")])


class Pausing(unittest.TestCase):
    def outcomes(self, least: int) -> dict[str, float]:
        reading = f'{{"least": {least}, "most": 40, "bound": 30, "width": 40}}'
        # Reports that it is ready, and continues when its input is closed.
        script = f"echo '{{}}'; cat > /dev/null; echo '{{\"readings\": [{reading}]}}'"
        with (
            program(script) as there,
            mock.patch.object(pauses, "QUICK_PAUSES_S", (0.001,)),
        ):
            suite = pauses.Pauses(there, quick=True)
            wanted = [probe.key for probe in suite.probes]
            found = measured(suite, bounds.BOUND_LEVEL, wanted)
        return {it.probe: it.value for it in found if isinstance(it, Value)}

    def test_the_worst_cell_counts(self) -> None:
        worst = f"{pauses.PREFIX}/{pauses.WORST}"
        cell = f"{pauses.PREFIX}/0.001s-old-upkeep/{pauses.OUTSIDE}"
        for least, outside in [(30, 0.0), (31, 100.0)]:
            found = self.outcomes(least)
            self.assertEqual((found[cell], found[worst]), (outside, outside))
            self.assertEqual(found[f"{cell}/readings"], pauses.PROCESSES)
            self.assertEqual(found[f"{worst}/readings"], pauses.PROCESSES)
            every = f"{pauses.PREFIX}/{bounds.ALL}"
            self.assertEqual(found[every], outside)
            cells = [key for key in found if key.endswith(f"/{pauses.OUTSIDE}")]
            self.assertEqual(found[f"{every}/readings"], len(cells) * pauses.PROCESSES)

    def test_a_cell_of_which_nothing_is_known_is_the_worst(self) -> None:
        reading = {"least": 0, "most": 71, "bound": 30, "width": 40}
        outcomes = pauses.outcomes_of("p", {"full": [reading], "empty": []})
        found = {it.probe: it.value for it in outcomes if isinstance(it, Value)}
        self.assertEqual((found["p/all"], found["p/all/readings"]), (0.0, 1))
        self.assertEqual((found["p/worst"], found["p/worst/readings"]), (0.0, 0))

    def test_a_process_that_says_nothing_is_a_failure(self) -> None:
        with program("exit 0") as there:
            found = measured(
                pauses.Pauses(there, quick=True), bounds.BOUND_LEVEL, ("pause/worst",)
            )
        why = "a process ended before its pause"
        self.assertEqual(found, [Failure("pause/worst", why)])

    def test_sleeps_beside_them_are_held_against_the_kernel_s_clock(self) -> None:
        def sleep(key: str, said: str, needed: str = "/") -> LongSleep:
            return LongSleep(key, key, ("sh", "-c", said), Path(needed))

        sleeps = (
            sleep("well", "echo '{\"misses\": [900, 70]}'"),
            sleep("early", "echo '{\"misses\": [900, -1]}'"),
            sleep("broken", "exit 3"),
            sleep("absent", "", "/nonexistent/lib.so"),
        )
        with begun(sleeps) as sleeping:
            found = list(sleeping.outcomes(Deadline(10)))
        values = {it.probe: it.value for it in found if isinstance(it, Value)}
        reasons = {it.probe: it.reason for it in found if isinstance(it, Failure)}
        self.assertEqual(values["long sleep/well"], 0.0)
        self.assertEqual(values["long sleep/well/first"], 70)
        self.assertEqual(values["long sleep/early"], 50.0)
        self.assertEqual(values["long sleep/early/readings"], 2)
        self.assertEqual(reasons["long sleep/broken"], "exit status 3")
        self.assertEqual(reasons["long sleep/absent"], "no lib.so")
        keys = {probe.key for it in sleeps for probe in it.probes}
        self.assertEqual(keys, values.keys() | reasons.keys())

    def test_the_program_that_sleeps_says_how_late_it_was(self) -> None:
        command = (sys.executable, str(SCRIPT), "libc", "0.001")
        with begun((LongSleep("short", "", command, SCRIPT),)) as sleeping:
            early, number, _ = sleeping.outcomes(Deadline(10))
        self.assertEqual(early, Value("long sleep/short", 0.0))
        self.assertEqual(number, Value("long sleep/short/readings", 16))

    def test_only_what_lasts_long_enough_is_stopped(self) -> None:
        for quick in True, False:
            cells = pauses.Pauses(Program(Path()), quick).cells
            self.assertTrue(all(it.seconds >= 1 for it in cells if it.stopped))
            self.assertEqual(any(it.seconds > 60 for it in cells), not quick)


class Sleeping(unittest.TestCase):
    def test_misses_and_shares_are_values_of_their_own(self) -> None:
        record = {"misses": [70, -5], "cpu": [4.0], "reason": ""}
        self.assertEqual(
            list(sleeps.outcomes_of(record, "s")),
            [Value("s", 70, 0), Value("s", -5, 1), Value(f"s{sleeps.CPU}", 4.0)],
        )

    def test_what_is_not_permitted_says_so(self) -> None:
        record = {"misses": [], "cpu": [], "reason": "SCHED_FIFO: no"}
        found = list(sleeps.outcomes_of(record, "s"))
        self.assertEqual(
            found,
            [
                Failure("s", "SCHED_FIFO: no"),
                Failure(f"s{sleeps.CPU}", "SCHED_FIFO: no"),
            ],
        )


class Ticking(unittest.TestCase):
    def test_flagged_intervals_are_in_all_figures_but_one(self) -> None:
        record = {
            "intervals": [50_000.0, 50_010.0, 90_000.0, 10_000.0, 49_990.0],
            "preempted": [2],
            "stopped": [],
            "stolen": [2],
            "missed": 1,
            "reason": "",
        }
        outcomes = events.outcomes_of(record, "e", 50_000.0)
        found = {it.probe: it.value for it in outcomes if isinstance(it, Value)}
        self.assertEqual(found["e/off100"], 40_000.0)
        self.assertEqual((found["e/flagged"], found["e/missed"]), (1, 1))
        self.assertAlmostEqual(found["e/kept"], 10.0)
        self.assertGreater(found["e"], 10_000.0)


class Notes(unittest.TestCase):
    def test_the_figures_are_those_of_the_run(self) -> None:
        nowhere = Program(Path())
        for quick, said in [(False, "4,500 intervals"), (True, "450 intervals")]:
            self.assertTrue(events.Events(nowhere, quick).note.startswith(said))
        for quick, said in [(False, "after 4 seconds"), (True, "after 2 seconds")]:
            self.assertIn(said, bounds.Rates(nowhere, quick).note)


class Drifting(unittest.TestCase):
    LOOK = (
        '{"seconds": 2.0, "ahead": {"quanta": -4000}, "held": false, "trust": "all",'
        ' "reading": {"least": 9, "most": 30, "bound": 5, "width": 20}}'
    )

    def test_a_drift_is_a_rate(self) -> None:
        with program(f"echo '{self.LOOK}'") as there:
            result = drift.summed(there.records([], Deadline(10)))
        self.assertEqual(result["clocks"]["quanta"]["ppm"], -2.0)
        self.assertEqual((result["broken"], result["count"]), (1, 1))

    def test_the_script_fails_when_a_bound_is_broken(self) -> None:
        arguments = ["drift.py", "--seconds", "2"]
        with (
            program(f"echo '{self.LOOK}'") as there,
            mock.patch.object(script.precision, "build", return_value=there),
            mock.patch.object(sys, "argv", arguments),
            mock.patch.object(script.signal, "signal"),
            redirect_stdout(io.StringIO()) as out,
        ):
            status = script.main()
        self.assertEqual(status, 3)
        self.assertIn("held at 0 of 1 looks", out.getvalue())
        self.assertIn("| quanta |", out.getvalue())

    def test_no_looks_are_no_success(self) -> None:
        with (
            program("true") as there,
            mock.patch.object(script.precision, "build", return_value=there),
            mock.patch.object(sys, "argv", ["drift.py"]),
            mock.patch.object(script.signal, "signal"),
            redirect_stderr(io.StringIO()) as said,
        ):
            self.assertEqual(script.main(), 1)
        self.assertIn("no time for a look", said.getvalue())


if __name__ == "__main__":
    unittest.main()
