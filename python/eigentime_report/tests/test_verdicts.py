"""Limits held against intervals: what is decided, how often wrongly, and that it can be decided."""

import numpy as np
import pytest
from scipy import stats

from eigentime_report.verdicts import Verdict, decide, ends, times_drawn

REACHED, MISSED, UNDECIDED = Verdict.REACHED, Verdict.MISSED, Verdict.UNDECIDED
ALPHA = 0.05


@pytest.mark.parametrize(
    ("low", "high", "at_most", "at_least"),
    [
        (1.0, 2.0, REACHED, MISSED),
        (1.0, 3.0, REACHED, UNDECIDED),
        (2.0, 4.0, UNDECIDED, UNDECIDED),
        (3.0, 4.0, UNDECIDED, REACHED),
        (3.5, 4.0, MISSED, REACHED),
        (3.0, 3.0, REACHED, REACHED),
        (None, None, UNDECIDED, UNDECIDED),
    ],
)
def test_a_limit_within_the_interval_is_undecided(
    low: float | None, high: float | None, at_most: Verdict, at_least: Verdict
) -> None:
    assert decide(low, high, 3.0) is at_most
    assert decide(low, high, 3.0, at_least=True) is at_least


def test_rounds_are_drawn_whole() -> None:
    drawn = times_drawn(5)
    assert set(drawn.sum(axis=1)) == {5.0}
    assert drawn.mean(axis=0) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("rounds", [5, 10])
@pytest.mark.parametrize("shape", ["normal", "skewed"])
def test_what_is_at_the_limit_is_seldom_decided(rounds: int, shape: str) -> None:
    """By chance in 5 % of all cases, or as seldom as few rounds of a long tail allow: not in 15 %."""
    count = 300
    lots = np.random.default_rng(rounds)
    decided = found = 0
    times = times_drawn(rounds)
    for _ in range(count):
        row = lots.normal(10, 1, rounds)
        if shape == "skewed":
            row = 10 + lots.lognormal(0, 0.7, rounds) - np.exp(0.245)
        low, high = ends(times @ row / rounds, rounds)
        decided += decide(low, high, 10.0) is not UNDECIDED
        found += decide(low, high, 14.0) is REACHED
        assert decide(low, high, 4.0) is not REACHED
    highest = {"normal": 0.08, "skewed": 0.15}[shape]
    assert decided <= stats.binom.isf(1e-4, count, highest)
    assert decided > 0
    assert found > 0.95 * count
