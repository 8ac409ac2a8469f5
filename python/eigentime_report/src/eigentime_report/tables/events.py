"""The summary of the timer-event paper: the intervals that were measured."""

from eigentime_report import papers, units
from eigentime_report.analysis import Analysis, Description, analyse
from eigentime_report.results import Results
from eigentime_report.statistics import Interval
from eigentime_report.tables.table import Between, Column, Row, Table

COLUMNS = (
    Column("source", "Timer"),
    Column("interval", "Interval"),
    Column("level", "Platform"),
    Column("load", "Load"),
    Column("n", "n", "count"),
    Column("mean", "Mean", "ns", figures=5),
    Column("sd", "Std. dev.", "ns"),
    Column("mean_interval", "99 % CI of the mean", "ns", figures=5, is_interval=True),
    Column("missed", "Missed", "count"),
    Column("paper_sd", "Std. dev. in the paper", "ns"),
)

NOTES = (
    (
        "Of the interval between events as it was measured, as in the paper: mean, uncorrected sample "
        "standard deviation, and 99 % confidence interval of the mean."
    ),
    "Missed: events that were merged into later ones, so that the interval before those was longer.",
    (
        "The paper's table is a picture in the text at hand; these are the deviations that its text has. "
        "Its timers are in the kernel, as those of hrtimer and bpf_timer are here."
    ),
)


def events_table(results: Results, *, analysis: Analysis | None = None) -> Table:
    """Mean, deviation and interval of each source of events, at each level, under each load."""
    found = analysis or analyse(results)
    source, published = papers.events()
    rows = [_row(description) for description in found.descriptions("events")]
    if rows:
        rows += [
            Row(
                cells=(
                    "in the paper",
                    units.span(event.interval_ns),
                    event.platform,
                    event.load,
                    *[None] * 5,
                    event.sd_ns,
                ),
                group="in the paper",
            )
            for event in published
        ]
    return Table(
        key="events",
        title="How even timer events are: the summary of the timer-event paper",
        columns=COLUMNS,
        rows=tuple(rows),
        notes=(*NOTES, f"The paper: {source.citation}"),
    )


def _shifted(interval: Interval | None, by: int) -> Between | None:
    if interval is None or interval.low is None or interval.high is None:
        return None
    return Between(by + interval.low, by + interval.high)


def _row(description: Description) -> Row:
    quantity = description.quantity
    asked = quantity.interval_ns or 0
    numbers, interval = description.numbers, description.mean_99
    return Row(
        cells=(
            quantity.subject,
            units.span(asked),
            description.level,
            description.load,
            numbers.n,
            asked + numbers.mean,
            numbers.sd_uncorrected,
            _shifted(interval, asked),
            description.facts.get("missed"),
            None,
        ),
        group=quantity.name,
    )
