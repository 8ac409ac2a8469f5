"""How large effects are, with confidence intervals; the first group is set against the second."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from math import exp, sqrt

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from eigentime_report.statistics.groups import (
    LEAST,
    Summary,
    Values,
    summarize,
    t_beyond,
    unusable,
    values_of,
)
from eigentime_report.statistics.intervals import DRAWS, SEED, quantile_draws
from eigentime_report.statistics.noncentral import f_noncentrality, t_noncentrality

CONFIDENCE = 0.95

HEDGES_G = "Hedges' g"
CLIFFS_DELTA = "Cliff's delta"
OMEGA_SQUARED = "omega squared"
ETA_SQUARED = "eta squared"
RANK_ETA_SQUARED = "eta squared of ranks"
MEDIAN_RATIO = "ratio of medians"
MEAN_RATIO = "ratio of means"

SIZES = ("negligible", "small", "medium", "large")

# From where an effect is small, medium, large.
MAGNITUDES = {
    HEDGES_G: (0.2, 0.5, 0.8),  # Cohen 1988
    CLIFFS_DELTA: (0.147, 0.33, 0.474),  # Romano and others 2006
    OMEGA_SQUARED: (0.01, 0.06, 0.14),  # Cohen 1988
    ETA_SQUARED: (0.01, 0.06, 0.14),
    RANK_ETA_SQUARED: (0.01, 0.06, 0.14),
}


@dataclass(frozen=True)
class Effect:
    """An effect's size; what cannot be reckoned is None, and the note says why."""

    name: str
    value: float | None
    low: float | None
    high: float | None
    confidence: float
    # Of SIZES; empty where nobody has said from where an effect of this kind is large.
    magnitude: str
    note: str = ""


def effect(
    name: str,
    value: float,
    low: float | None,
    high: float | None,
    confidence: float,
    note: str = "",
) -> Effect:
    """An effect with its magnitude."""
    limits = MAGNITUDES.get(name)
    size = SIZES[bisect_right(limits, abs(value))] if limits else ""
    return Effect(name, value, low, high, confidence, size, note)


def no_effect_size(name: str, confidence: float, why: str) -> Effect:
    """An effect that cannot be told, and why."""
    return Effect(name, None, None, None, confidence, "", why)


def _unusable_pair(a: Values, b: Values, least: int) -> str:
    for place, group in (("first", a), ("second", b)):
        if reason := unusable(group):
            return f"{place} group: {reason}"
        if group.size < least:
            return f"the {place} group has {group.size} of at least {least} values"
    return ""


def hedges_g(
    a: ArrayLike, b: ArrayLike, *, confidence: float = CONFIDENCE, pooled: bool = False
) -> Effect:
    """The difference of means in standard deviations, without the bias of small samples.

    The deviation is the root of the mean variance, so that variances may differ; `pooled`
    takes the classic one. The interval is that of the noncentral t (Delacre and others 2021).
    """
    first, second = values_of(a), values_of(b)
    if reason := _unusable_pair(first, second, 2):
        return no_effect_size(HEDGES_G, confidence, reason)
    return hedges_g_from_summary(
        summarize(first), summarize(second), confidence=confidence, pooled=pooled
    )


def hedges_g_from_summary(
    a: Summary, b: Summary, *, confidence: float = CONFIDENCE, pooled: bool = False
) -> Effect:
    """Hedges' g of means, standard deviations and sizes."""
    df_a, df_b = a.n - 1, b.n - 1
    if df_a < 1 or df_b < 1:
        why = "a single value does not scatter"
        return no_effect_size(HEDGES_G, confidence, why)
    if a.variance + b.variance == 0:
        why = "neither group scatters: there is no deviation to measure by"
        return no_effect_size(HEDGES_G, confidence, why)
    if pooled:
        df = float(df_a + df_b)
        variance = (df_a * a.variance + df_b * b.variance) / df
        unit = sqrt(1 / a.n + 1 / b.n)
    else:
        variance = (a.variance + b.variance) / 2
        share_a, share_b = a.variance / variance / 2, b.variance / variance / 2
        df = 1 / (share_a**2 / df_a + share_b**2 / df_b)
        unit = sqrt(2 * (share_a / a.n + share_b / b.n))
    if df < 2:
        why = f"{a.n} and {b.n} values are too few for a standard deviation"
        return no_effect_size(HEDGES_G, confidence, why)
    d = (a.mean - b.mean) / sqrt(variance)
    unbiased = exp(special.gammaln(df / 2) - special.gammaln((df - 1) / 2)) / sqrt(
        df / 2
    )
    low, high = (unit * end for end in t_noncentrality(d / unit, df, confidence))
    return effect(HEDGES_G, unbiased * d, low, high, confidence)


def cliffs_delta(
    a: ArrayLike, b: ArrayLike, *, confidence: float = CONFIDENCE
) -> Effect:
    """How much more often a value of the first group is greater than one of the second than less.

    The interval is that of Feng and Cliff (2004), with Student's t.
    """
    first, second = values_of(a), values_of(b)
    if reason := _unusable_pair(first, second, 2):
        return no_effect_size(CLIFFS_DELTA, confidence, reason)
    m, n = first.size, second.size
    over, under = _dominance(first, second)
    back_over, back_under = _dominance(second, first)
    delta = float(np.mean(over - under)) / n
    t = t_beyond((1 - confidence) / 2, m + n - 2)
    if abs(delta) == 1:
        # Without any overlap the variance would be 0 (Feng and Cliff 2004, p. 325).
        least = min(m, n)
        inner = (least - t * t) / (least + t * t)
        low, high = (inner, 1.0) if delta > 0 else (-1.0, -inner)
        note = "the groups do not overlap"
        return effect(CLIFFS_DELTA, delta, low, high, confidence, note)
    rows = float(np.sum(np.square((over - under) / n - delta)))
    columns = float(np.sum(np.square((back_under - back_over) / m - delta)))
    untied = float(np.sum(over + under))
    cells = untied - m * n * delta**2
    variance = (n * n * rows + m * m * columns - cells) / (m * n * (m - 1) * (n - 1))
    variance = max(variance, (1 - delta**2) / (m * n - 1))
    reach = t * sqrt(variance) * sqrt((1 - delta**2) ** 2 + t * t * variance)
    scale = 1 - delta**2 + t * t * variance
    low = max((delta - delta**3 - reach) / scale, -1.0)
    high = min((delta - delta**3 + reach) / scale, 1.0)
    return effect(CLIFFS_DELTA, delta, low, high, confidence)


