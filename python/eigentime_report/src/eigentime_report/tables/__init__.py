"""Tables: what was measured and what follows from it, as data and in four forms."""

from eigentime_report.tables.descriptives import descriptives_table
from eigentime_report.tables.events import events_table
from eigentime_report.tables.every import every_table
from eigentime_report.tables.factors import factors_table
from eigentime_report.tables.overhead import overhead_table
from eigentime_report.tables.places import (
    levels_table,
    loads_table,
    served_table,
    warps_table,
)
from eigentime_report.tables.published import published_table
from eigentime_report.tables.table import Between, Cell, Column, Marked, Row, Table
from eigentime_report.tables.tested import pairs_table, tests_table
from eigentime_report.tables.timing import miss_time_table, timer_cost_table
from eigentime_report.tables.writers import Form, write

__all__ = [
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
