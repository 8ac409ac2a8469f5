"""Columns: ratios with other levels, and percentiles."""

import unittest

from eigenbench import levels
from eigenbench.columns import Percentile, Times
from eigenbench.samples import MILLISECONDS, Probe, Samples

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


if __name__ == "__main__":
    unittest.main()
