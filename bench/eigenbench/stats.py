"""Medians, and ratios and differences of measurements of the same round.

They are taken within each round, and their median over the rounds: this cancels what slows down
a whole round (another build on the machine, a neighbour of the virtual machine).
"""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, exp, lgamma, log, log1p, sqrt
from statistics import NormalDist, fmean, median, stdev

from eigenbench.samples import Turn


@dataclass(frozen=True)
class Summary:
    """The median of some samples, and their deviation from it."""

    n: int
    median: float
    # Median absolute deviation from the median.
    mad: float
    low: float
    high: float


def absolute_deviation(values: Collection[float]) -> float:
    """The median absolute deviation from the median."""
    middle = median(values)
    return median(abs(value - middle) for value in values)


def summarize(values: Collection[float]) -> Summary | None:
    """The summary of `values`; None if there are none."""
    samples = list(values)
    if not samples:
        return None
    return Summary(
        n=len(samples),
        median=median(samples),
        mad=absolute_deviation(samples),
        low=min(samples),
        high=max(samples),
    )


@dataclass(frozen=True)
class Interval:
    """A mean, its uncertainty, and the deviation of the samples."""

    mean: float
    deviation: float
    # On either side: with 99 % confidence, the true mean is within it.
    confidence: float


# The 99.5 % quantile of the standard normal distribution.
Z_99 = 2.5758


def interval(samples: Sequence[float]) -> Interval:
    """Mean, standard deviation and the mean's 99 % confidence interval; 0 without values."""
    if len(samples) < 2:
        return Interval(samples[0] if samples else 0.0, 0.0, 0.0)
    deviation = stdev(samples)
    return Interval(fmean(samples), deviation, Z_99 * deviation / sqrt(len(samples)))


def percentile(samples: Sequence[float], percent: float) -> float | None:
    """The smallest sample that this percentage of samples does not exceed; None without any."""
    if not samples:
        return None
    return sorted(samples)[max(1, ceil(len(samples) * percent / 100)) - 1]


def in_rounds(samples: Mapping[Turn, float]) -> dict[int, list[float]]:
    """The values of each round."""
    rounds: dict[int, list[float]] = {}
    for (number, _), value in samples.items():
        rounds.setdefault(number, []).append(value)
    return rounds


def by_round(samples: Mapping[Turn, float], percent: float) -> dict[Turn, float]:
    """The value that this percentage of each round's values does not exceed."""
    found = {
        number: percentile(values, percent)
        for number, values in in_rounds(samples).items()
    }
    return {(number, 0): value for number, value in found.items() if value is not None}


def ratios(
    samples: Mapping[Turn, float], base: Mapping[Turn, float]
) -> dict[Turn, float]:
    """Sample divided by base, for every round that has both."""
    return {
        turn: samples[turn] / base[turn]
        for turn in sorted(samples.keys() & base.keys())
        if base[turn] > 0
    }


def differences(
    samples: Mapping[Turn, float], base: Mapping[Turn, float]
) -> dict[Turn, float]:
    """Sample minus base, for every round that has both."""
    return {
        turn: samples[turn] - base[turn]
        for turn in sorted(samples.keys() & base.keys())
    }


SEED = 20380119
DRAWS = 2000
# Fewer rounds do not show how much rounds differ.
FEWEST_ROUNDS = 3


def bootstrap(
    samples: Mapping[Turn, float], figure: Callable[[Sequence[float]], float]
) -> tuple[float, float] | None:
    """The 95 % interval of a figure of all values; None for too few rounds.

    Whole rounds are drawn, because measurements of one round are alike (block bootstrap). For
    few rounds the percentiles are wider, as the t distribution requires (Hesterberg, 2015).
    """
    rounds = list(in_rounds(samples).values())
    count = len(rounds)
    if count < FEWEST_ROUNDS:
        return None
    lots = random.Random(SEED)
    found = sorted(
        figure([value for drawn in lots.choices(rounds, k=count) for value in drawn])
        for _ in range(DRAWS)
    )
    reach = _t_975(count - 1) * sqrt(count / (count - 1))
    outside = int(NormalDist().cdf(-reach) * DRAWS)
    return found[outside], found[-1 - outside]


# Beyond either end of a 95 % interval.
TAIL = 0.025
# After this many halvings, nothing is left of a float's digits after the point.
HALVINGS = 60


def share_interval(hits: int, of: int) -> tuple[float, float]:
    """The exact 95 % interval of the share of hits (Clopper and Pearson, 1934).

    It treats all of them as independent. Without any, nothing is known: 0 to 1.
    """
    return 1 - _highest(of - hits, of), _highest(hits, of)


def _highest(hits: int, of: int) -> float:
    """The share at which so few hits have the probability `TAIL`."""
    if hits == of:
        return 1.0
    low, high = hits / of, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _at_most(hits, of, middle) > TAIL:
            low = middle
        else:
            high = middle
    return high


def _at_most(hits: int, of: int, share: float) -> float:
    """The probability of this many hits or fewer, if `share` of all are hits, at least `hits /
    of`."""
    if share >= 1.0:
        return 0.0
    choices = lgamma(of + 1) - lgamma(hits + 1) - lgamma(of - hits + 1)
    term = exp(choices + hits * log(share) + (of - hits) * log1p(-share))
    total = 0.0
    # Downwards from the most likely number, until the rest adds nothing.
    for count in range(hits, -1, -1):
        before, total = total, total + term
        if total == before:
            break
        term *= count / (of - count + 1) * (1 - share) / share
    return total


def _t_975(freedom: int) -> float:
    """The 97.5 % quantile of the t distribution (Abramowitz and Stegun 26.7.5)."""
    z = NormalDist().inv_cdf(0.975)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return sum(term / freedom**power for power, term in enumerate(terms))
