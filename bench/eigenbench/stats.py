"""Medians, and ratios of what was measured in the same round.

A ratio is taken within each round and the median is taken over the rounds:
what slows a whole round down (another build on the machine, a neighbour of the
virtual machine) then falls out of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median


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


def ratios(samples: Mapping[int, float], base: Mapping[int, float]) -> list[float]:
    """Sample by base for every round that has both."""
    return [
        samples[number] / base[number]
        for number in sorted(samples.keys() & base.keys())
        if base[number] > 0
    ]
