"""What tests of means assume: that values are normal, and that groups scatter alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from eigentime_report.statistics.groups import (
    Values,
    is_constant,
    summarize,
    unusable,
    unusable_groups,
    values_of,
    variance_between,
    variance_within,
)

SHAPIRO = "Shapiro-Wilk"
# Royston (1995, AS R94) gives p for so many values.
SHAPIRO_LEAST, SHAPIRO_MOST = 3, 5000


@dataclass(frozen=True)
class TestResult:
    """A test's outcome; without a statistic and a p, the note says why."""

    # Not a test of pytest's.
    __test__ = False

    test: str
    n: int
    statistic: float | None
    p: float | None
    note: str = ""


def shapiro(values: ArrayLike) -> TestResult:
    """Whether values could come from a normal distribution, by Shapiro and Wilk."""
    row = values_of(values)
    if reason := _no_shapiro(row):
        return TestResult(SHAPIRO, row.size, None, None, reason)
    # Neither place nor scale matter to it, and digits are lost to both.
    centred = row - np.median(row)
    found = stats.shapiro(centred / np.max(np.abs(centred)))
    return TestResult(SHAPIRO, row.size, float(found.statistic), float(found.pvalue))


def _no_shapiro(row: Values) -> str:
    if reason := unusable(row):
        return reason
    if row.size < SHAPIRO_LEAST:
        return f"it needs {SHAPIRO_LEAST} values, and there are {row.size}"
    if row.size > SHAPIRO_MOST:
        return (
            f"its p is known up to {SHAPIRO_MOST} values, and there are {row.size}: "
            "so many differ from any distribution"
        )
    return "all values are the same" if is_constant(row) else ""


@dataclass(frozen=True)
class Centre:
    """Where the distances of Levene's test are taken from."""

    test: str
    of: Callable[[Values], float]


CENTRES = {
    "median": Centre(
        "Brown-Forsythe (Levene's test around medians)",
        lambda values: float(np.median(values)),
    ),
    "mean": Centre(
        "Levene (around means)", lambda values: float(summarize(values).mean)
    ),
}


def levene(groups: Sequence[ArrayLike], center: str = "median") -> TestResult:
    """Whether groups scatter alike: an analysis of variance of the distances from the centres.

    Around the median it is Brown and Forsythe's (1974), which does not mind skewed values;
    around the mean Levene's own (1960), which SPSS prints first.
    """
    if center not in CENTRES:
        raise ValueError(f"center is one of {', '.join(CENTRES)}, not {center!r}")
    centre = CENTRES[center]
    rows = [values_of(group) for group in groups]
    n = sum(row.size for row in rows)
    if reason := unusable_groups(rows):
        return TestResult(centre.test, n, None, None, reason)
    distances = [np.abs(row - centre.of(row)) for row in rows]
    # Of two values, say, whose distances then differ by rounding.
    sizes = [float(np.abs(row).max()) for row in rows]
    if all(map(is_constant, distances, sizes)):
        why = "within each group all values are equally far from the centre"
        return TestResult(centre.test, n, None, None, why)
    around = [summarize(distance) for distance in distances]
    f = variance_between(around) / variance_within(around)
    p = float(stats.f.sf(f, len(rows) - 1, n - len(rows)))
    return TestResult(centre.test, n, f, p)
