"""Tests of groups: of all at once, and of all pairs with a common error rate.

What cannot be tested has no statistic and no p, and a note with the reason.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import exp, log, sqrt
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special, stats

from eigentime_report.statistics.description import (
    CONFIDENCE,
    OMEGA_SQUARED,
    RANK_ETA_SQUARED,
    Effect,
    explained,
    omega_squared,
)
from eigentime_report.statistics.intervals import Summary, Values, is_constant, t_beyond, usable

# The studentized range. scipy.stats takes 30 ms for a probability and 400 ms for a critical value,
# of which a report needs thousands; the same applies to its tukey_hsd, which takes 13 s for five
# groups with different scatter, instead of 30 ms here. statsmodels interpolates a table, with three
# digits.

# Of a normal variable, as far as values practically occur.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
Z = 8.5 * _NODES
BELOW, DENSITY = special.ndtr(Z), 8.5 * _WEIGHTS * stats.norm.pdf(Z)
# Of the estimated deviation, squared: near 0, its density behaves like a power, which need not be
# whole.
_HALVES, _HALF_WEIGHTS = np.polynomial.legendre.leggauss(48)
NODES, WEIGHTS = np.square((_HALVES + 1) / 2), _HALF_WEIGHTS * (_HALVES + 1) / 2
# Rarer events do not matter for a probability.
RARE = 1e-18


def exceeds(q: float, k: int, df: float) -> float:
    """The probability of a larger studentized range; for two means it is Student's t."""
    if k == 2:
        return float(2 * special.stdtr(df, -q / sqrt(2)))
    half = df / 2
    low = np.sqrt(special.gammaincinv(half, RARE) / half)
    high = np.sqrt(special.gammainccinv(half, RARE) / half)
    s = low + (high - low) * NODES
    log_density = (
        log(2) + half * log(half) - special.gammaln(half)
        + (df - 1) * np.log(s) - half * np.square(s)
    )  # fmt: skip
    share = np.clip(special.ndtr(Z - q * s[:, np.newaxis]) / BELOW, 0.0, 1 - 1e-16)
    # One of k is the greatest, and not all others are within q s of it.
    lost = -np.power(BELOW, k - 1) * np.expm1((k - 1) * np.log1p(-share))
    tail = k * lost @ DENSITY
    found = float((high - low) * np.dot(WEIGHTS * np.exp(log_density), tail))
    return min(max(found, 0.0), 1.0)


# All pairs of Tukey's test have the same one.
@lru_cache(maxsize=64)
def critical(alpha: float, k: int, df: float) -> float:
    """The studentized range that is exceeded with probability alpha."""
    # Bonferroni's is slightly larger.
    bound = t_beyond(alpha / (k * (k - 1)), df) * sqrt(2)
    if k == 2:
        return bound

    def excess(log_q: float) -> float:
        return log(exceeds(exp(log_q), k, df) / alpha)

    start = log(bound)
    return exp(optimize.newton(excess, start, x1=start - 0.02, rtol=1e-9))


SHAPIRO = "Shapiro-Wilk"
# The number of values for which Royston (1995, AS R94) gives p.
SHAPIRO_LEAST, SHAPIRO_MOST = 3, 5000
LEVENE = "Brown-Forsythe (Levene's test around medians)"
ANOVA, WELCH, KRUSKAL = "one-way ANOVA", "Welch's ANOVA", "Kruskal-Wallis"
TUKEY, GAMES_HOWELL, DUNN = "Tukey HSD", "Games-Howell", "Dunn (Holm)"

NO_SCATTER = "a group does not scatter: there is nothing to measure by"

Groups: TypeAlias = Sequence[ArrayLike]


@dataclass(frozen=True)
class TestResult:
    """A test of several groups at once, or of such a test's assumptions, which has no effect
    size."""

    # Not a pytest test.
    __test__ = False

    test: str
    n: int
    effect: Effect | None = None
    statistic: float | None = None
    df1: float | None = None
    df2: float | None = None
    p: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Pair:
    """Group i minus group j; the intervals of all pairs hold simultaneously."""

    i: int
    j: int
    test: str
    difference: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    statistic: float | None = None
    note: str = ""


