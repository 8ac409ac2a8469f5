"""How often intervals contain the truth: what is counted, its exact interval, and the verdict."""

import os
import select
import subprocess
import sys
import unittest
from pathlib import Path

from eigenbench import paths
from eigenbench.bandwidth import NONE, SHORT, TIME, WIDTH, WITHIN
from eigenbench.bounds import READINGS
from eigenbench.coverage import CELLS, SATURATIONS, Coverage, outcomes
from eigenbench.levels import Level
from eigenbench.paths import BURSTS, PACKET, TCP, UDP
from eigenbench.samples import Samples
from eigenbench.suites import Gap, Value
from eigenbench.table import suite_table
from eigenbench.targets import Outcome, undecided, verdicts

CELL = next(iter(CELLS))
BY_KEY = {SHORT: Level(SHORT, "regression, 3 s", "measure", ((),))}
# A process that lays a network, says so, and waits to be killed.
LAYS = """
import sys
sys.path.insert(0, sys.argv[1])
from eigenbench.paths import RIGHT, laid
from eigenbench.processes import child
with laid(1500) as network, child(network.there(RIGHT, "sleep", "1000")) as sleep:
    print(network.name(RIGHT), sleep.pid, flush=True)
    sys.stdin.read()
"""


def told(found: dict[str, object]) -> dict[str, object]:
    return {"found": found, "cost": {"seconds": 2.0, "bytes": 4_000_000}}


def covered(hits: int, of: int) -> Samples:
    """As many estimates, of whose intervals so many contain the truth."""
    samples = Samples()
    for number in range(of):
        low = 29e6 if number < hits else 30.5e6
        found = {"is": "available", "rate": 31e6, "low": low, "high": 32e6}
        for outcome in outcomes(CELL, told(found), 30e6, 50e6):
            assert isinstance(outcome, Value)
            samples.add(outcome.probe, SHORT, number, outcome.value)
    return samples


class Outcomes(unittest.TestCase):
    def test_an_interval_is_one_reading_of_whether_it_has_the_truth(self) -> None:
        found = {"is": "available", "rate": 31e6, "low": 29e6, "high": 32e6}
        self.assertEqual(
            list(outcomes(CELL, told(found), available=30e6, capacity=50e6)),
            [
                Value(f"{CELL}/{NONE}", 0.0),
                Value(f"{CELL}/{TIME}", 2e9),
                Value(CELL, 2.0),
                Value(f"{CELL}/{WIDTH}", 3.0),
                Value(f"{CELL}/{WITHIN}", 100.0),
                Value(f"{CELL}/{WITHIN}{READINGS}", 1.0),
            ],
        )

    def test_an_estimate_without_a_number_is_no_reading(self) -> None:
        found: dict[str, object] = {"is": "unknown", "why": "unsteady"}
        self.assertEqual(
            list(outcomes(CELL, told(found), available=30e6, capacity=50e6)),
            [
                Value(f"{CELL}/{NONE}", 100.0),
                Value(f"{CELL}/{TIME}", 2e9),
                Gap(CELL, "no number: unsteady"),
            ],
        )

    def test_each_is_one_of_the_suite_s_probes(self) -> None:
        probes = {probe.key for probe in Coverage(Path()).probes}
        for key in CELLS:
            found = {"is": "available", "rate": 1.0, "low": 1.0, "high": 1.0}
            for outcome in outcomes(key, told(found), 1.0, 50e6):
                self.assertIn(outcome.probe, probes)
        self.assertLessEqual(SATURATIONS.keys(), probes)


class Tables(unittest.TestCase):
    def test_a_cell_has_its_coverage_with_the_exact_interval(self) -> None:
        samples = covered(190, 200)
        for number in range(200, 250):
            samples.add(f"{CELL}/{NONE}", SHORT, number, 100.0)
        rows = suite_table(Coverage(Path()), BY_KEY, samples).splitlines()
        (row,) = (row for row in rows if f"{CELLS[CELL][0]}:" in row)
        # scipy.stats.binomtest(190, 200).proportion_ci() is 0.9100 to 0.9758.
        for cell in "95.0 (91.0 – 97.6)", "20.0", "200":
            self.assertIn(f" {cell} |", row)

    def test_a_cell_without_an_interval_says_why(self) -> None:
        samples = Samples()
        samples.leave_out(CELL, SHORT, "no number: unsteady")
        rows = suite_table(Coverage(Path()), BY_KEY, samples).splitlines()
        (row,) = (row for row in rows if f"{CELLS[CELL][0]}:" in row)
        self.assertIn("no number: unsteady", row)


class Verdicts(unittest.TestCase):
    def judged(self, hits: int, of: int) -> tuple[list[Outcome], bool]:
        """The verdicts on at least 93 % and on at most 97 %, and whether more could decide."""
        probes = {f"{CELL}/{WITHIN}"}
        samples = covered(hits, of)
        found = [verdict.outcome for verdict in verdicts(samples, probes)]
        return found, undecided(samples, probes)

    def test_the_whole_exact_interval_counts(self) -> None:
        for hits, of, lower, upper in (
            (200, 200, Outcome.REACHED, Outcome.MISSED),
            (190, 200, Outcome.UNDECIDED, Outcome.UNDECIDED),
            (160, 200, Outcome.MISSED, Outcome.REACHED),
            (1900, 2000, Outcome.REACHED, Outcome.REACHED),
        ):
            with self.subTest(hits=hits, of=of):
                found, is_open = self.judged(hits, of)
                self.assertEqual(found, [lower, upper])
                self.assertEqual(is_open, Outcome.UNDECIDED in found)


class Traffic(unittest.TestCase):
    def test_rates_are_of_ip_packets(self) -> None:
        for kind, bitrate in (
            (UDP, 20e6 * 1472 / PACKET),
            (BURSTS, 20e6 * 1472 / PACKET),
            (TCP, 20e6 * 1448 / PACKET),
        ):
            command = kind.command(20e6)
            rate, _, burst = command[command.index("-b") + 1].partition("/")
            self.assertEqual(float(rate), round(bitrate))
            self.assertEqual(int(burst), kind.burst)
            self.assertEqual("-u" in command, kind is not TCP)


class Networks(unittest.TestCase):
    def test_after_sigkill_neither_namespaces_nor_their_processes_are_left(
        self,
    ) -> None:
        if os.geteuid() != 0:
            self.skipTest("needs root")
        folder = str(Path(paths.__file__).parent.parent)
        with subprocess.Popen(
            (sys.executable, "-c", LAYS, folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            name, pid = process.stdout.readline().split()
            sleep = os.pidfd_open(int(pid))
            process.kill()
            # What removes the network has the same output, and closes it at its end.
            self.assertEqual(process.stdout.read(), "")
        self.assertFalse(Path("/run/netns", name).exists())
        with os.fdopen(sleep) as ended:
            self.assertTrue(select.select([ended], [], [], 10)[0])


if __name__ == "__main__":
    unittest.main()
