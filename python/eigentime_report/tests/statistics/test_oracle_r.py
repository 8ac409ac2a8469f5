"""R's answers on the data sets that come with it, and ours."""

from typing import Any

import numpy as np
import pytest

from eigentime_report.statistics import describe, factorial, mean_interval, outliers
from eigentime_report.statistics.description import cliffs_delta, hedges_g, omega_squared
from eigentime_report.statistics.tests import (
    Pair,
    anova,
    critical,
    dunn,
    exceeds,
    games_howell,
    kruskal,
    levene,
    shapiro,
    summarize,
    tukey_hsd,
    welch_anova,
)

ONE_WAY = (
    "PlantGrowth",
    "InsectSprays",
    "chickwts",
    "warpbreaks",
    "ToothGrowth",
    "iris",
    "ozone",
    "sleep",
)
FACTORIAL = ("warpbreaks", "ToothGrowth", "uneven", "CO2", "npk")
DESCRIPTIVE = ("rivers", "islands", "precip")


def near(expected: float, rel: float = 1e-7) -> Any:
    """R's own routines are good to eight digits or so."""
    return pytest.approx(expected, rel=rel, abs=1e-10)


@pytest.fixture(params=ONE_WAY)
def one_way(request: pytest.FixtureRequest, oracle: dict[str, Any]) -> dict[str, Any]:
    """A data set in groups, and what R says of it."""
    found: dict[str, Any] = oracle["one_way"][request.param]
    return found


@pytest.fixture
def groups(one_way: dict[str, Any]) -> list[list[float]]:
    """Its groups."""
    return list(one_way["groups"].values())


def test_analyses_of_variance(one_way: dict[str, Any], groups: list[list[float]]) -> None:
    for name, test in (("anova", anova), ("welch", welch_anova)):
        expected, found = one_way[name], test([np.array(group) for group in groups])
        assert found.statistic == near(expected["F"])
        assert (found.df1, found.df2) == (near(expected["df1"]), near(expected["df2"]))
        assert found.p == near(expected["p"])


def test_kruskal_wallis(one_way: dict[str, Any], groups: list[list[float]]) -> None:
    found = kruskal(groups)
    assert found.statistic == near(one_way["kruskal"]["H"])
    assert found.df1 == one_way["kruskal"]["df"]
    assert found.p == near(one_way["kruskal"]["p"])
    assert kruskal(groups[:2]).p == near(one_way["wilcoxon_p"])


def test_brown_forsythe(one_way: dict[str, Any], groups: list[list[float]]) -> None:
    found = levene(groups)
    assert found.statistic == near(one_way["levene_median"]["F"])
    assert found.p == near(one_way["levene_median"]["p"])


def test_shapiro_wilk(one_way: dict[str, Any], groups: list[list[float]]) -> None:
    for group, expected in zip(groups, one_way["shapiro"], strict=True):
        found = shapiro(group)
        assert found.statistic == near(expected["W"], rel=1e-6)
        assert found.p == near(expected["p"], rel=1e-4)


def in_order_of_r(pairs: list[Pair], count: int) -> list[Pair]:
    """R goes through the earlier groups first."""
    by_groups = {(it.i, it.j): it for it in pairs}
    return [by_groups[i, j] for j in range(count) for i in range(j + 1, count)]


def test_pairs_of_means(one_way: dict[str, Any], groups: list[list[float]]) -> None:
    for name, test in (("tukey", tukey_hsd), ("games_howell", games_howell)):
        found = in_order_of_r(test(summarize(groups)), len(groups))
        for pair, expected in zip(found, one_way[name], strict=True):
            assert pair.difference == near(expected["difference"])
            assert pair.low == near(expected["low"], rel=1e-6)
            assert pair.high == near(expected["high"], rel=1e-6)
            # R's ptukey is good to ten decimals, not digits.
            assert pair.p == pytest.approx(expected["p"], rel=1e-6, abs=1e-9)


def test_dunn(one_way: dict[str, Any], groups: list[list[float]]) -> None:
    found = in_order_of_r(dunn(groups), len(groups))
    assert [it.statistic for it in found] == near(one_way["dunn"]["z"])
    assert [it.p for it in found] == near(one_way["dunn"]["holm"])


def test_effects(one_way: dict[str, Any], groups: list[list[float]]) -> None:
    a, b = groups[1], groups[0]
    found, expected = hedges_g(a, b), one_way["hedges"]
    assert found.value == near(expected["g"])
    assert found.low == near(expected["low"], rel=1e-5)
    assert found.high == near(expected["high"], rel=1e-5)
    delta, expected = cliffs_delta(a, b), one_way["cliff"]
    assert delta.value == near(expected["delta"])
    assert (delta.low, delta.high) == (near(expected["low"]), near(expected["high"]))


def test_explained_variance(one_way: dict[str, Any]) -> None:
    f, expected = one_way["anova"], one_way["explained"]
    n = sum(len(group) for group in one_way["groups"].values())
    found = omega_squared(f["F"], f["df1"], f["df2"], n)
    assert found.value == near(expected["omega"])
    # scipy searches for a noncentrality no further than it takes for three figures.
    assert found.low == pytest.approx(expected["low"], rel=1e-3, abs=1e-9)
    assert found.high == near(expected["high"], rel=1e-3)


@pytest.mark.parametrize("name", FACTORIAL)
def test_anova_type_statistic(oracle: dict[str, Any], name: str) -> None:
    data = oracle["factorial"][name]
    found = {it.term: it for it in factorial(data["values"], data["factors"])}
    assert len(found) == len(data["terms"])
    for expected in data["terms"]:
        term = found[" × ".join(expected["term"])]
        assert term.statistic == near(expected["statistic"])
        assert (term.df1, term.df2) == (near(expected["df1"]), near(expected["df2"]))
        assert term.p == near(expected["p"])


@pytest.mark.parametrize("name", DESCRIPTIVE)
def test_descriptions(oracle: dict[str, Any], name: str) -> None:
    expected = oracle["descriptive"][name]
    values = expected["values"]
    found = describe(values)
    for key in ("mean", "sd", "median", "mad", "half_iqr"):
        assert getattr(found, key) == near(expected[key])
    if 0.9 in found.quantiles:
        assert found.quantiles[0.9] == near(expected["q90"])
    interval = mean_interval(values)
    assert [interval.low, interval.high] == near(expected["t99"])
    far = outliers(values)
    assert far.mild + far.severe == expected["mild"]
    assert far.severe == expected["severe"]


def test_studentized_range(oracle: dict[str, Any]) -> None:
    for it in oracle["ptukey"]:
        found = exceeds(it["q"], it["k"], it["df"])
        assert found == pytest.approx(it["p"], rel=1e-7, abs=1e-10)
    for it in oracle["qtukey"]:
        found = critical(1 - it["confidence"], it["k"], it["df"])
        # R stops where two guesses differ by less than 0.0001.
        assert found == pytest.approx(it["q"], rel=1e-4)
