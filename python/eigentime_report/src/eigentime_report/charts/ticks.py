"""Which unit an axis has, where a logarithmic one has marks, and what stands at them."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor, log10
from typing import TypeAlias

from eigentime_report import units
from eigentime_report.charts.description import Axis, Unit

Ticks: TypeAlias = tuple[tuple[float, str], ...]

# Which of a decade's numbers have a mark: all that there is room for.
_WITHIN_DECADES = ((1, 2, 3, 4, 5, 6, 7, 8, 9), (1, 2, 5), (1, 3), (1,))
# Where the end is less than so many times the beginning, marks are in even steps of these.
NARROW = 4.0
_EVEN_STEPS = (1, 2, 2.5, 5, 10)

_SECONDS = 1e9

# Pixels that a mark needs with its words, across by the axis's unit, and down.
_ACROSS: Mapping[Unit, int] = {"time": 62, "percent": 62, "number": 38}
_DOWN = 28


def unit_of(axis: Axis) -> tuple[float, str]:
    """How often the axis's unit is in a second or in one, and its sign.

    A linear axis of time has one unit for all its marks; on a logarithmic one each mark
    has its own, and values stay seconds.
    """
    if axis.unit == "percent":
        return 1.0, " %"
    if axis.unit == "number" or axis.is_log or not axis.range:
        return 1.0, ""
    greatest = max(abs(end) for end in axis.range) * _SECONDS
    fits = [unit for unit in units.UNITS if greatest >= unit.ns]
    unit = fits[-1] if fits else units.NANOSECONDS
    return _SECONDS / unit.ns, f" {unit.name}"


def room_for(letter: str, axis: Axis, pixels: float) -> int:
    """How many marks such an axis has room for; two at least."""
    return max(int(pixels / (_ACROSS[axis.unit] if letter == "x" else _DOWN)), 2)


def log_ticks(axis: Axis, room: int) -> Ticks:
    """Up to `room` marks of a logarithmic axis that has a range; of others the axis's own."""
    if axis.ticks or not (axis.is_log and axis.range):
        return axis.ticks
    low, high = axis.range
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    found: list[float] = []
    for numbers in _WITHIN_DECADES:
        all_marks = (number * 10.0**decade for decade in decades for number in numbers)
        found = [mark for mark in all_marks if low <= mark <= high]
        if len(found) <= room:
            break
    if high < NARROW * low:
        found = _even_marks(low, high, room)
    every = ceil(len(found) / max(room, 1)) or 1
    # Of ratios, 1 is no difference, and has a mark in any case.
    is_ratio = axis.unit == "number" and 1.0 in found
    first = found.index(1.0) % every if is_ratio else 0
    return tuple((mark, _written(mark, axis.unit)) for mark in found[first::every])


def _even_marks(low: float, high: float, room: int) -> list[float]:
    """Up to `room` round numbers, each as far from the one before it."""
    decade = 10.0 ** floor(log10((high - low) / room))
    for times in _EVEN_STEPS:
        step = times * decade
        first, last = ceil(low / step), floor(high / step)
        if last - first < room:
            break
    return [float(f"{place * step:.12g}") for place in range(first, last + 1)]


def _written(mark: float, unit: Unit) -> str:
    if unit == "time":
        # Products of powers of ten are not quite what they are meant to be.
        return units.span(float(f"{mark * _SECONDS:.6g}"))
    text = f"{mark:,.12f}".rstrip("0").rstrip(".")
    return f"{text} %" if unit == "percent" else text
