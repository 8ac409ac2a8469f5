"""Values as statistics see them: finite, in a row, sorted once, each as often as its weight says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Values: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int64]

# Values that are nearer to each other than this, relative to their size, differ by rounding only.
ROUNDING = 8 * float(np.finfo(np.float64).eps)


def usable(values: ArrayLike) -> Values:
    """The values as a row of floats; ValueError says why they cannot be used."""
    row = np.asarray(values, dtype=np.float64)
    if row.ndim != 1:
        raise ValueError(f"values are a single row, not an array of shape {row.shape}")
    if row.size == 0:
        raise ValueError("there are no values")
    if wrong := row.size - int(np.isfinite(row).sum()):
        raise ValueError(f"{wrong} of {row.size} values are not finite")
    return row


def is_constant(values: Values, size: float = 0.0) -> bool:
    """Whether all values are the same but for rounding of theirs, or of values of this size."""
    low, high = float(values.min()), float(values.max())
    return high - low <= ROUNDING * max(abs(low), abs(high), size)


@dataclass(frozen=True)
class Summary:
    """A group's size, mean and corrected standard deviation, which is 0 for a single value."""

    n: int
    mean: float
    sd: float

    @classmethod
    def of(cls, values: Values) -> Summary:
        """Of usable values; what is left of a constant by rounding is no scatter."""
        if is_constant(values):
            return cls(values.size, float(values[0]), 0.0)
        return cls(values.size, float(values.mean()), float(values.std(ddof=1)))

    @property
    def variance(self) -> float:
        """The corrected variance."""
        return self.sd * self.sd

    @property
    def error(self) -> float:
        """The variance of the mean."""
        return self.variance / self.n


@dataclass(frozen=True, eq=False)
class Ordered:
    """Sorted values, and how many there are up to each one."""

    values: Values
    through: Counts

    @classmethod
    def of(cls, values: ArrayLike, weights: ArrayLike | None = None) -> Ordered:
        """Sorts values; a weight of 0 leaves its value out."""
        row = usable(values)
        if weights is None:
            return cls(np.sort(row), np.arange(1, row.size + 1))
        counts = np.asarray(weights, dtype=np.int64)
        if counts.shape != row.shape or counts.min() < 0 or not counts.any():
            raise ValueError(f"{row.size} values need as many weights, some above 0")
        order = np.argsort(row, kind="stable")
        order = order[counts[order] > 0]
        return cls(row[order], np.cumsum(counts[order]))

    @property
    def n(self) -> int:
        """How many values there are."""
        return int(self.through[-1])

    @property
    def counts(self) -> Counts:
        """How often each value is there."""
        return np.diff(self.through, prepend=0)

    def at(self, ranks: ArrayLike) -> Values:
        """The values of these ranks; the least has rank 0."""
        if self.n == self.values.size:
            return np.asarray(self.values[np.asarray(ranks)])
        return self.values[np.searchsorted(self.through, ranks, side="right")]

    def up_to(self, limit: float) -> int:
        """How many values do not exceed a limit."""
        found = int(self.values.searchsorted(limit, side="right"))
        return int(self.through[found - 1]) if found else 0

    def quantile(self, q: float) -> float:
        """Linear between the ranks, as numpy has it (Hyndman and Fan's type 7)."""
        position = (self.n - 1) * q
        below = int(position)
        low, high = self.at([below, min(below + 1, self.n - 1)])
        return float(low + (position - below) * (high - low))
