"""Whether samples are normally distributed: Q-Q plots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import ndtri

from eigentime_report.charts.description import (
    Axis,
    Chart,
    Floats,
    Key,
    Line,
    Panel,
    Points,
)
from eigentime_report.charts.sample import Sample, both_ranks
from eigentime_report.charts.scales import ABOVE_0, time_axis
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

Distribution: TypeAlias = Literal["normal", "log-normal"]
Of: TypeAlias = Literal["samples", "replicates"]

# Points of all panels together, and of one panel.
POINTS = 3_000
PANEL_POINTS = (60, 250)
# The line goes through the quartiles, as R's qqline() draws it.
QUARTILES = (0.25, 0.75)

_READ = (
    "Each point is a value, over where it would be in a sample of a {against} distribution, in "
    "standard deviations (SD). "
    "Points near the dashed line, which goes through the quartiles, speak for that; a curve at "
    "its ends shows tails that are longer or shorter."
)


def qq(
    cells: Iterable[Cell],
    *,
    levels: Sequence[str] | None = None,
    loads: Sequence[str] | None = None,
    against: Distribution = "normal",
    of: Of = "samples",
) -> Chart:
    """Quantiles of the samples over those of a normal or log-normal distribution.

    `of="replicates"` shows the replicates' means, which are what the tests compare.
    """
    selection = Selection.of(cells, levels, loads)
    kind = "Q-Q plot"
    if not selection.shown:
        return selection.nothing(kind)
    is_log = against == "log-normal"
    points = int(np.clip(POINTS // len(selection.shown), *PANEL_POINTS))
    panels, missing = [], []
    is_thinned = False
    for one in selection.shown:
        sample = (
            Sample.of(one.cell.replicates.mean) if of == "replicates" else one.sample
        )
        panels.append(_panel(one, selection, sample, is_log, points))
        is_thinned |= sample.count > points
        if is_log:
            missing.append((one.name, int(sample.below(ABOVE_0)), sample.count))
    what = "samples"
    if of == "replicates":
        units = sorted({one.cell.replicates.unit for one in selection.shown})
        what = f"means of {' and '.join(f'{unit}s' for unit in units)}"
    return Chart(
        slug_of(selection, kind, against, of),
        selection.title(kind),
        tuple(panels),
        (Key("expected", against, Paint("ink"), "dash"),),
        sentences(
            _READ.format(against=against),
            f"Shown are {what}.",
            f"Of each panel's values at most {points} are drawn: even ones, and all at the "
            "ends."
            if is_thinned
            else "",
            listed("0 or less, and not shown, are", missing),
            *selection.remarks,
        ),
        columns=min(len(panels), max(len(selection.levels), 2), 4),
        height=230,
        shares_y=False,
    )


def slug_of(selection: Selection, kind: str, *more: str) -> str:
    """The chart's key, with what else was chosen where it is not what is usual."""
    usual = ("normal", "samples")
    return "-".join(
        [selection.key(kind), *(word for word in more if word not in usual)]
    )


def expected(sample: Sample, ranks: Floats) -> Floats:
    """Where a standard normal sample of this size has the values of these ranks (Blom 1958)."""
    return np.asarray(ndtri((ranks + 1 - 0.375) / (sample.count + 0.25)))


def _panel(
    one: Shown, selection: Selection, sample: Sample, is_log: bool, points: int
) -> Panel:
    title = one.name if len(selection.loads) > 1 else one.cell.level
    x = Axis("expected, in SD")
    words = _words(sample, is_log)
    meaning = selection.quantity.meaning if selection.quantity else ""
    if words:
        return Panel(title, x, Axis(meaning, "time"), words=words)
    ranks = both_ranks(sample.count, points)
    values = sample.at_rank(ranks)
    if is_log:
        ranks, values = ranks[values > 0], values[values > 0]
    at = expected(sample, ranks.astype(np.float64))
    line = _line(sample, at, is_log)
    low, high = float(values[0]), float(values[-1])
    y = time_axis(meaning, low, high, is_log)
    group = level_group(one.cell.level)
    return Panel(
        title,
        x,
        y,
        (
            Points(
                at, seconds(values), one.paint(), one.name, group, one.symbol, size=4.0
            ),
            Line(at[[0, -1]], line, Paint("ink"), "expected", "expected", 1.3, "dash"),
        ),
    )


def _words(sample: Sample, is_log: bool) -> str:
    """Why there is nothing to compare; empty if there is."""
    if sample.count < 3:
        return f"{sample.count} {'value' if sample.count == 1 else 'values'}: too few"
    if sample.is_constant:
        return f"All {sample.count:,} values are equal"
    if is_log and sample.between(QUARTILES[0]) <= 0:
        return "A quarter or more is 0 or less, which no log-normal sample has"
    return ""


def _line(sample: Sample, at: Floats, is_log: bool) -> Floats:
    """The straight line through the quartiles, at the first and the last point."""
    quartiles = np.array([sample.between(share) for share in QUARTILES])
    if is_log:
        quartiles = np.log(quartiles)
    normal = ndtri(np.array(QUARTILES))
    slope = (quartiles[1] - quartiles[0]) / (normal[1] - normal[0])
    ends = quartiles[0] + slope * (at[[0, -1]] - normal[0])
    return seconds(np.exp(ends) if is_log else ends)
