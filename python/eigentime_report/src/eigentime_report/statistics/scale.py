"""How an estimated standard deviation scatters: S, the root of chi-squared by its degrees of freedom.

Student's t, the studentized range and their noncentral kin are averages over S of what a normal
variable does; such averages are taken here, by Gauss and Legendre.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from eigentime_report.statistics.groups import Values

# From 0 to 1, and squared: near 0 the density goes like a power of S, which need not be whole.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(96)
_HALVES = (_NODES + 1) / 2
NODES, WEIGHTS = np.square(_HALVES), _WEIGHTS * _HALVES

# What lies farther out cannot be seen in a probability: on the side of small S, where all
# that is rare comes from, and on the other.
LOWEST, HIGHEST = 1e-60, 1e-18


def support(df: ArrayLike) -> tuple[Values, Values]:
    """Between which values S is, as far as it matters."""
    half = np.asarray(df, dtype=np.float64) / 2
    low = np.sqrt(special.gammaincinv(half, LOWEST) / half)
    high = np.sqrt(special.gammainccinv(half, HIGHEST) / half)
    return low, high


def quantile(probability: float, df: float) -> float:
    """The S that is not exceeded with this probability."""
    return float(np.sqrt(2 * special.gammaincinv(df / 2, probability) / df))


def beyond(limit: ArrayLike, df: ArrayLike) -> Values:
    """The probability of a larger S."""
    half = np.asarray(df, dtype=np.float64) / 2
    found: Values = special.gammaincc(
        half, half * np.square(np.clip(limit, 0.0, 1e100))
    )
    return found


def average(
    function: Callable[[Values], Values],
    df: ArrayLike,
    low: ArrayLike = 0.0,
    high: ArrayLike = np.inf,
) -> Values:
    """The integral of function(s) times the density of S from low to high, for each df.

    `function` gets the nodes along a new last axis.
    """
    df = np.asarray(df, dtype=np.float64)
    least, most = support(df)
    low = np.clip(low, least, most)
    high = np.clip(high, low, most)
    width = (high - low)[..., np.newaxis]
    s = low[..., np.newaxis] + width * NODES
    half = df[..., np.newaxis] / 2
    log_density = (
        np.log(2.0)
        + half * np.log(half)
        - special.gammaln(half)
        + (2 * half - 1) * np.log(s)
        - half * np.square(s)
    )
    total: Values = np.sum(WEIGHTS * width * np.exp(log_density) * function(s), axis=-1)
    return total