def _dominance(a: Values, b: Values) -> tuple[Values, Values]:
    """For each of a, how many of b are less, and how many are greater."""
    ordered = np.sort(b)
    less = np.searchsorted(ordered, a, side="left").astype(np.float64)
    greater = b.size - np.searchsorted(ordered, a, side="right").astype(np.float64)
    return less, greater


def omega_squared(
    statistic: float,
    df1: float,
    df2: float,
    n: int,
    *,
    confidence: float = CONFIDENCE,
) -> Effect:
    """The share of the variance that the groups explain, by an F of n values; nearly unbiased.

    The interval is that of the noncentral F (Steiger 2004); by Welch's F it is an
    approximation, as that F is.
    """
    gained = df1 * (statistic - 1)
    value = max(gained / (gained + n), 0.0) if gained + n > 0 else 0.0
    low, high = _explained(statistic, df1, df2, n, confidence)
    return effect(OMEGA_SQUARED, value, low, high, confidence)


def eta_squared(
    statistic: float,
    df1: float,
    df2: float,
    n: int,
    *,
    confidence: float = CONFIDENCE,
    name: str = ETA_SQUARED,
) -> Effect:
    """The share of the sample's variance that the groups explain, with the same interval."""
    value = df1 * statistic / (df1 * statistic + df2)
    low, high = _explained(statistic, df1, df2, n, confidence)
    return effect(name, value, low, high, confidence)


def _explained(
    statistic: float, df1: float, df2: float, n: int, confidence: float
) -> tuple[float, float]:
    low, high = f_noncentrality(statistic, df1, df2, confidence)
    return low / (low + n), high / (high + n)


# With fewer values the middle of a sample hardly ever leaves it.
FEWEST_FOR_MEDIANS = 5


def median_ratio(
    a: ArrayLike,
    b: ArrayLike,
    *,
    confidence: float = CONFIDENCE,
    seed: int = SEED,
) -> Effect:
    """The first median by the second, with the percentile interval of the bootstrap."""
    first, second = values_of(a), values_of(b)
    if reason := _unusable_pair(first, second, 1):
        return no_effect_size(MEDIAN_RATIO, confidence, reason)
    base = float(np.median(second))
    if base <= LEAST:
        why = f"the second median is {base:.6g}: ratios need one that is greater than 0"
        return no_effect_size(MEDIAN_RATIO, confidence, why)
    value = float(np.median(first)) / base
    if min(first.size, second.size) < FEWEST_FOR_MEDIANS:
        note = f"no interval: fewer than {FEWEST_FOR_MEDIANS} values in a group"
        return effect(MEDIAN_RATIO, value, None, None, confidence, note)
    above, below = median_draws(first, second, seed)
    if float(below.min()) <= 0:
        note = "no interval: the second median might as well be 0"
        return effect(MEDIAN_RATIO, value, None, None, confidence, note)
    alpha = (1 - confidence) / 2
    low, high = np.quantile(above / below, (alpha, 1 - alpha))
    return effect(MEDIAN_RATIO, value, float(low), float(high), confidence)


def median_draws(a: Values, b: Values, seed: int) -> tuple[Values, Values]:
    """Medians of bootstrap samples of two groups that know nothing of each other."""
    first = quantile_draws(a, 0.5, count=DRAWS, seed=seed)
    second = quantile_draws(b, 0.5, count=DRAWS, seed=seed + 1)
    return first, second


def mean_ratio(a: ArrayLike, b: ArrayLike, *, confidence: float = CONFIDENCE) -> Effect:
    """The first mean by the second, with Fieller's interval (1954), Welch's degrees of freedom."""
    first, second = values_of(a), values_of(b)
    if reason := _unusable_pair(first, second, 2):
        return no_effect_size(MEAN_RATIO, confidence, reason)
    one, other = summarize(first), summarize(second)
    if other.mean <= LEAST:
        why = f"the second mean is {other.mean:.6g}: ratios need one that is greater than 0"
        return no_effect_size(MEAN_RATIO, confidence, why)
    value = one.mean / other.mean
    # In units of the second mean.
    error_a = one.mean_variance / other.mean**2
    error_b = other.mean_variance / other.mean**2
    if error_a + value**2 * error_b == 0:
        note = "neither group scatters" if error_a + error_b == 0 else ""
        return effect(MEAN_RATIO, value, value, value, confidence, note)
    share = error_a / (error_a + value**2 * error_b)
    df = 1 / (share**2 / (one.n - 1) + (1 - share) ** 2 / (other.n - 1))
    t = t_beyond((1 - confidence) / 2, df)
    steady = 1 - t * t * error_b
    if steady <= 0:
        note = "no interval: the second mean might as well be 0"
        return effect(MEAN_RATIO, value, None, None, confidence, note)
    reach = t * sqrt(max(error_a * steady + value**2 * error_b, 0.0))
    return effect(
        MEAN_RATIO,
        value,
        (value - reach) / steady,
        (value + reach) / steady,
        confidence,
    )
