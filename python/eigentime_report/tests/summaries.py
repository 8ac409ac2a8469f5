"""Tests of published means, corrected standard deviations and sizes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentime_report.statistics.intervals import Summary
from eigentime_report.statistics.tests import anova, games_howell, tukey_hsd, welch_anova


def _published(
    test: Callable[[Sequence[Summary]], Any],
) -> Callable[[Sequence[float], Sequence[float], Sequence[int]], Any]:
    return lambda means, sds, ns: test(list(map(Summary, ns, means, sds)))


def _rows(
    test: Callable[[Sequence[NDArray[np.float64]]], Any],
) -> Callable[[Sequence[float], Sequence[float], Sequence[int]], Any]:
    """The same of a test that takes values: some that have these means and deviations."""

    def row(n: int, mean: float, sd: float) -> NDArray[np.float64]:
        steps = np.arange(n) - (n - 1) / 2
        return mean + sd * steps / steps.std(ddof=1)

    return lambda means, sds, ns: test(list(map(row, ns, means, sds)))


anova_from_summary = _rows(anova)
welch_from_summary = _rows(welch_anova)
tukey_from_summary = _published(tukey_hsd)
games_howell_from_summary = _published(games_howell)
