"""How well differences and ratios of two groups are known."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, hypot, inf, log
from typing import TypeAlias

import numpy as np

from eigentime_report.statistics.effects import FEWEST_FOR_MEDIANS, median_draws
from eigentime_report.statistics.groups import Values, summarize

End: TypeAlias = float | None

# No ratio whose logarithm is greater can be told from infinity.
FARTHEST = 200.0


@dataclass(frozen=True)
class Range:
    """An estimate with its interval, an end being None that cannot be had."""

    value: float
    low: End
    high: End

    @property
    def ends(self) -> tuple[End, End]:
        """Of the interval."""
        return self.low, self.high

    def times(self, factor: float) -> Range:
        """The same in another unit."""
        low, high = (None if it is None else factor * it for it in self.ends)
        return Range(factor * self.value, low, high)

    def widened(self, by: float, least: float = -inf) -> Range:
        """With so much that is not known, whatever the scatter; nothing is below the least."""
        low = None if self.low is None else max(self.low - by, least)
        high = None if self.high is None else self.high + by
        return Range(self.value, low, high)

    def shows(self, resolution: float) -> bool:
        """Is it more than what is not known, with its interval if there is one?"""
        if resolution == 0:
            return True
        if self.low is None or self.high is None:
            return abs(self.value) > resolution
        return self.low > resolution or self.high < -resolution

    @property
    def leaves_out_zero(self) -> bool:
        """Is there no 0 in its interval?"""
        return (self.low or 0.0) > 0 or (self.high or 0.0) < 0

    def is_within(self, limit: float) -> bool:
        """Is it certain that this is no further from 0?"""
        if self.low is None or self.high is None:
            return False
        return -limit <= self.low and self.high <= limit


def mean_ratio_range(a: Values, b: Values, difference: Range) -> Range | None:
    """By which share the first mean is more, with an interval of the logarithm of their ratio.

    It is as wide as the test's, divided between both means as they scatter. None where a
    mean is not above 0.
    """
    one, other = summarize(a), summarize(b)
    if min(one.mean, other.mean) <= 0:
        return None
    share = (one.mean - other.mean) / other.mean
    scatter = hypot(one.mean_variance**0.5, other.mean_variance**0.5)
    if difference.low is None or difference.high is None or scatter == 0:
        low, high = difference.times(1 / other.mean).ends
        return Range(share, low, high)
    units_of_scatter = (difference.high - difference.low) / 2 / scatter
    reach = units_of_scatter * hypot(
        one.mean_variance**0.5 / one.mean, other.mean_variance**0.5 / other.mean
    )
    middle = log(one.mean) - log(other.mean)
    return Range(share, exp(middle - reach) - 1, exp(min(middle + reach, FARTHEST)) - 1)


def median_difference(
    a: Values, b: Values, confidence: float, seed: int
) -> tuple[Range, Range | None]:
    """Of the medians, and as a share of the second one where both are above 0."""
    one, other = float(np.median(a)), float(np.median(b))
    are_positive = min(one, other) > 0
    difference = one - other
    if min(a.size, b.size) < FEWEST_FOR_MEDIANS:
        share = Range(difference / other, None, None) if are_positive else None
        return Range(difference, None, None), share
    first, second = median_draws(a, b, seed)
    alpha = (1 - confidence) / 2
    low, high = np.quantile(first - second, (alpha, 1 - alpha))
    found = Range(difference, float(low), float(high))
    if not are_positive or second.min() <= 0:
        return found, None
    low, high = np.quantile(first / second, (alpha, 1 - alpha))
    return found, Range(difference / other, float(low) - 1, float(high) - 1)
