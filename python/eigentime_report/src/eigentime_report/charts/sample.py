"""What charts are drawn of: panels and scales, and values, sorted, weighted and reduced to a few
representative points."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import altair as alt
import numpy as np
import polars as pl

from eigentime_report import units
from eigentime_report.basics import once
from eigentime_report.charts.chart import NOTHING, ROWS, SECONDS, Chart, Scaled, sentences, slug
from eigentime_report.results import Cell, Quantity
from eigentime_report.results.cell import Counts, Floats
from eigentime_report.statistics.intervals import Ordered

# The width of a row of panels, in pixels.
WIDTH = 680

# The highest values, which are all kept.
EXTREMES = 20
# Values that differ by more than this need a logarithmic scale.
WIDE = 20.0
# Up to this share of values of 0 or less, a logarithmic scale can still be used.
FEW = 0.05
# Percentages below this are not written as numbers.
LEAST_PERCENT = 0.01


def panels(
    rows: pl.DataFrame,
    *layers: alt.Chart,
    columns: int = 4,
    height: int | alt.Step = 170,
    own: Sequence[Literal["x", "y"]] = (),
    zoom: Sequence[Literal["x", "y"]] = ("x", "y"),
) -> alt.FacetChart:
    """A panel for each `panel` of the rows, side by side; `own` scales are per panel.

    Panels with shared scales are panned together, and zoomed along these of them.
    """
    names = rows["panel"].unique(maintain_order=True).to_list()
    columns = min(columns, len(names))
    its = alt.layer(*layers, width=WIDTH // columns, height=height)
    header = alt.Header() if any(names) else None
    facet = alt.Facet("panel:N", title=None, sort=names, header=header)
    data = alt.NamedData(name=ROWS)
    if not own:
        # The wheel without a key scrolls the page.
        wheel = "wheel![event.shiftKey]"
        bound = alt.selection_interval("zoom", bind="scales", zoom=wheel, encodings=list(zoom))
        its = its.add_params(bound)
    own_scales: dict[str, Any] = dict.fromkeys(own, "independent")
    resolve = alt.Resolve(scale=alt.ScaleResolveMap(**own_scales))
    drawn: alt.FacetChart = its.facet(facet, data=data, columns=columns, resolve=resolve)
    return drawn


def seconds(field: str, title: str, scaled: Scaled = "linear") -> dict[str, Any]:
    """The channel for a field of times."""
    label = SECONDS.format("datum.value")
    axis = alt.Axis(labelExpr=label, title=title, tickCount=5)
    return {"field": field, "type": "quantitative", "axis": axis, "scale": scale(scaled)}


def scale(scaled: Scaled) -> alt.Scale:
    """A scale that starts at the lowest value, even for bars."""
    if scaled == "log":
        return alt.Scale(type="log", nice=False, padding=8)
    return alt.Scale(zero=False, nice=False, padding=8)


def level_colour(levels: Sequence[str], shown: Sequence[str]) -> alt.Color:
    """The colours of levels, the same in all charts of these levels."""
    legend = alt.Legend(values=list(shown))
    domain = alt.Scale(domain=list(levels))
    return alt.Color("level:N", scale=domain, legend=legend)


def top_ranks(count: int, points: int) -> Counts:
    """About `points` ranks of `count` sorted values: regular ones, and denser towards the top.

    The lowest and the highest ones are always included.
    """
    if count <= points:
        return np.arange(count)
    even = np.linspace(0, count - 1, points // 2)
    from_top = np.geomspace(1, count, points // 2)
    greatest = np.arange(1, min(EXTREMES, count) + 1)
    ranks = np.concatenate([even, count - from_top, count - greatest])
    return np.unique(np.clip(np.rint(ranks).astype(np.int64), 0, count - 1))


def both_ranks(count: int, points: int) -> Counts:
    """The same, and denser towards both ends."""
    top = top_ranks(count, points // 2)
    return top if count <= points // 2 else np.unique([*top, *(count - 1 - top)])


@dataclass(frozen=True, eq=False)
class Shown:
    """A cell in a chart, with its sorted values."""

    cell: Cell
    sample: Ordered

    @property
    def name(self) -> str:
        """The level and the load."""
        return f"{self.cell.level}, {self.cell.load}"

    @property
    def not_positive(self) -> int:
        """The number of values that a logarithmic scale cannot show."""
        return self.sample.up_to(0.0)


@dataclass(frozen=True, eq=False)
class Selection:
    """The contents of one chart: cells of one quantity, by load and level."""

    kind: str
    quantity: Quantity | None
    shown: tuple[Shown, ...]
    # All those of the report, which determine colours and order.
    levels: tuple[str, ...]

    @classmethod
    def of(
        cls,
        kind: str,
        cells: Iterable[Cell],
        levels: Sequence[str] | None,
        loads: Sequence[str] | None,
        value: Callable[[Floats], Floats] = np.asarray,
    ) -> "Selection":
        """The cells in the order of levels and loads; `value` transforms their values."""
        given = list(cells)
        names = {cell.quantity.name for cell in given}
        if len(names) > 1:
            raise ValueError(
                f"a chart shows one quantity, and these are {len(names)}: "
                f"{', '.join(sorted(names))}; choose the cells of one"
            )
        all_levels = once([*(levels or ()), *(it.level for it in given)])
        all_loads = once([*(loads or ()), *(it.load for it in given)])
        given.sort(key=lambda it: (all_loads.index(it.load), all_levels.index(it.level)))
        shown = (Shown(it, Ordered.of(value(it.values), it.weights)) for it in given if it.count)
        quantity = given[0].quantity if given else None
        return cls(kind, quantity, tuple(shown), tuple(all_levels))

    @property
    def measure(self) -> str:
        """What the values are, in one word."""
        return self.quantity.measure if self.quantity else ""

    @property
    def is_deviation(self) -> bool:
        """Whether events are shown by their deviation from the interval."""
        return self.quantity is not None and self.quantity.is_deviation

    @property
    def shown_levels(self) -> list[str]:
        """The levels that the chart has."""
        return once(one.cell.level for one in self.shown)

    @property
    def title(self) -> str:
        """The title of the chart."""
        return f"{self.kind}: {self.quantity.title}" if self.quantity else self.kind

    def panel(self, one: Shown) -> str:
        """The title of a cell's own panel."""
        several = len({it.cell.load for it in self.shown}) > 1
        return one.name if several else one.cell.level

    def rows(
        self, of: Callable[[Shown], Mapping[str, Any]], panel: Callable[[Shown], str] | None = None
    ) -> pl.DataFrame:
        """The columns that `of` makes of each cell, together with level, load and panel."""
        frames = [
            pl.DataFrame(of(one)).with_columns(
                level=pl.lit(one.cell.level),
                load=pl.lit(one.cell.load),
                panel=pl.lit((panel or self.panel)(one)),
            )
            for one in self.shown
        ]
        return pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame()

    @property
    def colour(self) -> alt.Color:
        """The colours of its levels."""
        return level_colour(self.levels, self.shown_levels)

    def chart(
        self, rows: pl.DataFrame, layers: Sequence[alt.Chart], *caption: str, **more: Any
    ) -> Chart:
        """The chart in `panels`; without rows, it says that there is nothing to show."""
        key = slug(self.kind, self.quantity.name if self.quantity else "nothing")
        caption = (f"{self.quantity.meaning}." if self.quantity else "", *caption)
        if rows.is_empty():
            return Chart(key, self.title, sentences(NOTHING, *caption), rows)
        return Chart(key, self.title, sentences(*caption), rows, panels(rows, *layers, **more))

    @property
    def scaled(self) -> Scaled:
        """A logarithmic scale, if values differ much and few are 0 or less."""
        lows = []
        for one in self.shown:
            lost = one.not_positive
            if lost > FEW * one.sample.n:
                return "linear"
            lows.append(float(one.sample.at(lost)))
        highest = max((one.sample.values[-1] for one in self.shown), default=0.0)
        return "log" if lows and highest > WIDE * min(lows) else "linear"

    def off_scale(self) -> str:
        """How many values of each cell a logarithmic scale cannot show: `vm 3 of 9 (33 %)`."""
        lost = [
            f"{one.name} {_share(one.not_positive, one.sample.n)}"
            for one in self.shown
            if one.not_positive
        ]
        what = "0 or less, for which a logarithmic scale has no place, are"
        return f"{what}: {'; '.join(lost)}." if lost else ""


def _share(part: int, whole: int) -> str:
    percent = 100 * part / whole
    written = f"{percent:.2g}" if percent < 10 else f"{percent:.0f}"
    if percent < LEAST_PERCENT:
        written = f"< {LEAST_PERCENT}"
    return f"{units.count(part)} of {units.count(whole)} ({written} %)"
