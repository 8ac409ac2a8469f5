"""Whatever groups there are, there is an answer: no NaN, no warning, words where there is no number."""

from collections.abc import Sequence
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest

from eigentime_report.statistics import (
    DIFFERS,
    NOT_TESTED,
    UNDECIDED,
    compare,
    describe,
    factorial,
    mean_interval,
    outliers,
    quantile_interval,
)
from eigentime_report.statistics.compare import IDENTICAL, same_within_text
from eigentime_report.statistics.tests import shapiro

SHAPES: dict[str, Sequence[float]] = {
    "one": [7.0],
    "two": [7.0, 8.0],
    "two alike": [7.0, 7.0],
    "three": [7.0, 7.0, 9.0],
    "constant": [7.0] * 12,
    "other constant": [8.0] * 5,
    "zeros": [0.0] * 6,
    "two values": [7.0, 8.0] * 6,
    "one off": [7.0] * 19 + [8.0],
    "ties": [1.0, 1, 2, 2, 2, 3, 3, 4, 4, 4, 4, 5],
    "rounding": [0.1 * 3, 0.3, 0.1 + 0.2, 0.3],
    "far": [1e8 - 1, 1e8, 1e8 + 1, 1e8],
    "far constant": [1e8] * 4,
    "mixed signs": [-5.0, 5.0, -5.0, 5.0, 0.0],
}
VERDICTS = {DIFFERS, IDENTICAL, NOT_TESTED, UNDECIDED, same_within_text(0.01)}


@pytest.mark.parametrize("as_in_paper", [False, True])
@pytest.mark.parametrize("count", [2, 3])
def test_comparisons_of_all_shapes(count: int, as_in_paper: bool, sound: Any) -> None:
    # All pairs, and every ninth triple.
    for names in list(combinations_with_replacement(SHAPES, count))[:: 8 * count - 15]:
        groups = {f"{at} {name}": SHAPES[name] for at, name in enumerate(names)}
        found = sound(compare(groups, as_in_paper=as_in_paper))
        sound(found.shapiro)
        for pair in found.pairs:
            assert pair.verdict in VERDICTS
            assert pair.because
            if pair.verdict == DIFFERS:
                assert pair.p < 0.05
                assert any(it.low is not None for it in pair.effects)
            if pair.verdict == IDENTICAL:
                assert np.ptp([*groups[pair.i], *groups[pair.j]]) < 1e-15
            assert all(it.value is not None or it.note for it in pair.effects)
        for result in (found.omnibus, found.kruskal, found.levene):
            assert result.p is not None or result.note


def test_samples_of_all_shapes(sound: Any) -> None:
    for values in SHAPES.values():
        found = sound(shapiro(values))
        assert found.p is not None or found.note
        for describing in (describe, outliers, mean_interval):
            sound(describing(values))
        for q, blocks in product((0.0, 0.5, 0.99, 1.0), (1, 6)):
            given = np.arange(len(values)) % blocks
            interval = sound(quantile_interval(values, q, None, given))
            assert interval.low is not None or interval.note
            if interval.low is not None and interval.high is not None:
                assert min(values) <= interval.low <= interval.high <= max(values)
    assert "3 to 5000 values" in shapiro(np.arange(6000.0)).note


def test_factors_of_all_shapes(sound: Any) -> None:
    for a, b in product(SHAPES.values(), repeat=2):
        labels = ["a"] * len(a) + ["b"] * len(b)
        (found,) = sound(factorial([*a, *b], {"level": labels}))
        assert found.p is not None or found.note


def test_random_shapes(sound: Any) -> None:
    """Few values on a coarse grid, so that ties and constants come in every mixture."""
    generator = np.random.default_rng(22)
    for _ in range(60):
        steps = generator.integers(1, 4)
        offset = generator.choice([0.0, 1e8, -3.0])
        groups = {
            name: offset + generator.integers(0, steps, generator.integers(1, 9))
            for name in "abcd"[: generator.integers(2, 5)]
        }
        found = sound(compare(groups))
        assert all(pair.verdict in VERDICTS for pair in found.pairs)
