"""Table IV of the paper on time namespaces in containers, from its own means and deviations."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats
from summaries import (
    anova_from_summary,
    games_howell_from_summary,
    tukey_from_summary,
    welch_from_summary,
)

from eigentime_report.statistics import DIFFERS, Omnibus, compare

TESTS: dict[str, Callable[..., Omnibus]] = {
    "anova": anova_from_summary,
    "welch": welch_from_summary,
}
# The bounds that are printed in two rows are the other test's.
PAIRS = {
    "anova": tukey_from_summary,
    "welch": games_howell_from_summary,
    "timer_settime": tukey_from_summary,
    "timerfd_settime": games_howell_from_summary,
}

METRICS = (
    "clock_nanosleep",
    "nanosleep",
    "clock_getres",
    "clock_gettime_boottime",
    "clock_gettime_monotonic",
    "gettimeofday",
    "timer_create",
    "timer_settime",
    "timer_delete",
    "timer_getoverrun",
    "timerfd_create",
    "timerfd_settime",
    "vdso_clock_gettime_boottime",
    "vdso_clock_gettime_monotonic",
    "vdso_gettimeofday",
)
# Between namespace and container, only these differ.
TELL_CONTAINERS_APART = METRICS[-3:] + ("timer_getoverrun",)

# Rows whose printed F is the degrees of freedom of its denominator, and F as it should be.
MISPRINTED = {
    "clock_getres": 115.4,
    "clock_gettime_monotonic": 29.6,
    "gettimeofday": 111.41,
    "timer_create": 35.6,
    "timer_settime": 19.79,
    "timer_delete": 39.52,
    "timer_getoverrun": 33.61,
    "timerfd_create": 118.52,
    "vdso_clock_gettime_boottime": 646.3,
    "vdso_clock_gettime_monotonic": 1228.73,
    "vdso_gettimeofday": 419.22,
}


def row(paper: dict[str, Any], metric: str) -> dict[str, Any]:
    """A metric's row."""
    found: dict[str, Any] = next(it for it in paper["metrics"] if it["name"] == metric)
    return found


def made(paper: dict[str, Any], metric: str) -> Omnibus:
    """The test that the paper has made of a metric, from its numbers."""
    it = row(paper, metric)
    return TESTS[it["test"]](it["means"], it["sds"], [paper["n"]] * 3)


def within_rounding(paper: dict[str, Any], metric: str, what: str) -> tuple[float, float]:
    """Between which values a result is, each number being as far off as rounding lets it be."""
    it = row(paper, metric)
    half = 0.5 * 10 ** -it["sd_digits"]
    found = []
    for shifts in product((-0.005, 0.005), repeat=3):
        for stretches in product((-half, half), repeat=3):
            means = np.add(it["means"], shifts).tolist()
            sds = np.add(it["sds"], stretches).tolist()
            result = TESTS[it["test"]](means, sds, [paper["n"]] * 3)
            found.append(float(getattr(result, what)))
    return min(found), max(found)


@pytest.mark.parametrize("metric", METRICS)
def test_degrees_of_freedom_are_as_printed(paper: dict[str, Any], metric: str) -> None:
    assert made(paper, metric).df1 == 2
    low, high = within_rounding(paper, metric, "df2")
    # Rounded to whole numbers in the table.
    assert low - 0.5 <= row(paper, metric)["df2"] <= high + 0.5


@pytest.mark.parametrize("metric", [it for it in METRICS if it not in MISPRINTED])
def test_f_is_as_printed(paper: dict[str, Any], metric: str) -> None:
    printed = row(paper, metric)
    low, high = within_rounding(paper, metric, "statistic")
    assert low - 0.005 <= printed["F"] <= high + 0.005
    low, high = within_rounding(paper, metric, "p")
    if printed["p"] == "<0.001":
        assert high < 0.001
    else:
        assert low - 0.0005 <= float(printed["p"]) <= high + 0.0005


@pytest.mark.parametrize("metric", MISPRINTED)
def test_printed_f_of_welch_is_df2(paper: dict[str, Any], metric: str) -> None:
    """In these rows the table repeats df2, with its decimals, in the column of F.

    All of them are significant either way; only F is not what it says.
    """
    printed = row(paper, metric)
    assert round(printed["F"]) == printed["df2"]
    low, high = within_rounding(paper, metric, "df2")
    assert low - 0.01 <= printed["F"] <= high + 0.01
    low, high = within_rounding(paper, metric, "statistic")
    assert not low - 0.005 <= printed["F"] <= high + 0.005
    found = made(paper, metric)
    assert found.statistic == pytest.approx(MISPRINTED[metric], abs=0.006)
    assert found.p is not None
    assert found.p < 0.001


@pytest.mark.parametrize("metric", METRICS[2:])
def test_pairs_are_as_printed(paper: dict[str, Any], metric: str) -> None:
    printed = row(paper, metric)
    # The printed differences have more digits than the means.
    means = [0.0, printed["pairs"][0][0], printed["pairs"][2][0]]
    test = PAIRS.get(metric) or PAIRS[printed["test"]]
    found = test(means, printed["sds"], [paper["n"]] * 3)
    from_means = test(printed["means"], printed["sds"], [paper["n"]] * 3)
    by_groups = {(it.i, it.j): it for it in found}
    rounded = {(it.i, it.j): it for it in from_means}
    named = (
        (by_groups[1, 0], rounded[1, 0]),
        (by_groups[2, 1].reversed(), rounded[2, 1].reversed()),
        (by_groups[2, 0], rounded[2, 0]),
    )
    for (pair, of_means), (difference, p, low, high) in zip(named, printed["pairs"], strict=True):
        assert of_means.difference == pytest.approx(difference, abs=0.0101)
        assert pair.difference == pytest.approx(difference, abs=1e-9)
        assert pair.low == pytest.approx(low, abs=0.0065)
        assert pair.high == pytest.approx(high, abs=0.0065)
        assert pair.p is not None
        if p == "<0.001":
            assert pair.p < 0.001
        else:
            assert pair.p == pytest.approx(float(p), abs=0.0015)


@pytest.mark.parametrize("metric", METRICS)
def test_verdicts_are_as_found(paper: dict[str, Any], metric: str) -> None:
    """Normal values with exactly these means and deviations get the paper's verdicts."""
    it = row(paper, metric)
    scores = stats.norm.ppf((np.arange(paper["n"]) + 0.5) / paper["n"])
    scores = (scores - scores.mean()) / scores.std(ddof=1)
    found = compare(
        {
            level: mean + sd * scores
            for level, mean, sd in zip(paper["levels"], it["means"], it["sds"], strict=True)
        }
    )
    apart = {(each.i, each.j) for each in found.pairs if each.verdict == DIFFERS}
    expected = set()
    if "nanosleep" not in metric:
        expected |= {("namespace", "baseline"), ("container", "baseline")}
    if metric in TELL_CONTAINERS_APART:
        expected |= {("container", "namespace")}
    assert apart == expected
    # Its container and namespace are next to the limit: Dunn's p is 0.045.
    assert (not found.disagreements) is (metric != "timer_create")
    percent = found.pair("namespace", "baseline").percent
    assert percent == pytest.approx(100 * (it["means"][1] / it["means"][0] - 1))
