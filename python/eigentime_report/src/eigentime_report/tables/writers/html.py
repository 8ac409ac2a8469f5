"""A fragment of HTML: every cell of numbers has headers for those who hear the table."""

from collections.abc import Iterator
from html import escape

from eigentime_report.tables.table import Cell, Column, Row, Table
from eigentime_report.tables.text import mark, text


def write_html(table: Table) -> str:
    """A `figure` with the table and its notes; its id is the table's key."""
    return "\n".join(_lines(table)) + "\n"


def _lines(table: Table) -> Iterator[str]:
    key = escape(table.key)
    yield f'<figure class="table" id="{key}">'
    yield f'<div class="scroll" role="region" tabindex="0" aria-labelledby="{key}-title">'
    yield "<table>"
    caption = f" <span>{escape(table.caption)}</span>" if table.caption else ""
    yield f'<caption><strong id="{key}-title">{escape(table.title)}</strong>{caption}</caption>'
    yield "<thead>"
    yield from _head(table)
    yield "</thead>"
    if table.is_empty:
        yield f'<tbody><tr><td colspan="{len(table.columns)}">Nothing was measured.</td></tr></tbody>'
    for group, rows in table.groups():
        yield "<tbody>"
        for place, row in enumerate(rows):
            yield _row(
                table, row, span=0 if group and place else len(rows) if group else 1
            )
        yield "</tbody>"
    yield "</table>"
    yield "</div>"
    if table.notes:
        notes = "".join(f"<li>{escape(note)}</li>" for note in table.notes)
        yield f'<figcaption><ul class="notes">{notes}</ul></figcaption>'
    yield "</figure>"


def _head(table: Table) -> Iterator[str]:
    if not table.is_banded:
        yield f"<tr>{''.join(_header(column) for column in table.columns)}</tr>"
        return
    above = ""
    for band, columns in table.bands():
        if band:
            above += (
                f'<th scope="colgroup" colspan="{len(columns)}">{escape(band)}</th>'
            )
        else:
            above += "".join(_header(column, rows=2) for column in columns)
    yield f"<tr>{above}</tr>"
    yield f"<tr>{''.join(_header(column) for column in table.columns if column.band)}</tr>"


def _header(column: Column, rows: int = 1) -> str:
    span = f' rowspan="{rows}"' if rows > 1 else ""
    return f'<th scope="col"{span}{_class(column)}>{escape(column.title)}</th>'


def _row(table: Table, row: Row, span: int) -> str:
    """`span`: over how many rows the first cell goes; 0 where one above goes over it."""
    first, *others = zip(row.cells, table.columns, strict=True)
    cells = "".join(
        f"<td{_plain(column)}>{_cell(cell, column)}</td>" for cell, column in others
    )
    scope = f'scope="rowgroup" rowspan="{span}"' if span > 1 else 'scope="row"'
    head = f"<th {scope}>{_breakable(_cell(*first))}</th>" if span else ""
    return f"<tr>{head}{cells}</tr>"


def _breakable(name: str) -> str:
    """A name that is broken behind its underscores where there is no room for it."""
    return name.replace("_", "_<wbr>")


def _class(column: Column) -> str:
    return ' class="number"' if column.align == "right" else ""


def _plain(column: Column) -> str:
    """Most cells are numbers, and need no word for it."""
    return "" if column.align == "right" else ' class="text"'


def _cell(cell: Cell, column: Column) -> str:
    letter = mark(cell)
    return escape(text(cell, column)) + (
        f"<sup>{escape(letter)}</sup>" if letter else ""
    )
