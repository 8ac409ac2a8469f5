"""Text of a folder as everybody may see it: nothing in it is taken for a command."""

import re

import polars as pl

# Control characters, those that turn the direction of writing, and halves of characters.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_SPACES = "\t\n\v\f\r\x85\u2028\u2029"


def visible(text: str) -> str:
    r"""The text, in which ends of lines are spaces, and what nobody sees is told: `\x1b`."""
    return _HIDDEN.sub(_told, text)


def _told(found: re.Match[str]) -> str:
    character = found[0]
    if character in _SPACES:
        return " "
    return character.encode("unicode_escape").decode("ascii")


def visible_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """The same of all columns of text."""
    told = {}
    for column in rows.iter_columns():
        if column.dtype == pl.String:
            words = {it: visible(it) for it in column.unique().drop_nulls()}
            hidden = {word: seen for word, seen in words.items() if word != seen}
            if hidden:
                told[column.name] = column.replace(hidden)
    return rows.with_columns(**told)
