"""Charts drawn by matplotlib, for papers: PNG and SVG."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from eigentime_report.charts.description import (
    Axis,
    Chart,
    Key,
    Line,
    Mark,
    Panel,
    Patch,
    Points,
    Span,
)
from eigentime_report.charts.grid import Grid, Place
from eigentime_report.charts.theme import OPACITY, Theme
from eigentime_report.charts.ticks import log_ticks, room_for, unit_of
from eigentime_report.files import replacing
from eigentime_report.units import MINUS

# Inches, and pixels of the page in an inch.
WIDTH = 9.6
PIXELS = 100
CAPTION_COLUMNS = 125
DPI = 160

# Names in an image's file do not depend on chance.
_SALT: Any = {"svg.hashsalt": "eigentime"}

_DASHES: dict[str, Any] = {
    "solid": "solid",
    "dot": (0, (1, 1.4)),
    "dash": (0, (4, 2.5)),
    "dashdot": (0, (5, 2, 1, 2)),
    "longdash": (0, (8, 2.5)),
}
_SYMBOLS = {"circle": "o", "square": "s", "diamond": "D", "cross": "X"}


def draw(chart: Chart, theme: Theme) -> Figure:
    """The chart with its title and caption; it belongs to no window and no pyplot."""
    grid = Grid.of(chart)
    caption = textwrap.wrap(chart.caption, CAPTION_COLUMNS)
    height = 0.9 + grid.rows * (chart.height + 60) / PIXELS + 0.19 * len(caption)
    figure = Figure(
        figsize=(WIDTH, height),
        layout="constrained",
        facecolor=theme.colour_of("surface"),
    )
    all_axes = figure.subplots(
        grid.rows,
        grid.columns,
        squeeze=False,
        sharex="all" if chart.shares_x else "none",
        sharey="all" if chart.shares_y else "none",
    )
    for axes in all_axes.flat[len(grid.places) :]:
        axes.set_visible(False)
    for place in grid:
        axes = all_axes[place.row, place.column]
        _panel(axes, place, chart, theme)
    _legend(figure, chart, theme)
    if caption:
        words = figure.supxlabel("\n".join(caption), x=0.01, ha="left", size=8.5)
        words.set_color(theme.colour_of("muted"))
        plain(words)
    for text in figure.findobj(Text):
        if text.get_color() == "black":
            text.set_color(theme.colour_of("ink"))
    return figure


def save(chart: Chart, path: Path, theme: Theme) -> None:
    """Writes the drawn chart; the same chart makes the same file."""
    is_svg = path.suffix.lower() == ".svg"
    with matplotlib.rc_context(_SALT), replacing(path) as new:
        draw(chart, theme).savefig(
            new,
            format=path.suffix[1:].lower(),
            dpi=DPI,
            metadata={"Date": None} if is_svg else None,
        )


def plain(text: Text) -> Text:
    """Dollar signs are dollar signs, and begin no formula."""
    text.set_parse_math(False)
    return text


def _panel(axes: Axes, place: Place, chart: Chart, theme: Theme) -> None:
    panel = place.panel
    axes.set_facecolor(theme.colour_of("surface"))
    plain(axes.set_title(panel.title, loc="left", size=10, weight="bold"))
    if panel.words:
        _words(axes, panel, theme)
        return
    columns = min(chart.columns, len(chart.panels))
    _scale(axes, "x", panel.x, theme, (WIDTH - 1) * PIXELS / columns)
    _scale(axes, "y", panel.y, theme, chart.height)
    # Shared axes say it once.
    axes.tick_params("x", labelbottom=place.is_lowest or not chart.shares_x)
    axes.tick_params("y", labelleft=place.is_leftmost or not chart.shares_y)
    if place.is_lowest:
        plain(axes.set_xlabel(panel.x.title, size=9.5))
    if place.is_leftmost:
        plain(axes.set_ylabel(panel.y.title, size=9.5))
    axes.grid(True, color=theme.colour_of("grid"), linewidth=0.7)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(theme.colour_of("edge"))
    for mark in panel.marks:
        _mark(axes, mark, theme)


def _words(axes: Axes, panel: Panel, theme: Theme) -> None:
    """Words in the middle; shared axes stay as they are in the other panels."""
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(
        which="both", bottom=False, left=False, labelbottom=False, labelleft=False
    )
    words = axes.text(
        0.5, 0.5, panel.words, ha="center", va="center", transform=axes.transAxes
    )
    words.set_color(theme.colour_of("muted"))
    plain(words)


def _scale(
    axes: Axes, letter: Literal["x", "y"], axis: Axis, theme: Theme, pixels: float
) -> None:
    drawn = axes.xaxis if letter == "x" else axes.yaxis
    if axis.is_log:
        axes.set(**{f"{letter}scale": "log"})
    if axis.range:
        axes.set(**{f"{letter}lim": axis.range})
    room = room_for(letter, axis, pixels)
    if ticks := log_ticks(axis, room):
        places, words = zip(*ticks, strict=True)
        drawn.set_ticks(places, words)
        drawn.set_minor_locator(NullLocator())
        for label in drawn.get_ticklabels():
            plain(label)
    else:
        times, sign = unit_of(axis)
        drawn.set_major_locator(MaxNLocator(room, steps=[1, 2, 2.5, 5, 10]))
        drawn.set_major_formatter(
            FuncFormatter(
                lambda value, _: f"{value * times:,.6g}{sign}".replace("-", MINUS)
            )
        )
    axes.tick_params(
        letter,
        which="both",
        color=theme.colour_of("edge"),
        labelcolor=theme.colour_of("muted"),
        labelsize=8.5,
    )


def _mark(axes: Axes, mark: Mark, theme: Theme) -> None:
    colour = theme.colour_of(mark.paint.role)
    opacity = OPACITY[mark.paint.strength]
    match mark:
        case Line():
            axes.plot(
                mark.x,
                mark.y,
                color=colour,
                alpha=opacity,
                linewidth=mark.width * 0.8,
                linestyle=_DASHES[mark.dash],
                drawstyle="steps-pre" if mark.is_step else "default",
            )
        case Points():
            axes.plot(
                mark.x,
                mark.y,
                color=colour,
                alpha=opacity,
                marker=_SYMBOLS[mark.symbol],
                markersize=mark.size * 0.8,
                markeredgewidth=0,
                linestyle="none",
            )
        case Patch():
            axes.fill(mark.x, mark.y, color=colour, alpha=opacity, linewidth=0.5)
        case Span():
            axes.axvspan(mark.low, mark.high, color=colour, alpha=opacity, linewidth=0)


def _legend(figure: Figure, chart: Chart, theme: Theme) -> None:
    """The title, and below it what colours and lines stand for."""
    if not chart.keys:
        plain(figure.suptitle(chart.title, x=0.01, ha="left", size=12.5, weight="bold"))
        return
    handles = [_handle(key, theme) for key in chart.keys]
    # A name that begins with an underscore would be left out: names come afterwards.
    legend = figure.legend(
        handles,
        [f"{number}" for number, _ in enumerate(chart.keys)],
        loc="outside upper left",
        ncols=min(len(chart.keys), 5),
        frameon=False,
        fontsize=9.5,
        title=chart.title,
        title_fontproperties={"size": 12.5, "weight": "bold"},
        alignment="left",
    )
    plain(legend.get_title()).set_color(theme.colour_of("ink"))
    for text, key in zip(legend.get_texts(), chart.keys, strict=True):
        plain(text).set_text(key.text)
        text.set_color(theme.colour_of("ink"))


def _handle(key: Key, theme: Theme) -> Line2D:
    colour = theme.colour_of(key.paint.role)
    if key.symbol:
        marker = _SYMBOLS[key.symbol]
        return Line2D([], [], color=colour, marker=marker, linestyle="none")
    return Line2D([], [], color=colour, linestyle=_DASHES[key.dash], linewidth=2.2)
