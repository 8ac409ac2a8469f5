"""What values are like, and which of them lie far outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eigentime_report.statistics.groups import usable
from eigentime_report.statistics.ordered import Ordered

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
    n, counts = ordered.n, ordered.counts
    # Around a value of the middle, so that large values with little scatter keep their digits.
    middle = float(ordered.at(n // 2))
    around = ordered.values - middle
    shift = float(np.average(around, weights=counts))
    square = float(np.average(np.square(around - shift), weights=counts))
    median = ordered.quantile(0.5)
    return Descriptives(
        n=n,
        mean=middle + shift,
        sd_uncorrected=square**0.5,
        sd=(square * n / (n - 1)) ** 0.5 if n > 1 else None,
        median=median,
        mad=_median_distance(ordered, median),
        half_iqr=(ordered.quantile(0.75) - ordered.quantile(0.25)) / 2,
        minimum=float(ordered.values[0]),
        maximum=float(ordered.values[-1]),
        quantiles={
            q: ordered.quantile(q) for q in TAIL if n * (1 - q) >= BEYOND - 1e-9
        },
    )


def _median_distance(ordered: Ordered, median: float) -> float:
    distances = np.abs(ordered.values - median)
    if ordered.counts is None:
        return float(np.median(distances))
    return Ordered.of(distances, ordered.counts).quantile(0.5)


@dataclass(frozen=True)
class Outliers:
    """Values beyond Tukey's fences: counted and flagged, never removed."""

    n: int
    mild_low: int
    mild_high: int
    severe_low: int
    severe_high: int
    # The inner fences; beyond them a value is mildly outlying.
    low: float
    high: float
    # For each value as it was given: 0 inside, 1 mild, 2 severe.
    flags: NDArray[np.int8] = field(repr=False, compare=False)
    note: str = ""

    @property
    def mild(self) -> int:
        """How many are beyond the inner fences, and not beyond the outer ones."""
        return self.mild_low + self.mild_high

    @property
    def severe(self) -> int:
        """How many are beyond the outer fences."""
        return self.severe_low + self.severe_high


def outliers(values: ArrayLike, weights: ArrayLike | None = None) -> Outliers:
    """Values beyond 1.5 (mild) and 3 (severe) interquartile ranges from the quartiles."""
    row = usable(values)
    ordered = Ordered.of(row, weights)
    first, third = ordered.quantile(0.25), ordered.quantile(0.75)
    width = third - first

    def outside(fence: float) -> tuple[int, int]:
        below = np.nextafter(first - fence * width, -np.inf)
        above = ordered.up_to(third + fence * width)
        return int(ordered.up_to(below)), ordered.n - int(above)

    (low, high), (lowest, highest) = outside(MILD), outside(SEVERE)
    flags = np.zeros(row.size, dtype=np.int8)
    for fence in (MILD, SEVERE):
        flags += (row < first - fence * width) | (row > third + fence * width)
    return Outliers(
        n=ordered.n,
        mild_low=low - lowest,
        mild_high=high - highest,
        severe_low=lowest,
        severe_high=highest,
        low=first - MILD * width,
        high=third + MILD * width,
        flags=flags,
        note=_no_width(ordered) if width == 0 else "",
    )


def _no_width(ordered: Ordered) -> str:
    if ordered.values[0] == ordered.values[-1]:
        return "all values are the same"
    return "half of the values are the same: each other one is beyond the fences"
