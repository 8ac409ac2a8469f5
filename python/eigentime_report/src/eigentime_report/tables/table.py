"""A table as data, and its cells as text."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import Any, Literal, TypeAlias

import tomllib

from eigentime_report import units

Align: TypeAlias = Literal["left", "right"]
Unit: TypeAlias = Literal["", "ns", "%", "+%", "p", "df", "count", "number"]


@dataclass(frozen=True)
class Marked:
    """A value with a reference to a note."""

    value: float | int | str
    mark: str


@dataclass(frozen=True)
class Between:
    """An interval: one cell for readers, two columns of a CSV file.

    An end is None if there are too few values for it.
    """

    low: float | None
    high: float | None

    @classmethod
    def of(cls, estimate: Any) -> "Between | None":
        """The interval of an estimate, if there is one; None if neither end is known."""
        low, high = (getattr(estimate, name, None) for name in ("low", "high"))
        return None if low is None and high is None else cls(low, high)


# None is an empty cell: it was not measured, or does not apply.
Cell: TypeAlias = float | int | str | Marked | Between | None


@dataclass(frozen=True)
class Column:
    """A column; its unit determines the format of its numbers."""

    key: str
    title: str
    unit: Unit = ""
    # Adjacent columns with the same text here have it as a common heading.
    band: str = ""
    # The significant digits of its numbers, for readers.
    figures: int = units.FIGURES
    is_interval: bool = False
    # Where its cells come from: a path of attributes; by default its name.
    of: str = ""

    def cell(self, thing: Any) -> Cell:
        """The cell of this column in an item's row; nothing if an attribute on the path is None."""
        for name in (self.of or self.key).split("."):
            thing = None if thing is None else getattr(thing, name)
        found: Cell = Between.of(thing) if self.is_interval else thing
        return found

    @property
    def align(self) -> Align:
        """Text is aligned left, numbers right."""
        return "right" if self.unit or self.is_interval else "left"


@dataclass(frozen=True)
class Row:
    """A row; those of one group are together, with the group's name as their first cell."""

    cells: tuple[Cell, ...]
    group: str | None = None

    @classmethod
    def of(cls, columns: Iterable[Column], thing: Any, group: str | None = None) -> "Row":
        """The row of an item."""
        return cls(tuple(column.cell(thing) for column in columns), group)


@dataclass(frozen=True, repr=False)
class Table:
    """Rows and columns with a title, and notes below."""

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    caption: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(
                    f"table {self.key}: a row has {len(row.cells)} cells, and there are "
                    f"{len(self.columns)} columns"
                )

    def __repr__(self) -> str:
        rows = f"{len(self.rows)} row{'' if len(self.rows) == 1 else 's'}"
        columns = ", ".join(column.key for column in self.columns)
        return f"<Table {self.key}: {self.title}; {rows} of {columns}>"

    def _repr_html_(self) -> str:
        """The display in a notebook."""
        from eigentime_report.tables.writers import write

        return write(self, "html")

    @property
    def is_empty(self) -> bool:
        """Whether it has no rows."""
        return not self.rows

    def column(self, key: str) -> tuple[Cell, ...]:
        """The cells of a column."""
        keys = [column.key for column in self.columns]
        if key not in keys:
            raise KeyError(f"table {self.key} has no column {key}; it has {', '.join(keys)}")
        place = keys.index(key)
        return tuple(row.cells[place] for row in self.rows)

    def groups(self) -> Iterator[tuple[str | None, tuple[Row, ...]]]:
        """Rows of the same group; a row without a group is alone."""
        numbered = enumerate(self.rows)
        for (group, _), rows in groupby(
            numbered, key=lambda item: (item[1].group, item[0] if item[1].group is None else -1)
        ):
            yield group, tuple(row for _, row in rows)

    def bands(self) -> Iterator[tuple[str, tuple[Column, ...]]]:
        """Columns with a common heading."""
        for band, columns in groupby(self.columns, key=lambda column: column.band):
            yield band, tuple(columns)

    @property
    def is_banded(self) -> bool:
        """Whether any columns have a common heading."""
        return any(column.band for column in self.columns)


def plain(cell: Cell) -> float | int | str | Between | None:
    """The cell without its mark."""
    return cell.value if isinstance(cell, Marked) else cell


def tabled(
    name: str,
    rows: Iterable[Row | tuple[Any, str | None]],
    before: Iterable[str] = (),
    after: Iterable[str] = (),
    package: str = "eigentime_report.tables",
    **told: Any,
) -> Table:
    """A table defined in a package's `tables.toml`, filled with rows, or with items and their
    groups.

    Additional notes come before and after its own.
    """
    its, columns = text_data(package, "tables")[name], _columns(package, name)
    if "kind" in told:
        told["topic"] = topic(told["kind"])
    made = (it if isinstance(it, Row) else Row.of(columns, *it) for it in rows)
    words = (its["key"], its["title"], its.get("caption", ""), *its["notes"])
    key, title, caption, *notes = (it.format(**told) for it in words)
    return Table(key, title, columns, tuple(made), (*before, *notes, *after), caption)


def topic(kind: str) -> str:
    """The subject of a table of this kind: `Overhead of calls`."""
    return str(text_data("eigentime_report.tables", "tables")["topics"][kind])


@cache
def _columns(package: str, name: str) -> tuple[Column, ...]:
    """The columns of a table; an estimate `with_interval` has two of them."""
    found = []
    for its in text_data(package, "tables")[name]["columns"]:
        column = Column(**{key: it for key, it in its.items() if key != "with_interval"})
        if "with_interval" in its:
            of, key = column.of or column.key, f"{column.key}_interval"
            found.append(replace(column, of=f"{of}.value"))
            column = replace(column, key=key, title="CI", is_interval=True, of=of)
        found.append(column)
    return tuple(found)


@cache
def text_data(package: str, name: str) -> Mapping[str, Any]:
    """The contents of a TOML file in a package."""
    return tomllib.loads((files(package) / f"{name}.toml").read_text("utf-8"))


WRITTEN: Mapping[str, Callable[[float, int], str]] = {
    "": units.number,
    "number": units.number,
    "ns": lambda ns, figures: units.duration(ns, figures=figures),
    "%": lambda percent, figures: units.percent(percent / 100, sign=False),
    "+%": lambda percent, figures: units.percent(percent / 100),
    "p": lambda p, figures: units.p_value(p),
    "df": lambda df, figures: units.count(int(df)) if df == int(df) else units.number(df, 4),
    "count": lambda things, figures: units.count(int(things)),
}

# The suffix of a column's name in a file of raw numbers.
SUFFIXES: Mapping[str, str] = {"ns": "_ns", "%": "_percent", "+%": "_percent"}


def text(cell: Cell, column: Column) -> str:
    """The cell as a reader sees it, without its mark; empty for None."""
    value = plain(cell)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    write = WRITTEN[column.unit]
    if not isinstance(value, Between):
        return write(value, column.figures)
    low, high = (
        None if end is None else write(end, column.figures) for end in (value.low, value.high)
    )
    if low is None or high is None:
        return f"from {low}" if high is None else f"up to {high}"
    return f"{low} to {high}"


def mark(cell: Cell) -> str:
    """The reference to the note, if there is one."""
    return cell.mark if isinstance(cell, Marked) else ""
