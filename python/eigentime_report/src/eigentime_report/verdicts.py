"""A limit compared with what was measured: reached, missed or undecided.

    low, high = ends(times_drawn(len(rounds)) @ rounds / len(rounds), len(rounds))
    decide(low, high, limit=1.05)          # Verdict.REACHED where `high` is at most 1.05

A figure of a few rounds is only known as an interval. It is computed by resampling whole rounds
(block bootstrap), because measurements of one round are alike; a limit within it is neither reached
nor missed. This file does not import the rest of the package.
"""

from enum import Enum
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

SEED = 20380119
DRAWS = 2000
# Fewer rounds do not show how much rounds differ, so nothing is decided.
FEWEST_ROUNDS = 3


class Verdict(Enum):
    """The result of comparing a limit with what was measured."""

    REACHED = "reached"
    MISSED = "missed"
    UNDECIDED = "undecided"


def decide(
    low: float | None, high: float | None, limit: float, *, at_least: bool = False
) -> Verdict:
    """Whether a figure within this interval is at most, or at least, the limit."""
    if low is None or high is None:
        return Verdict.UNDECIDED
    if at_least:
        low, high, limit = -high, -low, -limit
    if high <= limit:
        return Verdict.REACHED
    return Verdict.MISSED if low > limit else Verdict.UNDECIDED


@lru_cache(maxsize=16)
def times_drawn(rounds: int, draws: int = DRAWS, seed: int = SEED) -> NDArray[np.float64]:
    """How often each round occurs in each of the draws."""
    even = np.full(rounds, 1 / rounds)
    drawn = np.random.default_rng(seed).multinomial(rounds, even, draws)
    return drawn.astype(np.float64)


def percentile_share(rounds: int, confidence: float) -> float:
    """The share beyond a percentile interval's end, for so few rounds (Hesterberg 2015)."""
    reach = -special.stdtrit(rounds - 1, (1 - confidence) / 2)
    return float(special.ndtr(-reach * (rounds / (rounds - 1)) ** 0.5))


def ends(drawn: ArrayLike, rounds: int, confidence: float = 0.95) -> tuple[float, float]:
    """The percentile interval of draws, wide enough for so few rounds."""
    share = percentile_share(rounds, confidence)
    low, high = np.quantile(np.asarray(drawn), (share, 1 - share))
    return float(low), float(high)
