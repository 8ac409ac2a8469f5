"""Bootstrap intervals: exact in law, quick, and as wide as they must be."""

import time
from math import ceil, floor
from typing import Any

import numpy as np
import pytest
from eigentime_report.statistics import (
    describe,
    mean_interval,
    quantile_draws,
    quantile_interval,
    quantile_intervals,
)
from scipy import stats


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("n", [10, 11, 40])
def test_ranks_are_drawn_as_by_resampling(n: int, q: float) -> None:
    """The drawn quantiles have the distribution of those of resampled values."""
    values = np.random.default_rng(2).lognormal(size=n)
    resampled = np.random.default_rng(3).choice(values, (20_000, n))
    expected = np.quantile(resampled, q, axis=1).round(9)
    found = quantile_draws(values, q, count=20_000).round(9)
    assert stats.ks_2samp(found, expected).pvalue > 0.001
    for share in (0.025, 0.5, 0.975):
        spread = np.ptp(np.quantile(expected, (share - 0.01, share + 0.01)))
        difference = np.quantile(found, share) - np.quantile(expected, share)
        assert abs(difference) <= spread + 1e-12


def test_weights_are_values_written_out() -> None:
    values, counts = np.array([3.0, 1.0, 2.0, 9.0]), np.array([40, 25, 30, 5])
    found = quantile_draws(values, 0.9, counts)
    assert np.array_equal(found, quantile_draws(np.repeat(values, counts), 0.9))


@pytest.mark.parametrize("q", [0.5, 0.7, 0.9, 0.99])
@pytest.mark.parametrize(
    "sizes",
    [[30, 30, 17, 41, 30, 25], [1] * 10, [100] * 12, [900, 20, 20, 700, 1, 90, 40]],
    ids=["few", "single", "many", "uneven"],
)
@pytest.mark.parametrize("kind", ["weighted", "tied", "continuous"])
def test_blocks_are_drawn_whole(kind: str, sizes: list[int], q: float) -> None:
    """As if all values of the drawn blocks had been put together, draw after draw."""
    generator = np.random.default_rng(6)
    n = len(sizes)
    blocks = np.repeat(np.arange(n) * 10, sizes)
    values = generator.lognormal(3, 1, blocks.size) + 3.0 * (blocks / 10 % 5)
    if kind != "continuous":
        values = values.round()
    counts = generator.integers(1, 4, values.size) if kind == "weighted" else None
    written_out = [
        np.repeat(
            values[blocks == block], 1 if counts is None else counts[blocks == block]
        )
        for block in np.unique(blocks)
    ]
    reached, passed = [], []
    for _ in range(4000):
        drawn = np.sort(
            np.concatenate([written_out[at] for at in generator.integers(0, n, n)])
        )
        # Where the quantile lies between two values, they are its ends.
        rank = round(drawn.size * q, 6)
        reached.append(drawn[ceil(rank) - 1])
        passed.append(drawn[min(floor(rank), drawn.size - 1)])
    found = quantile_interval(values, q, counts, blocks, confidence=0.8)
    # The share beyond the interval of a few blocks is less than a tenth (Hesterberg 2015).
    share = stats.norm.sf(stats.t.isf(0.1, n - 1) * np.sqrt(n / (n - 1)))
    # By so much a share of 4000 draws is off, here and there, once in 1000 times at most.
    off = 3.3 * np.sqrt(2 * share * (1 - share) / 4000)
    for end, beyond in ((found.low, share), (found.high, 1 - share)):
        if end is not None:
            least, most = np.mean(
                np.quantile([reached, passed], (beyond - off, beyond + off), axis=1),
                axis=1,
            )
            assert least - 1e-9 <= end <= most + 1e-9


def test_sums_that_reach_a_quantile_exactly_are_found() -> None:
    """Half of five equal blocks: between two values, whatever is drawn."""
    values = np.tile([1.0, 2.0, 5.0, 6.0], 5)
    found = quantile_interval(values, 0.5, None, np.repeat(np.arange(5), 4))
    assert (found.low, found.value, found.high) == (3.5, 3.5, 3.5)
    # 0.7 times 10 is not quite 7.
    values = np.tile(np.arange(10.0), 6)
    found = quantile_interval(values, 0.7, None, np.repeat(np.arange(6), 10))
    assert (found.low, found.high) == (6.5, 6.5)


def test_blocks_that_differ_widen_the_interval(sound: Any) -> None:
    generator = np.random.default_rng(7)
    blocks = np.repeat(np.arange(8), 500)
    values = generator.normal(100, 1, 4000) + generator.normal(0, 5, 8)[blocks]
    within = sound(quantile_interval(values, 0.5))
    whole = sound(quantile_interval(values, 0.5, blocks=blocks))
    assert whole.high - whole.low > 10 * (within.high - within.low)
    assert "8 blocks" in whole.method
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


def test_the_same_seed_gives_the_same_interval() -> None:
    values = np.random.default_rng(8).exponential(size=500)
    first, second = (quantile_interval(values, 0.9) for _ in range(2))
    assert first == second
    assert first != quantile_interval(values, 0.9, seed=1)
    several = quantile_intervals(values, (0.5, 0.9))
    assert several[0.9] == first


def test_ten_million_values_take_seconds() -> None:
    values = np.random.default_rng(9).lognormal(5, 1, 10_000_000)
    blocks = np.repeat(np.arange(10, dtype=np.int32), 1_000_000)
    began = time.process_time()
    found = quantile_intervals(values, (0.5, 0.9, 0.99, 0.999), None, blocks)
    assert time.process_time() - began < 10
    for q, interval in found.items():
        expected = np.exp(5 + stats.norm.ppf(q))
        assert interval.low is not None and interval.high is not None
        width = interval.high - interval.low
        assert interval.low - width < expected < interval.high + width
        assert 0 < width < 0.02 * expected


def test_means(sound: Any) -> None:
    assert sound(mean_interval([4.0])).low is None
    assert "single value" in mean_interval([4.0]).note
    same = sound(mean_interval([4.0, 4.0]))
    assert (same.low, same.value, same.high) == (4, 4, 4)
    found = mean_interval(1e8 + np.array([-1.0, 1.0] * 50), confidence=0.99)
    assert found.high is not None
    reach = stats.t.ppf(0.995, 99) * np.sqrt(100 / 99) / 10
    assert found.high - 1e8 == pytest.approx(reach, rel=1e-6)
