"""What values are like, and which of them lie far outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from eigentime_report.statistics.samples import Ordered

# The quantiles of the tail that are told, where at least this many values lie beyond.
TAIL = (0.9, 0.99, 0.999, 0.9999)
BEYOND = 10

# Tukey, Exploratory Data Analysis, 1977: fences in interquartile ranges from the quartiles.
MILD, SEVERE = 1.5, 3.0


@dataclass(frozen=True)
class Descriptives:
    """What a sample is like."""

    n: int
    mean: float
    # By n: the standard deviation of these values.
    sd_uncorrected: float
    # By n - 1: an estimate of where they come from; None for a single value.
    sd: float | None
    median: float
    # Median of the distances from the median.
    mad: float
    # Half the interquartile range, which some papers call MAD.
    half_iqr: float
    minimum: float
    maximum: float
    quantiles: Mapping[float, float]


def describe(values: ArrayLike, weights: ArrayLike | None = None) -> Descriptives:
    """Mean, scatter, median and tail; weights say how often each value came."""
    ordered = Ordered.of(values, weights)
    n, counts, median = ordered.n, ordered.counts, ordered.quantile(0.5)
    # Around a value of the middle, so that large values with little scatter keep their digits.
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
    """How many values lie beyond Tukey's fences: counted, never removed."""

    # Beyond the inner fences and not the outer ones, and beyond these.
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
