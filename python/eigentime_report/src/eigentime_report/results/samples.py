"""All samples of a kind of measurement, stored once: cells are views of them."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from eigentime_report.results.cell import (
    DIGITS,
    Blocks,
    Cell,
    Fact,
    Floats,
    Histogram,
    Part,
    spans,
    step_of,
)
from eigentime_report.results.folder import RUN
from eigentime_report.results.manifest import Metric
from eigentime_report.results.quantity import CALLS, EVENTS, READ, SLEEP, Kind, Quantity
from eigentime_report.results.tables import Table

Key: TypeAlias = tuple[Quantity, str, str]


def _texts(column: str) -> pl.Expr:
    return pl.col(column).unique(maintain_order=True).drop_nulls().str.join(", ")


def _mean(column: str) -> pl.Expr:
    return (pl.col(column) * pl.col("length")).sum() / pl.col("length").sum()


# The additional facts about a cell.
FACTS: Mapping[str, Mapping[str, pl.Expr]] = {
    CALLS: {
        "calls": pl.col("calls").max(),
        "policy": _texts("policy"),
        "slack_ns": pl.col("slack_ns").max(),
    },
    READ: {"step_ticks": pl.col("step_ticks").max(), "ticks_per_ns": _mean("ticks_per_ns")},
    SLEEP: {
        "cpu_ns": _mean("cpu_ns"),
        "reading_ns": _mean("reading_ns"),
        "degradation": _texts("degradation"),
    },
    EVENTS: {
        "missed": pl.struct("order", RUN, "missed_of_all")
        .unique()
        .struct.field("missed_of_all")
        .sum(),
        "place": _texts("place"),
        "policy": _texts("policy"),
        "degradation": _texts("degradation"),
    },
}


class Samples:
    """The samples of a table, cell by cell, in time order within each."""

    def __init__(
        self,
        kind: Kind,
        table: Table,
        found: Sequence[pl.DataFrame],
        levels: Sequence[str],
        loads: Sequence[str],
        metrics: Sequence[Metric],
    ) -> None:
        self._kind = kind
        # The range of steps of each cell.
        self.keys: dict[Key, slice] = {}
        there = [it for it in found if not it.is_empty()]
        if not there:
            return
        columns = [*kind.columns, "level", "load"]
        steps = pl.concat(there)

        def place(row: Mapping[str, Any]) -> tuple[Any, ...]:
            return kind.place(row, metrics), loads.index(row["load"]), levels.index(row["level"])

        rows = sorted(steps.select(columns).unique().iter_rows(named=True), key=place)
        numbered = pl.DataFrame(rows, schema=steps.select(columns).schema)
        steps = steps.join(numbered.with_row_index("cell"), on=columns, how="left")
        steps = steps.sort("cell", RUN, "order", maintain_order=True)
        ends = np.cumsum(steps.group_by("cell", maintain_order=True).len()["len"])
        for row, begin, end in zip(rows, [0, *ends], ends):
            self.keys[kind.quantity(row, metrics), row["level"], row["load"]] = slice(begin, end)
        self._arrays: dict[str, NDArray[Any]] = {}
        length = pl.col(next(iter(table.varying))).list.len().cast(pl.Int64)
        self._steps = steps.select(pl.exclude(list(table.varying)), length=length)
        for name in table.varying:
            self._arrays[name] = steps[name].explode().to_numpy(writable=kind.name == EVENTS)
            # Only one column at a time is duplicated in memory.
            steps = steps.drop(name)
        if kind.name == EVENTS:
            asked = self._steps["interval_ns"].to_numpy()
            self._arrays[kind.value] -= np.repeat(asked, self._steps["length"])
        for array in self._arrays.values():
            # To sort the values of a cell, sort a copy.
            array.flags.writeable = False
        self._ends = np.cumsum(self._steps["length"].to_numpy())

    def cell(self, key: Key, more: Mapping[str, Fact]) -> Cell:
        """The cell with this key, with its additional facts."""
        own = self.keys[key]
        steps = self._steps[own]
        begin = self._ends[own.start - 1] if own.start else 0
        samples = slice(begin, self._ends[own.stop - 1])
        columns = {name: array[samples] for name, array in self._arrays.items()}
        blocks = np.repeat(steps["block"].to_numpy().astype(np.int32), steps["length"])
        known = FACTS[self._kind.name]
        facts = steps.select(it.alias(name) for name, it in known.items()).row(0, named=True)
        facts = {name: it for name, it in facts.items() if it not in (None, "")}
        served = set(steps["served"].drop_nulls()) if "served" in steps.columns else ()
        values = columns[self._kind.value]
        missed = columns.get("missed")
        if missed is not None:
            facts["missed"] = int(missed.sum())
        weights = histogram = None
        if self._kind.name == READ:
            step = _step_of_readings(columns["value_ticks"], blocks, steps)
            order = np.argsort(values, kind="stable")
            histogram = _histogram(steps, columns, blocks, order)
            values, weights = values[order], columns["count"][order]
            blocks = blocks[order]
        elif self._kind.name == CALLS:
            step = _step_of_calls(key[0], values, blocks, steps)
        else:
            step = step_of(values, blocks, 1.0)
        return Cell(
            *key,
            values=values,
            weights=weights,
            blocks=blocks,
            served=frozenset(served),
            facts={**facts, **more},
            missed=missed,
            histogram=histogram,
            step_ns=step,
        )


def _step_of_calls(
    quantity: Quantity, values: Floats, blocks: Blocks, steps: pl.DataFrame
) -> float:
    """The step of one call: many are timed together and share a step of the clock."""
    calls = np.repeat(steps["calls"].to_numpy(), steps["length"])
    # The loop is not subtracted from sleeps.
    loop = np.repeat(steps["loop_ns"].to_numpy(), steps["length"])
    loop = loop * (quantity.asked_ns == 0)
    return step_of((values + loop) * calls, blocks, 1.0) / float(calls.min())


def _step_of_readings(ticks: NDArray[Any], blocks: Blocks, steps: pl.DataFrame) -> float:
    """The step found by the probe, or else the observed one."""
    known = float((steps["step_ticks"] / steps["ticks_per_ns"]).to_numpy().max())
    exact = ticks < 1 << DIGITS
    if steps["step_ticks"].to_numpy().max() != 1 or not exact.any():
        return known
    return known * step_of(ticks[exact].astype(np.float64), blocks[exact], 1.0)


def _histogram(
    steps: pl.DataFrame,
    columns: Mapping[str, NDArray[Any]],
    blocks: Blocks,
    order: NDArray[np.intp],
) -> Histogram:
    """The histogram of a cell of readings, whose steps are histograms; sorted in this order."""
    low, high = np.empty(len(blocks)), np.empty(len(blocks))
    parts = []
    filled = 0
    for row in steps.iter_rows(named=True):
        own = slice(filled, filled := filled + row["length"])
        ticks = columns["value_ticks"][own]
        empty, per_ns = row["empty_median_ticks"], row["ticks_per_ns"]
        lower, upper = spans(ticks, row["step_ticks"])
        low[own], high[own] = (lower - empty) / per_ns, (upper - empty) / per_ns
        parts.append(
            Part(
                block=row["block"],
                count=int(columns["count"][own].sum()),
                mean=(row["mean_ticks"] - row["empty_mean_ticks"]) / per_ns,
                sd=row["sd_ticks"] / per_ns,
                minimum=float((ticks.min() - empty) / per_ns),
                maximum=(row["max_ticks"] - empty) / per_ns,
            )
        )
    counts = columns["count"][order]
    return Histogram(low[order], high[order], counts, blocks[order], parts)
