"""Tables: what was measured and what follows from it, as data and in four forms."""

from collections.abc import Iterator

from eigentime_report.analysis import Analysis, Factor
from eigentime_report.tables.events import events_table
from eigentime_report.tables.measured import (
    descriptives_table,
    factors_table,
    levels_table,
    loads_table,
    served_table,
    warps_table,
)
from eigentime_report.tables.overhead import overhead_table
from eigentime_report.tables.published import published_table
from eigentime_report.tables.table import Between, Cell, Column, Marked, Row, Table
from eigentime_report.tables.tested import pairs_table, tests_table
from eigentime_report.tables.timing import miss_time_table, timer_cost_table
from eigentime_report.tables.writers import Form, write

FACTORS: tuple[Factor, ...] = ("level", "load")


def every_table(analysis: Analysis) -> Iterator[Table]:
    """Those that have rows: the papers' first, then kind by kind, then what was measured where."""
    return (table for table in _tables(analysis) if not table.is_empty)


def _tables(analysis: Analysis) -> Iterator[Table]:
    results = analysis.results
    for load in results.loads:
        yield overhead_table(
            results, load, confidence=analysis.confidence, as_in_paper=analysis.as_in_paper
        )
    yield timer_cost_table(results)
    yield miss_time_table(results)
    yield events_table(results, analysis=analysis)
    yield published_table(results)
    for kind in analysis.kinds:
        yield descriptives_table(results, kind, analysis=analysis)
        for factor in FACTORS:
            yield pairs_table(results, kind, factor, analysis=analysis)
            yield tests_table(results, kind, factor, analysis=analysis)
        yield factors_table(results, kind, analysis=analysis)
    yield served_table(results)
    yield warps_table(results)
    yield loads_table(results)
    yield levels_table(results)


__all__ = [
    "FACTORS",
    "Between",
    "Cell",
    "Column",
    "Form",
    "Marked",
    "Row",
    "Table",
    "descriptives_table",
    "events_table",
    "every_table",
    "factors_table",
    "levels_table",
    "loads_table",
    "miss_time_table",
    "overhead_table",
    "pairs_table",
    "published_table",
    "served_table",
    "tests_table",
    "timer_cost_table",
    "warps_table",
    "write",
]
