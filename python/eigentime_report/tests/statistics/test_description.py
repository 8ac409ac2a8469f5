"""Descriptions, outliers and bootstrap intervals, of histograms as if each value were written out."""

import time
from math import ceil
from typing import Any

import numpy as np
import pytest
from scipy import stats

from eigentime_report.statistics import (
    describe,
    mean_interval,
    outliers,
    quantile_interval,
    quantile_intervals,
)
from eigentime_report.statistics.intervals import Ordered, quantile_draws


def test_histograms_are_described_like_their_values(sound: Any) -> None:
    generator = np.random.default_rng(1)
    values = generator.integers(-5, 60, 40).astype(float)
    counts = generator.integers(0, 300, 40)
    written_out = np.repeat(values, counts)
    found, expected = sound(describe(values, counts)), describe(written_out)
    for key in ("n", "median", "mad", "half_iqr", "minimum", "maximum", "quantiles"):
        assert getattr(found, key) == getattr(expected, key), key
    for key in ("mean", "sd", "sd_uncorrected"):
        assert getattr(found, key) == pytest.approx(getattr(expected, key)), key
    for q in (0, 0.001, 0.25, 0.5, 0.77, 0.999, 1):
        assert Ordered.of(values, counts).quantile(q) == np.quantile(written_out, q)
    assert outliers(values, counts) == outliers(written_out)


def test_large_values_keep_their_digits() -> None:
    found = describe(1e8 + np.array([-1.0, 0.0, 1.0] * 1000))
    assert found.mean == 1e8
    assert found.sd_uncorrected == pytest.approx(np.sqrt(2 / 3), rel=1e-12)
    assert found.mad == 1.0


def test_a_single_value(sound: Any) -> None:
    found = sound(describe([17.5]))
    assert (found.n, found.mean, found.median, found.mad) == (1, 17.5, 17.5, 0)
    assert (found.sd, found.sd_uncorrected) == (None, 0)
    assert not found.quantiles


def test_tails_are_told_where_ten_values_are_beyond() -> None:
    for n, expected in (
        (99, set()),
        (100, {0.9}),
        (1000, {0.9, 0.99}),
        (100_000, {0.9, 0.99, 0.999, 0.9999}),
    ):
        assert set(describe(np.arange(n)).quantiles) == expected, n


def test_outliers_are_counted() -> None:
    # The fences are 25 - 75 and 75 + 75, or twice as far away.
    values = np.concatenate((np.arange(101.0), [175.0, 175.1, 251.0, -260.0]))
    found = outliers(values)
    assert (found.mild, found.severe) == (2, 2)
    assert "half of the values" in outliers([5.0] * 9 + [6.0]).note
    assert outliers([5.0] * 9).note == "all values are the same"


