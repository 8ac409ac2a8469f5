"""The studentized range of k means: the greatest of them minus the least, by the estimated deviation.

scipy.stats.studentized_range is right and takes 10 ms for a p, and a quarter of a second for a
critical value; a report needs thousands. The formula is the same (Lund and Lund 1983, AS 190).
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, log, sqrt

import numpy as np
from scipy import optimize, special, stats

from eigentime_report.statistics.intervals import t_beyond

# Of a normal variable, as far as it is ever seen.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
Z = 8.5 * _NODES
BELOW, DENSITY = special.ndtr(Z), 8.5 * _WEIGHTS * stats.norm.pdf(Z)
# Of the estimated deviation, squared: near 0 its density goes like a power, which need not be whole.
_HALVES, _HALF_WEIGHTS = np.polynomial.legendre.leggauss(48)
NODES, WEIGHTS = np.square((_HALVES + 1) / 2), _HALF_WEIGHTS * (_HALVES + 1) / 2
# What is rarer cannot be seen in a probability.
RARE = 1e-18


def exceeds(q: float, k: int, df: float) -> float:
    """The probability of a larger studentized range; of two means it is Student's t."""
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
    # One of k is the greatest, and not all others are nearer to it than q s.
    lost = -np.power(BELOW, k - 1) * np.expm1((k - 1) * np.log1p(-share))
    tail = k * lost @ DENSITY
    found = float((high - low) * np.dot(WEIGHTS * np.exp(log_density), tail))
    return min(max(found, 0.0), 1.0)


# All pairs of Tukey's test have the same one.
@lru_cache(maxsize=64)
def critical(alpha: float, k: int, df: float) -> float:
    """The studentized range that is exceeded with probability alpha."""
    # Bonferroni's is a little larger.
    bound = t_beyond(alpha / (k * (k - 1)), df) * sqrt(2)
    if k == 2:
        return bound

    def excess(log_q: float) -> float:
        return log(exceeds(exp(log_q), k, df) / alpha)

    start = log(bound)
    return exp(optimize.newton(excess, start, x1=start - 0.02, rtol=1e-9))
