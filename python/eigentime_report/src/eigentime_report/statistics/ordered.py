"""Values in order, each counted as often as its weight says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eigentime_report.statistics.groups import Values, usable


@dataclass(frozen=True, eq=False)
class Ordered:
    """Sorted values, and how many there are up to each one; None where each counts once."""

    values: Values
    upto: NDArray[np.int64] | None

    @classmethod
    def of(cls, values: ArrayLike, weights: ArrayLike | None = None) -> Ordered:
        """Sorts values; a weight of 0 leaves its value out."""
        row = usable(values)
        if weights is None:
            return cls(np.sort(row), None)
        counts = checked_weights(weights, row.size)
        row, counts = row[counts > 0], counts[counts > 0]
        if row.size == 0:
            raise ValueError("all weights are 0: there are no values")
        order = np.argsort(row, kind="stable")
        return cls(row[order], np.cumsum(counts[order]))

    @property
    def n(self) -> int:
        """How many values there are."""
        return self.values.size if self.upto is None else int(self.upto[-1])

    @property
    def counts(self) -> NDArray[np.int64] | None:
        """How often each value is there."""
        return None if self.upto is None else np.diff(self.upto, prepend=0)

    def at(self, rank: ArrayLike) -> Values:
        """The values of these ranks; the least has rank 0."""
        ranks = np.asarray(rank, dtype=np.int64)
        if self.upto is None:
            return self.values[ranks]
        return self.values[np.searchsorted(self.upto, ranks, side="right")]

    def up_to(self, limits: ArrayLike) -> NDArray[np.int64]:
        """How many values do not exceed each limit."""
        # numpy's own function would take longer to look at a limit than to find it.
        found = np.asarray(self.values.searchsorted(limits, side="right"))
        if self.upto is None:
            return found
        return np.where(found > 0, self.upto[found - 1], 0)

    def quantile(self, q: float) -> float:
        """Linear between the ranks, as numpy has it (Hyndman and Fan's type 7)."""
        if not 0 <= q <= 1:
            raise ValueError(f"a quantile is between 0 and 1, not {q}")
        position = (self.n - 1) * q
        below = int(position)
        low, high = self.at([below, min(below + 1, self.n - 1)])
        return float(low + (position - below) * (high - low))


def checked_weights(weights: ArrayLike, size: int) -> NDArray[np.int64]:
    """Weights as whole numbers, one for each value."""
    given = np.asarray(weights)
    if given.shape != (size,):
        raise ValueError(f"{size} values need as many weights, not {given.shape}")
    counts = given.astype(np.int64)
    if np.any(counts != given) or np.any(counts < 0):
        raise ValueError("weights say how often values came: whole numbers, 0 or more")
    return counts
