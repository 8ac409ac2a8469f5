"""The papers' tables, an extra: measurements in their format, beside their numbers.

No lower layer uses it: `report` puts these tables before all others. `sources` has the published
numbers, from the TOML files here, and each other module the tables of one paper.
"""

from collections.abc import Iterator

from eigentime_report.analysis import Analysis
from eigentime_report.papers.container_overhead import overhead_table
from eigentime_report.papers.pairs import published_table
from eigentime_report.papers.timer_events import events_table
from eigentime_report.papers.timing_precision import miss_time_table, timer_cost_table
from eigentime_report.tables import Table

__all__ = [
    "events_table", "miss_time_table", "overhead_table", "papers_tables", "published_table",
    "timer_cost_table",
]  # fmt: skip


def papers_tables(analysis: Analysis) -> Iterator[Table]:
    """All of them, with or without rows."""
    results, share = analysis.results, analysis.confidence
    for load in results.loads:
        yield overhead_table(results, load, confidence=share, as_in_paper=analysis.as_in_paper)
    yield timer_cost_table(results)
    yield miss_time_table(results)
    yield events_table(results, analysis=analysis)
    yield published_table(results)
