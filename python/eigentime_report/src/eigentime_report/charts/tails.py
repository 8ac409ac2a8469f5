"""How often something takes how long: the complementary cumulative distribution function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import numpy as np

from eigentime_report.charts.description import (
    Axis,
    Chart,
    Floats,
    Key,
    Line,
    Mark,
    Panel,
)
from eigentime_report.charts.sample import EXTREMES, Sample, top_ranks
from eigentime_report.charts.scales import least_positive, not_positive, time_axis
from eigentime_report.charts.selection import (
    Selection,
    Shown,
    level_group,
    load_group,
    seconds,
    sentences,
)
from eigentime_report.charts.theme import Paint
from eigentime_report.results import Cell

PanelBy: TypeAlias = Literal["load", "level"]

# Points of all lines of a chart together, and of one line.
POINTS = 2_600
LINE_POINTS = (60, 250)
# The axis begins at the least median divided by this, or at the least value.
BELOW_MEDIAN = 30.0

_READ = (
    "How often it took how long: where a line crosses 1 %, one in a hundred took at least "
    "that long. Both scales are logarithmic, and the dashed lines are the means."
)


def ccdf(
    cells: Iterable[Cell],
    *,
    levels: Sequence[str] | None = None,
    loads: Sequence[str] | None = None,
    panel_by: PanelBy = "load",
) -> Chart:
    """The share of samples that took at least as long, on two logarithmic scales.

    `levels` and `loads` are all those of the report, whose colours and styles are kept.
    Events are shown by how far they are from the interval, early or late.
    """
    cells = list(cells)
    is_deviation = any(cell.quantity.kind == "events" for cell in cells)
    selection = Selection.of(cells, levels, loads, magnitude=is_deviation)
    kind = "Tail"
    drawable = [one for one in selection.shown if one.sample.high > 0]
    if not drawable:
        return selection.nothing(kind, not_positive(selection.shown))
    meaning = selection.quantity.meaning if selection.quantity else ""
    if is_deviation:
        meaning = "distance from the interval, early or late"
    greatest = max(one.sample.high for one in drawable)
    x = time_axis(meaning, _left(drawable), greatest, True)
    count = max(one.sample.count for one in drawable)
    y = Axis("at least as long", "percent", True, (100 / count / 1.6, 160.0))
    points = int(np.clip(POINTS // len(drawable), *LINE_POINTS))
    panels = tuple(
        Panel(title, x, y, _marks(members, panel_by, points, y))
        for title, members in _grouped(drawable, panel_by)
    )
    is_thinned = any(len(one.sample.values) > points for one in drawable)
    return Chart(
        selection.key(kind),
        selection.title(kind),
        panels,
        (*_keys(selection, panel_by), Key("mean", "mean", Paint("muted"), "dash")),
        sentences(
            _READ,
            f"Of {selection.count:,} samples, each line has about {points} points at most: "
            f"even shares, closer towards the tail, and all of the {EXTREMES} greatest."
            if is_thinned
            else "",
            not_positive(selection.shown),
            *selection.remarks,
        ),
        columns=min(len(panels), 2),
        height=320,
    )


def _left(shown: Sequence[Shown]) -> float:
    """Where the axis begins: values next to 0 would leave no room for all others."""
    medians = [one.median for one in shown if one.median > 0]
    return max(least_positive(shown), min(medians, default=0.0) / BELOW_MEDIAN)


def tail(sample: Sample, points: int) -> tuple[Floats, Floats]:
    """Values above 0, and the percent of the sample that are at least as great."""
    values = np.unique(sample.at_rank(top_ranks(sample.count, points)))
    values = values[values > 0]
    return values, 100 * (sample.count - sample.below(values)) / sample.count


def _marks(
    members: Sequence[Shown], panel_by: PanelBy, points: int, y: Axis
) -> tuple[Mark, ...]:
    marks: list[Mark] = []
    floor = y.range[0] if y.range else 0.0
    for one in members:
        group = _group(one, panel_by)
        values, above = tail(one.sample, points)
        # From the left edge of the line down to its end, so that one value is a line, too.
        x = seconds(np.append(values, values[-1]))
        marks.append(
            Line(
                x,
                np.append(above, floor),
                one.paint(),
                one.name,
                group,
                dash="solid" if panel_by == "load" else one.dash,
                is_step=True,
            )
        )
        if one.mean > 0:
            mean = seconds(np.full(2, one.mean))
            ends = np.array([floor, 100.0])
            name = f"mean of {one.name}"
            marks.append(Line(mean, ends, one.paint(), name, "mean", 1.2, "dash"))
    return tuple(marks)


def _grouped(
    shown: Sequence[Shown], panel_by: PanelBy
) -> list[tuple[str, list[Shown]]]:
    groups: dict[str, list[Shown]] = {}
    for one in shown:
        name = one.cell.load if panel_by == "load" else one.cell.level
        groups.setdefault(name, []).append(one)
    return list(groups.items())


def _group(one: Shown, panel_by: PanelBy) -> str:
    if panel_by == "load":
        return level_group(one.cell.level)
    return load_group(one.cell.load)


def _keys(selection: Selection, panel_by: PanelBy) -> tuple[Key, ...]:
    return selection.level_keys() if panel_by == "load" else selection.load_keys()
