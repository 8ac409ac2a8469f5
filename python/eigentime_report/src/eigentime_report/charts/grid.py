"""Where the panels of a chart are: rows and columns, and which of them say what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from eigentime_report.charts.description import Chart, Panel


@dataclass(frozen=True)
class Place:
    """A panel in its row and column, counted from the top left."""

    panel: Panel
    row: int
    column: int
    # Nothing below it in its column.
    is_lowest: bool

    @property
    def is_leftmost(self) -> bool:
        """Whether it is in the first column."""
        return self.column == 0


@dataclass(frozen=True)
class Grid:
    """All panels of a chart in a number of columns."""

    rows: int
    columns: int
    places: tuple[Place, ...]

    @classmethod
    def of(cls, chart: Chart, at_most: int | None = None) -> Grid:
        """The chart's panels in its own number of columns, or in at most so many."""
        wide = min(chart.columns, at_most or chart.columns, len(chart.panels))
        count = len(chart.panels)
        places = (
            Place(panel, number // wide, number % wide, number + wide >= count)
            for number, panel in enumerate(chart.panels)
        )
        return cls(max(-(-count // wide), 1), wide, tuple(places))

    def __iter__(self) -> Iterator[Place]:
        return iter(self.places)
