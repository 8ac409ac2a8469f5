"""Charts drawn by plotly: where panels are, what their axes look like, and all words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from eigentime_report.charts.description import Axis, Chart, Panel, Span
from eigentime_report.charts.grid import Grid, Place
from eigentime_report.charts.theme import Paint, Theme
from eigentime_report.charts.ticks import log_ticks, room_for, unit_of

Layout: TypeAlias = dict[str, Any]
# Where something begins and ends, as a part of the whole.
Part: TypeAlias = tuple[float, float]

# Pixels. The width is what proportions are taken from; the page's own may differ.
WIDTH = 850
# Up to this width there is room for so many columns only, and panels are this wide together.
FEWER_COLUMNS = {760: 2, 520: 1}
TOP, TITLE, KEYS, PANEL_TITLE = 8, 46, 30, 26
LEFT, RIGHT, BOTTOM = 70, 16, 52
BETWEEN_ROWS = 72
BETWEEN_COLUMNS, BETWEEN_OWN_SCALES = 30, 72
# With fewer marks an axis says no scale.
FEWEST_MARKS = 3
# Panels have at least this width together.
LEAST_ACROSS = 60
# What a letter of the words at an axis needs, about.
LETTER = 6.6

FONT = (
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
)
SIZE = 12.5

_AT_MARKS = {"time": "~g", "percent": "~g", "number": ",~g"}


def escaped(text: str) -> str:
    """The text as plotly has to be given it: it takes some HTML and entities."""
    for character, entity in ("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"):
        text = text.replace(character, entity)
    return text


def axis_id(letter: str, number: int) -> str:
    """How traces and shapes name an axis of the panel of this number, from 1."""
    return letter if number == 1 else f"{letter}{number}"


def axis_name(letter: str, number: int) -> str:
    """How the layout names that axis."""
    return f"{letter}axis{'' if number == 1 else number}"


def layout(
    chart: Chart, theme: Theme, *, width: int = WIDTH, has_title: bool = False
) -> Layout:
    """Everything but the traces, for about this width, in pixels."""
    grid = Grid.of(chart, columns(width))
    across = 0.8 * width if width < WIDTH else width
    across = max(across - _left(chart) - RIGHT, LEAST_ACROSS)
    down = grid.rows * chart.height + (grid.rows - 1) * BETWEEN_ROWS
    has_panel_titles = any(panel.title for panel in chart.panels)
    top = (
        TOP
        + TITLE * has_title
        + KEYS * bool(chart.keys)
        + PANEL_TITLE * has_panel_titles
    )
    found: Layout = {
        "height": top + down + BOTTOM,
        "margin": {"l": LEFT, "r": RIGHT, "t": top, "b": BOTTOM},
        "template": {"layout": _looks(theme)},
        "showlegend": bool(chart.keys),
        "legend": {"y": 1 + PANEL_TITLE * has_panel_titles / down},
        "annotations": [],
        "shapes": [],
    }
    if has_title:
        found["title"] = {"text": escaped(chart.title), "x": 0.01, "xanchor": "left"}
    gap = BETWEEN_COLUMNS if chart.shares_y else BETWEEN_OWN_SCALES
    for number, place in enumerate(grid, 1):
        x = _part(place.column, grid.columns, gap / across)
        from_top = _part(place.row, grid.rows, BETWEEN_ROWS / down)
        y = 1 - from_top[1], 1 - from_top[0]
        pixels = {"x": (x[1] - x[0]) * across, "y": (y[1] - y[0]) * down}
        found |= _axes(chart, place, number, {"x": x, "y": y}, pixels)
        found["annotations"].extend(_words(place.panel, x, y, theme))
        found["shapes"].extend(_shapes(place.panel, number, theme))
    return found


def _left(chart: Chart) -> float:
    """What the words of the vertical axes take: plotly widens the margin for them."""
    words = (word for panel in chart.panels for _, word in panel.y.ticks)
    return max(LEFT, *(LETTER * len(word) for word in words), LEFT)


def columns(width: int) -> int | None:
    """How many columns there are at most where there is this width; None: as many as wanted."""
    return min(
        (number for up_to, number in FEWER_COLUMNS.items() if width <= up_to),
        default=None,
    )


def _part(place: int, count: int, gap: float) -> Part:
    gap = min(gap, 0.5 / count)
    size = (1 - gap * (count - 1)) / count
    low = place * (size + gap)
    return low, min(low + size, 1.0)


def _looks(theme: Theme) -> Layout:
    """What all charts have in common, and all their axes."""
    ink, edge = theme.colour(Paint("ink")), theme.colour(Paint("edge"))
    muted, surface = theme.colour(Paint("muted")), theme.colour(Paint("surface"))
    font = {"family": FONT, "size": SIZE, "color": ink}
    axis = {
        "gridcolor": theme.colour(Paint("grid")),
        "linecolor": edge,
        "tickcolor": edge,
        "tickfont": {"color": muted, "size": 12},
        "title": {"font": {"color": muted, "size": SIZE}, "standoff": 8},
        "showline": True,
        "zeroline": False,
        "automargin": True,
    }
    return {
        "font": font,
        "paper_bgcolor": surface,
        "plot_bgcolor": surface,
        "hovermode": "closest",
        "hoverlabel": {
            "bgcolor": theme.colour(Paint("raised")),
            "bordercolor": edge,
            "font": font,
        },
        "modebar": {
            "bgcolor": theme.colour(Paint("surface", "faint")),
            "color": theme.colour(Paint("undecided")),
            "activecolor": theme.colour(Paint("accent")),
            "orientation": "v",
        },
        "legend": {
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "yanchor": "bottom",
            "bgcolor": theme.colour(Paint("surface", "faint")),
            "itemdoubleclick": False,
        },
        "xaxis": axis,
        "yaxis": axis,
    }


def _axes(
    chart: Chart,
    place: Place,
    number: int,
    parts: dict[str, Part],
    pixels: dict[str, float],
) -> Layout:
    panel = place.panel
    shared = {"x": chart.shares_x, "y": chart.shares_y}
    says = {"x": place.is_lowest, "y": place.is_leftmost}
    found = {}
    for letter, axis in ("x", panel.x), ("y", panel.y):
        drawn = {
            **_scale(axis, room_for(letter, axis, pixels[letter])),
            "domain": parts[letter],
            "anchor": axis_id("y" if letter == "x" else "x", number),
            "visible": not panel.words,
            # Words at a horizontal axis may be turned, numbers have the room that they need.
            **({"tickangle": 0} if letter == "x" and not axis.ticks else {}),
            "showticklabels": says[letter] or not shared[letter],
        }
        if shared[letter] and number > 1:
            drawn["matches"] = letter
        if says[letter] and axis.title:
            drawn["title"] = {"text": escaped(axis.title)}
        found[axis_name(letter, number)] = drawn
    return found


def _scale(axis: Axis, room: int) -> Layout:
    """The scale of an axis that has room for so many marks."""
    found: Layout = {}
    times, sign = unit_of(axis)
    if axis.range:
        ends = np.log10(axis.range) if axis.is_log else np.array(axis.range) * times
        found["range"] = ends.tolist()
    if axis.is_log:
        found["type"] = "log"
    if ticks := log_ticks(axis, room):
        found["tickvals"] = [at for at, _ in ticks]
        found["ticktext"] = [escaped(text) for _, text in ticks]
    else:
        found["tickformat"] = _AT_MARKS[axis.unit]
        found["ticksuffix"] = sign
        found["nticks"] = max(room, FEWEST_MARKS)
    return found


def _words(panel: Panel, x: Part, y: Part, theme: Theme) -> Iterator[Layout]:
    """The panel's title, and what is said in place of marks."""
    common = {"xref": "paper", "yref": "paper", "showarrow": False}
    if panel.title:
        yield {
            **common,
            "text": f"<b>{escaped(panel.title)}</b>",
            "x": x[0],
            "y": y[1],
            "xanchor": "left",
            "yanchor": "bottom",
            "yshift": 4,
        }
    if panel.words:
        yield {
            **common,
            "text": escaped(panel.words),
            "x": sum(x) / 2,
            "y": sum(y) / 2,
            "font": {"color": theme.colour(Paint("muted")), "size": 14},
        }


def _shapes(panel: Panel, number: int, theme: Theme) -> Iterator[Layout]:
    """What is shaded over a panel's whole height."""
    times, _ = unit_of(panel.x)
    for mark in panel.marks:
        if isinstance(mark, Span):
            yield {
                "type": "rect",
                "layer": "below",
                "line": {"width": 0},
                "fillcolor": theme.colour(mark.paint),
                "xref": axis_id("x", number),
                "x0": mark.low * times,
                "x1": mark.high * times,
                "yref": f"{axis_id('y', number)} domain",
                "y0": 0,
                "y1": 1,
            }
