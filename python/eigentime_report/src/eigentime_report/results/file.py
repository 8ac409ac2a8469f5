"""A Parquet file, read a part at a time.

The rows of a step are of one kind: nearly all of their columns are the same. So a table
is kept as *stretches*, a row for each run of rows in which these columns do not change,
and an array for each column that does.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from eigentime_report.results.bounds import beyond
from eigentime_report.results.errors import FolderError, unreadable
from eigentime_report.results.tables import Table, schema_of
from eigentime_report.results.visible import visible_rows

# Rows that are read at once.
PART = 500_000

AGAIN = "take it from a copy, or measure again"
VERSION = "report with the version of Eigentime that has measured it"

# How the arrays of varying columns are kept.
KEPT: Mapping[str, type[np.generic]] = {
    "missed": np.uint32,
    "count": np.int64,
    "value_ticks": np.int64,
}

Array = NDArray[Any]


@dataclass(frozen=True)
class Content:
    """The rows of a file: `stretches` have the steady columns, `begin` and `length`.

    These are about samples; `rows` counts all rows of a stretch, and `first` is the place of
    its first one in its step.
    """

    stretches: pl.DataFrame
    arrays: dict[str, Array]
    # How many samples.
    rows: int


class File:
    """A table of a folder, opened."""

    def __init__(self, path: Path, table: Table) -> None:
        self.path = path
        self._table = table
        _check_readable(path)
        with _reading(self.path):
            self._frame = pl.scan_parquet(self.path, glob=False)
            schema = self._frame.collect_schema()
            self.rows: int = self._frame.select(pl.len()).collect().item()
        self._check_types(schema)

    def whole(self) -> pl.DataFrame:
        """All rows of the columns that are known, of a table that is small."""
        with _reading(self.path):
            frame = self._frame.select(list(self._table.columns)).collect()
        return visible_rows(self._checked(frame))

    def content(self) -> Content:
        """All rows, as stretches and arrays."""
        table = self._table
        arrays = {
            name: np.empty(self.rows, dtype=KEPT.get(name, np.float64))
            for name in table.varying
        }
        stretches = []
        filled = 0
        for part in self._parts():
            begin = np.flatnonzero(_changes(part, list(table.steady), table.index))
            is_sample = np.ones(len(part), dtype=np.int64)
            if table.only_with:
                is_sample = part[table.only_with].is_not_null().to_numpy().astype(int)
            samples = part.filter(is_sample.astype(bool))
            length = np.add.reduceat(is_sample, begin)
            ends = filled + np.cumsum(length)
            rows = np.diff(begin, append=len(part))
            first = part[table.index].to_numpy()[begin] if table.index else 0 * begin
            stretches.append(
                visible_rows(part[begin].select(list(table.steady))).with_columns(
                    pl.Series("begin", ends - length, dtype=pl.Int64),
                    pl.Series("length", length, dtype=pl.Int64),
                    pl.Series("rows", rows, dtype=pl.Int64),
                    pl.Series("first", first, dtype=pl.Int64),
                )
            )
            for name, array in arrays.items():
                array[filled : filled + len(samples)] = samples[name].to_numpy()
            filled += len(samples)
        kept = {name: array[:filled] for name, array in arrays.items()}
        if not stretches:
            return Content(pl.DataFrame(), kept, 0)
        return Content(_joined(pl.concat(stretches), table), kept, filled)

    def _parts(self) -> Iterator[pl.DataFrame]:
        columns = list(self._table.columns)
        for begin in range(0, self.rows, PART):
            with _reading(self.path):
                part = self._frame.select(columns).slice(begin, PART).collect()
            yield self._checked(part)

    def _check_types(self, schema: pl.Schema) -> None:
        for name, kind in self._table.columns.items():
            if name not in schema:
                raise FolderError(self.path, f"it has no column {name!r}", VERSION)
            if not kind.holds(schema[name]):
                reason = f"column {name!r} holds {schema[name]}, and not {kind.value}"
                raise FolderError(self.path, reason, VERSION)

    def _checked(self, part: pl.DataFrame) -> pl.DataFrame:
        """These rows, whose values can all be, as they are kept."""
        for column in part.iter_columns():
            missing = column.null_count()
            if missing and column.name not in self._table.optional:
                raise self._wrong(
                    f"column {column.name!r} has {missing} rows without a value"
                )
        only, index = self._table.only_with, self._table.index
        if only and index:
            is_first = part[index] == 0
            for wrong, place in (
                (
                    part[only].is_null() & ~is_first,
                    "without a value that are not the first",
                ),
                (
                    part[only].is_not_null() & is_first,
                    "with a value that are the first",
                ),
            ):
                if rows := wrong.sum():
                    raise self._wrong(
                        f"column {only!r} has {rows} rows {place} of their step"
                    )
        if reason := beyond(part):
            raise self._wrong(reason)
        return part.cast(schema_of(self._table.columns))

    def _wrong(self, reason: str) -> FolderError:
        return FolderError(self.path, reason, AGAIN)


def _check_readable(path: Path) -> None:
    """What keeps everybody from reading it says nothing of what is in it."""
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise unreadable(path, error) from error


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """What polars says of a file that it cannot read is said as ours."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        said = str(error).partition("\n")[0]
        raise FolderError(
            path, f"it is no whole Parquet file: {said}", AGAIN
        ) from error


def _changes(
    part: pl.DataFrame, columns: list[str], index: str | None
) -> NDArray[np.bool_]:
    """In which rows anything differs from the row before, or does not go on from it."""
    differs = [pl.col(name).ne_missing(pl.col(name).shift(1)) for name in columns]
    if index:
        place = pl.col(index).cast(pl.Int64)
        differs.append(place.ne_missing(place.shift(1) + 1))
    return _any(part, differs)


def _any(rows: pl.DataFrame, differs: list[pl.Expr]) -> NDArray[np.bool_]:
    """In which rows any of these is so; the first one always counts."""
    found = np.array(rows.select(pl.any_horizontal(differs).alias("any"))["any"])
    found[0] = True
    return found


def _joined(stretches: pl.DataFrame, table: Table) -> pl.DataFrame:
    """The same stretches, where the end of a part has divided none."""
    steady = [pl.col(name).ne_missing(pl.col(name).shift(1)) for name in table.steady]
    goes_on = pl.col("first") == pl.col("first").shift(1) + pl.col("rows").shift(1)
    first = np.flatnonzero(
        _any(stretches, [*steady, ~goes_on] if table.index else steady)
    )
    sums = [
        pl.Series(name, np.add.reduceat(stretches[name].to_numpy(), first))
        for name in ("length", "rows")
    ]
    return stretches[first].with_columns(sums)
