"""Tables: measurements and results, as data and in four formats."""

from collections.abc import Iterator

from eigentime_report.analysis import Analysis, Factor
from eigentime_report.tables.measured import (
    descriptives_table,
    factors_table,
    levels_table,
    loads_table,
    served_table,
    warps_table,
)
from eigentime_report.tables.table import Between, Cell, Column, Marked, Row, Table
from eigentime_report.tables.tested import pairs_table, tests_table
from eigentime_report.tables.writers import Form, write

FACTORS: tuple[Factor, ...] = ("level", "load")


def measured_tables(analysis: Analysis) -> Iterator[Table]:
    """By kind, then the conditions of measurement; with or without rows."""
    results = analysis.results
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
    "FACTORS", "Between", "Cell", "Column", "Form", "Marked", "Row", "Table", "descriptives_table",
    "factors_table", "levels_table", "loads_table", "measured_tables", "pairs_table", "served_table",
    "tests_table", "warps_table", "write",
]  # fmt: skip
