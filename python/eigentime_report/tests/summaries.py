"""Tests of published means, corrected standard deviations and sizes."""

from collections.abc import Callable, Sequence
from typing import Any

from eigentime_report.statistics.intervals import Summary
from eigentime_report.statistics.tests import anova, games_howell, tukey_hsd, welch_anova


def _published(
    test: Callable[[Sequence[Summary]], Any],
) -> Callable[[Sequence[float], Sequence[float], Sequence[int]], Any]:
    return lambda means, sds, ns: test(list(map(Summary, ns, means, sds)))


anova_from_summary = _published(anova)
welch_from_summary = _published(welch_anova)
tukey_from_summary = _published(tukey_hsd)
games_howell_from_summary = _published(games_howell)
