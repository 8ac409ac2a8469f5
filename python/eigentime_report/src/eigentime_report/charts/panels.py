"""What all charts are drawn with: panels, scales and the colours of levels."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import altair as alt
import polars as pl

from eigentime_report.charts.chart import ROWS

Scaled: TypeAlias = Literal["log", "linear"]

# The width of a row of panels, in pixels.
WIDTH = 680

# Seconds with units: `12.5µs`.
SECONDS = "format({}, '.3~s') + 's'"


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
