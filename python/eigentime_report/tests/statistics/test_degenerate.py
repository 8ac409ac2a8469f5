"""Whatever groups there are, there is an answer: no NaN, no warning, words where there is no number."""

from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest
from eigentime_report.statistics import (
    DIFFERS,
    IDENTICAL,
    NOT_TESTED,
    UNDECIDED,
    anova,
    cliffs_delta,
    compare,
    describe,
    dunn,
    factorial,
    games_howell,
    hedges_g,
    kruskal,
    levene,
    mean_interval,
    mean_ratio,
    median_ratio,
    outliers,
    quantile_interval,
    same_within_text,
    shapiro,
    tukey_hsd,
    welch_anova,
)

SHAPES: dict[str, Sequence[float]] = {
    "none": [],
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
    "huge": [1e90, -1e90, 3e90],
    "too large": [1e140, 1.0, 2.0],
    "tiny": [1e-200, 2e-200, 5e-200, 1e-200],
    "mixed signs": [-5.0, 5.0, -5.0, 5.0, 0.0],
    "infinite": [1.0, float("inf"), 2.0],
    "nan": [float("nan"), 1.0],
}
VERDICTS = {DIFFERS, IDENTICAL, NOT_TESTED, UNDECIDED, same_within_text(0.01)}

GROUP_TESTS: tuple[Callable[[list[Sequence[float]]], Any], ...] = (
    anova,
    welch_anova,
    kruskal,
    levene,
    lambda groups: levene(groups, "mean"),
    tukey_hsd,
    games_howell,
    dunn,
)
PAIR_TESTS: tuple[Callable[..., Any], ...] = (
    hedges_g,
    lambda a, b: hedges_g(a, b, pooled=True),
    cliffs_delta,
    mean_ratio,
    median_ratio,
)


def has_answer(found: Any) -> None:
    """A p or a value, or words that say why there is none."""
    for each in found if isinstance(found, list) else [found]:
        number = each.p if hasattr(each, "p") else each.value
        assert number is not None or each.note, each


@pytest.mark.parametrize("count", [2, 3])
def test_groups_of_all_shapes(count: int, sound: Any) -> None:
    # All pairs, and every third triple.
    chosen = list(combinations_with_replacement(SHAPES, count))[:: 2 * count - 3]
    for names in chosen:
        groups = [SHAPES[name] for name in names]
        for test in GROUP_TESTS:
            has_answer(sound(test(groups)))


def test_pairs_of_all_shapes(sound: Any) -> None:
    for a, b in product(SHAPES.values(), repeat=2):
        for test in PAIR_TESTS:
            has_answer(sound(test(a, b)))


def test_comparisons_of_all_shapes(sound: Any) -> None:
    for names in combinations_with_replacement(SHAPES, 2):
        groups = {f"{at} {name}": SHAPES[name] for at, name in enumerate(names)}
        found = sound(compare(groups))
        for pair in (*found.pairs, *found.dunn):
            assert pair.verdict in VERDICTS
            assert pair.because
            if pair.verdict == DIFFERS:
                assert pair.p < 0.05
                assert any(it.low is not None for it in pair.effects)
            if pair.verdict == IDENTICAL:
                assert np.ptp([*groups[pair.i], *groups[pair.j]]) < 1e-15
        for result in (found.omnibus, found.kruskal, found.levene):
            assert result.p is not None or result.note


def test_samples_of_all_shapes(sound: Any) -> None:
    for name, values in SHAPES.items():
        has_answer(sound(shapiro(values)))
        if name in ("none", "too large", "infinite", "nan"):
            for describing in (describe, outliers, mean_interval):
                with pytest.raises(ValueError):
                    describing(values)
            continue
        sound(describe(values))
        sound(outliers(values))
        sound(mean_interval(values))
        blocks = np.arange(len(values)) % 6
        for q, given in product((0.0, 0.5, 0.99, 1.0), (None, blocks)):
            found = sound(quantile_interval(values, q, None, given))
            assert found.low is not None or found.note
            if found.low is not None and found.high is not None:
                assert min(values) <= found.low <= found.high <= max(values)


def test_factors_of_all_shapes(sound: Any) -> None:
    usable = [it for it in SHAPES.values() if it and np.all(np.abs(it) < 1e100)]
    for a, b in product(usable, repeat=2):
        labels = ["a"] * len(a) + ["b"] * len(b)
        (found,) = sound(factorial([*a, *b], {"level": labels}))
        assert found.p is not None or found.note


def test_random_shapes(sound: Any) -> None:
    """Few values on a coarse grid, so that ties and constants come in every mixture."""
    generator = np.random.default_rng(22)
    for _ in range(150):
        steps = generator.integers(1, 4)
        offset = generator.choice([0.0, 1e8, -3.0])
        groups = {
            name: offset + generator.integers(0, steps, generator.integers(1, 9))
            for name in "abcd"[: generator.integers(2, 5)]
        }
        found = sound(compare(groups))
        assert all(pair.verdict in VERDICTS for pair in found.pairs)


def test_shapiro_of_very_many_values() -> None:
    found = shapiro(np.arange(6000.0))
    assert found.p is None
    assert "up to 5000 values" in found.note


def test_effects_of_a_thousand_deviations(sound: Any) -> None:
    """Between a vDSO's clock and a trapped one there are."""
    generator = np.random.default_rng(23)
    quick, slow = generator.normal(20, 0.01, 30), generator.normal(2000, 1, 30)
    found = sound(compare({"quick": quick, "slow": slow}))
    (pair,) = found.pairs
    assert pair.verdict == DIFFERS
    g = sound(hedges_g(slow, quick))
    assert g.low < g.value < g.high
    assert g.low > 1000
    omega = found.omnibus.effect
    assert 0.99 < omega.low < omega.value < omega.high < 1
