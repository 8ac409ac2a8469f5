"""The Parquet files: the columns to read, the valid values, and the error messages."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TypeAlias

import polars as pl

from eigentime_report.basics import Refused

AGAIN = "take it from a copy, or measure again"
VERSION = "report with the version of Eigentime that has measured it"

# Control characters, those that change the direction of text, and surrogates.
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SPACES = "\t\n\v\f\r\x85\u2028\u2029"


class FolderError(Refused):
    """A folder that cannot be read: the file, the reason, and the remedy."""

    def __init__(self, path: Path, reason: str, way_out: str = AGAIN) -> None:
        super().__init__(path, reason, way_out)
        self.path = path
        self.reason = reason
        self.way_out = way_out

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}\nhelp: {self.way_out}"


def unreadable(path: Path, error: OSError) -> FolderError:
    """A file that this user cannot read, whatever its contents."""
    return FolderError(
        path,
        f"it cannot be read: {error.strerror or error}",
        "let this user read it, or name a copy that this user can read",
    )


def visible(text: str) -> str:
    r"""The text with newlines as spaces, and invisible characters escaped: `\x1b`."""

    def told(found: re.Match[str]) -> str:
        if found[0] in _SPACES:
            return " "
        return found[0].encode("unicode_escape").decode("ascii")

    return _HIDDEN.sub(told, text)


def visible_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """The same for all text columns."""
    texts = [name for name, kind in rows.schema.items() if kind == pl.String]
    words = {it: rows[it].unique().drop_nulls() for it in texts}
    told = {it: {word: visible(word) for word in its} for it, its in words.items()}
    hidden = [it for it, its in told.items() if any(word != said for word, said in its.items())]
    return rows.with_columns(pl.col(it).replace(told[it]) for it in hidden) if hidden else rows


# Counts are stored in signed 64-bit integers.
MOST = 2**63 - 1
# The number of rows read at a time.
PART = 500_000

Type: TypeAlias = type[pl.DataType]
Columns: TypeAlias = Mapping[str, Type]

# The types of columns: their names in messages, and their representation in files.
HOLD: Mapping[Type, tuple[str, Callable[[pl.DataType], bool]]] = {
    pl.String: ("text", lambda it: it in (pl.String, pl.Categorical, pl.Enum)),
    pl.Int64: ("whole numbers", lambda it: it.is_integer()),
    pl.Float64: ("numbers", lambda it: it.is_numeric()),
    pl.Boolean: ("true and false", lambda it: it == pl.Boolean),
}


def _columns(text: str = "", count: str = "", number: str = "") -> dict[str, Type]:
    kinds: dict[Type, str] = {pl.String: text, pl.Int64: count, pl.Float64: number}
    return {name: kind for kind, names in kinds.items() for name in names.split()}


@dataclass(frozen=True)
class Table:
    """The columns to read from a file."""

    # The kind of its measurements; None for loads, which every run has.
    kind: str | None
    file: str
    # The same in all rows of a step.
    steady: Columns
    # Different in each row.
    varying: Columns = field(default_factory=dict)
    # A column that may be null.
    optional: str = ""
    # The index of a row in its step, from 0; empty if they have no order.
    index: str = ""

    @property
    def columns(self) -> Columns:
        """All columns to read."""
        index = {self.index: pl.Int64} if self.index else {}
        return {**self.steady, **self.varying, **index}


EVERYWHERE = _columns("run machine level load", "block order")

SAMPLES = (
    Table(
        "calls",
        "calls.parquet",
        EVERYWHERE | _columns("metric served policy", "calls slack_ns", "loop_ns"),
        _columns(number="call_ns"),
        index="record",
    ),
    Table(
        "read",
        "reads.parquet",
        EVERYWHERE
        | _columns(
            "source cache served",
            "step_ticks max_ticks",
            "empty_mean_ticks empty_median_ticks ticks_per_ns mean_ticks sd_ticks",
        ),
        _columns("", "value_ticks count", "value_ns"),
        optional="served",
    ),
    Table(
        "sleep",
        "sleeps.parquet",
        EVERYWHERE
        | _columns("method policy degradation", "interval_ns slack_ns reading_ns", "cpu_ns"),
        _columns("", "missed", "miss_ns"),
        index="sleep",
    ),
    # The first event of a step has no predecessor and is not a sample; all others are.
    Table(
        "events",
        "events.parquet",
        EVERYWHERE | _columns("source place degradation policy", "interval_ns missed_of_all"),
        _columns(number="after_ns"),
        optional="after_ns",
        index="event",
    ),
)
WARPS = Table(
    "warp",
    "warps.parquet",
    EVERYWHERE
    | _columns(
        "clock", "cpu other_cpu looked_ns readings backwards", "worst_ns smallest_visible_ns"
    ),
)
LOADS = Table(
    None,
    "loads.parquet",
    EVERYWHERE
    | {"is_loading": pl.Boolean}
    | _columns(
        "how numbers_json",
        "looked_ns",
        "cpu_percent context_switches_per_second interrupts_per_second",
    ),
)

# The nanoseconds of a year: no measurement takes longer.
YEAR = 366 * 86_400 * 10**9
Bounds: TypeAlias = tuple[pl.Expr | float, pl.Expr | float]
TIME: Bounds = (0, YEAR)
# Clocks may go back, and wake-ups may be early.
DIFFERENCE: Bounds = (-YEAR, YEAR)
TICKS: Bounds = (0, 1e18)
RATE: Bounds = (0, 1e15)
COUNTS: Bounds = (0, MOST)

# The lowest and the highest valid value: anything beyond is damage, not a measurement. A name means
# the same in all tables.
BOUNDS: Mapping[str, Bounds] = {
    **dict.fromkeys(("loop_ns", "interval_ns", "cpu_ns", "reading_ns", "looked_ns"), TIME),
    **dict.fromkeys(("worst_ns", "smallest_visible_ns"), TIME),
    **dict.fromkeys(("value_ns", "miss_ns", "after_ns"), DIFFERENCE),
    **dict.fromkeys(("empty_mean_ticks", "empty_median_ticks", "mean_ticks", "sd_ticks"), TICKS),
    **dict.fromkeys(("context_switches_per_second", "interrupts_per_second"), RATE),
    **dict.fromkeys(("calls", "count"), (1, MOST)),
    # The loop is subtracted from their total.
    "call_ns": (-pl.col("loop_ns"), YEAR),
    "step_ticks": (1, 1e18),
    "ticks_per_ns": (1e-9, 1e6),
    "missed": (0, 2**32 - 1),
    "backwards": (0, pl.col("readings")),
    # A rounded share may be slightly above the total.
    "cpu_percent": (0, 100.01),
}


def whole(path: Path, table: Table) -> pl.DataFrame:
    """All rows of a small table."""
    empty = pl.DataFrame(schema=dict(table.columns))
    return visible_rows(pl.concat([empty, *_parts(path, table)]))


def steps(path: Path, table: Table) -> pl.DataFrame:
    """The samples of a table, in parts: a row for each step or part of one, with lists of values.

    All other columns are constant in a step. `rows` is the number of all rows, including those
    without a sample, and `again` says that some are duplicates.
    """
    found = []
    for part in _parts(path, table):
        twice = pl.col(table.index).n_unique() < pl.len() if table.index else pl.lit(False)
        found.append(
            part.group_by(list(table.steady), maintain_order=True).agg(
                pl.col(list(table.varying)).drop_nulls(), rows=pl.len().cast(pl.Int64), again=twice
            )
        )
    return visible_rows(pl.concat(found)) if found else pl.DataFrame()


def _parts(path: Path, table: Table) -> Iterator[pl.DataFrame]:
    """The rows of a file, with checked values."""
    try:
        # A file that nobody can read may still be intact.
        with path.open("rb"):
            pass
    except OSError as error:
        raise unreadable(path, error) from error
    with _reading(path):
        frame = pl.scan_parquet(path, glob=False)
        schema = frame.collect_schema()
    for name, kind in table.columns.items():
        word, holds = HOLD[kind]
        if name not in schema:
            raise FolderError(path, f"it has no column {name!r}", VERSION)
        if not holds(schema[name]):
            reason = f"column {name!r} holds {schema[name]}, and not {word}"
            raise FolderError(path, reason, VERSION)
    for begin in count(0, PART):
        with _reading(path):
            part = frame.select(list(table.columns)).slice(begin, PART).collect()
        if wrong := _wrong(part, table):
            raise FolderError(path, wrong)
        if len(part):
            yield part.cast(pl.Schema(table.columns))
        if len(part) < PART:
            return


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Converts polars' errors of reading a file to ours."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        said = str(error).partition("\n")[0]
        raise FolderError(path, f"it is no whole Parquet file: {said}") from error


def _wrong(part: pl.DataFrame, table: Table) -> str | None:
    """The message for the first column with an invalid value."""
    checks = list(_checks(part.schema, table))
    counts = part.select(
        is_wrong.sum().alias(str(at)) for at, (_, is_wrong, _) in enumerate(checks)
    )
    for rows, (name, is_wrong, reason) in zip(counts.row(0), checks, strict=True):
        if rows:
            value = part.filter(is_wrong)[name][0]
            return f"column {name!r} has {reason.format(rows=rows, value=value)}"
    return None


def _checks(schema: pl.Schema, table: Table) -> Iterator[tuple[str, pl.Expr, str]]:
    """By column, which values are invalid, and why."""
    index = pl.col(table.index)
    for name, kind in schema.items():
        column, (least, most) = pl.col(name), BOUNDS.get(name, COUNTS)
        without, first = column.is_null(), "a value that are {}the first of their step"
        if name != table.optional:
            yield name, without, "{rows} rows without a value"
        elif name in table.varying:
            yield name, without & (index != 0), "{rows} rows without " + first.format("not ")
            yield name, ~without & (index == 0), "{rows} rows with " + first.format("")
        if kind.is_float():
            yield name, ~column.is_finite(), "{value}, which is no finite number"
        if kind.is_numeric():
            yield name, column < least, "{value}, which is less than it can be"
            yield name, column > most, "{value}, which is more than it can be"
