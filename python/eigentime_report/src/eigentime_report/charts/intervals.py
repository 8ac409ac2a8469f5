"""How far events are from their interval: histograms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from eigentime_report import units
from eigentime_report.charts.description import (
    Axis,
    Chart,
    Floats,
    Line,
    Mark,
    Panel,
    Patch,
    upright,
)
from eigentime_report.charts.sample import Sample
from eigentime_report.charts.scales import time_axis
from eigentime_report.charts.selection import (
    Selection,
    Shown,
    level_group,
    listed,
    seconds,
    sentences,
)
from eigentime_report.charts.theme import Paint
from eigentime_report.results import Cell

BINS = 60
# Values are in steps where the middle ones stand in clusters of so many each.
IN_A_CLUSTER = 4
# How far from the middle steps are fitted, one after the other.
STEPS_AWAY = (3, 6, 12, 24, 48)
# Panels beside each other that have their own ranges: so many have room for their marks.
OWN_COLUMNS = 2
# What a panel shows of its samples; how many are beyond is said.
CENTRAL = (0.005, 0.995)
# A panel reaches so many times the height of a box plot's box beyond that.
REACH = 6.0
# If that is at least this part of the samples; else it reaches further.
ENOUGH = 0.97
# Up to this ratio of the widest to the narrowest range all panels have the widest.
ALIKE = 6.0

_READ = "The share of {what} in each of up to {bins} bins."
_OWN = "The panels differ so much that each has its own range: its title says how wide it is."


def interval_histogram(
    cells: Iterable[Cell],
    *,
    levels: Sequence[str] | None = None,
    loads: Sequence[str] | None = None,
) -> Chart:
    """The deviation from the interval asked for, a panel for each level and load."""
    selection = Selection.of(cells, levels, loads)
    kind = "Histogram"
    if not selection.shown:
        return selection.nothing(kind)
    shown = selection.shown
    is_deviation = any(one.cell.quantity.kind == "events" for one in shown)
    ranges = [_central(one.sample) for one in shown]
    widths = [high - low for low, high in ranges if high > low]
    is_shared = not widths or max(widths) <= ALIKE * min(widths)
    if is_shared:
        whole = min(low for low, _ in ranges), max(high for _, high in ranges)
        ranges = [whole] * len(shown)
    histograms = [
        _histogram(one.sample, low, high)
        for one, (low, high) in zip(shown, ranges, strict=True)
    ]
    tallest = max(float(each.percent.max()) for each in histograms)
    panels = [
        _panel(one, selection, each, tallest if is_shared else None)
        for one, each in zip(shown, histograms, strict=True)
    ]
    outside = [
        (one.name, each.outside, one.sample.count)
        for one, each in zip(shown, histograms, strict=True)
    ]
    return Chart(
        selection.key(kind),
        selection.title(kind),
        tuple(panels),
        (),
        sentences(
            _READ.format(what="events" if is_deviation else "samples", bins=BINS),
            "" if is_shared else _OWN,
            "0 is an event exactly one interval after the one before it."
            if is_deviation
            else "",
            listed("Beyond the panels are", outside),
            *selection.remarks,
        ),
        columns=min(len(panels), max(len(selection.levels), 2), 4)
        if is_shared
        else OWN_COLUMNS,
        height=220,
        shares_x=is_shared,
        shares_y=is_shared,
    )


def bins(sample: Sample, low: float, high: float) -> Floats:
    """The edges of equal bins over a range; of values in steps, each has as many steps."""
    width = (high - low) / BINS
    step = _step(sample) if sample.high > sample.low else 0.0
    if step > width / 10:
        width = max(np.ceil(width / step), 1.0) * step
        low -= step / 2
    count = int(np.ceil((high - low) / width)) + 1 if width else 1
    return np.asarray(low + width * np.arange(count + 1))


def _step(sample: Sample) -> float:
    """The step that the values go in, also where readings are rounded to something smaller.

    Then the middle values stand in clusters, each narrower than half of a step.
    """
    values = np.unique(sample.values)
    least = float(np.diff(values).min())
    ends = sample.quantile(0.25), np.nextafter(sample.quantile(0.75), np.inf)
    middle = values[(ends[0] <= values) & (values < ends[1])]
    apart = np.diff(middle)
    if not len(apart):
        return least
    clusters = np.split(middle, np.flatnonzero(apart > apart.max() / 2) + 1)
    between = np.diff([cluster.mean() for cluster in clusters])
    step = float(np.median(between))
    widest = max(float(np.ptp(cluster)) for cluster in clusters)
    held = int(np.diff(sample.below(np.array(ends)))[0])
    if widest >= step / 2 or held < IN_A_CLUSTER * len(clusters):
        return least
    # It is known better with each one that is further away.
    centre = clusters[len(clusters) // 2].mean()
    for steps in STEPS_AWAY:
        near = values[np.abs(values - centre) < steps * step]
        step = float(np.polyfit(np.rint((near - centre) / step), near, 1)[0])
    return step


@dataclass(frozen=True, eq=False)
class Histogram:
    """Bins over a part of a sample."""

    axis_range: tuple[float, float]
    edges: Floats
    percent: Floats
    # How many samples are in no bin.
    outside: int


def _histogram(sample: Sample, low: float, high: float) -> Histogram:
    if low == high:
        # One bin, narrow enough to look like the one value that it is.
        half = max(abs(low), 1.0) / 1000
        edges = np.array([low - half, low + half])
    else:
        edges = bins(sample, low, high)
    below = sample.below(edges)
    percent = 100 * np.diff(below) / sample.count
    outside = sample.count - int(below[-1] - below[0])
    return Histogram((low, high), edges, percent, outside)


def _panel(
    one: Shown, selection: Selection, found: Histogram, tallest: float | None
) -> Panel:
    """`tallest`: the highest share of all panels; None where each has its own scales."""
    is_deviation = one.cell.quantity.kind == "events"
    title = one.name if len(selection.loads) > 1 else one.cell.level
    if tallest is None:
        low, high = found.axis_range
        title += f" ({units.duration(high - low, figures=2)} wide)"
    x = time_axis(one.cell.quantity.meaning, *found.axis_range, False)
    top = 1.06 * (tallest or float(found.percent.max())) or 1.0
    what = "events" if is_deviation else "samples"
    y = Axis(f"share of {what}", "percent", range=(0.0, top))
    # Down to 0 at both ends, and along each bin's top.
    across = seconds(np.repeat(found.edges, 2))
    tops = np.concatenate([[0.0], np.repeat(found.percent, 2), [0.0]])
    group = level_group(one.cell.level)
    marks: list[Mark] = [
        Patch(across, tops, one.paint("soft"), one.name, group),
        Line(across, tops, one.paint(), one.name, group, 1.2),
    ]
    if is_deviation:
        paint = Paint("muted")
        marks.append(Line(*upright(0.0, y), paint, "the interval", "", 1.2, "dash"))
    return Panel(title, x, y, tuple(marks))


def _central(sample: Sample) -> tuple[float, float]:
    """Where nearly all samples are, and near the middle half of them."""
    low, lower, upper, high = map(sample.quantile, (CENTRAL[0], 0.25, 0.75, CENTRAL[1]))
    reach = REACH * (upper - lower)
    near = max(low, lower - reach), min(high, upper + reach)
    below, through = sample.below(np.array([near[0], np.nextafter(near[1], np.inf)]))
    is_enough = reach > 0 and through - below >= ENOUGH * sample.count
    return near if is_enough else (low, high)
