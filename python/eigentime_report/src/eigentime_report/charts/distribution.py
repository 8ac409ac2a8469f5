"""How samples are spread, level beside level: violins or boxes, with the replicates as points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

import numpy as np
from scipy.stats import gaussian_kde

from eigentime_report.charts.description import (
    Axis,
    Chart,
    Floats,
    Key,
    Line,
    Mark,
    Panel,
    Patch,
    Points,
)
from eigentime_report.charts.sample import Sample
from eigentime_report.charts.scales import (
    least_of,
    not_positive,
    shared_time_axis,
    time_axis,
    wants_log,
)
from eigentime_report.charts.selection import (
    Selection,
    Shown,
    level_group,
    listed,
    seconds,
    sentences,
)
from eigentime_report.charts.theme import Paint
from eigentime_report.charts.thinning import needed
from eigentime_report.results import Cell

Shape: TypeAlias = Literal["violin", "box"]

# Half of a violin's width, where levels are 1 apart; points stand beside its middle.
HALF = 0.38
POINTS_AT = 0.2
# Values that a density is estimated from, and at which it is drawn.
DRAWN_FROM = 2_000
DRAWN_AT = 120
# How far its outline may be from the estimate, as a part of its width: less than a pixel.
UNSEEN = 0.008
# On a linear axis, the part of the samples that it has to show.
CENTRAL = (0.005, 0.995)
# Of fewer samples than these, one that is so many times the box beyond it would hide all others.
FEW_SAMPLES = 30
FAR = 3.0
# Replicates that are drawn of one level: more are said by the violin.
REPLICATES = 200

_READ = {
    "violin": "Each shape is as wide as values there are frequent; the short line is the median, "
    "and the thick one reaches from the lower to the upper quartile.",
    "box": "Each box reaches from the lower to the upper quartile, the line in it is the median, "
    "and the whiskers end at the last samples within 1.5 times the box (Tukey).",
}
_POINTS = "Points are the medians of single {units}."


def distribution(
    cells: Iterable[Cell],
    *,
    levels: Sequence[str] | None = None,
    loads: Sequence[str] | None = None,
    shape: Shape = "violin",
) -> Chart:
    """The samples of each level as a violin or a box, a panel for each load."""
    selection = Selection.of(cells, levels, loads)
    kind = "Distribution"
    if not selection.shown:
        return selection.nothing(kind)
    shown = selection.shown
    meaning = selection.quantity.meaning if selection.quantity else ""
    is_log = wants_log(shown)
    y, beyond = _axis(meaning, shown, is_log)
    places = {level: place for place, level in enumerate(selection.levels)}
    ticks = tuple((float(place), level) for level, place in places.items())
    x = Axis("", range=(-0.6, len(places) - 0.4), ticks=ticks)
    panels = []
    for load in selection.loads:
        marks: list[Mark] = []
        for one in shown:
            if one.cell.load == load:
                place = places[one.cell.level]
                marks.extend(_marks(one, place, shape, y))
        panels.append(Panel(load, x, y, tuple(marks)))
    units = sorted({one.cell.replicates.unit for one in shown})
    return Chart(
        selection.key(kind),
        selection.title(kind),
        tuple(panels),
        (Key("replicates", "replicates", Paint("ink"), symbol="circle"),),
        sentences(
            _READ[shape],
            _POINTS.format(units=" or ".join(f"{unit}s" for unit in units)),
            "The scale of time is logarithmic." if is_log else "",
            not_positive(shown) if is_log else beyond,
            _constant(shown),
            *selection.remarks,
        ),
        columns=min(len(panels), 2),
        height=300,
    )


def density(sample: Sample, is_log: bool) -> tuple[Floats, Floats]:
    """Values, and how frequent they are there beside the most frequent one.

    A kernel estimate with Silverman's bandwidth, of the logarithms on a logarithmic scale.
    """
    ranks = np.linspace(0, sample.count - 1, min(sample.count, DRAWN_FROM))
    values = sample.at_rank(np.rint(ranks).astype(np.int64))
    if is_log:
        values = np.log(values[values > 0])
    low, high = values[0], values[-1]
    lower, upper = np.quantile(values, [0.25, 0.75])
    spread = float(values.std(ddof=1))
    width = min(spread, (upper - lower) / 1.34) or spread
    bandwidth = max(0.9 * width * len(values) ** -0.2, (high - low) / 500)
    at = np.linspace(low, high, DRAWN_AT)
    # The body has most of the curve, so points are where the values are, too.
    at = np.unique(np.concatenate([at, np.quantile(values, np.linspace(0, 1, 60))]))
    heights = gaussian_kde(values, bw_method=bandwidth / spread)(at)
    heights /= heights.max()
    kept = needed(at, heights, UNSEEN)
    return (np.exp(at) if is_log else at)[kept], heights[kept]


def _axis(meaning: str, shown: Sequence[Shown], is_log: bool) -> tuple[Axis, str]:
    """The axis of all panels, and what is said of samples beyond it."""
    if is_log:
        return shared_time_axis(meaning, shown), ""
    ranges = [_central(one.sample) for one in shown]
    low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
    axis = time_axis(meaning, low, high, False)
    bottom, top = axis.range or (low, high)
    beyond = (
        (one.name, _outside(one.sample, bottom * 1e9, top * 1e9), one.sample.count)
        for one in shown
    )
    return axis, listed("Beyond the axis are", beyond)


def _central(sample: Sample) -> tuple[float, float]:
    """What an axis has to show of the samples: nearly all, and of few those near the box."""
    low, lower, upper, high = map(sample.quantile, (CENTRAL[0], 0.25, 0.75, CENTRAL[1]))
    reach = FAR * (upper - lower)
    if sample.count >= FEW_SAMPLES or reach == 0:
        return low, high
    return max(low, lower - reach), min(high, upper + reach)


def _outside(sample: Sample, low: float, high: float) -> int:
    below, through = sample.below(np.array([low, np.nextafter(high, np.inf)]))
    return int(below) + sample.count - int(through)


def _constant(shown: Sequence[Shown]) -> str:
    names = [one.name for one in shown if one.sample.is_constant]
    return f"All samples are equal, and a line, at {'; '.join(names)}." if names else ""


def _marks(one: Shown, place: int, shape: Shape, y: Axis) -> Iterator[Mark]:
    sample = one.sample
    group = level_group(one.cell.level)
    if not sample.is_constant and (not y.is_log or sample.quantile(0.25) > 0):
        draw = _violin if shape == "violin" else _box
        yield from draw(one, place, y, group)
    median = np.full(2, float(seconds(np.array([one.median]))[0]))
    reach = HALF / 3 if shape == "violin" else HALF
    across = np.array([place - reach, place + reach])
    name = f"median of {one.name}"
    yield Line(across, median, one.paint(), name, group, 2.6)
    medians = one.cell.replicates.median[:REPLICATES]
    medians = medians[np.isfinite(medians)]
    if len(medians):
        # Spread evenly, and the same each time: multiples of the golden ratio.
        jitter = np.asarray(np.arange(len(medians)) * 0.618034 % 1 - 0.5, np.float64)
        unit = one.cell.replicates.unit
        yield Points(
            place + POINTS_AT + 0.16 * jitter,
            seconds(medians),
            Paint("ink", "soft"),
            f"median of a {unit} of {one.name}",
            "replicates",
            one.symbol,
            size=4.0,
        )


def _violin(one: Shown, place: int, y: Axis, group: str) -> Iterator[Mark]:
    values, heights = density(one.sample, y.is_log)
    sides = HALF * heights
    yield Patch(
        np.concatenate([place - sides, (place + sides)[::-1]]),
        seconds(np.concatenate([values, values[::-1]])),
        one.paint("soft"),
        one.name,
        group,
    )
    quartiles = seconds(
        np.array([one.sample.quantile(0.25), one.sample.quantile(0.75)])
    )
    yield Line(
        np.full(2, float(place)),
        np.maximum(quartiles, least_of(y)),
        one.paint(),
        f"quartiles of {one.name}",
        group,
        5.0,
    )


def _box(one: Shown, place: int, y: Axis, group: str) -> Iterator[Mark]:
    sample = one.sample
    lower, upper = sample.quantile(0.25), sample.quantile(0.75)
    reach = 1.5 * (upper - lower)
    # The last samples within the fences.
    first = int(sample.below(lower - reach))
    last = int(sample.below(np.nextafter(upper + reach, np.inf))) - 1
    whiskers = sample.at_rank(np.array([first, last]))
    x = place + HALF * np.array([-1.0, 1.0, 1.0, -1.0])
    box = np.array([lower, lower, upper, upper])
    yield Patch(x, seconds(box), one.paint("soft"), one.name, group)
    for ends in (whiskers[0], lower), (upper, whiskers[1]):
        heights = np.maximum(seconds(np.array(ends)), least_of(y))
        yield Line(np.full(2, float(place)), heights, one.paint(), one.name, group)
