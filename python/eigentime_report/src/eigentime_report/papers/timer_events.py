"""The summary of the timer-event paper: the measured intervals."""

from types import SimpleNamespace
from typing import Any

from eigentime_report import units
from eigentime_report.analysis import Analysis, Description, analyse
from eigentime_report.papers import sources
from eigentime_report.results import Results
from eigentime_report.tables.table import Row, Table


def events_table(results: Results, *, analysis: Analysis | None = None) -> Table:
    """Mean, deviation and interval of each source of events, at each level, under each load."""
    found = analysis or analyse(results)
    rows: list[Row | tuple[Any, str]] = []
    rows += [(_measured(it), it.cell.quantity.name) for it in found.descriptions("events")]
    if rows:
        theirs = "in the paper"
        for it in sources.published(sources.EVENTS)["events"]:
            place = (theirs, units.span(it["interval_ns"]), it["platform"], it["load"])
            rows.append(Row((*place, *[None] * 5, it["sd_ns"]), theirs))
    return sources.table("events", rows, sources.notes(sources.EVENTS))


def _measured(description: Description) -> SimpleNamespace:
    """A description with the measured interval, instead of the deviation from the requested one."""
    asked, its = description.cell.quantity.interval_ns or 0, description.mean_99
    return SimpleNamespace(
        cell=description.cell,
        numbers=description.numbers,
        interval=units.span(asked),
        mean=asked + description.numbers.mean,
        mean_interval=its and its.shifted(asked),
        missed=description.cell.facts.get("missed"),
        paper_sd=None,
    )
