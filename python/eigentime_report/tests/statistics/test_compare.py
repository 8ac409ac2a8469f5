"""Which tests are taken, which verdicts are given, and how they are told."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from eigentime_report.statistics import (
    CLIFFS_DELTA,
    DIFFERS,
    HEDGES_G,
    MEDIAN_RATIO,
    NOT_TESTED,
    UNDECIDED,
    Comparison,
    compare,
)
from eigentime_report.statistics.compare import IDENTICAL, same_within_text


def normal(seed: int, mean: float, sd: float, n: int = 30) -> NDArray[np.float64]:
    """Normal values."""
    return np.random.default_rng(seed).normal(mean, sd, n)


@pytest.mark.parametrize(
    ("groups", "chosen", "in_paper"),
    [
        ({"a": [1.0, 2.0], "b": [3.0]}, "nothing", "nothing"),
        ({"a": [2.0] * 5, "b": [2.0] * 9}, "identical", "identical"),
        ({"a": [2.0] * 8, "b": normal(1, 3, 1, 8)}, "kruskal+dunn", "kruskal+dunn"),
        ({"a": normal(4, 50, 2), "b": normal(5, 51, 2)}, "welch+games-howell", "anova+tukey"),
        (
            {"a": normal(2, 50, 1), "b": normal(3, 50, 9)},
            "welch+games-howell",
            "welch+games-howell",
        ),
        # Of few values scatter is not taken for equal.
        (
            {"a": normal(2, 50, 1, 9), "b": normal(3, 50, 1)},
            "welch+games-howell",
            "welch+games-howell",
        ),
    ],
)
def test_which_test_is_chosen(
    groups: dict[str, Any], chosen: str, in_paper: str, sound: Any
) -> None:
    assert compare(groups).chosen == chosen
    found: Comparison = sound(compare(groups, as_in_paper=True))
    assert found.chosen == in_paper
    assert found.because
    assert (found.omnibus.p is None) == (chosen in ("nothing", "identical"))
    for pair in found.pairs:
        assert (pair.p is None) == (pair.verdict in (NOT_TESTED, IDENTICAL))
        if pair.p is not None:
            delta = pair.effect(CLIFFS_DELTA)
            assert delta is not None and delta.low is not None


def test_every_pair_has_what_a_verdict_needs(sound: Any) -> None:
    groups = {
        "baseline": normal(6, 100, 2),
        "namespace": normal(7, 103, 2),
        "container": normal(8, 103.2, 2),
    }
    found: Comparison = sound(compare(groups))
    assert [(it.i, it.j) for it in found.pairs] == [
        ("namespace", "baseline"),
        ("container", "baseline"),
        ("container", "namespace"),
    ]
    pair = found.pair("namespace", "baseline")
    assert pair.verdict == DIFFERS
    assert pair.difference == pytest.approx(groups["namespace"].mean() - groups["baseline"].mean())
    assert pair.difference is not None
    share = pair.difference / groups["baseline"].mean()
    assert pair.percent == pytest.approx(100 * share)
    assert pair.percent_low is not None and pair.percent_low > 0
    assert "Games-Howell, p = " in pair.because
    effect = pair.effect(HEDGES_G)
    assert effect is not None
    assert effect.value is not None and effect.value > 0.8
    assert effect.magnitude == "large"
    ratio = pair.effect(MEDIAN_RATIO)
    assert ratio is not None and ratio.low is not None and ratio.low > 1
    assert not found.disagreements
    assert found.kruskal.p is not None and found.kruskal.p < 0.001
    assert [(it.p or 0) < 0.05 for it in found.dunn.values()] == [True, True, False]
    assert set(found.shapiro) == set(groups)
    with pytest.raises(KeyError, match="no pair baseline - namespace"):
        found.pair("baseline", "namespace")


def test_verdicts() -> None:
    steady = normal(9, 1000, 3)
    for other, verdict in (
        (normal(10, 1000, 3), "same within 1 %"),
        (normal(11, 1000, 60), UNDECIDED),
        (normal(12, 1050, 3), DIFFERS),
    ):
        (pair,) = compare({"a": steady, "b": other}).pairs
        assert pair.verdict == verdict, pair.because
    (narrow,) = compare({"a": steady, "b": normal(10, 1000, 3)}, same_within=1e-4).pairs
    assert narrow.verdict == UNDECIDED
    assert same_within_text(0.025) == "same within 2.5 %"


def test_a_difference_may_be_significant_and_small() -> None:
    (pair,) = compare({"a": normal(13, 1000, 1), "b": normal(14, 1003, 1)}).pairs
    assert pair.verdict == DIFFERS
    assert pair.is_within


def test_values_around_zero_have_no_per_cent_of_their_own(sound: Any) -> None:
    groups = {"a": normal(15, -1, 2), "b": normal(16, 0, 2)}
    (pair,) = sound(compare(groups)).pairs
    assert pair.percent is None
    assert pair.verdict in (UNDECIDED, DIFFERS)


def test_identical_groups_among_others() -> None:
    found = compare({"a": [3.0] * 9, "b": [3.0] * 9, "c": normal(17, 9, 1, 9)})
    assert found.chosen == "kruskal+dunn"
    assert found.pair("b", "a").verdict == IDENTICAL
    assert found.pair("c", "a").verdict == DIFFERS
    assert "all values of a and of b are the same" in found.because


def test_steps_of_a_coarse_clock_differ_without_scatter(sound: Any) -> None:
    found = sound(compare({"a": [20.0] * 10, "b": [24.0] * 10}))
    (pair,) = found.pairs
    assert pair.verdict == DIFFERS
    assert (pair.difference, pair.percent) == (4, 20)
    assert (pair.low, pair.high) == (4, 4)
    delta = pair.effect(CLIFFS_DELTA)
    assert delta is not None and delta.value == 1
    # Two values each cannot tell.
    (pair,) = compare({"a": [20.0] * 2, "b": [24.0] * 2}).pairs
    assert pair.verdict == UNDECIDED


def test_groups_that_cannot_be_tested_are_named(sound: Any) -> None:
    groups = {"a": normal(18, 5, 1), "one": [5.0], "b": normal(19, 5, 1)}
    found = sound(compare(groups))
    assert found.chosen == "welch+games-howell"
    assert found.pair("b", "a").p is not None
    pair = found.pair("one", "a")
    assert pair.verdict == NOT_TESTED
    assert pair.because == "one: a single value, which does not scatter"
    assert sound(compare({"a": [1.0, 2.0]})).pairs == ()
    with pytest.raises(ValueError, match="2 of 3 values are not finite"):
        compare({"a": [1.0, 2.0], "b": [1.0, np.inf, np.nan]})


def test_tests_that_disagree_are_told() -> None:
    """One far value hides a difference from means, and not from ranks."""
    a, b = normal(20, 10, 1), normal(21, 12, 1)
    a[0] = 500
    found = compare({"a": a, "b": b})
    assert any("Kruskal-Wallis" in it for it in found.disagreements)
    assert any(it.startswith("b and a: ") for it in found.disagreements)
