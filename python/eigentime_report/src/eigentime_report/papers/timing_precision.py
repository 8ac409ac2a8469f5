"""Tables 1 and 2 of the timing paper: the cost of reading a timer, and the lateness of sleeps."""

from collections.abc import Callable, Iterator

from eigentime_report.analysis import describe
from eigentime_report.papers import sources
from eigentime_report.results import Cell, Quantity, Results
from eigentime_report.tables.table import Cell as TableCell
from eigentime_report.tables.table import Row, Table

STATISTICS = ("mad", "max", "median", "min")


def timer_cost_table(results: Results) -> Table:
    """Table 1: the time counter against clock_gettime, by platform and load."""
    return _table(results, lambda it: it.name, "timer_cost")


def miss_time_table(results: Results) -> Table:
    """Table 2: how late sleeps end, by platform and load."""
    return _table(results, lambda it: it.subject if it.kind == "sleep" else "", "miss_time")


def _table(results: Results, ours: Callable[[Quantity], str], paper: str) -> Table:
    """`ours`: our names of the paper's functions."""
    published = sources.published(sources.TIMING)
    functions = {name: it for it, name in published["functions"][paper].items()}
    rows = [
        _row(cell, functions[ours(quantity)], paper)
        for quantity in results.quantities
        if ours(quantity) in functions
        for cell in results.cells(quantity)
    ]
    named = {str(row.cells[0]) for row in rows}
    rows += _theirs(results, named, paper)
    words, notes = published["words"][paper], sources.notes(sources.TIMING)
    return sources.table("timing", rows, notes, key=paper.replace("_", "-"), **words)


def _row(cell: Cell, function: str, paper: str) -> Row:
    numbers = describe(cell)
    # The paper's threads have the default policy.
    is_theirs = cell.quantity.factors.get("policy", "other") == "other"
    theirs = sources.timing_row(paper, function, cell.level, cell.load) if is_theirs else None
    ours = (numbers.half_iqr, numbers.maximum, numbers.median, numbers.minimum)
    title = cell.quantity.title
    shown = "" if paper == "timer_cost" else title.removeprefix(cell.quantity.subject).strip()
    return Row(
        (function, shown, cell.level, cell.load, *ours, *_numbers(theirs)),
        group=f"{function} {shown}",
    )


def _theirs(results: Results, functions: set[str], paper: str) -> Iterator[Row]:
    """Rows of platforms or loads that we do not have."""
    published = sources.published(sources.TIMING)
    have = {
        (published["platforms"].get(level), published["loads"].get(load))
        for level in results.levels
        for load in results.loads
    }
    for row in published["tables"][paper]:
        function, platform, load = row["function"], row["platform"], row["load"]
        if function in functions and (platform, load) not in have:
            yield Row(
                (function, "", platform, load, *[None] * 4, *_numbers(row)),
                group=f"{function} in the paper",
            )


def _numbers(row: sources.Published | None) -> Iterator[TableCell]:
    return ((row or {}).get(f"{key}_ns") for key in STATISTICS)
