"""By how much levels or loads differ: forest plots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import pairwise

import numpy as np

from eigentime_report import units
from eigentime_report.analysis import Compared
from eigentime_report.charts.description import (
    Axis,
    Chart,
    Floats,
    Key,
    Line,
    Mark,
    Panel,
    Points,
    Symbol,
    segments,
    upright,
)
from eigentime_report.charts.selection import NOTHING, nothing, sentences, slug
from eigentime_report.charts.theme import Paint

# Pixels of a row, and of a panel with few of them.
ROW = 24
LEAST_HEIGHT = 110
# Percentages up to this are shown on a linear scale.
LINEAR_UP_TO = 20.0
# On a logarithmic scale, intervals are cut off where they reach so many times beyond all points.
BEYOND_POINTS = 10.0
# Up to this ratio of the widest to the narrowest scale all panels have the widest.
ALIKE = 6.0
# Names in a caption at most.
NAMED = 5


@dataclass(frozen=True)
class Verdict:
    """What a verdict's points look like, and what the legend calls it."""

    role: str
    symbol: Symbol
    text: str


# By the first word of the verdict.
VERDICTS: Mapping[str, Verdict] = {
    "differs": Verdict("differs", "circle", "differs"),
    "same": Verdict("same", "square", "the same, as far as it matters"),
    "identical": Verdict("same", "square", "the same, as far as it matters"),
    "undecided": Verdict("undecided", "diamond", "undecided"),
    "not": Verdict("undecided", "cross", "not tested"),
}

_DIFFERENCE = "How much {what} differ from {base}; the upright line is no difference."
_RATIO = (
    "Ratios are on a logarithmic scale: half as much is as far away as twice as much."
)
_OWN = "Each panel has its own scale, since they differ much."
_CUT = "Intervals that reach far beyond all points are cut off at the end of the axis."
_INTERVALS = (
    "The lines are intervals at {confidence:.4g} %, which hold for all comparisons of a row "
    "together."
)


@dataclass(frozen=True)
class Row:
    """One comparison with the base, in percent."""

    name: str
    group: str
    percent: float
    low: float | None
    high: float | None
    verdict: str


def forest(
    comparisons: Iterable[Compared],
    *,
    key: str = "effects",
    title: str = "Effects",
    reading: str = "",
) -> Chart:
    """The difference of each level from the first, or of each load, with its interval.

    A panel for each level; a row for each quantity. The colour is the verdict's. `reading`
    begins the caption where it is not levels or loads that are compared.
    """
    given = list(comparisons)
    rows = [row for each in given for row in _rows(each, given)]
    without = _without_percentage(given)
    if not rows:
        return nothing(slug(key), title, sentences(NOTHING, without))
    names = list(dict.fromkeys(row.name for row in rows))
    by_group = {
        group: [row for row in rows if row.group == group]
        for group in _in_order(each.others for each in given)
    }
    by_group = {group: own for group, own in by_group.items() if own}
    y = Axis(
        "",
        range=(len(names) - 0.4, -0.6),
        ticks=tuple((float(place), name) for place, name in enumerate(names)),
    )
    scales = [Scale.of(own) for own in by_group.values()]
    is_shared = max(it.width for it in scales) <= ALIKE * min(it.width for it in scales)
    if is_shared:
        scales = [Scale.of(rows)] * len(by_group)
    panels = [
        _panel(group, own, names, scale, y)
        for (group, own), scale in zip(by_group.items(), scales, strict=True)
    ]
    is_cut = any(
        scale.cuts(row)
        for own, scale in zip(by_group.values(), scales, strict=True)
        for row in own
    )
    bases = list(dict.fromkeys(each.base for each in given))
    plural = "levels" if given[0].factor == "level" else "loads"
    return Chart(
        slug(key),
        title,
        tuple(panels),
        _keys(rows),
        sentences(
            reading or _DIFFERENCE.format(what=plural, base=" and ".join(bases)),
            _INTERVALS.format(confidence=100 * (1 - given[0].comparison.alpha)),
            _RATIO if any(scale.is_log for scale in scales) else "",
            _CUT if is_cut else "",
            "" if is_shared else _OWN,
            without,
        ),
        columns=min(len(panels), 3),
        height=max(ROW * len(names), LEAST_HEIGHT),
        shares_x=is_shared,
    )


