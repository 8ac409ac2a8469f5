"""The studentized range, for all pairs of a comparison at once.

scipy.stats.studentized_range is right and takes a tenth of a second for a critical value;
a report needs thousands. The formula is the same (Lund and Lund 1983, AS 190).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import special
from scipy.interpolate import BSpline, make_interp_spline

from eigentime_report.statistics import scale
from eigentime_report.statistics.groups import Values

# A range of so many standard deviations is never seen: p is 1e-60 or so.
WIDEST = 25.0
STEP = 0.05
# Shorter ranges are exceeded for certain.
SHORTEST = 1e-3


@lru_cache(maxsize=64)
def _log_tail(k: int) -> BSpline:
    """The logarithm of how likely the range of k standard normal values exceeds w."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    low, high = -9.0, WIDEST + 9.0
    z = low + (high - low) / 2 * (nodes + 1)
    w = np.arange(0.0, WIDEST + STEP, STEP)[:, np.newaxis]
    below = special.ndtr(z)
    share = np.clip(special.ndtr(z - w) / below, 0.0, 1 - 1e-16)
    lost = -np.power(below, k - 1) * np.expm1((k - 1) * np.log1p(-share))
    density = np.exp(-np.square(z) / 2) / np.sqrt(2 * np.pi)
    tail = k * np.sum(weights * density * lost, axis=1) * (high - low) / 2
    return make_interp_spline(w[:, 0], np.log(np.minimum(tail, 1.0)), k=7)


def exceeds(q: ArrayLike, k: int, df: ArrayLike) -> Values:
    """The probability of a larger studentized range of k means."""
    q = np.maximum(np.asarray(q, dtype=np.float64), SHORTEST)
    log_tail = _log_tail(k)

    def tail(s: Values) -> Values:
        reached = np.minimum(s * q[..., np.newaxis], WIDEST)
        return np.asarray(np.exp(log_tail(reached)), dtype=np.float64)

    found = scale.average(tail, np.broadcast_to(df, q.shape), high=WIDEST / q)
    return np.clip(found, 0.0, 1.0)


def critical(alpha: float, k: int, df: ArrayLike) -> Values:
    """The studentized range of k means that is exceeded with probability alpha.

    By Newton's method on logarithms, from Bonferroni's, which is a little larger.
    """
    df = np.atleast_1d(np.asarray(df, dtype=np.float64))
    pairs = k * (k - 1) / 2
    log_q = np.log(-special.stdtrit(df, alpha / pairs / 2) * np.sqrt(2))
    for _ in range(50):
        now, next_to_it = (
            np.log(exceeds(np.exp(log_q + aside), k, df) / alpha)
            for aside in (0.0, 1e-5)
        )
        step = now / (now - next_to_it) * 1e-5
        log_q = log_q + step
        if np.max(np.abs(step)) < 1e-11:
            break
    return np.asarray(np.exp(log_q), dtype=np.float64)
