"""The figures of estimates, and the truth with which they are compared."""

import json
import socket
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory

from eigenbench import bandwidth
from eigenbench.bandwidth import (
    ERROR,
    NONE,
    OFF,
    SENT,
    SHARE,
    TIME,
    WITHIN,
    Estimates,
    bandwidth_levels,
    figures,
    reason,
)
from eigenbench.paths import COUNTING, HEADER, PathError, counting, truth_of


def told(found: dict[str, object]) -> dict[str, object]:
    return {"found": found, "cost": {"seconds": 2.0, "bytes": 4_000_000}}


def available(rate: float, low: float, high: float) -> dict[str, object]:
    return {"is": "available", "rate": rate, "low": low, "high": high}


class Figures(unittest.TestCase):
    def test_an_error_is_of_what_was_available_and_of_the_capacity(self) -> None:
        found = available(148e6, 147e6, 149e6)
        kept = figures(told(found), available=150e6, capacity=300e6)
        self.assertAlmostEqual(kept[OFF], 100 * 2 / 150)
        self.assertAlmostEqual(kept[ERROR], -100 * 2 / 300)
        self.assertEqual((kept[NONE], kept[TIME], kept[SENT]), (0.0, 2e9, 4e6))
        # 75 MB would go through in two seconds.
        self.assertAlmostEqual(kept[SHARE], 100 * 4 / 75)

    def test_an_interval_has_the_truth_or_has_it_not(self) -> None:
        for low, high, within in ((147e6, 150e6, 100.0), (147e6, 149e6, 0.0)):
            found = available(148e6, low, high)
            kept = figures(told(found), available=150e6, capacity=300e6)
            self.assertEqual(kept[WITHIN], within)

    def test_what_has_no_number_has_no_error(self) -> None:
        found: dict[str, object] = {"is": "at_least", "rate": 9e6, "limit": "sender"}
        kept = figures(told(found), available=150e6, capacity=300e6)
        self.assertEqual(kept[NONE], 100.0)
        self.assertNotIn(OFF, kept)
        self.assertNotIn(ERROR, kept)
        self.assertNotIn(WITHIN, kept)
        self.assertEqual(reason(told(found)), "no number: sender")

    def test_probes_have_keys_of_their_own(self) -> None:
        probes = Estimates(Path(), Path()).probes
        self.assertEqual(len({it.key for it in probes}), len(probes))
        self.assertEqual(len(probes), 7 * len(bandwidth.PATHS))


class TheTruth(unittest.TestCase):
    def test_it_is_what_the_cross_traffic_has_left_meanwhile(self) -> None:
        def span(way: str, end: int, cross: int) -> dict[str, object]:
            return {"line": "span", "way": way, "to_ns": end, "cross": {"bytes": cross}}

        lines: list[dict[str, object]] = [
            {"line": "path", "from_ns": 0, "forward": {"capacity": 100e6}},
            span("forward", 1_000_000, 0),
            span("back", 1_000_000, 999),
            {"line": "stall", "from_ns": 5, "to_ns": 6},
            span("forward", 2_000_000, 6250),
            span("forward", 3_000_000, 6250),
            span("forward", 4_000_000, 0),
        ]
        truth = truth_of("\n".join(map(json.dumps, lines)))
        # 6250 bytes per millisecond are 50 Mbit/s.
        self.assertAlmostEqual(truth.available(1_000_000, 3_000_000), 50e6)
        self.assertAlmostEqual(truth.available(0, 4_000_000), 75e6)
        self.assertAlmostEqual(truth.available(3_000_000, 4_000_000), 100e6)


class Counters(unittest.TestCase):
    def test_what_comes_between_two_readings_is_counted(self) -> None:
        with (
            counting((*COUNTING, "lo")) as counter,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there,
        ):
            there.bind(("127.0.0.1", 0))
            begin, before = counter.came()
            for _ in range(10):
                there.sendto(bytes(1000), there.getsockname())
            end, after = counter.came()
        self.assertLess(begin, end)
        # With the headers of IP and UDP, but without Ethernet's, which this interface does not
        # have; others may send there, too.
        self.assertGreaterEqual(after - before, 10 * 8 * (1028 - HEADER))

    def test_without_the_interface_there_is_no_count(self) -> None:
        with self.assertRaises(PathError), counting((*COUNTING, "none")):
            pass


class Levels(unittest.TestCase):
    def test_options_stand_behind_the_command(self) -> None:
        with TemporaryDirectory() as folder:
            program = Path(folder) / "program"
            program.write_text("#!/bin/sh\n")
            program.chmod(0o755)
            levels = {it.key: it for it in bandwidth_levels(program, program)}
        command = levels[bandwidth.SYSTEM].command("echo", "measure")
        self.assertEqual(command[:2], ["sh", "-c"])
        self.assertIn("--timing system", command[2])
        self.assertEqual(command[-2:], ["echo", "measure"])

    def test_without_the_programs_nothing_is_measured(self) -> None:
        for level in bandwidth_levels(Path("/nonexistent"), Path("/nonexistent")):
            self.assertEqual(level.absent, "not built")


if __name__ == "__main__":
    unittest.main()
