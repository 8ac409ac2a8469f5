"""Differences between levels or loads: forest plots, and the first picture of a page."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import altair as alt
import polars as pl

from eigentime_report import units
from eigentime_report.analysis import Compared
from eigentime_report.charts.chart import NOTHING, Chart, sentences, slug
from eigentime_report.charts.sample import level_colour, panels

# Percentages up to this are shown on a linear scale.
LINEAR_UP_TO = 20.0
# On a logarithmic scale, intervals are cut off at this factor beyond all points.
BEYOND_POINTS = 10.0
# The maximum number of names in a caption.
NAMED = 5
# By the first word of a verdict: its name in the legend, and its symbol.
VERDICTS = {
    "differs": ("differs", "circle"),
    "same": ("the same, as far as it matters", "square"),
    "identical": ("the same, as far as it matters", "square"),
    "undecided": ("undecided", "diamond"),
    "not": ("not tested", "cross"),
}
# The name of each kind's measurement.
METRICS = {"calls": "overhead", "read": "overhead", "sleep": "latency", "events": "jitter"}


def forest(
    comparisons: Iterable[Compared],
    *,
    key: str = "effects",
    title: str = "Effects",
    reading: str = "",
) -> Chart:
    """The difference of each level from the first, or of each load, with its interval.

    It has a panel for each level and a row for each quantity. The colour is the verdict's.
    `reading` begins the caption if the comparison is not of levels or loads.
    """
    given = list(comparisons)
    rows, is_log = _scaled(pl.DataFrame(list(_rows(given, given))))
    if rows.is_empty():
        return Chart(slug(key), title, sentences(NOTHING, _missing(given)), rows)
    rows = rows.with_columns(panel="group")
    kinds = dict(VERDICTS.values())
    came = [it for it in kinds if it in rows["verdict"].to_list()]
    legend = alt.Legend(values=came)
    domain = list(kinds)
    colour = alt.Color("verdict:N", scale=alt.Scale(domain=domain, range="ordinal"), legend=legend)
    shapes = alt.Scale(domain=domain, range=list(kinds.values()))
    points, lines, zero = _intervals(rows, colour, is_log)
    points = points.encode(shape=alt.Shape("verdict:N", scale=shapes, legend=legend))
    own: list[Literal["x", "y"]] = ["x"] if is_log else []
    layers = (lines, points, zero)
    drawn = panels(rows, *layers, columns=3, height=alt.Step(22), own=own, zoom=["x"])
    said = reading or (
        f"How much {given[0].factor}s differ from {_base(given)}; the dashed line is no difference."
    )
    together = "which hold for all comparisons of a row together."
    caption = _caption(given, is_log, f"{said} The lines are intervals at", together)
    return Chart(slug(key), title, caption, rows, drawn)


def overview(
    comparisons: Iterable[Compared], levels: Sequence[str] | None = None, *, title: str = ""
) -> Chart:
    """The cost of each level relative to the first: a row for each metric, a point for each
    level."""
    given = list(comparisons)
    found = [
        {**row, "name": f"{row['name']} ({METRICS[each.quantity.kind]})"}
        for each in given
        for row in _rows([each], given)
    ]
    rows, is_log = _scaled(pl.DataFrame(found))
    title = title or f"What each level costs against {_base(given)}"
    if rows.is_empty():
        return Chart("overview", title, sentences(NOTHING, _missing(given)), rows)
    rows = rows.with_columns(panel=pl.lit(""), level="group")
    shown = rows["level"].unique(maintain_order=True).to_list()
    every = [*dict.fromkeys([*(levels or ()), *shown])]
    points, lines, zero = _intervals(rows, level_colour(every, shown), is_log)
    beside = alt.YOffset("level:N", sort=shown)
    layers = (lines.encode(yOffset=beside), points.encode(yOffset=beside), zero)
    height = alt.Step(max(11, 30 // len(shown)))
    drawn = panels(rows, *layers, columns=1, height=height, zoom=["x"])
    said = (
        f"One row a metric: the {_listed(given)}. The dashed line is {_base(given)}; right of it is "
        "more. The lines are intervals at"
    )
    caption = _caption(given, is_log, said, "from blocks in randomized order.")
    return Chart("overview", title, caption, rows, drawn)


def _base(given: Sequence[Compared]) -> str:
    return " and ".join(dict.fromkeys(each.base for each in given))


def _caption(given: Sequence[Compared], is_log: bool, said: str, held: str) -> str:
    """The caption: the intervals' confidence, the scale, and missing pairs."""
    confidence = f"{100 * (1 - given[0].comparison.alpha):.4g} %,"
    return sentences(said, confidence, held, _log_words() if is_log else "", _missing(given))


