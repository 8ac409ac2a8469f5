"""Charts of cells and of comparisons, as specifications of Vega-Lite.

    chart = ccdf(results.cells(quantity), levels=results.levels, loads=results.loads)
    chart  # at the end of a notebook's cell, it is shown
    chart.save("tail.svg")

Read in this order: `chart` (colours, data, display and export), `sample` (panels, scales and
values), `kinds` (a function for each kind of chart) and `effects` (comparisons).
"""

from typing import TYPE_CHECKING

# Altair takes half a second to import, and nothing may be drawn.
from eigentime_report import __getattr__ as __getattr__
from eigentime_report.charts.chart import DARK, FORMATS, LIGHT, Chart, Theme

if TYPE_CHECKING:
    from eigentime_report.charts.effects import forest, overview
    from eigentime_report.charts.kinds import ccdf, distribution, interval_histogram, qq, raw_series

__all__ = [
    "DARK", "FORMATS", "LIGHT", "Chart", "Theme", "ccdf", "distribution", "forest",
    "interval_histogram", "overview", "qq", "raw_series",
]  # fmt: skip
