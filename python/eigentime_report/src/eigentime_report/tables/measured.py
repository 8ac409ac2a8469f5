"""What was measured: values, places, and which of function, level and load matter."""

from collections import Counter
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import polars as pl

from eigentime_report.analysis import Analysis, analyse
from eigentime_report.basics import grouped
from eigentime_report.results import Results
from eigentime_report.results.cell import plural
from eigentime_report.results.manifest import Level
from eigentime_report.statistics.description import TAIL
from eigentime_report.tables.table import Column, Row, Table, with_interval, worded

TITLES: Mapping[str, str] = {
    "calls": "Overhead of calls",
    "read": "Overhead of single clock reads",
    "sleep": "Latency of sleeps",
    "events": "Jitter of timer events",
}


def percentile(quantile: float) -> str:
    """The name of a quantile: `p99.9`."""
    return f"p{100 * quantile:.10g}"


def _tail(quantile: float) -> tuple[Column, ...]:
    name = percentile(quantile)
    return with_interval(name, name, "ns", lambda it: it.tails.get(quantile), "Percentiles")


COLUMNS = (
    Column("quantity", "Quantity", of="cell.quantity.name"),
    Column("level", "Level", of="cell.level"),
    Column("load", "Load", of="cell.load"),
    Column("n", "n", "count", of="numbers.n"),
    Column("mean", "Mean", "ns", figures=4, of="numbers.mean"),
    Column("sd", "± SD", "ns", of="numbers.sd"),
    Column("median", "Median", "ns", figures=4, of="numbers.median"),
    Column("mad", "MAD", "ns", of="numbers.mad"),
    Column("min", "Min", "ns", of="numbers.minimum"),
    Column("max", "Max", "ns", of="numbers.maximum"),
    *(column for quantile in TAIL for column in _tail(quantile)),
    Column("mild", "Mild", "count", band="Outliers", of="outliers.mild"),
    Column("severe", "Severe", "count", band="Outliers", of="outliers.severe"),
    Column("units", "n", "count", band="Units of tests", of="cell.replicates.count"),
    Column("unit", "are", band="Units of tests", of="cell.replicates.unit"),
)


def descriptives_table(results: Results, kind: str, *, analysis: Analysis | None = None) -> Table:
    """Mean ± SD, median, MAD, extremes, percentiles with their intervals, outliers."""
    found = analysis or analyse(results)
    given = list(found.descriptions(kind))
    why = grouped(
        (it.outliers.note, f"{it.cell.quantity.name} at {it.cell.level} under {it.cell.load}")
        for it in given
        if it.outliers.note
    )
    return worded(
        "descriptives",
        COLUMNS,
        (Row.of(COLUMNS, it, it.cell.quantity.name) for it in given),
        after=(f"Of {', '.join(places)}: {note}." for note, places in why.items()),
        kind=kind,
        topic=TITLES[kind],
        confidence=100 * found.confidence,
    )


# Each row is of a run, and of one of its levels.
LEVELS = (
    Column("level", "Level", of=lambda it: it.run.name_of(it.level.name)),
    Column("machine", "Machine", of="run.machine"),
    Column("kernel", "Kernel", of="run.kernel"),
    Column("run", "Run", of="run.run"),
    Column("begin", "Begun", of="run.begin"),
    Column("blocks", "Blocks", "count", of="run.blocks"),
    Column("made", "How it was made", of=lambda it: _made(it.level)),
    Column("state", "State", of="run.state"),
)

LOADS = (
    Column("level", "Level"),
    Column("load", "Load"),
    Column("looks", "Looks", "count"),
    Column("loading", "Looks at which it did what it is for", "%"),
    Column("cpu", "CPU, median", "%"),
    Column("switches", "Context switches a second, median", "number"),
    Column("interrupts", "Interrupts a second, median", "number"),
    Column("how", "What it did"),
)

WARPS = (
    Column("level", "Level"),
    Column("load", "Load"),
    Column("clock", "Clock"),
    Column("pairs", "Pairs of processors", "count"),
    Column("looked", "Looked for", "ns"),
    Column("readings", "Readings compared", "count"),
    Column("backwards", "Behind one before", "count"),
    Column("worst", "Furthest back", "ns"),
    Column("visible", "Seen from", "ns"),
)

SERVED = (
    Column("quantity", "Quantity"),
    Column("level", "Level"),
    Column("served", "Served by"),
    Column("mean", "Mean", "ns"),
)

SERVERS = {"vdso": "the vDSO", "system_call": "the kernel"}