def _intervals(
    rows: pl.DataFrame, colour: alt.Color, is_log: bool
) -> tuple[alt.Chart, alt.Chart, alt.Chart]:
    """The points, their intervals, and a line at no difference."""
    names = rows["name"].unique(maintain_order=True).to_list()
    place = alt.Y("name:N", sort=names, title=None)
    if is_log:
        axis = alt.Axis(labelExpr="format(datum.value, '~') + '×'", title="times as much")
        its = alt.Scale(type="log", nice=False, padding=8)
    else:
        axis = alt.Axis(labelExpr="format(datum.value, '+~') + ' %'", title="difference")
        its = alt.Scale(nice=False, padding=8)
    base = alt.Chart().encode(y=place, color=colour, tooltip=alt.Tooltip("said:N", title="what"))
    low = alt.X("low:Q", scale=its, axis=axis)
    lines = base.mark_rule(strokeWidth=2).encode(x=low, x2=alt.X2("high"))
    points = base.mark_point(filled=True, size=60).encode(x=alt.X("at:Q"))
    zero = alt.Chart().mark_rule(strokeDash=[4, 3], style="muted")
    return points, lines, zero.encode(x=alt.datum(1 if is_log else 0))


def _rows(given: Sequence[Compared], among: Sequence[Compared]) -> Iterator[dict[str, str | float]]:
    """The rows for each level or load against the first one, if there is a percentage."""
    for each in given:
        for other in each.others:
            found = each.against_base(other)
            if found.percent is None:
                continue
            name, percent = _name(each, among), units.percent(found.percent / 100)
            interval = "no interval"
            low, high = found.percent_low, found.percent_high
            if low is not None and high is not None:
                interval = f"{units.percent(low / 100)} to {units.percent(high / 100)}"
            yield {
                "name": name,
                "group": other,
                "at": found.percent,
                "low": found.percent if low is None else low,
                "high": found.percent if high is None else high,
                "verdict": VERDICTS[found.verdict.split()[0]][0],
                "said": f"{name}, {other}: {percent} ({interval}), {found.verdict}",
            }


def _scaled(rows: pl.DataFrame) -> tuple[pl.DataFrame, bool]:
    """Percentages, or ratios on a logarithmic scale if they differ much."""
    if rows.is_empty():
        return rows, False
    ends = rows.select(pl.max_horizontal(pl.col("low", "high").abs().max())).item()
    if ends <= LINEAR_UP_TO:
        return rows, False
    ratios = rows.with_columns(pl.col("at", "low", "high") / 100 + 1)
    points = ratios["at"].filter(ratios["at"] > 0)
    least = min(1.0, *points) / BEYOND_POINTS
    most = max(1.0, *points) * BEYOND_POINTS
    return ratios.with_columns(pl.col("at", "low", "high").clip(least, most)), True


def _log_words() -> str:
    return (
        "Ratios are on a logarithmic scale: half as much is as far away as twice as much, and "
        "intervals that reach far beyond all points are cut off."
    )


def _listed(given: Sequence[Compared]) -> str:
    """The measurements, without duplicates: `overhead of calls, …`"""
    words = {
        "calls": "overhead of calls",
        "read": "overhead of clock reads",
        "sleep": "latency of sleeps",
        "events": "jitter (SD) of timer events",
    }
    return ", ".join(words[it] for it in dict.fromkeys(each.quantity.kind for each in given))


def _name(compared: Compared, among: Sequence[Compared]) -> str:
    """The name of a quantity, with the load or level if there are several."""
    name = compared.quantity.title
    several = len({other.held for other in among}) > 1
    return f"{name}, {compared.held}" if several else name


def _missing(given: Sequence[Compared]) -> str:
    """Text about pairs that are not in the chart."""
    names = [
        f"{_name(each, given)} ({other})"
        for each in given
        for other in each.others
        if each.against_base(other).percent is None
    ]
    if not names:
        return ""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"No percentage is known of {', '.join(names[:NAMED])}{more}: the tests' table says why."
