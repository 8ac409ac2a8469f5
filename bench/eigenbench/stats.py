"""Medians, and ratios of what was measured in the same round.

A ratio is taken within each round and the median is taken over the rounds:
what slows a whole round down (another build on the machine, a neighbour of the
virtual machine) then falls out of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median

from eigenbench.samples import Turn


@dataclass(frozen=True)
class Summary:
    """The middle of some samples, and how far they lie around it."""

    n: int
    median: float
    # Median absolute deviation from the median.
    mad: float
    low: float
    high: float


def summarize(samples: Sequence[float]) -> Summary | None:
    """The summary of `samples`; None without any."""
    if not samples:
        return None
    middle = median(samples)
    return Summary(
        n=len(samples),
        median=middle,
        mad=median(abs(sample - middle) for sample in samples),
        low=min(samples),
        high=max(samples),
    )


def percentile(samples: Sequence[float], percent: int) -> float | None:
    """The smallest sample that so many in a hundred do not exceed; None without any."""
    if not samples:
        return None
    return sorted(samples)[max(1, ceil(len(samples) * percent / 100)) - 1]


def ratios(samples: Mapping[Turn, float], base: Mapping[Turn, float]) -> list[float]:
    """Sample by base for every round that has both."""
    return [
        samples[turn] / base[turn]
        for turn in sorted(samples.keys() & base.keys())
        if base[turn] > 0
    ]
