"""The kinds of charts of one quantity."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import polars as pl
from scipy.special import ndtri

from eigentime_report.charts.chart import SECONDS, Chart, Scaled
from eigentime_report.charts.sample import Selection, Shown, both_ranks, scale, seconds, top_ranks
from eigentime_report.results import Cell
from eigentime_report.results.cell import Floats, plural
from eigentime_report.statistics.intervals import Ordered

Names = Sequence[str] | None

# The maximum number of points of all lines together, and of one line.
POINTS, LINE_POINTS = 2_600, (60, 250)
# The axis of tails begins at the lowest median divided by this, or at the lowest value.
BELOW_MEDIAN = 30.0
# Replicates drawn per level.
REPLICATES = 100
# Pieces of a series.
PIECES = 120
BINS = 60
# The part of a sample that a histogram shows.
CENTRAL = (0.005, 0.995)
QUARTILES = (0.25, 0.75)
# By the columns of the rows of percentiles.
PERCENTILES = {"p1": 0.01, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p99": 0.99}
LOG = "The scale of time is logarithmic."


def ccdf(cells: Iterable[Cell], *, levels: Names = None, loads: Names = None) -> Chart:
    """The share of samples that took at least as long, on two logarithmic scales.

    `levels` and `loads` are all those of the report, and determine colours and order. For events
    it shows how far they are from the interval, early or late.
    """
    cells = list(cells)
    is_event = any(cell.quantity.is_deviation for cell in cells)
    value = np.abs if is_event else np.asarray
    its = Selection.of("Tail latency", cells, levels, loads, value)
    medians = [it for one in its.shown if (it := one.sample.reached_by(0.5)) > 0]
    left = min(medians, default=0.0) / BELOW_MEDIAN
    points = int(np.clip(POINTS // max(len(its.shown), 1), *LINE_POINTS))

    def tail(one: Shown) -> Mapping[str, Any]:
        sample = one.sample
        values = np.unique(sample.at(top_ranks(sample.n, points)))
        values = values[values > left]
        share = (sample.n - sample.below(values)) / sample.n
        return {"value": values * 1e-9, "share": share}

    rows = its.rows(tail, lambda one: one.cell.load)
    meaning = "distance from the interval, early or late" if is_event else its.measure
    y = alt.Axis(format="~%", title="at least as long")
    base = _told(alt.Chart()).mark_line(interpolate="step-before", strokeWidth=1.8)
    line = base.encode(
        x=alt.X(**seconds("value", meaning, "log")),
        y=alt.Y("share:Q", scale=scale("log"), axis=y),
        color=its.colour,
        tooltip=[*_where("time"), alt.Tooltip("share:Q", format=".4~%")],
    )
    return its.chart(
        rows,
        [line],
        "How often it took how long: where a line crosses 1 %, one in a hundred took at least "
        "that long (the 99th percentile). Both scales are logarithmic.",
        its.off_scale(),
        columns=2,
        height=280,
    )


def distribution(cells: Iterable[Cell], *, levels: Names = None, loads: Names = None) -> Chart:
    """The percentiles of each level's samples, with a panel for each load."""
    its = Selection.of("Percentiles", cells, levels, loads)
    scaled = its.scaled

    def percentiles(one: Shown) -> Mapping[str, Any]:
        least = _lowest(one, scaled)
        found: dict[str, Any] = {
            name: [max(one.sample.reached_by(share), least) * 1e-9]
            for name, share in PERCENTILES.items()
        }
        medians = one.cell.replicates.median[:REPLICATES]
        kept = medians[np.isfinite(medians) & ((medians > 0) | (scaled == "linear"))]
        return _stacked({**found, "value": [None]}, {"value": kept * 1e-9})

    rows = its.rows(percentiles, lambda one: one.cell.load)
    place = alt.Y("level:N", sort=its.shown_levels, title=None)
    base = alt.Chart().encode(y=place, color=its.colour.legend(None))
    told = [alt.Tooltip(f"{name}_told:N", title=name) for name in PERCENTILES]
    for name in PERCENTILES:
        base = base.transform_calculate(**{f"{name}_told": SECONDS.format(f"datum.{name}")})
    boxes = base.transform_filter("isValid(datum.p50)").encode(tooltip=[*_where(), *told])
    axis = seconds("p1", its.measure, scaled)
    layers = (
        boxes.mark_rule(strokeWidth=1.5).encode(x=alt.X(**axis), x2=alt.X2("p99")),
        boxes.mark_bar(height=11, opacity=0.55).encode(
            x=alt.X(**axis | {"field": "p25"}), x2=alt.X2("p75")
        ),
        boxes.mark_tick(thickness=3, height=17).encode(x=alt.X(**axis | {"field": "p50"})),
        alt.Chart()
        .transform_filter("isValid(datum.value)")
        .mark_point(size=14, filled=True, opacity=0.5, style="ink", yOffset=13)
        .encode(x=alt.X(**axis | {"field": "value"}), y=place),
    )
    blocks = sorted({plural(one.cell.replicates.unit) for one in its.shown})
    return its.chart(
        rows,
        layers,
        "Each bar reaches from the 25th to the 75th percentile, the line through it from the 1st "
        "to the 99th, and the upright stroke is the median. Points are the medians of single "
        f"{' or '.join(blocks)}.",
        f"{LOG} {its.off_scale()}" if scaled == "log" else "",
        columns=2,
        height=alt.Step(40),
        zoom=["x"],
    )