def shapiro(values: ArrayLike) -> TestResult:
    """Whether values could come from a normal distribution, according to Shapiro and Wilk."""
    row = usable(values)
    if not SHAPIRO_LEAST <= row.size <= SHAPIRO_MOST:
        note = f"it takes {SHAPIRO_LEAST} to {SHAPIRO_MOST} values, and there are {row.size}"
        return TestResult(SHAPIRO, row.size, note=note)
    if is_constant(row):
        return TestResult(SHAPIRO, row.size, note="all values are the same")
    # It does not depend on location and scale, which would cost digits.
    centred = row - np.median(row)
    found = stats.shapiro(centred / np.max(np.abs(centred)))
    return _found(SHAPIRO, row.size, found)


def levene(groups: Groups) -> TestResult:
    """Whether groups scatter alike, around medians (Brown and Forsythe 1974)."""
    rows = [usable(group) for group in groups]
    n = sum(row.size for row in rows)
    distances = [np.abs(row - np.median(row)) for row in rows]
    note = ""
    if len(rows) < 2:
        note = "there are fewer than two groups"
    # For example two values, whose distances then differ only by rounding.
    elif all(is_constant(it, np.abs(row).max()) for it, row in zip(distances, rows)):
        note = "within each group all values are equally far from the centre"
    if note:
        return TestResult(LEVENE, n, note=note)
    found = stats.levene(*rows, center="median")
    return _found(LEVENE, n, found)


def _found(test: str, n: int, found: Any) -> TestResult:
    return TestResult(test, n, statistic=float(found.statistic), p=float(found.pvalue))


# Usable values, of which scipy takes all.
Rows: TypeAlias = Sequence[Values]
Summaries: TypeAlias = Sequence[Summary]


def summarize(groups: Groups) -> list[Summary]:
    """The data of groups that tests of pairs of means need."""
    return [Summary.of(usable(group)) for group in groups]


def untested(test: str, n: int, why: str) -> TestResult:
    """A test that was not possible, with the reason."""
    return TestResult(test, n, Effect(OMEGA_SQUARED, note=why), note=why)


def _within(groups: Summaries) -> tuple[float, int]:
    """The variance within groups, and its degrees of freedom."""
    df = sum(group.n - 1 for group in groups)
    return sum((it.n - 1) * it.variance for it in groups) / max(df, 1), df


def anova(rows: Rows, confidence: float = CONFIDENCE) -> TestResult:
    """Fisher's analysis of variance, for groups that scatter alike."""
    n = sum(row.size for row in rows)
    if len(rows) < 2 or _within(summarize(rows))[0] == 0:
        return untested(ANOVA, n, NO_SCATTER)
    return _by_f(ANOVA, rows, n - len(rows), stats.f_oneway(*rows), confidence)


def welch_anova(rows: Rows, confidence: float = CONFIDENCE) -> TestResult:
    """Welch's analysis of variance (1951): groups may scatter differently."""
    groups, k = summarize(rows), len(rows)
    if k < 2 or min(group.variance for group in groups) == 0:
        return untested(WELCH, sum(group.n for group in groups), NO_SCATTER)
    # The degrees of freedom, which the effect needs and scipy does not return.
    weights = [1 / group.error for group in groups]
    unevenness = sum(
        (1 - weight / sum(weights)) ** 2 / (group.n - 1)
        for weight, group in zip(weights, groups, strict=True)
    )
    df2 = (k * k - 1) / (3 * unevenness)
    return _by_f(WELCH, rows, df2, stats.f_oneway(*rows, equal_var=False), confidence)


def _by_f(test: str, rows: Rows, df2: float, found: Any, confidence: float) -> TestResult:
    n, df1, f = sum(row.size for row in rows), len(rows) - 1, float(found.statistic)
    size = omega_squared(f, df1, df2, n, confidence=confidence)
    return TestResult(test, n, size, f, df1, df2, float(found.pvalue))


