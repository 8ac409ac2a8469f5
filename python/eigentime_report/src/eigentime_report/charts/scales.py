"""Which scale values need, linear or logarithmic, and what is said of those it cannot show."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eigentime_report.charts.description import Axis, Floats
from eigentime_report.charts.selection import Shown, listed, seconds

# The least number above 0.
ABOVE_0 = float(np.nextafter(0.0, 1.0))
# Values that differ by more than this are told apart on a logarithmic scale only.
WIDE = 20.0
# Up to this share of values that are 0 or less, a logarithmic scale still shows the sample.
FEW = 0.05
# How much is left free beyond the least and the greatest value, as a part of the range.
MARGIN = 0.04


def not_positive(shown: Sequence[Shown]) -> str:
    """What is said of values that a logarithmic scale cannot show; nothing if there are none."""
    return listed(
        "0 or less, for which a logarithmic scale has no place, are",
        ((one.name, int(one.sample.below(ABOVE_0)), one.sample.count) for one in shown),
    )


def wants_log(shown: Sequence[Shown]) -> bool:
    """Whether a logarithmic scale shows these values better than a linear one."""
    lows = []
    for one in shown:
        lost = int(one.sample.below(ABOVE_0))
        if lost > FEW * one.sample.count:
            return False
        lows.append(float(one.sample.at_rank(np.array([lost]))[0]))
    return max(one.sample.high for one in shown) > WIDE * min(lows)


def time_axis(title: str, low_ns: float, high_ns: float, is_log: bool) -> Axis:
    """An axis of time with some room at both ends; one value gets room around it."""
    low, high = seconds(np.array([low_ns, high_ns])).tolist()
    if is_log:
        room = (high / low) ** MARGIN if high > low else 2.0
        return Axis(title, "time", True, (low / room, high * room))
    room = MARGIN * (high - low) or 0.1 * abs(high) or 1e-9
    return Axis(title, "time", False, (low - room, high + room))


def shared_time_axis(title: str, shown: Sequence[Shown]) -> Axis:
    """One axis on which all values are; logarithmic where they need it."""
    high = max(one.sample.high for one in shown)
    if not wants_log(shown):
        return time_axis(title, min(one.sample.low for one in shown), high, False)
    return time_axis(title, least_positive(shown), high, True)


def least_positive(shown: Sequence[Shown]) -> float:
    """The least value above 0 of all samples; infinite where there is none."""
    found = [_first(one.sample.values, ABOVE_0) for one in shown]
    return min(found)


def _first(values: Floats, limit: float) -> float:
    place = int(np.searchsorted(values, limit))
    return float(values[place]) if place < len(values) else float("inf")


def least_of(axis: Axis) -> float:
    """What outlines are cut off at: the end of a logarithmic axis, and of a linear one nothing."""
    return axis.range[0] if axis.is_log and axis.range else float("-inf")
