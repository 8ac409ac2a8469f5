"""Sizes of effects: signs, magnitudes, and what has none."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from eigentime_report.statistics import MEAN_RATIO, MEDIAN_RATIO, compare
from eigentime_report.statistics.description import cliffs_delta, hedges_g, omega_squared


@pytest.mark.parametrize("effect", [hedges_g, cliffs_delta])
def test_the_first_group_is_set_against_the_second(effect: Any) -> None:
    a, b = [5.0, 6, 7, 9, 8], [1.0, 2, 6, 4, 3]
    found, turned = effect(a, b), effect(b, a)
    assert found.value > 0
    assert turned.value == pytest.approx(-found.value)
    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low))


def test_cliffs_delta_is_counted_pair_by_pair() -> None:
    generator = np.random.default_rng(24)
    a, b = generator.integers(0, 6, 17), generator.integers(1, 8, 9)
    expected = np.sign(np.subtract.outer(a, b)).mean()
    assert cliffs_delta(a, b).value == pytest.approx(expected)


def test_groups_that_do_not_overlap(sound: Any) -> None:
    found = sound(cliffs_delta([5.0, 6, 7, 8], [1.0, 2, 3, 4]))
    assert (found.value, found.high) == (1, 1)
    t = stats.t.ppf(0.975, 6)
    assert found.low == pytest.approx((4 - t**2) / (4 + t**2))
    assert found.note == "the groups do not overlap"


@pytest.mark.parametrize(
    ("shift", "magnitude"), [(0.1, "negligible"), (0.3, "small"), (0.6, "medium"), (1.0, "large")]
)
def test_magnitudes(shift: float, magnitude: str) -> None:
    scores = stats.norm.ppf((np.arange(200) + 0.5) / 200)
    scores = scores / scores.std(ddof=1)
    assert hedges_g(scores + shift, scores).magnitude == magnitude
    assert hedges_g(scores, scores + shift).magnitude == magnitude


def test_ratios(sound: Any) -> None:
    a, b = np.array([9.0, 10, 11, 10, 10]), np.array([4.0, 5, 6, 5, 5])
    for name in (MEAN_RATIO, MEDIAN_RATIO):
        (pair,) = sound(compare({"b": b, "a": a})).pairs
        found = pair.effect(name)
        assert found is not None
        assert found.value == 2
        assert found.low is not None and found.high is not None
        assert 0 < found.low < 2 < found.high
        assert found.magnitude == ""
        (pair,) = compare({"b": b - 5, "a": a}).pairs
        none = pair.effect(name)
        assert none is not None and none.value is None and none.note
    (pair,) = compare({"b": [4.0, 5, 6], "a": a}).pairs
    few = pair.effect(MEDIAN_RATIO)
    assert few is not None and (few.value, few.low) == (2, None)


def test_no_variance_is_explained_by_less_than_chance(sound: Any) -> None:
    found = sound(omega_squared(0.4, 2, 60, 63))
    assert (found.value, found.low) == (0, 0)
    assert found.high > 0


def test_effects_of_a_thousand_deviations(sound: Any) -> None:
    """Between a vDSO's clock and a trapped one there are."""
    generator = np.random.default_rng(23)
    quick, slow = generator.normal(20, 0.01, 30), generator.normal(2000, 1, 30)
    found = sound(compare({"quick": quick, "slow": slow}))
    assert found.pairs[0].verdict == "differs"
    g = sound(hedges_g(slow, quick))
    assert 1000 < g.low < g.value < g.high
    omega = found.omnibus.effect
    assert 0.99 < omega.low < omega.value < omega.high < 1
