"""Values as tests see them: looked at once, summed up once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Values: TypeAlias = NDArray[np.float64]

# Beyond these, squares and their ratios may not be numbers any more: values that are larger
# cannot be used, differences that are smaller are none.
GREATEST, LEAST = 1e100, 1e-50

# Values that are nearer to each other than this, relative to their size, differ by rounding only.
ROUNDING = 8 * float(np.finfo(np.float64).eps)


def values_of(values: ArrayLike) -> Values:
    """The values as a row of floats."""
    row = np.asarray(values, dtype=np.float64)
    if row.ndim != 1:
        raise ValueError(f"values are a single row, not an array of shape {row.shape}")
    return row


def unusable(values: Values) -> str:
    """Why nothing can be reckoned with these values; empty if it can."""
    if values.size == 0:
        return "there are no values"
    wrong = values.size - int(np.count_nonzero(np.abs(values) <= GREATEST))
    return f"{wrong} of {values.size} values are not finite" if wrong else ""


def usable(values: ArrayLike) -> Values:
    """The values as a row of floats; ValueError says why they cannot be used."""
    row = values_of(values)
    if reason := unusable(row):
        raise ValueError(reason)
    return row


def is_constant(values: Values, size: float = 0.0) -> bool:
    """Whether all values are the same but for rounding of theirs, or of values of this size."""
    low, high = float(values.min()), float(values.max())
    return high - low <= max(ROUNDING * max(abs(low), abs(high), size), LEAST)


@dataclass(frozen=True)
class Summary:
    """A group's size, mean and corrected standard deviation, which is 0 for a single value."""

    n: int
    mean: float
    sd: float

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"a group has at least one value, not {self.n}")
        if not abs(self.mean) <= GREATEST:
            raise ValueError(f"the mean {self.mean} is no finite number")
        if not 0 <= self.sd <= GREATEST:
            raise ValueError(f"a standard deviation is 0 or more, not {self.sd}")

    @property
    def variance(self) -> float:
        """The corrected variance."""
        return self.sd * self.sd

    @property
    def mean_variance(self) -> float:
        """The variance of the mean."""
        return self.variance / self.n


def summarize(values: Values) -> Summary:
    """The summary of usable values; what is left of a constant by rounding is no scatter."""
    if is_constant(values):
        return Summary(values.size, float(values[0]), 0.0)
    return Summary(values.size, float(values.mean()), float(values.std(ddof=1)))


def summaries(
    means: Sequence[float], sds: Sequence[float], ns: Sequence[int]
) -> list[Summary]:
    """Groups as papers print them."""
    if not len(means) == len(sds) == len(ns):
        raise ValueError(
            f"as many means ({len(means)}) as standard deviations ({len(sds)}) "
            f"and sizes ({len(ns)}) are needed"
        )
    return [
        Summary(int(n), float(mean), float(sd))
        for mean, sd, n in zip(means, sds, ns, strict=True)
    ]


def variance_within(groups: Sequence[Summary]) -> float:
    """The variance around the groups' own means; 0 where each has a single value."""
    df = sum(group.n for group in groups) - len(groups)
    squares = sum((group.n - 1) * group.variance for group in groups)
    return squares / df if df > 0 else 0.0


def variance_between(groups: Sequence[Summary]) -> float:
    """The variance that the groups' means tell, for two groups or more."""
    # Around one of them, so that large means with little between them keep their digits.
    base = groups[0].mean
    n = sum(group.n for group in groups)
    middle = sum(group.n * (group.mean - base) for group in groups) / n
    squares = sum(group.n * (group.mean - base - middle) ** 2 for group in groups)
    return squares / (len(groups) - 1)


def t_beyond(alpha: float, df: float) -> float:
    """Student's t that is exceeded with probability alpha: scipy.stats takes 40 times as long."""
    return float(-special.stdtrit(df, alpha))


def unusable_groups(groups: Sequence[Values]) -> str:
    """Why groups cannot be tested at all; empty if they can."""
    if len(groups) < 2:
        return "there are fewer than two groups"
    for place, group in enumerate(groups, start=1):
        if reason := unusable(group):
            return f"group {place}: {reason}"
    return ""
