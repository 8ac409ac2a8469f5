"""From results of `eigentime bench` to conclusions.

    results = load("results")
    overhead_table(results)                  # Table IV, shown as a table in a notebook
    ccdf(results.cells("sleep/nanosleep/1ms/other/slack=50us")).save("tail.svg")
    for sentence in conclude(results):
        print(sentence.text)

Read in this order: `basics`, `units`, `results` (the measurements), `statistics`, `analysis` (all
comparisons, made once), `tables`, `papers` (published numbers beside them), `charts`,
`conclusions`, `comparison` (two sets of results), `page`, `report` (the whole report), `outputs`
and `cli`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from eigentime_report.analysis import Analysis, analyse
    from eigentime_report.charts import (
        Chart,
        ccdf,
        distribution,
        forest,
        interval_histogram,
        overview,
        qq,
        raw_series,
    )
    from eigentime_report.comparison import compare_results, judge, parse
    from eigentime_report.conclusions import Sentence, conclude
    from eigentime_report.page import Page
    from eigentime_report.page.render import render
    from eigentime_report.papers import (
        events_table,
        miss_time_table,
        overhead_table,
        published_table,
        timer_cost_table,
    )
    from eigentime_report.report import comparison_page, every_table, report_page
    from eigentime_report.results import Cell, FolderError, Quantity, Replicates, Results, load
    from eigentime_report.tables import (
        Table,
        descriptives_table,
        factors_table,
        levels_table,
        loads_table,
        pairs_table,
        served_table,
        tests_table,
        warps_table,
        write,
    )

# The modules of the public names, those that import fastest first.
_PLACES = (
    "results", "analysis", "tables", "papers", "charts", "charts.effects", "charts.kinds",
    "conclusions", "comparison", "page", "report",
)  # fmt: skip

__all__ = [
    "Analysis", "Cell", "Chart", "FolderError", "Page", "Quantity", "Replicates", "Results",
    "Sentence", "Table", "analyse", "ccdf", "compare_results", "comparison_page", "conclude",
    "descriptives_table", "distribution", "events_table", "every_table", "factors_table", "forest",
    "interval_histogram", "judge", "levels_table", "load", "loads_table", "miss_time_table",
    "overhead_table", "overview", "pairs_table", "parse", "published_table", "qq", "raw_series",
    "render", "report_page", "served_table", "tests_table", "timer_cost_table", "warps_table",
    "write",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Imports what computes and draws, which takes a second, only when it is needed."""
    if name in __all__:
        for place in _PLACES:
            module = import_module(f"{__name__}.{place}")
            if name in vars(module):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
