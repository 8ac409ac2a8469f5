"""Medians, deviations and ratios within rounds."""

import random
import unittest
from statistics import median

from eigenbench.stats import (
    bootstrap,
    by_round,
    interval,
    percentile,
    ratios,
    share_interval,
    summarize,
)


class Intervals(unittest.TestCase):
    def test_the_mean_is_known_better_than_one_sample(self) -> None:
        found = interval([49.0, 51.0] * 50)
        self.assertEqual(found.mean, 50.0)
        self.assertAlmostEqual(found.deviation, 1.005, places=3)
        self.assertAlmostEqual(found.confidence, 0.259, places=3)

    def test_nothing_has_no_deviation(self) -> None:
        self.assertEqual(interval([]).deviation, 0.0)


class Rounds(unittest.TestCase):
    def test_a_percentile_of_each_round(self) -> None:
        samples = {(0, 0): 1.0, (0, 1): 3.0, (1, 0): 5.0}
        self.assertEqual(by_round(samples, 100), {(0, 0): 3.0, (1, 0): 5.0})


class Summaries(unittest.TestCase):
    def test_nothing_has_no_summary(self) -> None:
        self.assertIsNone(summarize([]))

    def test_one_sample_is_its_own_middle(self) -> None:
        summary = summarize([7.0])
        assert summary is not None
        self.assertEqual((summary.n, summary.median, summary.mad), (1, 7.0, 0.0))

    def test_one_outlier_moves_neither_median_nor_mad(self) -> None:
        summary = summarize([10.0, 11.0, 9.0, 10.0, 5000.0])
        assert summary is not None
        self.assertEqual((summary.median, summary.mad), (10.0, 1.0))
        self.assertEqual((summary.low, summary.high), (9.0, 5000.0))

    def test_an_even_number_takes_the_mean_of_the_middle_two(self) -> None:
        summary = summarize([1.0, 2.0, 4.0, 8.0])
        assert summary is not None
        self.assertEqual((summary.median, summary.mad), (3.0, 1.5))


class Percentiles(unittest.TestCase):
    def test_nothing_has_no_percentile(self) -> None:
        self.assertIsNone(percentile([], 95))

    def test_it_is_one_of_the_samples(self) -> None:
        samples = [float(number) for number in range(40, 0, -1)]
        self.assertEqual(percentile(samples, 95), 38.0)
        self.assertEqual(percentile(samples, 100), 40.0)
        self.assertEqual(percentile(samples[:1], 95), 40.0)


class Ratios(unittest.TestCase):
    def test_rounds_are_paired(self) -> None:
        # The second round was twice as slow at both levels.
        samples = {(0, 0): 3.0, (1, 0): 6.0}
        found = ratios(samples, {(0, 0): 2.0, (1, 0): 4.0})
        self.assertEqual(found, {(0, 0): 1.5, (1, 0): 1.5})

    def test_a_round_without_a_partner_does_not_count(self) -> None:
        samples = {(0, 0): 3.0, (2, 0): 9.0}
        found = ratios(samples, {(1, 0): 2.0, (2, 0): 3.0})
        self.assertEqual(found, {(2, 0): 3.0})

    def test_nothing_is_divided_by_zero(self) -> None:
        self.assertEqual(ratios({(0, 0): 3.0}, {(0, 0): 0.0}), {})


class Bootstrap(unittest.TestCase):
    def test_the_interval_of_a_median_covers_it_as_often_as_it_says(self) -> None:
        lots = random.Random(1)
        inside = 0
        for _ in range(200):
            rounds = {(number, 0): lots.gauss(0.0, 1.0) for number in range(9)}
            found = bootstrap(rounds, median)
            assert found is not None
            inside += found[0] <= 0.0 <= found[1]
        self.assertGreaterEqual(inside, 180)

    def test_rounds_are_drawn_whole(self) -> None:
        # A thousand values of three rounds count as three, not as a thousand.
        rounds = {(at % 3, at): float(at % 3) for at in range(1000)}
        self.assertEqual(bootstrap(rounds, median), (0.0, 2.0))

    def test_of_too_few_rounds_nothing_is_known(self) -> None:
        self.assertIsNone(bootstrap({(0, 0): 1.0, (1, 0): 1.0}, median))


class Shares(unittest.TestCase):
    def test_the_interval_is_that_of_clopper_and_pearson(self) -> None:
        # From scipy.stats.binomtest(hits, of).proportion_ci(0.95, "exact").
        for hits, of, low, high in (
            (0, 168, 0.0, 0.0217183),
            (1, 2_000, 0.00001265882, 0.00278264),
            (300, 1_000, 0.2717211, 0.3294617),
            (168, 168, 0.9782816, 1.0),
        ):
            found = share_interval(hits, of)
            self.assertAlmostEqual(found[0], low, places=6)
            self.assertAlmostEqual(found[1], high, places=6)

    def test_many_readings_are_quickly_counted(self) -> None:
        low, high = share_interval(500_000, 1_000_000)
        self.assertTrue(0.4990 < low < 0.4991 and 0.5009 < high < 0.5010)

    def test_of_nothing_nothing_is_known(self) -> None:
        self.assertEqual(share_interval(0, 0), (0.0, 1.0))


if __name__ == "__main__":
    unittest.main()