def served_table(results: Results) -> Table:
    """Who serves what asks the vDSO: it, or the kernel behind it."""
    rows = []
    for quantity in results.quantities:
        for level in results.levels:
            cells = [it for load in results.loads if (it := results.cell(quantity, level, load))]
            names = sorted({name for cell in cells for name in cell.served})
            if not names or not (quantity.subject.startswith("vdso_") or quantity.kind == "read"):
                continue
            served = " and ".join(SERVERS.get(name, name) for name in names)
            rows.append(Row((quantity.name, level, served, cells[0].mean), quantity.name))
    return worded("served", SERVED, rows)


def levels_table(results: Results) -> Table:
    """Each level of each run: on which machine, how it was made."""
    levels = (SimpleNamespace(run=run, level=it) for run in results.runs for it in run.levels)
    return worded("levels", LEVELS, (Row.of(LEVELS, it) for it in levels), after=results.notes)


def loads_table(results: Results) -> Table:
    """What each load did at each level, looked at once a second."""
    numbers = {
        "looks": pl.len(),
        "loading": 100 * pl.col("is_loading").mean(),
        "cpu": pl.median("cpu_percent"),
        "switches": pl.median("context_switches_per_second"),
        "interrupts": pl.median("interrupts_per_second"),
        "how": pl.col("how"),
    }
    rows = _grouped(results.load_checks, results, ("level", "load"), numbers)
    return worded("loads", LOADS, (Row((*its, _most(how)), its[0]) for *its, how in rows))


def warps_table(results: Results) -> Table:
    """Clocks compared with themselves, within threads and between processors."""
    numbers = {
        "pairs": pl.struct("cpu", "other_cpu").n_unique(),
        "looked": pl.sum("looked_ns"),
        "readings": pl.sum("readings"),
        "backwards": pl.sum("backwards"),
        "worst": pl.max("worst_ns"),
        "visible": pl.max("smallest_visible_ns"),
    }
    rows = _grouped(results.warps, results, ("level", "load", "clock"), numbers)
    return worded("warps", WARPS, (Row(row, " ".join(row[:2])) for row in rows))


def _grouped(
    frame: pl.DataFrame, results: Results, keys: tuple[str, ...], numbers: Mapping[str, pl.Expr]
) -> list[tuple[Any, ...]]:
    """The numbers of each part of a frame, levels and loads in the order of the results."""
    parts = frame.group_by(keys, maintain_order=True).agg(**numbers).rows()
    orders = (results.levels, results.loads)

    def place(row: tuple[Any, ...]) -> list[int]:
        known = zip(row, orders, strict=False)
        return [order.index(word) if word in order else 0 for word, order in known]

    return sorted(parts, key=place)


def _most(ways: list[str]) -> str:
    """What a load did, the most frequent first."""
    (first, _), *others = Counter(ways).most_common()
    return f"{first}; and {len(others)} more" if others else first


def _made(level: Level) -> str:
    if level.unavailable:
        return f"could not be had: {level.unavailable}"
    words = [f"by {' '.join(level.command)}"] if level.command else []
    return "; ".join([*words, *(f"{name}: {value}" for name, value in level.notes.items())])


# Each row is of a test, and of one of its effects.
BAND = "Effect size"
TRIED = (
    Column("among", "Among", of=lambda it: it.test.among or "all"),
    Column("statistic", "Statistic", of="test.statistic"),
    Column("term", "Factor or interaction", of="effect.term"),
    Column("test", "Test", of="effect.test"),
    Column("value", "Test's value", "number", of="effect.statistic"),
    Column("df1", "df1", "df", of="effect.df1"),
    Column("df2", "df2", "df", of="effect.df2"),
    Column("p", "p", "p", of="effect.p"),
    Column("n", "n", "count", of="effect.n"),
    Column("effect", "Effect", band=BAND, of="effect.effect.name"),
    *with_interval("size", "Size", "number", lambda it: it.effect.effect, BAND),
    Column("says", "What it says", of=lambda it: it.effect.note or it.effect.effect.note),
)


def factors_table(results: Results, kind: str, *, analysis: Analysis | None = None) -> Table:
    """Function × level × load and their interactions on median, MAD, maximum and minimum."""
    tests = (analysis or analyse(results)).factor_tests(kind)
    left_out = sorted({name for test in tests for name in test.left_out})
    more = [f"Not measured everywhere, and not in it: {', '.join(left_out)}."] if left_out else []
    return worded(
        "factors",
        TRIED,
        (
            Row.of(
                TRIED, SimpleNamespace(test=test, effect=effect), f"{test.among} {test.statistic}"
            )
            for test in tests
            for effect in test.effects
        ),
        after=more,
        kind=kind,
        topic=TITLES[kind],
        units=" or ".join(sorted({plural(it.unit) for it in tests})),
    )
