"""Noncentral t and F: with which noncentrality a statistic would be this large.

Both are averages over the scatter of the estimated standard deviation, which stays right
where the series of scipy.stats.nct and ncf end: effects of a thousand standard deviations
are common between clocks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import optimize, special

from eigentime_report.statistics import scale
from eigentime_report.statistics.groups import Values

# Beyond so many standard deviations a normal variable is never seen.
NEVER = 9.0


def t_below(t: float, df: float, noncentrality: float) -> float:
    """The probability of a smaller noncentral t."""
    if t < 0:
        return 1.0 - t_below(-t, df, -noncentrality)
    if t == 0:
        return float(special.ndtr(-noncentrality))
    # (Z + noncentrality) / S <= t, Z normal: decided by S alone outside of a window.
    low, high = (max((noncentrality + end) / t, 0.0) for end in (-NEVER, NEVER))

    def reaches(s: Values) -> Values:
        return np.asarray(special.ndtr(t * s - noncentrality), dtype=np.float64)

    return float(scale.beyond(high, df) + scale.average(reaches, df, low, high))


def t_noncentrality(t: float, df: float, confidence: float) -> tuple[float, float]:
    """The confidence interval of a noncentral t's noncentrality."""
    if t < 0:
        low, high = t_noncentrality(-t, df, confidence)
        return -high, -low
    alpha = (1 - confidence) / 2
    low, high = _reach(t, df, alpha)
    return (
        _root(lambda nc: t_below(t, df, nc), 1 - alpha, low, high),
        _root(lambda nc: t_below(t, df, nc), alpha, low, high),
    )


def f_below(f: float, df1: float, df2: float, noncentrality: float) -> float:
    """The probability of a smaller noncentral F."""
    if f <= 0:
        return 0.0
    # A noncentral chi-squared is near the square of a normal variable with this mean.
    root = np.sqrt(noncentrality)
    reach = NEVER + 3.0 * np.sqrt(df1)
    low = max(root - reach, 0.0) / np.sqrt(df1 * f)
    high = (root + reach) / np.sqrt(df1 * f)

    def reaches(s: Values) -> Values:
        return chi_squared_below(df1 * f * np.square(s), df1, noncentrality)

    return float(scale.beyond(high, df2) + scale.average(reaches, df2, low, high))


# Up to here the series is short, and exact.
SERIES = 1e4


def chi_squared_below(x: Values, df: float, noncentrality: float) -> Values:
    """The probability of smaller noncentral chi-squared values.

    Of large noncentralities by Sankaran's normal approximation (1963), which is then
    right to six digits.
    """
    if noncentrality <= SERIES:
        return np.asarray(special.chndtr(x, df, noncentrality), dtype=np.float64)
    mean = df + noncentrality
    spread = df + 2 * noncentrality
    power = 1 - 2 * mean * (df + 3 * noncentrality) / (3 * spread**2)
    rate = spread / mean**2
    excess = (power - 1) * (1 - 3 * power)
    centre = 1 + power * rate * (power - 1 - (2 - power) * excess * rate / 2)
    width = power * np.sqrt(2 * rate) * (1 + excess * rate / 2)
    z = (np.power(x / mean, power) - centre) / width
    return np.asarray(special.ndtr(z), dtype=np.float64)


def f_noncentrality(
    f: float, df1: float, df2: float, confidence: float
) -> tuple[float, float]:
    """The confidence interval of a noncentral F's noncentrality; an end may be 0."""
    alpha = (1 - confidence) / 2
    _, most = _reach(float(np.sqrt(df1 * f)), df2, alpha)

    def solve(probability: float) -> float:
        if f_below(f, df1, df2, 0.0) <= probability:
            return 0.0
        root = _root(lambda nc: f_below(f, df1, df2, nc * nc), probability, 0.0, most)
        return root * root

    return solve(1 - alpha), solve(alpha)


def _reach(t: float, df: float, alpha: float) -> tuple[float, float]:
    """Between which values t S - Z is but for alpha at either end, S and Z taken apart."""
    normal = float(-special.ndtri(alpha / 2))
    low, high = (float(scale.quantile(p, df)) for p in (alpha / 2, 1 - alpha / 2))
    return t * low - normal, t * high + normal


def _root(
    function: Callable[[float], float], probability: float, low: float, high: float
) -> float:
    """Where a falling probability has a value; as a normal quantile it is nearly a line."""
    wanted = float(special.ndtri(probability))

    def excess(at: float) -> float:
        return float(special.ndtri(np.clip(function(at), 1e-300, 1 - 1e-16))) - wanted

    return float(optimize.brentq(excess, low, high, rtol=1e-11, xtol=1e-11))
