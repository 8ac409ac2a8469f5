"""The output of the programs that wake up and compare clocks becomes values."""

import json
import unittest
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory

from eigenbench import measuring
from eigenbench.levels import Level
from eigenbench.precision import Failed, Program
from eigenbench.processes import Deadline
from eigenbench.suites import Failure, Outcome, Suite, Value

from tests.test_precision import program

RTLA = """\
# RTLA timerlat histogram
# Time unit is microseconds (us)
# Duration:   0 00:00:02
Index   IRQ-001   Thr-001
0          1990         0
1             8      1500
17            2       498
over:         0         2
count:     2000      2000
min:          0         1
avg:          0         3
max:         17      1200
"""


def probe(*records: object) -> AbstractContextManager[Program]:
    """A probe that prints these records."""
    lines = "\n".join(json.dumps(record) for record in records)
    return program(f"cat <<'END'\n{lines}\nEND")


def measured(suite: Suite, key: str, wanted: Sequence[str]) -> list[Outcome]:
    """A round at one level."""
    return list(suite.measure(Level(key, "", "", ((),)), wanted, Deadline(10)))


def by_probe(outcomes: Sequence[Outcome]) -> dict[str, list[float]]:
    """The values of each probe."""
    found: dict[str, list[float]] = {}
    for outcome in outcomes:
        assert isinstance(outcome, Value), outcome
        found.setdefault(outcome.probe, []).append(outcome.value)
    return found


class ProbeLoops(unittest.TestCase):
    RECORDS = (
        {"kind": "began"},
        *(
            {
                "kind": "calls",
                "metric": metric,
                "elapsed_ns": elapsed,
                "calls": 100,
                "call_ns": net,
            }
            for metric, elapsed, net in (
                ("vdso_clock_gettime_monotonic", 2_500, 24.0),
                ("clock_gettime_monotonic", 17_000, 168.0),
                ("vdso_clock_gettime_monotonic", 2_200, 21.0),
            )
        ),
    )

    def test_the_best_record_counts_with_and_without_the_loop(self) -> None:
        compiled = measuring.Programs(Path("/none"), 1e9)
        for level, expected in (measuring.GROSS, 22.0), (measuring.NET, 21.0):
            with self.subTest(level), probe(*self.RECORDS) as there:
                suite = measuring.Loops(there, compiled)
                found = measured(suite, level, ["loop/vdso"])
                self.assertEqual(found, [Value("loop/vdso", expected)])

    def test_one_start_has_both_levels(self) -> None:
        compiled = measuring.Programs(Path("/none"), 1e9)
        with probe(*self.RECORDS) as there:
            suite = measuring.Loops(there, compiled)
            gross = measured(suite, measuring.GROSS, ["loop/raw"])
            there.file.unlink()
            net = measured(suite, measuring.NET, ["loop/raw"])
        self.assertEqual(gross, [Value("loop/raw", 170.0)])
        self.assertEqual(net, [Value("loop/raw", 168.0)])

    def test_a_probe_without_records_fails(self) -> None:
        with probe({"kind": "began"}) as there:
            suite = measuring.Loops(there, measuring.Programs(Path("/none"), 1e9))
            found = measured(suite, measuring.NET, ["loop/raw"])
            self.assertEqual(found, [Failure("loop/raw", "no record")])


class WakeUps(unittest.TestCase):
    def test_the_probe_keeps_everything(self) -> None:
        late = [5_000] * 499 + [2_000_000]
        record = {"kind": "sleeps", "miss_ns": late, "missed": [0] * 499 + [1]}
        with probe(record) as there:
            suite = measuring.Wakes(there, quick=True)
            keys = [probe.key for probe in suite.probes]
            found = by_probe(measured(suite, measuring.OURS, keys))
        self.assertEqual(found["wake/1000"], late)
        self.assertEqual(found["wake/1000/kept"], [100.0])
        self.assertEqual(found["wake/1000/max"], [2_000_000])
        self.assertEqual(found["wake/1000/missed"], [1])

    def test_cyclictest_says_less_than_it_saw(self) -> None:
        thread = {"histogram": {"13": 2, "20": 1}, "cycles": 4, "max": 1984}
        found = by_probe(list(measuring.cyclictest_outcomes({"thread": {"0": thread}})))
        self.assertEqual(found["wake/1000"], [13_000, 13_000, 20_000])
        self.assertEqual(found["wake/1000/kept"], [75.0])
        self.assertEqual(found["wake/1000/max"], [1_984_000])

    def test_of_rtla_the_thread_counts(self) -> None:
        found = by_probe(list(measuring.rtla_outcomes(RTLA)))
        self.assertEqual(len(found["wake/1000"]), 1_998)
        self.assertAlmostEqual(found["wake/1000/kept"][0], 99.9)
        self.assertEqual(found["wake/1000/max"], [1_200_000])

    def test_rtla_without_a_histogram_has_failed(self) -> None:
        with self.assertRaises(Failed):
            list(measuring.rtla_outcomes("nothing\n"))


class Warped(unittest.TestCase):
    def test_pairs_of_processors_count_and_single_ones_do_not(self) -> None:
        def record(clock: str, cpus: list[int], smallest: float) -> dict[str, object]:
            return {
                "kind": "warp",
                "clock": clock,
                "cpus": cpus,
                "readings": 10,
                "backwards": 0,
                "smallest_visible_ns": smallest,
            }

        records = [
            record("tsc", [0, 0], 1),
            record("tsc", [0, 1], 70),
            record("tsc", [0, 2], 90),
        ]
        outcomes = list(measuring.warp_outcomes(records))
        values = by_probe([it for it in outcomes if isinstance(it, Value)])
        self.assertEqual(values["warp/tsc"], [80])
        self.assertEqual(values["warp/tsc/readings"], [20])
        failed = {it.probe for it in outcomes if isinstance(it, Failure)}
        self.assertIn("warp/CLOCK_MONOTONIC", failed)


class Absent(unittest.TestCase):
    def test_a_kernel_without_the_tracer_is_said_to_be_one(self) -> None:
        with TemporaryDirectory() as folder:
            tracers = Path(folder) / "available_tracers"
            tracers.write_text("nop function\n")
            self.assertNotEqual(measuring._no_rtla(tracers), "")

    def test_what_is_not_built_is_said_to_be_so(self) -> None:
        there = measuring.program(Path("/none/eigentime-probe"))
        absent = {
            level.key: level.absent for level in measuring.measuring_levels(there)
        }
        self.assertEqual(absent[measuring.WARPS], "not built")
