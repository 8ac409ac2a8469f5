"""Which of several groups differ: all pairs, with an error rate that holds for them together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from eigentime_report.statistics import studentized_range
from eigentime_report.statistics.groups import (
    Summary,
    is_constant,
    summaries,
    summarize,
    unusable_groups,
    values_of,
    variance_within,
)

TUKEY = "Tukey HSD"
GAMES_HOWELL = "Games-Howell"
DUNN = "Dunn"


@dataclass(frozen=True)
class Pair:
    """Group i minus group j; the interval holds for all pairs together."""

    i: int
    j: int
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    statistic: float | None
    test: str
    df: float | None = None
    note: str = ""

    def reversed(self) -> Pair:
        """Group j minus group i."""
        return replace(
            self,
            i=self.j,
            j=self.i,
            difference=_negative(self.difference),
            low=_negative(self.high),
            high=_negative(self.low),
            statistic=_negative(self.statistic),
        )


def _negative(value: float | None) -> float | None:
    return None if value is None else -value


def pairs_of(count: int) -> list[tuple[int, int]]:
    """Each later group with each earlier one."""
    return [(later, earlier) for earlier, later in combinations(range(count), 2)]


def tukey_hsd(groups: Sequence[ArrayLike], confidence: float = 0.95) -> list[Pair]:
    """Tukey's test of all pairs, Kramer's for unequal sizes: of groups that scatter alike."""
    return _of_values(_tukey, groups, confidence, TUKEY)


def games_howell(groups: Sequence[ArrayLike], confidence: float = 0.95) -> list[Pair]:
    """Games and Howell's test of all pairs (1976): groups may scatter differently."""
    return _of_values(_games_howell, groups, confidence, GAMES_HOWELL)


def tukey_from_summary(
    means: Sequence[float],
    sds: Sequence[float],
    ns: Sequence[int],
    confidence: float = 0.95,
) -> list[Pair]:
    """Tukey's test of published means, corrected standard deviations and sizes."""
    return _tukey(summaries(means, sds, ns), confidence)


def games_howell_from_summary(
    means: Sequence[float],
    sds: Sequence[float],
    ns: Sequence[int],
    confidence: float = 0.95,
) -> list[Pair]:
    """Games and Howell's test of published means, corrected standard deviations and sizes."""
    return _games_howell(summaries(means, sds, ns), confidence)


def _of_values(
    test: Callable[[Sequence[Summary], float], list[Pair]],
    groups: Sequence[ArrayLike],
    confidence: float,
    name: str,
) -> list[Pair]:
    rows = [values_of(group) for group in groups]
    if reason := unusable_groups(rows):
        return [untested(i, j, None, name, reason) for i, j in pairs_of(len(rows))]
    return test([summarize(row) for row in rows], confidence)


def untested(i: int, j: int, difference: float | None, test: str, why: str) -> Pair:
    """A pair that could not be tested, and why."""
    return Pair(i, j, difference, None, None, None, None, test, note=why)


@dataclass(frozen=True)
class _Contrast:
    """A difference of two means with its standard error, or why there is none."""

    i: int
    j: int
    difference: float
    error: float = 0.0
    df: float = 0.0
    why: str = ""


def _tukey(groups: Sequence[Summary], confidence: float) -> list[Pair]:
    df = sum(group.n for group in groups) - len(groups)
    within = variance_within(groups)
    why = "" if within > 0 else "no group scatters: there is nothing to measure by"
    return _by_studentized_range(
        [
            _Contrast(
                i,
                j,
                groups[i].mean - groups[j].mean,
                sqrt(within * (1 / groups[i].n + 1 / groups[j].n)),
                df,
                why,
            )
            for i, j in pairs_of(len(groups))
        ],
        len(groups),
        confidence,
        TUKEY,
    )


def _games_howell(groups: Sequence[Summary], confidence: float) -> list[Pair]:
    contrasts = [
        _welch_contrast(i, j, groups[i], groups[j]) for i, j in pairs_of(len(groups))
    ]
    return _by_studentized_range(contrasts, len(groups), confidence, GAMES_HOWELL)


