"""Values in order of size, each once or many times, and a few of them that stand for all."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from eigentime_report.charts.description import Floats

Ints: TypeAlias = npt.NDArray[np.int64]

# The greatest values, which are all kept.
EXTREMES = 20


@dataclass(frozen=True, eq=False)
class Sample:
    """Sorted values; `through` is how many there are up to each, None where each came once."""

    values: Floats
    through: Ints | None
    # How many were no finite numbers, and are not among the values.
    lost: int = 0

    @classmethod
    def of(cls, values: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> Sample:
        """Values in any order, each as often as its weight says."""
        given = np.asarray(values, dtype=np.float64)
        finite = np.isfinite(given)
        if weights is None:
            kept = given[finite]
            kept.sort()
            return cls(kept, None, len(given) - len(kept))
        counts = np.asarray(weights, dtype=np.int64)
        lost = int(counts[~finite].sum())
        used = finite & (counts > 0)
        order = np.argsort(given[used], kind="stable")
        return cls(given[used][order], np.cumsum(counts[used][order]), lost)

    @property
    def count(self) -> int:
        """How many values there are, each as often as it came."""
        if self.through is None:
            return len(self.values)
        return int(self.through[-1]) if len(self.through) else 0

    @property
    def low(self) -> float:
        """The least value."""
        return float(self.values[0])

    @property
    def high(self) -> float:
        """The greatest value."""
        return float(self.values[-1])

    @property
    def is_constant(self) -> bool:
        """Whether all values are equal."""
        return self.low == self.high

    @cached_property
    def mean(self) -> float:
        """The mean, kept within the values in spite of rounding."""
        if self.through is None:
            mean = float(self.values.mean())
        else:
            counts = np.diff(self.through, prepend=0)
            mean = float(np.average(self.values, weights=counts))
        return min(max(mean, self.low), self.high)

    def at_rank(self, ranks: Ints) -> Floats:
        """The values of these ranks; the least one's is 0."""
        if self.through is None:
            return self.values[ranks]
        return self.values[np.searchsorted(self.through, ranks, side="right")]

    def quantile(self, share: float) -> float:
        """The least value that at least this share of all does not exceed."""
        rank = max(int(np.ceil(share * self.count)) - 1, 0)
        return float(self.at_rank(np.array([rank]))[0])

    def between(self, share: float) -> float:
        """The quantile, between the values on both sides of it (type 7 of R)."""
        place = share * (self.count - 1)
        low, high = self.at_rank(
            np.array([np.floor(place), np.ceil(place)]).astype(int)
        )
        return float(low + (high - low) * (place % 1))

    @property
    def median(self) -> float:
        """The middle value; of an even number of values the mean of both."""
        return self.between(0.5)

    def below(self, limits: npt.ArrayLike) -> Ints:
        """How many values are less than each of the limits."""
        places = np.searchsorted(self.values, limits, side="left")
        if self.through is None:
            return places.astype(np.int64)
        return np.concatenate([[0], self.through])[places]


def top_ranks(count: int, points: int) -> Ints:
    """About `points` ranks of `count` sorted values: even ones, and ever closer to the top.

    The least one and the greatest ones are always among them.
    """
    if count <= points:
        return np.arange(count)
    even = np.linspace(0, count - 1, points // 2)
    from_top = np.geomspace(1, count, points // 2)
    greatest = np.arange(1, min(EXTREMES, count) + 1)
    ranks = np.concatenate([even, count - from_top, count - greatest])
    return np.unique(np.clip(np.rint(ranks).astype(np.int64), 0, count - 1))


def both_ranks(count: int, points: int) -> Ints:
    """The same, and ever closer to both ends."""
    if count <= points:
        return np.arange(count)
    top = top_ranks(count, points // 2)
    return np.unique(np.concatenate([top, count - 1 - top]))
