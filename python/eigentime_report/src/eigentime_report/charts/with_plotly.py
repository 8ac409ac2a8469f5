"""Charts drawn by plotly, for the page and for notebooks: the marks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from eigentime_report.charts.description import (
    Axis,
    Chart,
    Floats,
    Key,
    Line,
    Panel,
    Patch,
    Points,
    Span,
)
from eigentime_report.charts.plotly_layout import axis_id, escaped, layout
from eigentime_report.charts.theme import OPACITY, Paint, Theme
from eigentime_report.charts.ticks import unit_of

Trace: TypeAlias = dict[str, Any]

# How the numbers of a point under the pointer are written.
_OF_A_POINT = {"time": ".5~g", "percent": ".3~g", "number": ",.6~g"}
# A time on a logarithmic axis is in seconds, with the prefixes of the SI.
_OF_A_TIME = ".4~s"
_SYMBOLS = {"circle": "circle", "square": "square", "diamond": "diamond", "cross": "x"}


def draw(chart: Chart, theme: Theme) -> go.Figure:
    """The chart with its title."""
    return go.Figure(
        data=list(traces(chart, theme)), layout=layout(chart, theme, has_title=True)
    )


def traces(chart: Chart, theme: Theme) -> Iterator[Trace]:
    """All marks, and one trace without points for each entry of the legend."""
    groups = {key.group for key in chart.keys}
    for number, panel in enumerate(chart.panels, 1):
        for mark in panel.marks:
            if isinstance(mark, Span):
                continue
            trace = {
                "type": "scatter",
                "x": _short(mark.x, panel.x),
                "y": _short(mark.y, panel.y),
                "xaxis": axis_id("x", number),
                "yaxis": axis_id("y", number),
                "name": escaped(mark.name),
                "showlegend": False,
                **_look(mark, panel, theme),
            }
            if mark.group in groups:
                trace["legendgroup"] = escaped(mark.group)
            yield trace
    for key in chart.keys:
        yield _legend(key, theme)


def _look(mark: Line | Points | Patch, panel: Panel, theme: Theme) -> Trace:
    colour = theme.colour(mark.paint)
    if isinstance(mark, Patch):
        # The pointer finds lines and points; an area would hide them.
        return {
            "mode": "lines",
            "fill": "toself",
            "fillcolor": colour,
            "line": {"width": 0.8, "color": colour},
            "hoverinfo": "skip",
        }
    if isinstance(mark, Line):
        return {
            "mode": "lines",
            "line": {
                "color": colour,
                "width": mark.width,
                "dash": mark.dash,
                "shape": "vh" if mark.is_step else "linear",
            },
            "hovertemplate": _hover(panel),
        }
    look: Trace = {
        "mode": "markers",
        "marker": {
            "color": theme.colour(Paint(mark.paint.role)),
            "opacity": OPACITY[mark.paint.strength],
            "size": mark.size,
            "symbol": _SYMBOLS[mark.symbol],
        },
        "hovertemplate": _hover(panel),
    }
    if mark.labels:
        look["customdata"] = [escaped(label) for label in mark.labels]
        look["hovertemplate"] = "%{customdata}<extra></extra>"
    return look


def _hover(panel: Panel) -> str:
    """What is said of a point: its name, and its value by each axis that has numbers."""
    values = [
        f"{escaped(axis.title)} {_value(letter, axis)}"
        for letter, axis in (("y", panel.y), ("x", panel.x))
        if not axis.ticks
    ]
    return "<br>".join(["<b>%{fullData.name}</b>", *values]) + "<extra></extra>"


def _value(letter: str, axis: Axis) -> str:
    if axis.unit == "time" and axis.is_log:
        return f"%{{{letter}:{_OF_A_TIME}}}s"
    _, sign = unit_of(axis)
    return f"%{{{letter}:{_OF_A_POINT[axis.unit]}}}{sign}"


def _legend(key: Key, theme: Theme) -> Trace:
    colour = theme.colour(Paint(key.paint.role))
    trace: Trace = {
        "type": "scatter",
        "x": [None],
        "y": [None],
        "name": escaped(key.text),
        "legendgroup": escaped(key.group),
        "showlegend": True,
        "hoverinfo": "skip",
    }
    if key.symbol:
        marker = {"color": colour, "symbol": _SYMBOLS[key.symbol], "size": 8}
        return trace | {"mode": "markers", "marker": marker}
    line = {"color": colour, "dash": key.dash, "width": 3}
    return trace | {"mode": "lines", "line": line}


def _short(values: Floats, axis: Axis) -> npt.NDArray[np.float32]:
    """In the axis's unit, with seven digits: no screen shows more, and it is half as long."""
    times, _ = unit_of(axis)
    return np.asarray(values * times, dtype=np.float32)