def _welch_contrast(i: int, j: int, a: Summary, b: Summary) -> _Contrast:
    difference = a.mean - b.mean
    if min(a.n, b.n) < 2:
        why = "a group has a single value, which does not scatter"
        return _Contrast(i, j, difference, why=why)
    variance = a.mean_variance + b.mean_variance
    if variance == 0:
        why = "neither group scatters: there is nothing to measure by"
        return _Contrast(i, j, difference, why=why)
    share_a, share_b = a.mean_variance / variance, b.mean_variance / variance
    df = 1 / (share_a**2 / (a.n - 1) + share_b**2 / (b.n - 1))
    return _Contrast(i, j, difference, sqrt(variance), df)


def _by_studentized_range(
    contrasts: Sequence[_Contrast], k: int, confidence: float, test: str
) -> list[Pair]:
    """p and interval of each; the studentized range is a t times the root of 2."""
    tested = [contrast for contrast in contrasts if not contrast.why]
    found = {}
    if tested:
        df = np.array([contrast.df for contrast in tested])
        t = np.array([contrast.difference / contrast.error for contrast in tested])
        p = studentized_range.exceeds(np.abs(t) * sqrt(2), k, df)
        critical = studentized_range.critical(1 - confidence, k, df) / sqrt(2)
        for place, contrast in enumerate(tested):
            reach = float(critical[place]) * contrast.error
            found[contrast.i, contrast.j] = Pair(
                contrast.i,
                contrast.j,
                contrast.difference,
                contrast.difference - reach,
                contrast.difference + reach,
                float(p[place]),
                float(t[place]),
                test,
                contrast.df,
            )
    return [
        found.get((it.i, it.j)) or untested(it.i, it.j, it.difference, test, it.why)
        for it in contrasts
    ]


def _holm(p: Sequence[float]) -> list[float]:
    adjusted, greatest = [0.0] * len(p), 0.0
    for done, place in enumerate(sorted(range(len(p)), key=lambda at: p[at])):
        greatest = max(greatest, min((len(p) - done) * p[place], 1.0))
        adjusted[place] = greatest
    return adjusted


ADJUSTMENTS: dict[str, Callable[[Sequence[float]], list[float]]] = {
    "holm": _holm,
    "bonferroni": lambda p: [min(len(p) * each, 1.0) for each in p],
    "none": list,
}


def dunn(groups: Sequence[ArrayLike], adjust: str = "holm") -> list[Pair]:
    """Dunn's test of all pairs by their mean ranks (1964), corrected for ties.

    The differences are of mean ranks. They have no interval: the error that they are
    measured by is that of groups which do not differ.
    """
    if adjust not in ADJUSTMENTS:
        raise ValueError(f"adjust is one of {', '.join(ADJUSTMENTS)}, not {adjust!r}")
    rows = [values_of(group) for group in groups]
    test = DUNN if adjust == "none" else f"{DUNN} ({adjust.capitalize()})"
    all_pairs = pairs_of(len(rows))
    reason = unusable_groups(rows)
    together = np.concatenate(rows) if rows else np.empty(0)
    if not reason and is_constant(together):
        reason = "all values are the same"
    if reason:
        return [untested(i, j, None, test, reason) for i, j in all_pairs]
    ranks = stats.rankdata(together)
    ends = np.cumsum([row.size for row in rows])
    means = [float(part.mean()) for part in np.split(ranks, ends[:-1])]
    # The variance of the ranks themselves, in which ties are reckoned with.
    variance = float(np.var(ranks, ddof=1))
    statistics = [
        (means[i] - means[j]) / sqrt(variance * (1 / rows[i].size + 1 / rows[j].size))
        for i, j in all_pairs
    ]
    p = ADJUSTMENTS[adjust]([float(2 * special.ndtr(-abs(z))) for z in statistics])
    return [
        Pair(i, j, means[i] - means[j], None, None, p[place], statistics[place], test)
        for place, (i, j) in enumerate(all_pairs)
    ]
