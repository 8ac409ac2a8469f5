"""Readings as a distribution: a counter that goes in steps shows each to the next step.

Medians are taken between the steps (the median of grouped data) and without the median
of an empty bracket; means are those of the values themselves, without its mean. So does
the table of `eigentime bench`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int64]
Blocks: TypeAlias = NDArray[np.int32]

# Numbers of up to so many binary digits have buckets of their own.
DIGITS = 11
# What adding up many counts may be off by.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Histogram:
    """Buckets that are not empty, in nanoseconds; each is evenly full.

    `low` and `high` are without the median of an empty bracket. `parts` are the
    histograms that were measured one by one, whose moments are exact.
    """

    low: Floats
    high: Floats
    counts: Counts
    blocks: Blocks
    parts: Sequence["Part"]

    @property
    def count(self) -> int:
        """How many readings."""
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        """The mean of the readings themselves."""
        return self._over_parts([part.mean for part in self.parts])

    @property
    def sd(self) -> float:
        """Their uncorrected standard deviation."""
        mean = self.mean
        squares = [part.sd**2 + (part.mean - mean) ** 2 for part in self.parts]
        return float(np.sqrt(self._over_parts(squares)))

    @property
    def minimum(self) -> float:
        """The least."""
        return min(part.minimum for part in self.parts)

    @property
    def maximum(self) -> float:
        """The greatest."""
        return max(part.maximum for part in self.parts)

    @property
    def median(self) -> float:
        """Their median, between the steps of the counter."""
        return _quantile(self.low, self.high, self.counts, 0.5)

    @property
    def mad(self) -> float:
        """The median of their distances from the median."""
        median = self.median
        below, above = self.low - median, self.high - median
        # A bucket around the median is folded there: both sides have a part of it.
        around = (below < 0) & (above > 0)
        part = np.divide(above, above - below, out=np.ones_like(above), where=around)
        counts = self.counts * part
        low = np.where(around, 0, np.minimum(np.abs(below), np.abs(above)))
        high = np.where(around, above, np.maximum(np.abs(below), np.abs(above)))
        return _quantile(
            np.append(low, np.zeros(around.sum())),
            np.append(high, -below[around]),
            np.append(counts, (self.counts * (1 - part))[around]),
            0.5,
        )

    def quantile(self, part: float) -> float:
        """What this part of them are not above; no more than was seen."""
        found = _quantile(self.low, self.high, self.counts, part)
        return min(max(found, self.minimum), self.maximum)

    def of_block(self, block: int) -> "Histogram":
        """The readings of a block."""
        here = self.blocks == block
        parts = [part for part in self.parts if part.block == block]
        return Histogram(
            self.low[here], self.high[here], self.counts[here], self.blocks[here], parts
        )

    def _over_parts(self, numbers: Sequence[float]) -> float:
        return float(np.average(numbers, weights=[part.count for part in self.parts]))


@dataclass(frozen=True)
class Part:
    """What is known of a histogram exactly, in nanoseconds."""

    block: int
    count: int
    mean: float
    sd: float
    minimum: float
    maximum: float


def spans(ticks: Counts, step_ticks: int) -> tuple[Floats, Floats]:
    """Between which lengths the values of buckets are, in ticks, by their least values."""
    _, digits = np.frexp(ticks.astype(np.float64))
    bucket = np.exp2(np.maximum(digits - DIGITS, 0))
    middle = ticks + (bucket - 1) / 2
    half = np.maximum(bucket, step_ticks) / 2
    return middle - half, middle + half


def _quantile(low: Floats, high: Floats, counts: Floats | Counts, part: float) -> float:
    """What this part of values is below, if they are spread evenly from low to high."""
    wanted = part * float(counts.sum())
    density = counts / (high - low)
    edges = np.concatenate([low, high])
    order = np.argsort(edges, kind="stable")
    edges = edges[order]
    slopes = np.cumsum(np.concatenate([density, -density])[order])
    below = np.concatenate([[0.0], np.cumsum(slopes[:-1] * np.diff(edges))])
    below = np.maximum.accumulate(below)
    # These sums say where to look, and are too rough for what is between two buckets.
    rough = ROUNDING * float(counts.sum())
    first = max(int(np.searchsorted(below, wanted - rough)) - 1, 0)
    last = int(np.searchsorted(below, wanted + rough, side="right")) + 1
    around = np.unique(edges[first:last])
    parts = np.clip((around[:, None] - low) / (high - low), 0, 1)
    exact = (parts * counts).sum(axis=1)
    after = min(max(int(np.searchsorted(exact, wanted)), 1), len(around) - 1)
    ends = slice(after - 1, after + 1)
    return float(np.interp(wanted, exact[ends], around[ends]))
