"""What the values of each quantity are like, at each level, under each load."""

from collections.abc import Callable, Mapping

from eigentime_report.analysis import Analysis, Description, analyse
from eigentime_report.results import Results
from eigentime_report.statistics.description import TAIL
from eigentime_report.tables.table import Between, Cell, Column, Row, Table

TITLES: Mapping[str, str] = {
    "calls": "Overhead of calls",
    "read": "Overhead of single clock reads",
    "sleep": "Latency of sleeps",
    "events": "Jitter of timer events",
}


def percentile(quantile: float) -> str:
    """The name of a quantile: `p99.9`."""
    return f"p{100 * quantile:.10g}"


def _tail(quantile: float, is_interval: bool) -> Callable[[Description], Cell]:
    def cell(description: Description) -> Cell:
        found = description.tails.get(quantile)
        if found is None:
            return None
        return Between.of(found.low, found.high) if is_interval else found.value

    return cell


COLUMNS = (
    Column("quantity", "Quantity", of="quantity.name"),
    Column("level", "Level"),
    Column("load", "Load"),
    Column("n", "n", "count", of="numbers.n"),
    Column("mean", "Mean", "ns", figures=4, of="numbers.mean"),
    Column("sd", "± SD", "ns", of="numbers.sd"),
    Column("median", "Median", "ns", figures=4, of="numbers.median"),
    Column("mad", "MAD", "ns", of="numbers.mad"),
    Column("min", "Min", "ns", of="numbers.minimum"),
    Column("max", "Max", "ns", of="numbers.maximum"),
    *(
        Column(
            f"{percentile(it)}_interval" if is_interval else percentile(it),
            "CI" if is_interval else percentile(it),
            "ns",
            band="Percentiles",
            is_interval=is_interval,
            of=_tail(it, is_interval),
        )
        for it in TAIL
        for is_interval in (False, True)
    ),
    Column("mild", "Mild", "count", band="Outliers", of="outliers.mild"),
    Column("severe", "Severe", "count", band="Outliers", of="outliers.severe"),
    Column("units", "n", "count", band="Units of tests", of="replicates"),
    Column("unit", "are", band="Units of tests"),
)

NOTES = (
    "SD divides by n − 1. MAD is the median of the distances from the median.",
    (
        "Percentiles are told where at least ten values lie beyond them, with {confidence:g} % "
        "bootstrap intervals: over blocks where there are five or more of them."
    ),
    (
        "Outliers are values beyond 1.5 (mild) or 3 (severe) interquartile ranges from the quartiles. "
        "They are flagged here, and kept in everything."
    ),
)


def descriptives_table(results: Results, kind: str, *, analysis: Analysis | None = None) -> Table:
    """Mean ± SD, median, MAD, extremes, percentiles with their intervals, outliers."""
    found = analysis or analyse(results)
    given = list(found.descriptions(kind))
    why: dict[str, list[str]] = {}
    for it in given:
        if note := it.outliers.note:
            place = f"{it.quantity.name} at {it.level} under {it.load}"
            why.setdefault(note, []).append(place)
    return Table(
        key=f"descriptives-{kind}",
        title=TITLES.get(kind, kind),
        columns=COLUMNS,
        rows=tuple(Row.of(COLUMNS, it, it.quantity.name) for it in given),
        notes=(
            *(note.format(confidence=100 * found.confidence) for note in NOTES),
            *(f"Of {', '.join(places)}: {note}." for note, places in why.items()),
        ),
    )
