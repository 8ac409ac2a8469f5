"""What the values of each quantity are like, at each level, under each load."""

from collections.abc import Mapping

from eigentime_report.analysis import Analysis, Description, analyse
from eigentime_report.results import Results
from eigentime_report.statistics import Interval
from eigentime_report.statistics.description import TAIL
from eigentime_report.tables.table import Between, Column, Row, Table

TITLES: Mapping[str, str] = {
    "calls": "What calls cost",
    "read": "What single readings cost",
    "sleep": "How late sleeps end",
    "events": "How far events are from their intervals",
}


def percentile(quantile: float) -> str:
    """The name of a quantile: `p99.9`."""
    return f"p{100 * quantile:.10g}"


COLUMNS = (
    Column("quantity", "Quantity"),
    Column("level", "Level"),
    Column("load", "Load"),
    Column("n", "n", "count"),
    Column("mean", "Mean", "ns", figures=4),
    Column("sd", "± SD", "ns"),
    Column("median", "Median", "ns", figures=4),
    Column("mad", "MAD", "ns"),
    Column("min", "Min", "ns"),
    Column("max", "Max", "ns"),
    *(
        column
        for name in map(percentile, TAIL)
        for column in (
            Column(name, name, "ns", band="Tail"),
            Column(f"{name}_interval", "CI", "ns", band="Tail", is_interval=True),
        )
    ),
    Column("mild", "Mild", "count", band="Outliers"),
    Column("severe", "Severe", "count", band="Outliers"),
    Column("units", "n", "count", band="Units of tests"),
    Column("unit", "are", band="Units of tests"),
)

NOTES = (
    "SD divides by n − 1. MAD is the median of the distances from the median.",
    (
        "Tail quantiles are told where at least ten values lie beyond them, with {confidence:g} % "
        "bootstrap intervals: over blocks where there are five or more of them."
    ),
    (
        "Outliers are values beyond 1.5 (mild) or 3 (severe) interquartile ranges from the quartiles. "
        "They are flagged here, and kept in everything."
    ),
)


def descriptives_table(
    results: Results, kind: str, *, analysis: Analysis | None = None
) -> Table:
    """Mean ± SD, median, MAD, extremes, tail quantiles with their intervals, outliers."""
    found = analysis or analyse(results)
    rows = tuple(_row(description) for description in found.descriptions(kind))
    notes = [note.format(confidence=100 * found.confidence) for note in NOTES]
    why: dict[str, list[str]] = {}
    for description in found.descriptions(kind):
        if note := description.outliers.note:
            place = f"{description.quantity.name} at {description.level} under {description.load}"
            why.setdefault(note, []).append(place)
    notes += [f"Of {', '.join(places)}: {note}." for note, places in why.items()]
    return Table(
        key=f"descriptives-{kind}",
        title=TITLES.get(kind, kind),
        columns=COLUMNS,
        rows=rows,
        notes=tuple(notes),
    )


def _row(description: Description) -> Row:
    numbers, outliers = description.numbers, description.outliers
    tails = [
        cell for quantile in TAIL for cell in _tail(description.tails.get(quantile))
    ]
    return Row(
        cells=(
            description.quantity.name,
            description.level,
            description.load,
            numbers.n,
            numbers.mean,
            numbers.sd,
            numbers.median,
            numbers.mad,
            numbers.minimum,
            numbers.maximum,
            *tails,
            outliers.mild,
            outliers.severe,
            description.replicates,
            description.unit,
        ),
        group=description.quantity.name,
    )


def _tail(interval: Interval | None) -> tuple[float | None, Between | None]:
    if interval is None:
        return None, None
    return interval.value, Between.of(interval.low, interval.high)
