"""Charts as a page has them: what many of them have in common is there once.

`page.js` unpacks this:

- A trace is `[look, panel, x, y]`: the look is a place among the shared values, the panel a
  number from 1, or 0 for an entry of the legend, and x and y are places among the chart's own
  arrays. An array is a list of numbers, or float32 in base64.
- `axes` has four places among the shared values for each panel: the scale and the domain of x,
  and those of y.
- `template`, `annotations` and `shapes` are places among the shared values, too.
"""

from __future__ import annotations

import base64
import json
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from eigentime_report.charts import LIGHT, Chart
from eigentime_report.charts.plotly_layout import (
    FEWER_COLUMNS,
    WIDTH,
    axis_name,
    layout,
)
from eigentime_report.charts.with_plotly import traces

Json: TypeAlias = dict[str, Any]

# No screen shows more of a number.
FIGURES = 5
# Arrays up to this length are written as numbers.
SHORT = 3

_LETTERS = ("x", "y")
# What of a trace is not its look, and of an axis not its scale.
_OF_A_TRACE = {"x", "y", "xaxis", "yaxis"}
_OF_AN_AXIS = {"domain", "anchor"}


class Shared:
    """Values that others refer to by their places; each is there once."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._places: dict[str, int] = {}

    def place(self, value: Any) -> int:
        """Where the value is; it is put there if it is not there yet."""
        text = json.dumps(value)
        if text not in self._places:
            self._places[text] = len(self.values)
            self.values.append(value)
        return self._places[text]


def packed(chart: Chart, shared: Shared) -> Json:
    """Traces, the layout, and what else that is where there is less width."""
    arrays = Shared()
    lines = [
        [
            shared.place(_without(trace, _OF_A_TRACE)),
            int(trace["xaxis"][1:] or 1) if "xaxis" in trace else 0,
            *(arrays.place(_array(trace[letter])) for letter in _LETTERS),
        ]
        for trace in traces(chart, LIGHT)
    ]
    wide = _layout(chart, shared)
    narrower = []
    for width in FEWER_COLUMNS:
        other = _layout(chart, shared, width)
        changes = {name: value for name, value in other.items() if value != wide[name]}
        narrower.append({"width": width, "changes": changes})
    return {
        "arrays": arrays.values,
        "traces": lines,
        "layout": wide,
        "narrower": narrower,
    }


def _layout(chart: Chart, shared: Shared, width: int = WIDTH) -> Json:
    found = _rounded(layout(chart, LIGHT, width=width))
    axes: list[int] = []
    for number in range(1, len(chart.panels) + 1):
        for letter in _LETTERS:
            axis = found.pop(axis_name(letter, number))
            axes.append(shared.place(_without(axis, _OF_AN_AXIS)))
            axes.append(shared.place(axis["domain"]))
    for name in "annotations", "shapes":
        found[name] = [shared.place(each) for each in found[name]]
    return {**found, "template": shared.place(found["template"]), "axes": axes}


def _without(value: Json, names: set[str]) -> Json:
    return {name: each for name, each in value.items() if name not in names}


def _array(values: npt.NDArray[np.float32] | list[None]) -> str | list[float | None]:
    """Numbers, or their bytes if that is shorter; what is no number is a gap."""
    if isinstance(values, np.ndarray) and len(values) > SHORT:
        return base64.b64encode(values.astype("<f4").tobytes()).decode("ascii")
    return [
        None if each is None or np.isnan(each) else _rounded(float(each))
        for each in values
    ]


def _rounded(value: Any) -> Any:
    """The same with numbers that are as long as one can see."""
    if isinstance(value, float):
        short = float(f"{value:.{FIGURES}g}")
        return int(short) if short.is_integer() and abs(short) < 1e9 else short
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return value
