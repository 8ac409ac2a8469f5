"""Cells as text, by the unit of their column."""

from collections.abc import Callable, Mapping, Sequence

from eigentime_report import units
from eigentime_report.tables.table import Between, Cell, Column, Marked, plain

WRITTEN: Mapping[str, Callable[[float, int], str]] = {
    "": units.number,
    "number": units.number,
    "ns": lambda ns, figures: units.duration(ns, figures=figures),
    "%": lambda percent, figures: units.percent(percent / 100, sign=False),
    "+%": lambda percent, figures: units.percent(percent / 100),
    "p": lambda p, figures: units.p_value(p),
    "df": lambda df, figures: units.count(int(df)) if df == int(df) else units.number(df, 4),
    "count": lambda things, figures: units.count(int(things)),
    "times": units.times,
}

# What is added to the name of a column in a file of bare numbers.
SUFFIXES: Mapping[str, str] = {"ns": "_ns", "%": "_percent", "+%": "_percent", "times": "_times"}


# How a title says under which load something was measured.
UNDER: Mapping[str, str] = {
    "idle": "when idle",
    "cpu": "under CPU load",
    "io": "under I/O load",
    "network": "under network load",
}


def under(load: str) -> str:
    """The load in words: `under CPU load`; one that has another name is called by that."""
    return UNDER.get(load, f"under the load {load}")


def text(cell: Cell, column: Column) -> str:
    """The cell as a reader sees it, without its mark; nothing where nothing is."""
    value = plain(cell)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
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
    """The letter of the note, if there is one."""
    return cell.mark if isinstance(cell, Marked) else ""


def listed(words: Sequence[str], most: int = 6) -> str:
    """`a, b and c`; of many the first ones, and how many more there are."""
    shown = list(words)
    if len(shown) > most:
        shown = [*shown[: most - 1], f"{len(shown) - most + 1} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
