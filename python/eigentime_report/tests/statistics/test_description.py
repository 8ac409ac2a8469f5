"""Descriptions, outliers, and histograms as if each value were written out."""

from typing import Any

import numpy as np
import pytest
from eigentime_report.statistics import describe, outliers, quantile_interval
from eigentime_report.statistics.ordered import Ordered


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
    far, expected_far = outliers(values, counts), outliers(written_out)
    for key in ("n", "mild_low", "mild_high", "severe_low", "severe_high", "low"):
        assert getattr(far, key) == getattr(expected_far, key), key
    assert far.flags.shape == values.shape


def test_large_values_keep_their_digits() -> None:
    found = describe(1e8 + np.array([-1.0, 0.0, 1.0] * 1000))
    assert found.mean == 1e8
    assert found.sd_uncorrected == pytest.approx(np.sqrt(2 / 3), rel=1e-12)
    assert found.mad == 1.0


def test_a_single_value(sound: Any) -> None:
    found = sound(describe([17.5]))
    assert (found.n, found.mean, found.median, found.mad) == (1, 17.5, 17.5, 0)
    assert found.sd is None
    assert found.sd_uncorrected == 0
    assert not found.quantiles


def test_tails_are_told_where_ten_values_are_beyond() -> None:
    for n, expected in (
        (99, set()),
        (100, {0.9}),
        (1000, {0.9, 0.99}),
        (100_000, {0.9, 0.99, 0.999, 0.9999}),
    ):
        assert set(describe(np.arange(n)).quantiles) == expected, n


def test_outliers_are_counted_and_flagged() -> None:
    values = np.concatenate((np.arange(101.0), [175.0, 175.1, 251.0, -260.0]))
    found = outliers(values)
    assert (found.mild_low, found.mild_high) == (0, 2) or found.mild == 2
    flagged = values[found.flags > 0]
    assert set(flagged) == {175.1, 251.0, -260.0} | ({175.0} & set(flagged))
    assert found.severe == 2
    assert set(values[found.flags == 2]) == {251.0, -260.0}


def test_fences_without_width_say_so() -> None:
    found = outliers([5.0] * 9 + [6.0])
    assert found.severe_high == 1
    assert "half of the values are the same" in found.note
    assert outliers([5.0] * 9).note == "all values are the same"


@pytest.mark.parametrize(
    ("values", "weights", "message"),
    [
        ([], None, "there are no values"),
        ([1.0, np.nan, np.inf], None, "2 of 3 values are not finite"),
        ([[1.0]], None, "single row"),
        ([1.0, 2.0], [0, 0], "all weights are 0"),
        ([1.0, 2.0], [1], "2 values need as many weights"),
        ([1.0, 2.0], [1, -1], "whole numbers, 0 or more"),
        ([1.0, 2.0], [1, 0.5], "whole numbers, 0 or more"),
    ],
)
def test_what_cannot_be_described(values: Any, weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        describe(values, weights)
    with pytest.raises(ValueError, match=message):
        quantile_interval(values, 0.5, weights)
