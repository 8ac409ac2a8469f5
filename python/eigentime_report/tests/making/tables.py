"""The Parquet files: their columns, and how many rows are written without much memory."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

Schema = dict[str, type[pl.DataType]]

EVERYWHERE: Schema = {
    "run": pl.String,
    "machine": pl.String,
    "level": pl.String,
    "load": pl.String,
    "block": pl.UInt32,
    "order": pl.UInt32,
    "begin_ns": pl.Int64,
}

TABLES: Mapping[str, Schema] = {
    "calls": EVERYWHERE
    | {
        "metric": pl.String,
        "served": pl.String,
        "record": pl.UInt32,
        "calls": pl.UInt64,
        "elapsed_ns": pl.UInt64,
        "loop_ns": pl.Float64,
        "call_ns": pl.Float64,
        "cpu": pl.UInt32,
        "policy": pl.String,
        "slack_ns": pl.UInt64,
    },
    "reads": EVERYWHERE
    | {
        "source": pl.String,
        "cache": pl.String,
        "served": pl.String,
        "value_ticks": pl.UInt64,
        "value_ns": pl.Float64,
        "count": pl.UInt64,
        "empty_mean_ticks": pl.Float64,
        "empty_median_ticks": pl.Float64,
        "step_ticks": pl.UInt64,
        "ticks_per_ns": pl.Float64,
        "mean_ticks": pl.Float64,
        "sd_ticks": pl.Float64,
        "max_ticks": pl.UInt64,
        "cpu": pl.UInt32,
        "policy": pl.String,
    },
    "sleeps": EVERYWHERE
    | {
        "method": pl.String,
        "interval_ns": pl.UInt64,
        "slack_ns": pl.UInt64,
        "policy": pl.String,
        "sleep": pl.UInt64,
        "miss_ns": pl.Int64,
        "missed": pl.UInt32,
        "cpu_ns": pl.Float64,
        "reading_ns": pl.UInt64,
        "degradation": pl.String,
        "cpu": pl.UInt32,
    },
    "events": EVERYWHERE
    | {
        "source": pl.String,
        "place": pl.String,
        "interval_ns": pl.UInt64,
        "event": pl.UInt64,
        "at_ns": pl.Int64,
        "after_ns": pl.Int64,
        "missed_of_all": pl.UInt64,
        "degradation": pl.String,
        "cpu": pl.UInt32,
        "policy": pl.String,
    },
    "warps": EVERYWHERE
    | {
        "clock": pl.String,
        "cpu": pl.UInt32,
        "other_cpu": pl.UInt32,
        "looked_ns": pl.UInt64,
        "readings": pl.UInt64,
        "backwards": pl.UInt64,
        "worst_ns": pl.Float64,
        "smallest_visible_ns": pl.Float64,
    },
    "loads": EVERYWHERE
    | {
        "is_loading": pl.Boolean,
        "how": pl.String,
        "looked_ns": pl.UInt64,
        "cpu_percent": pl.Float64,
        "context_switches_per_second": pl.Float64,
        "interrupts_per_second": pl.Float64,
        "numbers_json": pl.String,
    },
}

# Which table a kind of measurement is in.
TABLE_OF: Mapping[str, str] = {
    "calls": "calls",
    "read": "reads",
    "sleep": "sleeps",
    "events": "events",
}

# As `eigentime bench` writes them.
ROW_GROUP = 100_000
# Rows that are in memory at once.
PART = 500_000


class Writer:
    """Writes a table, part by part."""

    def __init__(self, folder: Path, name: str) -> None:
        self._file = folder / f"{name}.parquet"
        self._parts = folder / f"{name}.parts"
        self._schema = TABLES[name]
        self._waiting: list[tuple[int, Mapping[str, Any]]] = []
        self._rows = 0
        self._written: list[Path] = []

    def add(self, columns: Mapping[str, Any]) -> None:
        """Add rows: columns are arrays of one length, or a value for all of these rows."""
        rows = max(len(it) if isinstance(it, np.ndarray) else 1 for it in columns.values())
        self._waiting.append((rows, columns))
        self._rows += rows
        if self._rows >= PART:
            self._parts.mkdir(exist_ok=True)
            part = self._parts / f"{len(self._written):06}.parquet"
            self._taken().write_parquet(part, compression="lz4")
            self._written.append(part)

    def finish(self) -> None:
        """Write the file."""
        if not self._written:
            self._taken().write_parquet(self._file, compression="snappy", row_group_size=ROW_GROUP)
            return
        parts = [pl.scan_parquet(part) for part in self._written]
        parts.append(self._taken().lazy())
        pl.concat(parts).sink_parquet(self._file, compression="snappy", row_group_size=ROW_GROUP)
        shutil.rmtree(self._parts)

    def _taken(self) -> pl.DataFrame:
        counts = [rows for rows, _ in self._waiting]
        taken = pl.DataFrame(
            [
                _series(name, [columns[name] for _, columns in self._waiting], kind, counts)
                for name, kind in self._schema.items()
            ]
        )
        self._waiting, self._rows = [], 0
        return taken


def _series(
    name: str, parts: Sequence[Any], kind: type[pl.DataType], counts: Sequence[int]
) -> pl.Series:
    """A column: each part is an array, or a value for as many rows."""
    if not any(isinstance(it, np.ndarray) for it in parts):
        places = np.repeat(np.arange(len(parts)), counts)
        return pl.Series(name, parts, dtype=kind).gather(places)
    rows = zip(parts, counts, strict=True)
    whole = np.ma.concatenate([it if np.ndim(it) else np.full(count, it) for it, count in rows])
    there = pl.Series(~np.ma.getmaskarray(whole))
    values = pl.Series(name, whole.data)
    return values.zip_with(there, pl.Series(name, [None], dtype=values.dtype)).cast(kind)
