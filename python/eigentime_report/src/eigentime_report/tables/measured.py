"""The measurements: values, places, and the effects of function, level and load."""

from collections import Counter
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import polars as pl

from eigentime_report.analysis import Analysis, Description, FactorTest, analyse
from eigentime_report.basics import grouped
from eigentime_report.results import Results
from eigentime_report.results.cell import plural
from eigentime_report.results.manifest import Level
from eigentime_report.statistics import FactorEffect, Interval
from eigentime_report.statistics.description import TAIL
from eigentime_report.tables.table import Row, Table, tabled


def percentile(quantile: float) -> str:
    """The name of a quantile: `p99.9`."""
    return f"p{100 * quantile:.10g}"


def descriptives_table(results: Results, kind: str, *, analysis: Analysis | None = None) -> Table:
    """Mean ± SD, median, MAD, extremes, percentiles with their intervals, outliers."""
    found = analysis or analyse(results)
    given = list(found.descriptions(kind))
    why = grouped(
        (it.outliers.note, f"{it.cell.quantity.name} at {it.cell.level} under {it.cell.load}")
        for it in given
        if it.outliers.note
    )
    return tabled(
        "descriptives",
        ((SimpleNamespace(**vars(it), **_percentiles(it)), it.cell.quantity.name) for it in given),
        after=(f"Of {', '.join(places)}: {note}." for note, places in why.items()),
        kind=kind,
        confidence=100 * found.confidence,
    )


def _percentiles(description: Description) -> dict[str, Interval | None]:
    """Those of the tail, by the names of their columns, without the decimal point."""
    return {percentile(it).replace(".", ""): description.tails.get(it) for it in TAIL}


SERVERS = {"vdso": "the vDSO", "system_call": "the kernel"}


def served_table(results: Results) -> Table:
    """What serves vDSO calls: the vDSO itself, or the kernel behind it."""
    rows = []
    for quantity in results.quantities:
        for level in results.levels:
            cells = [cell for cell in results.cells(quantity) if cell.level == level]
            names = sorted({name for cell in cells for name in cell.served})
            if not names or not (quantity.subject.startswith("vdso_") or quantity.kind == "read"):
                continue
            served = " and ".join(SERVERS.get(name, name) for name in names)
            rows.append(Row((quantity.name, level, served, cells[0].mean), quantity.name))
    return tabled("served", rows)


def levels_table(results: Results) -> Table:
    """Each level of each run: the machine, and how it was set up."""
    levels = (
        (SimpleNamespace(run=run, level=run.name_of(it.name), made=_made(it)), None)
        for run in results.runs
        for it in run.levels
    )
    return tabled("levels", levels, after=results.notes)


def loads_table(results: Results) -> Table:
    """The effect of each load at each level, observed once per second."""
    numbers = {
        "looks": pl.len(),
        "loading": 100 * pl.col("is_loading").mean(),
        "cpu": pl.median("cpu_percent"),
        "switches": pl.median("context_switches_per_second"),
        "interrupts": pl.median("interrupts_per_second"),
        "how": pl.col("how"),
    }
    rows = _grouped(results.load_checks, results, ("level", "load"), numbers)
    return tabled("loads", (Row((*its, _most(how)), its[0]) for *its, how in rows))


def warps_table(results: Results) -> Table:
    """Comparisons of clocks, within threads and between processors."""
    numbers = {
        "pairs": pl.struct("cpu", "other_cpu").n_unique(),
        "looked": pl.sum("looked_ns"),
        "readings": pl.sum("readings"),
        "backwards": pl.sum("backwards"),
        "worst": pl.max("worst_ns"),
        "visible": pl.max("smallest_visible_ns"),
    }
    rows = _grouped(results.warps, results, ("level", "load", "clock"), numbers)
    return tabled("warps", (Row(row, " ".join(row[:2])) for row in rows))


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
    """The effects of a load, the most frequent first."""
    (first, _), *others = Counter(ways).most_common()
    return f"{first}; and {len(others)} more" if others else first


def _made(level: Level) -> str:
    if level.unavailable:
        return f"could not be had: {level.unavailable}"
    words = [f"by {' '.join(level.command)}"] if level.command else []
    return "; ".join([*words, *(f"{name}: {value}" for name, value in level.notes.items())])


def factors_table(results: Results, kind: str, *, analysis: Analysis | None = None) -> Table:
    """Function × level × load and their interactions on median, MAD, maximum and minimum."""
    tests = (analysis or analyse(results)).factor_tests(kind)
    left_out = sorted({name for test in tests for name in test.left_out})
    more = [f"Not measured everywhere, and not in it: {', '.join(left_out)}."] if left_out else []
    rows = (
        (_tried(test, effect), f"{test.among} {test.statistic}")
        for test in tests
        for effect in test.effects
    )
    units = " or ".join(sorted({plural(it.unit) for it in tests}))
    return tabled("factors", rows, after=more, kind=kind, units=units)


def _tried(test: FactorTest, effect: FactorEffect) -> SimpleNamespace:
    says = effect.note or effect.effect.note
    return SimpleNamespace(test=test, effect=effect, among=test.among or "all", says=says)
