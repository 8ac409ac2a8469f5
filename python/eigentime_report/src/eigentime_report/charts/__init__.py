"""Charts of cells and of comparisons: described once, drawn by plotly and by matplotlib.

    chart = ccdf(results.cells(quantity), levels=results.levels, loads=results.loads)
    chart.to_plotly().show()
    chart.save("tail.svg")

Read in this order: `description` (what a chart consists of), `theme` (colours), `selection`
(the cells of a chart), `sample`, `scales` and `ticks` (what the charts share), one file for
each kind of chart, and `with_plotly` (with `plotly_layout`) and `with_matplotlib`, which draw
them.
"""

from eigentime_report.charts.description import FORMATS, Chart
from eigentime_report.charts.distribution import distribution
from eigentime_report.charts.effects import forest
from eigentime_report.charts.intervals import interval_histogram
from eigentime_report.charts.normal import qq
from eigentime_report.charts.series import raw_series
from eigentime_report.charts.tails import ccdf
from eigentime_report.charts.theme import DARK, LIGHT, Theme

__all__ = [
    "DARK",
    "FORMATS",
    "LIGHT",
    "Chart",
    "Theme",
    "ccdf",
    "distribution",
    "forest",
    "interval_histogram",
    "qq",
    "raw_series",
]
