"""Whether any of several groups differs: analyses of variance, and of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from eigentime_report.statistics import effects
from eigentime_report.statistics.effects import CONFIDENCE, Effect, no_effect_size
from eigentime_report.statistics.groups import (
    Summary,
    is_constant,
    summaries,
    summarize,
    unusable_groups,
    values_of,
    variance_between,
    variance_within,
)

ANOVA = "one-way ANOVA"
WELCH = "Welch's ANOVA"
KRUSKAL = "Kruskal-Wallis"


@dataclass(frozen=True)
class Omnibus:
    """A test of several groups at once; without a statistic and a p, the note says why."""

    test: str
    statistic: float | None
    df1: float | None
    df2: float | None
    p: float | None
    n: int
    effect: Effect
    note: str = ""


def untested(
    test: str, n: int, why: str, effect: str = effects.OMEGA_SQUARED
) -> Omnibus:
    """A test that could not be made, and why."""
    size = no_effect_size(effect, CONFIDENCE, why)
    return Omnibus(test, None, None, None, None, n, size, why)


def anova(groups: Sequence[ArrayLike], *, confidence: float = CONFIDENCE) -> Omnibus:
    """Fisher's analysis of variance: of groups that scatter alike."""
    return _of_values(ANOVA, groups, confidence)


def anova_from_summary(
    means: Sequence[float],
    sds: Sequence[float],
    ns: Sequence[int],
    *,
    confidence: float = CONFIDENCE,
) -> Omnibus:
    """The same of published means, corrected standard deviations and sizes."""
    return _of_summaries(ANOVA, summaries(means, sds, ns), confidence)


def welch_anova(
    groups: Sequence[ArrayLike], *, confidence: float = CONFIDENCE
) -> Omnibus:
    """Welch's analysis of variance (1951): groups may scatter differently."""
    return _of_values(WELCH, groups, confidence)


def welch_from_summary(
    means: Sequence[float],
    sds: Sequence[float],
    ns: Sequence[int],
    *,
    confidence: float = CONFIDENCE,
) -> Omnibus:
    """The same of published means, corrected standard deviations and sizes."""
    return _of_summaries(WELCH, summaries(means, sds, ns), confidence)


def _of_values(test: str, groups: Sequence[ArrayLike], confidence: float) -> Omnibus:
    rows = [values_of(group) for group in groups]
    if reason := unusable_groups(rows):
        return untested(test, sum(row.size for row in rows), reason)
    return _of_summaries(test, [summarize(row) for row in rows], confidence)


def _of_summaries(test: str, groups: Sequence[Summary], confidence: float) -> Omnibus:
    n = sum(group.n for group in groups)
    found = _too_few(groups, n) or RATIOS[test](groups, n)
    if isinstance(found, str):
        return untested(test, n, found)
    statistic, df1, df2 = found
    size = effects.omega_squared(statistic, df1, df2, n, confidence=confidence)
    p = float(special.fdtrc(df1, df2, statistic))
    return Omnibus(test, statistic, df1, df2, p, n, size)


def _too_few(groups: Sequence[Summary], n: int) -> str:
    if len(groups) < 2:
        return "there are fewer than two groups"
    return "each group has a single value" if n == len(groups) else ""


# F and its two degrees of freedom, or why there are none.
Ratio: TypeAlias = tuple[float, float, float] | str


def _fisher(groups: Sequence[Summary], n: int) -> Ratio:
    k = len(groups)
    within = variance_within(groups)
    if within == 0:
        return "no group scatters: there is nothing to measure by"
    return variance_between(groups) / within, k - 1, n - k


def _welch(groups: Sequence[Summary], _n: int) -> Ratio:
    k = len(groups)
    if min(group.n for group in groups) < 2:
        return "a group has a single value, which does not scatter"
    least = min(group.mean_variance for group in groups)
    if least == 0:
        return "a group does not scatter: it would weigh infinitely"
    weights = [least / group.mean_variance for group in groups]
    total = sum(weights)
    base = groups[0].mean
    offsets = [group.mean - base for group in groups]
    middle = sum(w * offset for w, offset in zip(weights, offsets, strict=True)) / total
    between = sum(
        w * (offset - middle) ** 2 for w, offset in zip(weights, offsets, strict=True)
    )
    unevenness = sum(
        (1 - w / total) ** 2 / (group.n - 1)
        for w, group in zip(weights, groups, strict=True)
    )
    correction = 1 + 2 * (k - 2) / (k * k - 1) * unevenness
    statistic = between / least / (k - 1) / correction
    return statistic, k - 1, (k * k - 1) / (3 * unevenness)


RATIOS = {ANOVA: _fisher, WELCH: _welch}


def kruskal(groups: Sequence[ArrayLike], *, confidence: float = CONFIDENCE) -> Omnibus:
    """Kruskal and Wallis's analysis of ranks, corrected for ties.

    Its effect is the share of the ranks' variance that the groups explain, H / (n - 1).
    """
    rows = [values_of(group) for group in groups]
    n, k = sum(row.size for row in rows), len(rows)
    if reason := unusable_groups(rows):
        return untested(KRUSKAL, n, reason, effects.RANK_ETA_SQUARED)
    if n == k:
        why = "each group has a single value"
        return untested(KRUSKAL, n, why, effects.RANK_ETA_SQUARED)
    if is_constant(np.concatenate(rows)):
        why = "all values are the same"
        return untested(KRUSKAL, n, why, effects.RANK_ETA_SQUARED)
    found = stats.kruskal(*rows)
    h = float(found.statistic)
    return Omnibus(
        KRUSKAL,
        h,
        k - 1,
        None,
        float(found.pvalue),
        n,
        _explained_ranks(h, k, n, confidence),
    )


def _explained_ranks(h: float, k: int, n: int, confidence: float) -> Effect:
    """The analysis of variance of ranks has an F that H tells (Conover and Iman 1981)."""
    left = n - 1 - h
    if left <= 1e-9 * n:
        note = "no ranks are mixed within the groups"
        name = effects.RANK_ETA_SQUARED
        return effects.effect(name, 1.0, None, None, confidence, note)
    f = max(h, 0.0) / (k - 1) * (n - k) / left
    return effects.eta_squared(
        f, k - 1, n - k, n, confidence=confidence, name=effects.RANK_ETA_SQUARED
    )
