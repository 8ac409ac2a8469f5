"""Medians, and ratios and differences of what was measured in the same round.

They are taken within each round and the median is taken over the rounds: what
slows a whole round down (another build on the machine, a neighbour of the virtual
machine) then falls out of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from statistics import fmean, median, stdev

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


@dataclass(frozen=True)
class Interval:
    """A mean, how well it is known, and how far samples are from it."""

    mean: float
    deviation: float
    # To either side: with 99 % confidence the true mean is within.
    confidence: float


# The standard normal distribution's quantile of 99.5 %.
Z_99 = 2.5758


def interval(samples: Sequence[float]) -> Interval:
    """Mean, standard deviation and the mean's 99 % confidence interval; 0 for none."""
    if len(samples) < 2:
        return Interval(samples[0] if samples else 0.0, 0.0, 0.0)
    deviation = stdev(samples)
    return Interval(fmean(samples), deviation, Z_99 * deviation / sqrt(len(samples)))


def percentile(samples: Sequence[float], percent: float) -> float | None:
    """The smallest sample that so many in a hundred do not exceed; None without any."""
    if not samples:
        return None
    return sorted(samples)[max(1, ceil(len(samples) * percent / 100)) - 1]


def by_round(samples: Mapping[Turn, float], percent: float) -> dict[Turn, float]:
    """What so many in a hundred of each round's values do not exceed."""
    rounds: dict[int, list[float]] = {}
    for (number, _), value in samples.items():
        rounds.setdefault(number, []).append(value)
    found = {number: percentile(values, percent) for number, values in rounds.items()}
    return {(number, 0): value for number, value in found.items() if value is not None}


def ratios(samples: Mapping[Turn, float], base: Mapping[Turn, float]) -> list[float]:
    """Sample by base for every round that has both."""
    return [
        samples[turn] / base[turn]
        for turn in sorted(samples.keys() & base.keys())
        if base[turn] > 0
    ]


def differences(
    samples: Mapping[Turn, float], base: Mapping[Turn, float]
) -> list[float]:
    """Sample less base for every round that has both."""
    return [samples[turn] - base[turn] for turn in sorted(samples.keys() & base.keys())]