def kruskal(groups: Groups, *, confidence: float = CONFIDENCE) -> TestResult:
    """Kruskal and Wallis's analysis of ranks, corrected for ties.

    Its effect is the share of the ranks' variance that the groups explain, H / (n - 1).
    """
    rows = [usable(group) for group in groups]
    n, k = sum(row.size for row in rows), len(rows)
    if k < 2 or n == k or is_constant(np.concatenate(rows)):
        why = "all values are the same, or there are too few"
        return TestResult(KRUSKAL, n, Effect(RANK_ETA_SQUARED, note=why), note=why)
    found = stats.kruskal(*rows)
    h = float(found.statistic)
    left = n - 1 - h
    size = Effect(RANK_ETA_SQUARED, 1.0, note="no ranks are mixed in a group")
    if left > 1e-9 * n:
        # The analysis of variance of ranks has an F that follows from H (Conover and Iman 1981).
        f = max(h, 0.0) / (k - 1) * (n - k) / left
        ends = explained(f, k - 1, n - k, n, confidence)
        size = Effect(RANK_ETA_SQUARED, h / (n - 1), *ends)
    return TestResult(KRUSKAL, n, size, h, k - 1, None, float(found.pvalue))


def pairs_of(count: int) -> list[tuple[int, int]]:
    """Each later group with each earlier one."""
    return [(later, earlier) for earlier, later in combinations(range(count), 2)]


def tukey_hsd(groups: Summaries, confidence: float = CONFIDENCE) -> list[Pair]:
    """Tukey's test of all pairs, with Kramer's correction for unequal sizes; groups scatter
    alike."""
    within, df = _within(groups)

    def error(a: Summary, b: Summary) -> tuple[float, float]:
        return sqrt(within * (1 / a.n + 1 / b.n)), df

    return _by_range(TUKEY, groups, error, confidence)


def games_howell(groups: Summaries, confidence: float = CONFIDENCE) -> list[Pair]:
    """Games and Howell's test of all pairs (1976): groups may scatter differently."""

    def error(a: Summary, b: Summary) -> tuple[float, float]:
        if (both := a.error + b.error) == 0:
            return 0.0, 1.0
        parts = sum((it.error / both) ** 2 / (it.n - 1) for it in (a, b) if it.error)
        return sqrt(both), 1 / parts

    return _by_range(GAMES_HOWELL, groups, error, confidence)


def _by_range(
    test: str,
    groups: Summaries,
    error_of: Callable[[Summary, Summary], tuple[float, float]],
    confidence: float,
) -> list[Pair]:
    """p and interval of each; the studentized range is a t times the root of 2."""
    found = []
    for i, j in pairs_of(len(groups)):
        difference = groups[i].mean - groups[j].mean
        error, df = error_of(groups[i], groups[j])
        if error == 0:
            found.append(Pair(i, j, test, difference, note=NO_SCATTER))
            continue
        t = difference / error
        p = exceeds(abs(t) * sqrt(2), len(groups), df)
        reach = critical(1 - confidence, len(groups), df) / sqrt(2) * error
        ends = difference - reach, difference + reach
        found.append(Pair(i, j, test, difference, *ends, p, t))
    return found


def holm(p: Sequence[float]) -> list[float]:
    """Adjusted so that all of them together have an error rate of alpha (Holm 1979).

    statsmodels has this, but takes more than a second to import because of pandas; scipy does
    not have it.
    """
    order = np.argsort(p)
    steps = np.asarray(p)[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return [float(it) for it in adjusted]


def dunn(groups: Groups) -> list[Pair]:
    """Dunn's test of all pairs by their mean ranks (1964), corrected for ties and adjusted by Holm.

    Neither scipy nor statsmodels has it. The differences are of mean ranks. They have no
    interval: their error is that of groups which do not differ.
    """
    rows: list[Values] = [usable(group) for group in groups]
    pairs = pairs_of(len(rows))
    if not pairs or is_constant(np.concatenate(rows)):
        return [Pair(i, j, DUNN, 0.0, note="all values are the same") for i, j in pairs]
    ranks = stats.rankdata(np.concatenate(rows))
    parts = np.split(ranks, np.cumsum([row.size for row in rows])[:-1])
    # The variance of the ranks, including ties.
    variance = float(np.var(ranks, ddof=1))
    apart = [float(parts[i].mean() - parts[j].mean()) for i, j in pairs]
    z = [
        it / sqrt(variance * (1 / rows[i].size + 1 / rows[j].size))
        for it, (i, j) in zip(apart, pairs, strict=True)
    ]
    p = holm([float(2 * special.ndtr(-abs(it))) for it in z])
    return [
        Pair(i, j, DUNN, apart[at], p=p[at], statistic=z[at]) for at, (i, j) in enumerate(pairs)
    ]
