"""Descriptions of values, and effect sizes of the first group against the second."""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, sqrt

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from eigentime_report.statistics.intervals import (
    Ordered,
    Summary,
    Values,
    quantile_draws,
    t_beyond,
    usable,
)
from eigentime_report.verdicts import SEED

# The quantiles of the tail, reported if at least this many values lie beyond.
TAIL = (0.9, 0.99, 0.999, 0.9999)
BEYOND = 10

# Tukey, Exploratory Data Analysis, 1977: fences in interquartile ranges from the quartiles.
MILD, SEVERE = 1.5, 3.0


@dataclass(frozen=True)
class Descriptives:
    """The description of a sample."""

    n: int
    mean: float
    # Divided by n: the standard deviation of these values.
    sd_uncorrected: float
    # Divided by n - 1: an estimate for the population; None for a single value.
    sd: float | None
    median: float
    # Median absolute deviation.
    mad: float
    # Half the interquartile range, which some papers call MAD.
    half_iqr: float
    minimum: float
    maximum: float
    quantiles: Mapping[float, float]


def describe(values: ArrayLike, weights: ArrayLike | None = None) -> Descriptives:
    """Mean, scatter, median and tail; weights are the frequencies of values."""
    ordered = Ordered.of(values, weights)
    n, counts, median = ordered.n, ordered.counts, ordered.quantile(0.5)
    # Relative to a middle value, so that large values with little scatter keep their digits.
    middle = float(ordered.at(n // 2))
    around = ordered.values - middle
    shift = float(np.average(around, weights=counts))
    square = float(np.average(np.square(around - shift), weights=counts))
    tail = (q for q in TAIL if n * (1 - q) >= BEYOND - 1e-9)
    return Descriptives(
        n=n,
        mean=middle + shift,
        sd_uncorrected=square**0.5,
        sd=(square * n / (n - 1)) ** 0.5 if n > 1 else None,
        median=median,
        mad=Ordered.of(np.abs(ordered.values - median), counts).quantile(0.5),
        half_iqr=(ordered.quantile(0.75) - ordered.quantile(0.25)) / 2,
        minimum=float(ordered.values[0]),
        maximum=float(ordered.values[-1]),
        quantiles={q: ordered.quantile(q) for q in tail},
    )


@dataclass(frozen=True)
class Outliers:
    """The number of values beyond Tukey's fences: counted, never removed."""

    # Those between the inner and outer fences, and those beyond the outer ones.
    mild: int
    severe: int
    note: str = ""


def outliers(values: ArrayLike, weights: ArrayLike | None = None) -> Outliers:
    """Values beyond 1.5 (mild) and 3 (severe) interquartile ranges from the quartiles."""
    ordered = Ordered.of(values, weights)
    first, third = ordered.quantile(0.25), ordered.quantile(0.75)
    width = third - first

    def outside(fence: float) -> int:
        below = ordered.up_to(float(np.nextafter(first - fence * width, -np.inf)))
        return below + ordered.n - ordered.up_to(third + fence * width)

    note = ""
    if width == 0:
        note = "half of the values are the same: each other one is beyond the fences"
    if ordered.values[0] == ordered.values[-1]:
        note = "all values are the same"
    severe = outside(SEVERE)
    return Outliers(outside(MILD) - severe, severe, note)


CONFIDENCE = 0.95

HEDGES_G = "Hedges' g"
CLIFFS_DELTA = "Cliff's delta"
OMEGA_SQUARED = "omega squared"
RANK_ETA_SQUARED = "eta squared of ranks"
MEDIAN_RATIO = "ratio of medians"
MEAN_RATIO = "ratio of means"

SIZES = ("negligible", "small", "medium", "large")

# The limits of small, medium and large effects.
MAGNITUDES = {
    HEDGES_G: (0.2, 0.5, 0.8),  # Cohen 1988
    CLIFFS_DELTA: (0.147, 0.33, 0.474),  # Romano and others 2006
    OMEGA_SQUARED: (0.01, 0.06, 0.14),  # Cohen 1988
    RANK_ETA_SQUARED: (0.01, 0.06, 0.14),
}

# With fewer values, the middle of a sample hardly ever leaves it.
FEWEST_FOR_MEDIANS = 5
# For a larger noncentral t, only the scatter of the estimated deviation matters, and scipy's search
# fails.
FAR = 1e3
# The same for a noncentral F, by its square.
FAR_SQUARED = 5e3


@dataclass(frozen=True)
class Effect:
    """The size of an effect; None if it cannot be computed, with the reason in the note."""

    name: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""

    @property
    def magnitude(self) -> str:
        """One of SIZES; empty for effects without established limits."""
        limits = MAGNITUDES.get(self.name)
        if limits is None or self.value is None:
            return ""
        return SIZES[bisect_right(limits, abs(self.value))]


def hedges_g(a: ArrayLike, b: ArrayLike, *, confidence: float = CONFIDENCE) -> Effect:
    """The difference of means in standard deviations, corrected for small samples.

    The deviation is the root of the mean variance, so that variances may differ. The interval is
    that of the noncentral t (Delacre and others 2021).
    """
    one, other = Summary.of(usable(a)), Summary.of(usable(b))
    variance = (one.variance + other.variance) / 2
    if variance == 0:
        why = "neither group scatters: there is no deviation to measure by"
        return Effect(HEDGES_G, note=why)
    share_a, share_b = one.variance / variance / 2, other.variance / variance / 2
    df = 1 / sum(share**2 / (it.n - 1) for share, it in ((share_a, one), (share_b, other)) if share)
    if df < 2:
        why = f"{one.n} and {other.n} values are too few for a standard deviation"
        return Effect(HEDGES_G, note=why)
    unit = sqrt(2 * (share_a / one.n + share_b / other.n))
    d = (one.mean - other.mean) / sqrt(variance)
    t, alpha = d / unit, (1 - confidence) / 2
    if abs(t) > FAR:
        ends = sorted(t * np.sqrt(special.chdtri(df, (1 - alpha, alpha)) / df))
    else:
        ends = special.nctdtrinc(df, (1 - alpha, alpha), t)
    low, high = (unit * float(end) for end in ends)
    log_bias = special.gammaln(df / 2) - special.gammaln((df - 1) / 2)
    return Effect(HEDGES_G, d * exp(log_bias) / sqrt(df / 2), low, high)


def cliffs_delta(a: ArrayLike, b: ArrayLike, *, confidence: float = CONFIDENCE) -> Effect:
    """How much more often a value of the first group is greater than one of the second than less.

    The interval is that of Feng and Cliff (2004), with Student's t.
    """
    first, second = usable(a), usable(b)
    m, n = first.size, second.size
    if min(m, n) < 2:
        return Effect(CLIFFS_DELTA, note="a group has a single value")
    over, under = _dominance(first, second)
    back_over, back_under = _dominance(second, first)
    delta = float(np.mean(over - under)) / n
    t = t_beyond((1 - confidence) / 2, m + n - 2)
    if abs(delta) == 1:
        # Without any overlap the variance would be 0 (Feng and Cliff 2004, p. 325).
        inner = (min(m, n) - t * t) / (min(m, n) + t * t)
        low, high = (inner, 1.0) if delta > 0 else (-1.0, -inner)
        return Effect(CLIFFS_DELTA, delta, low, high, "the groups do not overlap")
    rows = float(np.sum(np.square((over - under) / n - delta)))
    columns = float(np.sum(np.square((back_under - back_over) / m - delta)))
    cells = float(np.sum(over + under)) - m * n * delta**2
    variance = (n * n * rows + m * m * columns - cells) / (m * n * (m - 1) * (n - 1))
    variance = max(variance, (1 - delta**2) / (m * n - 1))
    reach = t * sqrt(variance) * sqrt((1 - delta**2) ** 2 + t * t * variance)
    scale = 1 - delta**2 + t * t * variance
    low = max((delta - delta**3 - reach) / scale, -1.0)
    high = min((delta - delta**3 + reach) / scale, 1.0)
    return Effect(CLIFFS_DELTA, delta, low, high)


def _dominance(a: Values, b: Values) -> tuple[Values, Values]:
    """For each of a, how many of b are less, and how many are greater."""
    ordered = np.sort(b)
    less = np.searchsorted(ordered, a, side="left").astype(np.float64)
    greater = b.size - np.searchsorted(ordered, a, side="right").astype(np.float64)
    return less, greater


def omega_squared(
    f: float, df1: float, df2: float, n: int, *, confidence: float = CONFIDENCE
) -> Effect:
    """The share of the variance that the groups explain, from an F of n values; nearly unbiased.

    The interval is that of the noncentral F (Steiger 2004); for Welch's F it is an
    approximation, like that F itself.
    """
    gained = df1 * (f - 1)
    value = max(gained / (gained + n), 0.0) if gained + n > 0 else 0.0
    return Effect(OMEGA_SQUARED, value, *explained(f, df1, df2, n, confidence))


def explained(f: float, df1: float, df2: float, n: int, confidence: float) -> tuple[float, float]:
    """The interval of the share of the variance that is explained."""
    alpha = (1 - confidence) / 2
    if f * df1 > FAR_SQUARED:
        found = f * df1 * special.chdtri(df2, (1 - alpha, alpha)) / df2
    else:
        found = special.ncfdtrinc(df1, df2, (1 - alpha, alpha), f)
    low, high = (float(it / (it + n)) for it in found)
    return low, high


def median_draws(a: Values, b: Values) -> tuple[Values, Values]:
    """Medians of bootstrap samples of two independent groups."""
    return quantile_draws(a, 0.5, SEED), quantile_draws(b, 0.5, SEED + 1)
