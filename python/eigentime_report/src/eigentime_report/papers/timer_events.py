"""The summary of the timer-event paper: the intervals that were measured."""

from eigentime_report import units
from eigentime_report.analysis import Analysis, Description, analyse
from eigentime_report.papers import sources
from eigentime_report.results import Results
from eigentime_report.tables.table import Between, Cell, Column, Row, Table


def _asked(description: Description) -> int:
    return description.cell.quantity.interval_ns or 0


def _interval(description: Description) -> Cell:
    found, asked = description.mean_99, _asked(description)
    if found is None or found.low is None or found.high is None:
        return None
    return Between(asked + found.low, asked + found.high)


COLUMNS = (
    Column("source", "Timer", of="cell.quantity.subject"),
    Column("interval", "Interval", of=lambda it: units.span(_asked(it))),
    Column("level", "Platform", of="cell.level"),
    Column("load", "Load", of="cell.load"),
    Column("n", "n", "count", of="numbers.n"),
    Column("mean", "Mean", "ns", figures=5, of=lambda it: _asked(it) + it.numbers.mean),
    Column("sd", "Std. dev.", "ns", of="numbers.sd_uncorrected"),
    Column("mean_interval", "99 % CI of the mean", "ns", figures=5, is_interval=True, of=_interval),
    Column("missed", "Missed", "count", of=lambda it: it.cell.facts.get("missed")),
    Column("paper_sd", "Std. dev. in the paper", "ns", of=lambda it: None),
)


def events_table(results: Results, *, analysis: Analysis | None = None) -> Table:
    """Mean, deviation and interval of each source of events, at each level, under each load."""
    found = analysis or analyse(results)
    given = list(found.descriptions("events"))
    rows = [Row.of(COLUMNS, it, it.cell.quantity.name) for it in given]
    if rows:
        theirs = "in the paper"
        for it in sources.published(sources.EVENTS)["events"]:
            place = (theirs, units.span(it["interval_ns"]), it["platform"], it["load"])
            rows.append(Row((*place, *[None] * 5, it["sd_ns"]), theirs))
    title = "Jitter of timer events: the summary of the timer-event paper"
    return Table("events", title, COLUMNS, tuple(rows), sources.notes(sources.EVENTS))