@pytest.mark.parametrize(
    ("values", "weights", "message"),
    [
        ([], None, "there are no values"),
        ([1.0, np.nan, np.inf], None, "2 of 3 values are not finite"),
        ([[1.0]], None, "single row"),
        ([1.0, 2.0], [0, 0], "2 values need as many weights"),
        ([1.0, 2.0], [1], "2 values need as many weights"),
        ([1.0, 2.0], [1, -1], "2 values need as many weights"),
    ],
)
def test_what_cannot_be_described(values: Any, weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        describe(values, weights)


@pytest.mark.parametrize(("n", "q"), [(10, 0.5), (11, 0.5), (40, 0.9), (11, 0.1)])
def test_ranks_are_drawn_as_by_resampling(n: int, q: float) -> None:
    """The drawn quantiles have the distribution of those of resampled values."""
    values = np.random.default_rng(2).lognormal(size=n)
    resampled = np.random.default_rng(3).choice(values, (4_000, n))
    expected = np.quantile(resampled, q, axis=1).round(9)
    found = quantile_draws(values, q).round(9)
    assert stats.ks_2samp(found, expected).pvalue > 0.001


@pytest.mark.parametrize("q", [0.5, 0.9])
@pytest.mark.parametrize("sizes", [[100] * 12, [900, 20, 20, 700, 1, 90, 40]])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_blocks_are_drawn_whole(is_weighted: bool, sizes: list[int], q: float) -> None:
    """As if all values of the drawn blocks had been put together, draw after draw."""
    lots = np.random.default_rng(6)
    n = len(sizes)
    blocks = np.repeat(np.arange(n) * 10, sizes)
    values = lots.lognormal(3, 1, blocks.size) + 3.0 * (blocks / 10 % 5)
    counts = lots.integers(1, 4, values.size) if is_weighted else None
    times = np.ones(values.size, dtype=int) if counts is None else counts
    parts = [np.repeat(values[blocks == it], times[blocks == it]) for it in np.unique(blocks)]
    drawn = []
    for _ in range(2000):
        together = np.concatenate([parts[at] for at in lots.integers(0, n, n)])
        drawn.append(np.sort(together)[ceil(round(together.size * q, 6)) - 1])
    found = quantile_interval(values, q, counts, blocks, confidence=0.8)
    # The share beyond the interval of a few blocks is less than a tenth (Hesterberg 2015).
    share = stats.norm.sf(stats.t.isf(0.1, n - 1) * np.sqrt(n / (n - 1)))
    # By so much shares of 2000 and 4000 draws are off, once in 1000 times at most.
    off = 3.3 * np.sqrt(share * (1 - share) * (1 / 2000 + 1 / 4000))
    for end, beyond in ((found.low, share), (found.high, 1 - share)):
        assert end is not None
        least, most = np.quantile(drawn, (beyond - off, beyond + off))
        assert least - 1e-9 <= end <= most + 1e-9


def test_sums_that_reach_a_quantile_exactly_are_found() -> None:
    # 0.7 times 10 is not quite 7.
    values = np.tile(np.arange(10.0), 6)
    found = quantile_interval(values, 0.7, None, np.repeat(np.arange(6), 10))
    assert (found.low, found.high) == (6, found.value)


def test_blocks_that_differ_widen_the_interval(sound: Any) -> None:
    lots = np.random.default_rng(7)
    blocks = np.repeat(np.arange(8), 500)
    values = lots.normal(100, 1, 4000) + lots.normal(0, 5, 8)[blocks]
    within = sound(quantile_interval(values, 0.5))
    whole = sound(quantile_interval(values, 0.5, blocks=blocks))
    assert whole.high - whole.low > 10 * (within.high - within.low)
    few = sound(quantile_interval(values, 0.5, blocks=blocks // 3))
    assert (few.low, few.high) == (within.low, within.high)
    assert "3 are too few" in few.note
    for interval in (within, whole, few):
        assert interval.low <= interval.value <= interval.high
        assert interval.value == describe(values).median


def test_ends_that_the_values_cannot_carry_are_left_open(sound: Any) -> None:
    values = np.arange(1000.0)
    found = sound(quantile_interval(values, 0.999))
    assert found.high is None
    assert found.low is not None and found.low < found.value
    assert "1000 values are too few" in found.note
    assert quantile_interval(np.arange(4000.0), 0.999).high is not None
    few = sound(quantile_interval([1.0, 2.0], 0.5))
    assert (few.low, few.high) == (None, None)


def test_a_million_values_take_no_time() -> None:
    values = np.random.default_rng(9).lognormal(5, 1, 1_000_000)
    blocks = np.repeat(np.arange(10, dtype=np.int32), 100_000)
    began = time.process_time()
    found = quantile_intervals(values, (0.5, 0.9, 0.99, 0.999), None, blocks)
    assert time.process_time() - began < 5
    for q, interval in found.items():
        expected = np.exp(5 + stats.norm.ppf(q))
        assert interval.low is not None and interval.high is not None
        width = interval.high - interval.low
        assert interval.low - width < expected < interval.high + width
        assert 0 < width < 0.1 * expected


def test_means(sound: Any) -> None:
    assert sound(mean_interval([4.0])).low is None
    assert "single value" in mean_interval([4.0]).note
    same = sound(mean_interval([4.0, 4.0]))
    assert (same.low, same.value, same.high) == (4, 4, 4)
    found = mean_interval(1e8 + np.array([-1.0, 1.0] * 50), confidence=0.99)
    assert found.high is not None
    reach = stats.t.ppf(0.995, 99) * np.sqrt(100 / 99) / 10
    assert found.high - 1e8 == pytest.approx(reach, rel=1e-6)
