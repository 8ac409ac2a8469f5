"""What was measured: values, places, and which of function, level and load matter."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from eigentime_report.analysis import Analysis, Description, FactorTest, analyse
from eigentime_report.results import Results
from eigentime_report.results.manifest import Level, Run
from eigentime_report.statistics import FactorEffect
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


@dataclass(frozen=True)
class _Part:
    """The rows of a table of results from one place."""

    place: tuple[str, ...]
    rows: pl.DataFrame


@dataclass(frozen=True)
class _Level:
    """A run, and one of its levels."""

    run: Run
    level: Level


def _of(name: str, of: Callable[[Any], float]) -> Callable[[_Part], float]:
    """A number of all values of a column."""
    return lambda part: float(of(part.rows[name].cast(pl.Float64).to_numpy()))


def _at(number: int) -> Callable[[_Part], str]:
    return lambda part: part.place[number]


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

LOADED = "Looks at which it did what it is for"
LOADS = (
    Column("level", "Level", of=_at(0)),
    Column("load", "Load", of=_at(1)),
    Column("looks", "Looks", "count", of=lambda it: len(it.rows)),
    Column("loading", LOADED, "%", of=_of("is_loading", lambda it: 100 * it.mean())),
    Column("cpu", "CPU, median", "%", of=_of("cpu_percent", np.median)),
    Column(
        "switches",
        "Context switches a second, median",
        "number",
        of=_of("context_switches_per_second", np.median),
    ),
    Column(
        "interrupts",
        "Interrupts a second, median",
        "number",
        of=_of("interrupts_per_second", np.median),
    ),
    Column("how", "What it did", of=lambda it: _how(it.rows["how"])),
)

WARPS = (
    Column("level", "Level", of=_at(0)),
    Column("load", "Load", of=_at(1)),
    Column("clock", "Clock", of=_at(2)),
    Column(
        "pairs",
        "Pairs of processors",
        "count",
        of=lambda it: it.rows.select("cpu", "other_cpu").n_unique(),
    ),
    Column("looked", "Looked for", "ns", of=lambda it: _sum(it, "looked_ns")),
    Column("readings", "Readings compared", "count", of=lambda it: _sum(it, "readings")),
    Column("backwards", "Behind one before", "count", of=lambda it: _sum(it, "backwards")),
    Column("worst", "Furthest back", "ns", of=_of("worst_ns", np.max)),
    Column("visible", "Seen from", "ns", of=_of("smallest_visible_ns", np.max)),
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
    return Table(
        key="served",
        title="Who serves reads of clocks",
        columns=SERVED,
        rows=tuple(rows),
        notes=("The mean is that under the first load that was measured.",),
    )


def levels_table(results: Results) -> Table:
    """Each level of each run: on which machine, how it was made."""
    levels = [_Level(run, level) for run in results.runs for level in run.levels]
    return Table(
        key="levels",
        title="Where was measured",
        columns=LEVELS,
        rows=tuple(Row.of(LEVELS, it) for it in levels),
        notes=("The first level is what the others are compared with.", *results.notes),
    )


def loads_table(results: Results) -> Table:
    """What each load did at each level, looked at once a second."""
    parts = _by(results.load_checks, results, "level", "load")
    return Table(
        key="loads",
        title="What ran beside the measurements",
        columns=LOADS,
        rows=tuple(Row.of(LOADS, it, it.place[0]) for it in parts),
        notes=("CPU: of all processors' time, the part that was not idle.",),
    )


def warps_table(results: Results) -> Table:
    """Clocks compared with themselves, within threads and between processors."""
    parts = _by(results.warps, results, "level", "load", "clock")
    return Table(
        key="warps",
        title="Whether clocks went backwards",
        columns=WARPS,
        rows=tuple(Row.of(WARPS, it, " ".join(it.place[:2])) for it in parts),
        notes=(
            (
                "Seen from: a step back of so much would have been seen, between the pair of processors "
                "where it is seen worst."
            ),
        ),
    )


def _made(level: Level) -> str:
    if level.unavailable:
        return f"could not be had: {level.unavailable}"
    words = [f"by {' '.join(level.command)}"] if level.command else []
    return "; ".join([*words, *(f"{name}: {value}" for name, value in level.notes.items())])


def _by(frame: pl.DataFrame, results: Results, *columns: str) -> list[_Part]:
    """Its parts, levels and loads in the order of the results."""
    places = {"level": results.levels, "load": results.loads}
    parts = [
        _Part(tuple(map(str, key)), part)
        for key, part in frame.group_by(columns, maintain_order=True)
    ]

    def place(part: _Part) -> tuple[int, ...]:
        known = zip(columns, part.place, strict=True)
        return tuple(
            places[column].index(word) if word in places.get(column, ()) else 0
            for column, word in known
        )

    return sorted(parts, key=place)


def _how(column: pl.Series) -> str:
    """What the load did, the most frequent first."""
    ways = column.value_counts(sort=True)[column.name].to_list()
    more = f"; and {len(ways) - 1} more" if len(ways) > 1 else ""
    return f"{ways[0]}{more}"


def _sum(part: _Part, name: str) -> int:
    return int(part.rows[name].sum())


@dataclass(frozen=True)
class _Tried:
    """A test, and one of its effects."""

    test: FactorTest
    effect: FactorEffect


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
    Column("size", "Size", "number", band=BAND, of="effect.effect.value"),
    Column(
        "size_interval",
        "CI",
        "number",
        band=BAND,
        is_interval=True,
        of=lambda it: Between.of(it.effect.effect.low, it.effect.effect.high),
    ),
    Column("says", "What it says", of=lambda it: it.effect.note or it.effect.effect.note),
)

TRIED_NOTES = (
    (
        "Tried on the median, MAD, maximum and minimum of each unit: {units}. The factors are those that "
        "were varied: the function (what is called, read or slept by), the level (the paper's platform) "
        "and the load."
    ),
    (
        "ANOVA-type statistic of ranks (Brunner, Dette and Munk 1997): it assumes no distribution. The "
        "effect is the range of relative effects: how much more likely a value at one of the factor's "
        "levels is greater than any other, than at another of its levels."
    ),
)


def factors_table(results: Results, kind: str, *, analysis: Analysis | None = None) -> Table:
    """Function × level × load and their interactions on median, MAD, maximum and minimum."""
    tests = (analysis or analyse(results)).factor_tests(kind)
    names = {"batches" if it.unit == "batch" else f"{it.unit}s" for it in tests}
    left_out = sorted({name for test in tests for name in test.left_out})
    notes = [note.format(units=" or ".join(sorted(names))) for note in TRIED_NOTES]
    if left_out:
        notes.append(f"Not measured everywhere, and not in it: {', '.join(left_out)}.")
    return Table(
        key=f"factors-{kind}",
        title=f"{TITLES.get(kind, kind)}: which of function, level and load matter",
        columns=TRIED,
        rows=tuple(
            Row.of(TRIED, _Tried(test, effect), f"{test.among} {test.statistic}")
            for test in tests
            for effect in test.effects
        ),
        notes=tuple(notes),
    )
