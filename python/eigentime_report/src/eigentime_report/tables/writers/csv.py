"""Bare numbers with full precision; units are at the end of the columns' names.

Words are never formulas to a spreadsheet: names come from whoever has measured.
"""

import csv
import io
import re

from eigentime_report.tables.table import Between, Cell, Column, Table, plain
from eigentime_report.tables.text import SUFFIXES

# What a spreadsheet takes for the beginning of a formula (OWASP, "CSV Injection"); behind an
# apostrophe it is text.
FORMULA = tuple("=+-@＝＋－＠")


def write_csv(table: Table) -> str:
    """One line of names, and one for each row: no title, no notes, nothing rounded."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(name for column in table.columns for name in _names(column))
    for row in table.rows:
        pairs = zip(row.cells, table.columns, strict=True)
        writer.writerow(
            value for cell, column in pairs for value in _values(cell, column)
        )
    return out.getvalue()


def _names(column: Column) -> list[str]:
    suffix = SUFFIXES.get(column.unit, "")
    if column.is_interval:
        return [f"{column.key}_{end}{suffix}" for end in ("low", "high")]
    return [f"{column.key}{suffix}"]


def _values(cell: Cell, column: Column) -> list[str]:
    value = plain(cell)
    if isinstance(value, Between):
        return [_value(value.low), _value(value.high)]
    return [_value(value)] * (2 if column.is_interval else 1)


def _value(value: float | str | bool | None) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        # A row is a line, whatever its words are.
        words = re.sub(r"[\t\r\n]", " ", value)
        return f"'{words}" if words.lstrip().startswith(FORMULA) else words
    # The shortest text that is read back as the same number.
    return repr(value)
