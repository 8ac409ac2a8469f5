"""A table of GitHub's Markdown."""

from collections.abc import Iterable, Iterator

from eigentime_report.tables.table import Cell, Column, Table
from eigentime_report.tables.text import mark, text

# What Markdown or the HTML in it would take for its own.
ESCAPES = str.maketrans(
    {character: f"\\{character}" for character in "\\`*_[]<>|#~$"} | {"\n": " "}
)


def write_markdown(table: Table) -> str:
    """The title in bold, the table, and the notes as a list."""
    return "\n".join(_lines(table)) + "\n"


def _lines(table: Table) -> Iterator[str]:
    yield f"**{escape(table.title)}**"
    yield ""
    if table.caption:
        yield escape(table.caption)
        yield ""
    if table.is_empty:
        yield "Nothing was measured."
    else:
        yield _line(escape(_title(column)) for column in table.columns)
        yield _line(
            "---:" if column.align == "right" else ":---" for column in table.columns
        )
        for row in table.rows:
            yield _line(map(_cell, row.cells, table.columns))
    if table.notes:
        yield ""
        yield from (f"- {escape(note)}" for note in table.notes)


def _title(column: Column) -> str:
    return f"{column.band}: {column.title}" if column.band else column.title


def _cell(cell: Cell, column: Column) -> str:
    letter = mark(cell)
    return escape(text(cell, column)) + (
        f" <sup>{escape(letter)}</sup>" if letter else ""
    )


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escape(words: str) -> str:
    """Words as they are to be read, whatever Markdown would make of them."""
    return words.translate(ESCAPES)