def raw_series(cells: Iterable[Cell], *, levels: Names = None, loads: Names = None) -> Chart:
    """The samples in order, with a panel for each level and load, and each block's median in
    bold."""
    its = Selection.of("Series", cells, levels, loads)
    scaled = its.scaled
    least = min((_lowest(one, scaled) for one in its.shown), default=0.0)

    def pieces(one: Shown) -> Mapping[str, Any]:
        cell = one.cell
        parts, whole = [], []
        blocks = np.unique(cell.blocks)
        for place, block in enumerate(blocks):
            own = cell.blocks == block
            values = cell.values[own]
            # Readings are stored as histograms, without their order within a block.
            weights = None if cell.weights is None else cell.weights[own]
            most = max(PIECES // len(blocks), 1)
            count = 1 if weights is not None else min(most, len(values))
            edges = np.linspace(0, len(values), count + 1).astype(np.int64)
            at = place + edges / len(values)
            ends = (it.reduceat(values, edges[:-1]) * 1e-9 for it in (np.minimum, np.maximum))
            low, high = (np.maximum(it, least * 1e-9) for it in ends)
            parts.append(pl.DataFrame({"x": at[:-1], "x2": at[1:], "low": low, "high": high}))
            median = max(Ordered.of(values, weights).reached_by(0.5), least) * 1e-9
            whole.append({"x": float(place), "x2": place + 1.0, "median": median})
        return _stacked(pl.concat(parts).to_dict(), pl.DataFrame(whole).to_dict())

    rows = its.rows(pieces)
    x = alt.X("x:Q", title="block", scale=alt.Scale(nice=False), axis=alt.Axis(tickMinStep=1))
    axis = seconds("low", its.measure, scaled)
    span = alt.Chart().encode(x=x, x2=alt.X2("x2"))
    legend, colours = alt.Legend(values=its.shown_levels), alt.Scale(domain=its.levels)
    layers = (
        span.transform_filter("isValid(datum.low)")
        .transform_calculate(
            least=SECONDS.format("datum.low"), greatest=SECONDS.format("datum.high")
        )
        .mark_rect(opacity=0.5, strokeWidth=1, strokeOpacity=0.5)
        .encode(
            y=alt.Y(**axis),
            y2=alt.Y2("high"),
            color=its.colour,
            stroke=alt.Stroke("level:N", legend=legend, scale=colours),
            tooltip=_where("least", "greatest"),
        ),
        span.transform_filter("isValid(datum.median)")
        .transform_calculate(time=SECONDS.format("datum.median"))
        .mark_rule(strokeWidth=2.6, style="ink")
        .encode(y=alt.Y(**axis | {"field": "median"}), tooltip=_where("time")),
    )
    return its.chart(
        rows,
        layers,
        "Samples in the order in which they were taken. Each piece of the area reaches from the "
        "least to the greatest of the samples that it stands for; the bold line is the median of "
        "each block.",
        f"{LOG} {its.off_scale()}" if scaled == "log" else "",
        own=["x"],
    )


def interval_histogram(
    cells: Iterable[Cell], *, levels: Names = None, loads: Names = None
) -> Chart:
    """The deviation from the requested interval (jitter), with a panel for each level and load."""
    its = Selection.of("Histogram", cells, levels, loads)
    ends = {one: [one.sample.reached_by(it) for it in CENTRAL] for one in its.shown}

    def bins(one: Shown) -> Mapping[str, Any]:
        low, high = ends[one]
        edges = bin_edges(low, high, one.cell.step_ns)
        share = np.diff(one.sample.below(edges)) / one.sample.n
        return {"x": edges[:-1] * 1e-9, "x2": edges[1:] * 1e-9, "share": share}

    rows = its.rows(bins)
    y = alt.Axis(format="~%", title="share of samples")
    # Where the intervals are exactly the requested one.
    exactly = alt.Chart().mark_rule(strokeDash=[4, 3], style="muted").encode(x=alt.datum(0))
    layers = (
        alt.Chart()
        .transform_calculate(begin=SECONDS.format("datum.x"), end=SECONDS.format("datum.x2"))
        .mark_rect()
        .encode(
            x=alt.X(**seconds("x", its.measure)),
            x2=alt.X2("x2"),
            y=alt.Y("share:Q", axis=y),
            y2=alt.datum(0),
            color=its.colour,
            tooltip=[*_where("begin", "end"), alt.Tooltip("share:Q", format=".3~%")],
        ),
        *([exactly] if its.is_deviation else []),
    )
    return its.chart(
        rows,
        layers,
        f"The share of samples in each of up to {BINS} bins, without the least and the greatest 0.5 %. "
        "Each panel has its own scales.",
        "0 is an event exactly one interval after the one before it." if its.is_deviation else "",
        own=["x", "y"],
    )


def qq(cells: Iterable[Cell], *, levels: Names = None, loads: Names = None) -> Chart:
    """Quantiles of the samples against those of a normal distribution."""
    its = Selection.of("Q-Q plot", cells, levels, loads)

    def quantiles(one: Shown) -> Mapping[str, Any]:
        sample = one.sample
        ranks = both_ranks(sample.n, LINE_POINTS[0] * 2)
        expected = normal_scores(sample.n, ranks)
        points = {"x": expected, "value": sample.at(ranks) * 1e-9}
        lower, upper = (sample.reached_by(share) for share in QUARTILES)
        begin, end = ndtri(QUARTILES)
        slope = (upper - lower) / (end - begin)
        at = expected[[0, -1]]
        return _stacked(points, {"x": at, "line": (lower + slope * (at - begin)) * 1e-9})

    rows = its.rows(quantiles)
    x = alt.X("x:Q", title="expected, in SD")
    axis = seconds("value", its.measure)
    layers = (
        _told(alt.Chart().transform_filter("isValid(datum.value)"))
        .mark_point(size=14, filled=True)
        .encode(x=x, y=alt.Y(**axis), color=its.colour, tooltip=_where("time")),
        alt.Chart()
        .transform_filter("isValid(datum.line)")
        .mark_line(strokeDash=[5, 4], strokeWidth=1.3, style="ink")
        .encode(x=x, y=alt.Y(**axis | {"field": "line"})),
    )
    return its.chart(
        rows,
        layers,
        "Each point is a value, over where it would be in a sample of a normal distribution, in "
        "standard deviations (SD). Points near the dashed line, which goes through the quartiles, "
        "speak for that; a curve at its ends shows tails that are longer or shorter.",
        height=190,
        own=["y"],
    )


def normal_scores(count: int, ranks: Any) -> Floats:
    """The expected values of these ranks in a standard normal sample of this size (Blom 1958)."""
    return np.asarray(ndtri((ranks + 1 - 0.375) / (count + 0.25)))


def bin_edges(low: float, high: float, step: float) -> Floats:
    """Equal bins over a range; for a clock with steps, each is a whole number of steps wide."""
    width = (high - low) / BINS
    if step > width / 10:
        width = max(np.ceil(width / step), 1.0) * step
        low -= step / 2
    if width == 0:
        width = max(abs(low), 1.0) / 1000
        low -= width / 2
    return np.asarray(low + width * np.arange(int(np.ceil((high - low) / width)) + 2))


def _where(*more: str) -> list[alt.Tooltip]:
    """The tooltip of a mark. Altair takes ten times as long for the names alone."""
    return [alt.Tooltip(f"{it}:N") for it in ("level", "load", *more)]


def _told(chart: alt.Chart) -> alt.Chart:
    its: alt.Chart = chart.transform_calculate(time=SECONDS.format("datum.value"))
    return its


def _lowest(one: Shown, scaled: Scaled) -> float:
    """The lowest value that the scale can show."""
    return float(one.sample.at(one.not_positive if scaled == "log" else 0))


def _stacked(first: Mapping[str, Any], second: Mapping[str, Any]) -> Mapping[str, Any]:
    """Two sets of columns of different lengths, concatenated."""
    both = [pl.DataFrame(dict(it)) for it in (first, second)]
    return pl.concat(both, how="diagonal_relaxed").to_dict(as_series=True)
