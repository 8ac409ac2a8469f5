"""All samples of a table, cell after cell."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from eigentime_report.results.arrays import Blocks, Counts, Floats
from eigentime_report.results.cell import Cell, Fact
from eigentime_report.results.file import Array, Content
from eigentime_report.results.histogram import DIGITS, Histogram, Part, spans
from eigentime_report.results.quantity import CALLS, EVENTS, READ, SLEEP, Kind, Quantity
from eigentime_report.results.resolution import step_of
from eigentime_report.results.tables import RUN


def _texts(column: str) -> pl.Expr:
    return pl.col(column).unique(maintain_order=True).drop_nulls().str.join(", ")


def _mean(column: str) -> pl.Expr:
    return (pl.col(column) * pl.col("length")).sum() / pl.col("length").sum()


# The column of a sample's value, and what is to be known of a cell beside its values.
VALUES: Mapping[str, str] = {
    CALLS: "call_ns",
    READ: "value_ns",
    SLEEP: "miss_ns",
    EVENTS: "after_ns",
}
FACTS: Mapping[str, Mapping[str, pl.Expr]] = {
    CALLS: {
        "calls": pl.col("calls").max(),
        "policy": _texts("policy"),
        "slack_ns": pl.col("slack_ns").max(),
    },
    READ: {
        "step_ticks": pl.col("step_ticks").max(),
        "ticks_per_ns": _mean("ticks_per_ns"),
        "empty_mean_ticks": _mean("empty_mean_ticks"),
        "empty_median_ticks": _mean("empty_median_ticks"),
    },
    SLEEP: {
        "cpu_ns": _mean("cpu_ns"),
        "reading_ns": _mean("reading_ns"),
        "degradation": _texts("degradation"),
    },
    EVENTS: {
        "missed": pl.col("missed_of_all").sum(),
        "place": _texts("place"),
        "policy": _texts("policy"),
        "degradation": _texts("degradation"),
    },
}

# In which lengths of time are counted.
NANOSECOND = 1.0

Key = tuple[Quantity, str, str]


@dataclass(frozen=True)
class _Range:
    """Where the samples of a cell are, and its stretches."""

    samples: slice
    stretches: slice
    facts: Mapping[str, Fact]
    served: frozenset[str]


class Samples:
    """The samples of a kind of measurement, kept once: cells are views of them."""

    def __init__(
        self,
        kind: Kind,
        contents: Sequence[Content],
        levels: Sequence[str],
        loads: Sequence[str],
    ) -> None:
        self._kind = kind
        there = [it for it in contents if it.rows]
        self._arrays: dict[str, Array] = {}
        self._ranges: dict[Key, _Range] = {}
        if not there:
            return
        stretches = pl.concat(
            it.stretches.with_columns(file=pl.lit(file))
            for file, it in enumerate(there)
        )
        keys, stretches = self._sorted(stretches, levels, loads)
        self._stretches = stretches
        for name in list(there[0].arrays):
            self._arrays[name] = _arranged(
                stretches, [it.arrays.pop(name) for it in there]
            )
        self._ranges = dict(zip(keys, self._ranges_of(stretches), strict=True))
        if kind.name == EVENTS:
            # In place: a second array would be as large as the first one.
            for (quantity, _, _), it in self._ranges.items():
                self._arrays[VALUES[EVENTS]][it.samples] -= quantity.interval_ns
        for array in self._arrays.values():
            # Who sorts the values of a cell sorts a copy.
            array.flags.writeable = False

    @property
    def keys(self) -> list[Key]:
        """Quantities, levels and loads of all cells, in their order."""
        return list(self._ranges)

    def cell(self, key: Key, more: Mapping[str, Fact]) -> Cell | None:
        """The cell of a key, which has these facts besides; None if there is none."""
        found = self._ranges.get(key)
        if found is None:
            return None
        stretches = self._stretches[found.stretches]
        numbers = stretches["block"].to_numpy().astype(np.int32)
        blocks = np.repeat(numbers, stretches["length"].to_numpy())
        columns = {name: array[found.samples] for name, array in self._arrays.items()}
        if self._kind.name == READ:
            return self._readings(key, found, columns, blocks, more)
        values = columns[VALUES[self._kind.name]]
        facts = {**found.facts, **more}
        missed = columns.get("missed")
        if missed is not None:
            facts["missed"] = int(missed.sum())
        return Cell(
            *key,
            values=values,
            weights=None,
            blocks=blocks,
            served=found.served,
            facts=facts,
            missed=missed,
            step_ns=_step_of_calls(key[0], values, blocks, stretches)
            if self._kind.name == CALLS
            else step_of(values, blocks, NANOSECOND),
        )

    def _readings(
        self,
        key: Key,
        found: _Range,
        columns: Mapping[str, Array],
        blocks: Blocks,
        more: Mapping[str, Fact],
    ) -> Cell:
        order = np.argsort(columns["value_ns"], kind="stable")
        stretches = self._stretches[found.stretches]
        histogram = _histogram(stretches, columns, blocks, order)
        return Cell(
            *key,
            values=columns["value_ns"][order],
            weights=columns["count"][order],
            blocks=blocks[order],
            served=found.served,
            facts={**found.facts, **more},
            histogram=histogram,
            step_ns=_step_of_readings(columns["value_ticks"], blocks, stretches),
        )

    def _sorted(
        self, stretches: pl.DataFrame, levels: Sequence[str], loads: Sequence[str]
    ) -> tuple[list[Key], pl.DataFrame]:
        """The keys in their order, and the stretches in the order of keys and time."""
        columns = [*self._kind.columns, "level", "load"]
        unique = stretches.select(columns).unique()

        def place(row: Mapping[str, Any]) -> tuple[Any, ...]:
            cell = (loads.index(row["load"]), levels.index(row["level"]))
            return (self._kind.place(row), *cell)

        rows = sorted(unique.iter_rows(named=True), key=place)
        numbered = pl.DataFrame(rows, schema=unique.schema).with_row_index("cell")
        placed = stretches.join(numbered, on=columns, how="left")
        keys = [(self._kind.quantity(row), row["level"], row["load"]) for row in rows]
        return keys, placed.sort("cell", RUN, "order", "begin")

    def _ranges_of(self, stretches: pl.DataFrame) -> Iterator[_Range]:
        """Of each cell, in their order."""
        has_served = "served" in stretches.columns
        served = pl.col("served").drop_nulls().unique() if has_served else pl.lit(None)
        facts = FACTS[self._kind.name]
        cells = stretches.group_by("cell", maintain_order=True).agg(
            pl.len().alias("stretches_"),
            pl.col("length").sum().alias("samples_"),
            served.alias("served_"),
            **facts,
        )
        sample = stretch = 0
        for row in cells.iter_rows(named=True):
            samples = slice(sample, sample := sample + row["samples_"])
            own = slice(stretch, stretch := stretch + row["stretches_"])
            known = {name: row[name] for name in facts if row[name] not in (None, "")}
            yield _Range(samples, own, known, frozenset(row["served_"] or ()))


def _arranged(stretches: pl.DataFrame, arrays: Sequence[Array]) -> Array:
    """The values of stretches in their order, from the array of each file."""
    files, begins, lengths = (
        stretches[name].to_list() for name in ("file", "begin", "length")
    )
    arranged = np.empty(sum(lengths), dtype=arrays[0].dtype)
    filled = 0
    for file, begin, length in zip(files, begins, lengths, strict=True):
        arranged[filled : filled + length] = arrays[file][begin : begin + length]
        filled += length
    return arranged


def _step_of_calls(
    quantity: Quantity, values: Floats, blocks: Blocks, stretches: pl.DataFrame
) -> float:
    """The step of one call: many are timed together, so that they share a step of the clock."""
    length = stretches["length"].to_numpy()
    calls = np.repeat(stretches["calls"].to_numpy().clip(1), length)
    # Of sleeps it is not subtracted.
    loop = (
        0.0 if quantity.asked_ns else np.repeat(stretches["loop_ns"].to_numpy(), length)
    )
    return step_of((values + loop) * calls, blocks, NANOSECOND) / float(calls.min())


def _step_of_readings(ticks: Counts, blocks: Blocks, stretches: pl.DataFrame) -> float:
    """The step that the probe has found, or if it has not, the one that is seen."""
    known = (stretches["step_ticks"] / stretches["ticks_per_ns"]).to_numpy().max()
    exact = ticks < 1 << DIGITS
    if stretches["step_ticks"].max() != 1 or not exact.any():
        return float(known)
    seen = step_of(ticks[exact].astype(np.float64), blocks[exact], 1.0)
    return float(known) * seen


def _histogram(
    stretches: pl.DataFrame,
    columns: Mapping[str, Any],
    blocks: Blocks,
    order: Any,
) -> Histogram:
    """Of the readings of a cell, whose stretches are histograms; sorted in this order."""
    low, high = np.empty(len(blocks)), np.empty(len(blocks))
    parts = []
    filled = 0
    for row in stretches.iter_rows(named=True):
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
    return Histogram(
        low[order], high[order], columns["count"][order], blocks[order], parts
    )
