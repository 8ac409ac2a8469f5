"""Columns: ratios with other levels, and percentiles."""

import unittest

from eigenbench import levels
from eigenbench.columns import Added, Beside, Mean, Percentile, Times
from eigenbench.samples import MILLISECONDS, PERCENT, Probe, Samples

PROBE = Probe("stop", "`stop`", MILLISECONDS)


class Columns(unittest.TestCase):
    def test_each_level_has_its_own_base_or_none(self) -> None:
        column = Times("× private", {levels.NAMED_RATE: levels.RATE_10})
        samples = Samples()
        samples.add(PROBE.key, levels.RATE_10, 0, 2.0)
        samples.add(PROBE.key, levels.NAMED_RATE, 0, 3.0)
        self.assertEqual(column.figure(PROBE, levels.NAMED_RATE, samples), "1.50")
        self.assertEqual(column.figure(PROBE, levels.RATE_10, samples), "–")

    def test_a_percentile_is_shown_in_the_probes_unit(self) -> None:
        column = Percentile(95)
        samples = Samples()
        for number in range(20):
            samples.add(PROBE.key, levels.ATTACHED, number, (number + 1) * 1e6)
        self.assertEqual(column.heading, "p95")
        self.assertEqual(column.figure(PROBE, levels.ATTACHED, samples), "19.0")

    def test_what_stands_beside_has_a_longer_key(self) -> None:
        samples = Samples()
        for number, value in enumerate((2e3, 3e3, 9e3)):
            samples.add(f"{PROBE.key}/mean", levels.HOST, number, value)
        beside = Beside("mean", "/mean", scale=1e3)
        self.assertEqual(beside.figure(PROBE, levels.HOST, samples), "3.00")
        highest = Beside("max", "/mean", highest=True, scale=1e3)
        self.assertEqual(highest.figure(PROBE, levels.HOST, samples), "9.00")
        self.assertEqual(beside.figure(PROBE, levels.RATE_10, samples), "–")

    def test_the_mean_of_what_is_so_or_not_is_how_often_it_is(self) -> None:
        samples = Samples()
        for number, value in enumerate((100.0, 100.0, 0.0, 100.0)):
            samples.add("within", levels.HOST, number, value)
        probe = Probe("within", "within", PERCENT)
        self.assertEqual(Mean().figure(probe, levels.HOST, samples), "75.0")
        self.assertEqual(Mean().figure(probe, levels.RATE_10, samples), "–")

    def test_what_is_added_has_a_sign(self) -> None:
        column = Added("added", levels.CONTAINER)
        samples = Samples()
        for number, (bare, wrapped) in enumerate(((40e6, 51e6), (90e6, 88.5e6))):
            samples.add(PROBE.key, levels.CONTAINER, number, bare)
            samples.add(PROBE.key, levels.CONTAINER_DATE, number, wrapped)
        self.assertEqual(column.figure(PROBE, levels.CONTAINER_DATE, samples), "+4.8")
        self.assertEqual(column.figure(PROBE, levels.CONTAINER_RATE, samples), "–")


if __name__ == "__main__":
    unittest.main()
