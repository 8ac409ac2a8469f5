"""What a chart shows, as data: panels, axes and marks, and not a word on how they are drawn.

Times are in seconds, shares and differences in percent. The text is as it was given:
whoever draws it escapes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from eigentime_report.charts.theme import LIGHT, Paint, Theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure
    from plotly.graph_objects import Figure as PlotlyFigure

Floats: TypeAlias = npt.NDArray[np.float64]
Dash: TypeAlias = Literal["solid", "dot", "dash", "dashdot", "longdash"]
Symbol: TypeAlias = Literal["circle", "square", "diamond", "cross"]
Unit: TypeAlias = Literal["time", "percent", "number"]

# What a chart is saved as, by the suffix of its file.
FORMATS = (".png", ".svg")


@dataclass(frozen=True, eq=False)
class Line:
    """A line through points; a NaN in it is a gap."""

    x: Floats
    y: Floats
    paint: Paint
    name: str = ""
    # The entry of the legend that it belongs to.
    group: str = ""
    width: float = 1.8
    dash: Dash = "solid"
    # Each point's height holds from the point before it up to its own.
    is_step: bool = False


@dataclass(frozen=True, eq=False)
class Points:
    """Single points."""

    x: Floats
    y: Floats
    paint: Paint
    name: str = ""
    group: str = ""
    symbol: Symbol = "circle"
    size: float = 5.0
    # What is said of each where the pointer is on it.
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Patch:
    """A filled outline."""

    x: Floats
    y: Floats
    paint: Paint
    name: str = ""
    group: str = ""


@dataclass(frozen=True)
class Span:
    """A range of x that is shaded over the panel's whole height."""

    low: float
    high: float
    paint: Paint


Mark: TypeAlias = Line | Points | Patch | Span


@dataclass(frozen=True)
class Axis:
    """A scale, its title and its range; without a range it is the marks'."""

    title: str
    unit: Unit = "number"
    is_log: bool = False
    range: tuple[float, float] | None = None
    # Where words take the place of numbers.
    ticks: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True)
class Panel:
    """One pair of axes with its marks, or words where there is nothing to draw."""

    title: str
    x: Axis
    y: Axis
    marks: tuple[Mark, ...] = ()
    words: str = ""


@dataclass(frozen=True)
class Key:
    """An entry of the legend; it stands for all marks of its group."""

    group: str
    text: str
    paint: Paint
    dash: Dash = "solid"
    # A point instead of a piece of a line.
    symbol: Symbol | None = None


@dataclass(frozen=True, repr=False)
class Chart:
    """A chart: panels in rows, with the legend and the words that belong to it."""

    key: str
    title: str
    panels: tuple[Panel, ...]
    keys: tuple[Key, ...] = ()
    # What it shows, how to read it, and what it leaves out.
    caption: str = ""
    columns: int = 1
    # Height of a panel, in pixels of a page.
    height: int = 300
    # The panels have one scale.
    shares_x: bool = True
    shares_y: bool = True

    def __repr__(self) -> str:
        panels = f"{len(self.panels)} panel{'' if len(self.panels) == 1 else 's'}"
        return f"<Chart {self.key}: {self.title}; {panels}>"

    def _repr_mimebundle_(self, **asked: Any) -> dict[str, Any]:
        """What a notebook shows: the figure of plotly, by what plotly draws with there."""
        bundle: dict[str, Any] = self.to_plotly()._repr_mimebundle_(**asked)
        return bundle

    def _repr_html_(self) -> str:
        """The same for notebooks that plotly does not know."""
        return str(self.to_plotly()._repr_html_())

    @property
    def is_empty(self) -> bool:
        """Whether there are words only."""
        return not any(panel.marks for panel in self.panels)

    def to_plotly(self, theme: Theme = LIGHT) -> PlotlyFigure:
        """The chart as an interactive figure of plotly."""
        from eigentime_report.charts import with_plotly

        return with_plotly.draw(self, theme)

    def to_matplotlib(self, theme: Theme = LIGHT) -> MatplotlibFigure:
        """The chart as a figure of matplotlib, with the caption below it."""
        from eigentime_report.charts import with_matplotlib

        return with_matplotlib.draw(self, theme)

    def save(self, path: str | Path, theme: Theme = LIGHT) -> Path:
        """Writes the chart as an image; the suffix says which: .png or .svg."""
        path = Path(path)
        if path.suffix.lower() not in FORMATS:
            raise ValueError(
                f"{path}: charts are saved as {' or '.join(FORMATS)}, "
                f"and {path.suffix or 'a name without a suffix'} is neither"
            )
        from eigentime_report.charts import with_matplotlib

        with_matplotlib.save(self, path, theme)
        return path


def upright(at: float, axis: Axis) -> tuple[Floats, Floats]:
    """A line from end to end of an axis of y, at one value of x."""
    return np.full(2, at), np.array(axis.range or (0.0, 1.0))


def segments(low: Floats, high: Floats, at: Floats) -> tuple[Floats, Floats]:
    """Pieces of a line from `low` to `high` at the heights `at`, as one line with gaps."""
    gaps = np.full(len(at), np.nan)
    along = np.column_stack([low, high, gaps]).ravel()
    return along, np.column_stack([at, at, gaps]).ravel()
