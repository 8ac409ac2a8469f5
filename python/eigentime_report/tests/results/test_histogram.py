"""Medians of readings by a counter that goes in steps."""

import numpy as np
import pytest

from eigentime_report.results.cell import Histogram, Part, spans


def histogram(ticks: list[int], counts: list[int], step: int, empty: float = 0.0) -> Histogram:
    """Of a counter of one tick a nanosecond."""
    values = np.array(ticks)
    low, high = spans(values, step)
    each = np.repeat(values, counts) - empty
    part = Part(0, len(each), each.mean(), each.std(), each.min(), each.max())
    blocks = np.zeros(len(values), dtype=np.int32)
    return Histogram(low - empty, high - empty, np.array(counts), blocks, [part])


def test_the_median_is_between_the_steps() -> None:
    # Steps of 10: a quarter of the values at 20, three at 30.
    it = histogram([20, 30], [100, 300], 10)
    assert it.median == pytest.approx(25 + 10 / 3)
    assert (it.count, it.mean, it.minimum, it.maximum) == (400, 27.5, 20, 30)
    assert it.sd == pytest.approx(np.sqrt(18.75))
    # What moves some of the values by a step moves the median by a part of it.
    assert histogram([20, 30], [200, 200], 10).median == pytest.approx(25)
    assert histogram([52, 78], [1, 3], 26).median == pytest.approx(65 + 26 / 3)


def test_the_mad_is_between_the_steps_too() -> None:
    # Evenly from 15 to 35, the median in the middle: half are nearer than 5.
    assert histogram([20, 30], [200, 200], 10).mad == pytest.approx(5)
    # A single step: half are within a quarter of it.
    it = histogram([20], [7], 10)
    assert [it.median, it.mad] == pytest.approx([20, 2.5])


def test_what_was_not_seen_is_no_quantile() -> None:
    it = histogram([20, 30], [100, 300], 10)
    assert it.quantile(1.0) == 30
    assert it.quantile(0.0) == 20
    assert it.quantile(0.5) == it.median


def test_an_empty_bracket_is_subtracted() -> None:
    one, other = (histogram([20, 30], [3, 4], 10), histogram([20, 30], [3, 4], 10, empty=12.5))
    assert other.median == pytest.approx(one.median - 12.5)
    assert other.mad == pytest.approx(one.mad)


def test_fine_steps_give_what_numpy_gives() -> None:
    lots = np.random.default_rng(5)
    values = np.rint(lots.lognormal(3, 0.6, 50_000) * 10).astype(int)
    ticks, counts = np.unique(values, return_counts=True)
    it = histogram(list(ticks), list(counts), 1)
    median = np.median(values)
    assert it.median == pytest.approx(median, abs=1)
    assert it.mad == pytest.approx(np.median(abs(values - median)), abs=1)
    for part in (0.01, 0.9, 0.99, 0.999):
        assert it.quantile(part) == pytest.approx(np.quantile(values, part), abs=1)


def test_great_numbers_share_buckets() -> None:
    # Eleven binary digits: from 2048 on in pairs, from 2^20 on by 1024.
    low, high = spans(np.array([0, 1, 2047, 2048, 1 << 20]), 1)
    assert list(low) == [-0.5, 0.5, 2046.5, 2047.5, (1 << 20) - 0.5]
    assert list(high - low) == [1, 1, 1, 2, 1024]


def test_of_nothing_between_two_buckets_the_lower_end_is_taken() -> None:
    it = histogram([20, 90], [50, 50], 10)
    assert it.median == pytest.approx(25)
    assert it.quantile(0.51) > 85