def _in_order(given: Iterable[Sequence[str]]) -> Iterable[str]:
    """Each name once, in the order that all these parts of one list have in common."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for names in given:
        for name in names:
            sorter.add(name)
        for before, after in pairwise(names):
            sorter.add(after, before)
    return sorter.static_order()


def _rows(compared: Compared, among: Sequence[Compared]) -> Iterator[Row]:
    """Each level or load against the first one, where there is a percentage."""
    for other in compared.others:
        found = compared.against_base(other)
        if found.percent is not None:
            name = _name(compared, among)
            low, high = found.percent_low, found.percent_high
            yield Row(name, other, found.percent, low, high, found.verdict)


def _name(compared: Compared, among: Sequence[Compared]) -> str:
    """The quantity, and under which load or at which level where there are several."""
    name = compared.quantity.title
    several = len({other.held for other in among}) > 1
    return f"{name}, {compared.held}" if several else name


def _without_percentage(given: Sequence[Compared]) -> str:
    """What is said of pairs that have no place in the chart."""
    names = [
        f"{_name(compared, given)} ({other})"
        for compared in given
        for other in compared.others
        if compared.against_base(other).percent is None
    ]
    if not names:
        return ""
    listed = ", ".join(names[:NAMED])
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"No percentage is known of {listed}{more}: the tests' table says why."


def _panel(
    group: str,
    rows: Sequence[Row],
    names: Sequence[str],
    scale: Scale,
    y: Axis,
) -> Panel:
    zero = Line(*upright(scale.zero, y), Paint("muted"), "no difference", width=1.2)
    marks: list[Mark] = [zero]
    places = np.array([float(names.index(row.name)) for row in rows])
    for word, verdict in VERDICTS.items():
        own = np.array([_word(row) == word for row in rows])
        if not own.any():
            continue
        chosen = [row for row, is_own in zip(rows, own, strict=True) if is_own]
        paint = Paint(verdict.role)
        ends = scale.place(np.array([_ends(row) for row in chosen]))
        along, at = segments(ends[:, 0], ends[:, 1], places[own])
        marks.append(Line(along, at, paint, "interval", verdict.text, 2.0))
        marks.append(
            Points(
                scale.place(np.array([row.percent for row in chosen])),
                places[own],
                paint,
                group,
                verdict.text,
                verdict.symbol,
                8.0,
                tuple(_said(row) for row in chosen),
            )
        )
    return Panel(group, scale.axis, y, tuple(marks))


@dataclass(frozen=True)
class Scale:
    """A scale of percentages, or a logarithmic one of ratios where they differ much."""

    axis: Axis

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Scale:
        """The scale that shows all these rows."""
        ends = np.array([_ends(row) for row in rows]).ravel()
        points = np.array([row.percent for row in rows])
        if np.abs(ends).max() > LINEAR_UP_TO:
            return cls(_ratio_axis(1 + points / 100, 1 + ends / 100))
        low, high = min(float(ends.min()), 0.0), max(float(ends.max()), 0.0)
        room = 0.06 * (high - low) or 1.0
        return cls(Axis("difference", "percent", range=(low - room, high + room)))

    @property
    def is_log(self) -> bool:
        """Whether it is ratios that it shows."""
        return self.axis.is_log

    @property
    def zero(self) -> float:
        """Where no difference is."""
        return 1.0 if self.is_log else 0.0

    @property
    def width(self) -> float:
        """From end to end, as a part: of a few percent about what they are."""
        low, high = self.axis.range or (1.0, 1.0)
        return float(np.log(high / low)) if self.is_log else (high - low) / 100

    def place(self, percent: Floats) -> Floats:
        """Where percentages are on the axis; of ratios, what is beyond it at its end."""
        if not self.is_log:
            return percent
        return np.asarray(np.clip(1 + percent / 100, *(self.axis.range or (0, np.inf))))

    def cuts(self, row: Row) -> bool:
        """Whether the row's interval reaches beyond the axis."""
        low, high = self.axis.range or (0.0, np.inf)
        first, last = (1 + end / 100 for end in _ends(row))
        return self.is_log and (first < low or last > high)


def _ratio_axis(points: Floats, ends: Floats) -> Axis:
    """Around all points, and as far as intervals reach if that is not much further."""
    points = np.append(points[points > 0], 1.0)
    ends = np.append(ends, points)
    low = max(ends.min(), points.min() / BEYOND_POINTS)
    high = min(ends.max(), points.max() * BEYOND_POINTS)
    room = (high / low) ** 0.06
    ends_of_axis = float(low / room), float(high * room)
    return Axis("times as much", is_log=True, range=ends_of_axis)


def _said(row: Row) -> str:
    interval = "no interval"
    if row.low is not None and row.high is not None:
        interval = f"{_percent(row.low)} to {_percent(row.high)}"
    return (
        f"{row.name}, {row.group}: {_percent(row.percent)} ({interval}), {row.verdict}"
    )


def _percent(value: float) -> str:
    return units.percent(value / 100)


def _ends(row: Row) -> tuple[float, float]:
    """The interval; of one that has none, the percentage itself."""
    low = row.percent if row.low is None else row.low
    return low, row.percent if row.high is None else row.high


def _word(row: Row) -> str:
    return row.verdict.split()[0]


def _keys(rows: Iterable[Row]) -> tuple[Key, ...]:
    """An entry of the legend for each verdict that came."""
    came = {VERDICTS[_word(row)] for row in rows}
    known = dict.fromkeys(verdict for verdict in VERDICTS.values() if verdict in came)
    return tuple(
        Key(verdict.text, verdict.text, Paint(verdict.role), symbol=verdict.symbol)
        for verdict in known
    )
