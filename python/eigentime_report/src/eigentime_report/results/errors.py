"""What is wrong with a results folder, and text of it as everybody may see it."""

import re
from pathlib import Path

import polars as pl

AGAIN = "take it from a copy, or measure again"
VERSION = "report with the version of Eigentime that has measured it"

# Control characters, those that turn the direction of writing, and halves of characters.
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SPACES = "\t\n\v\f\r\x85\u2028\u2029"


class FolderError(Exception):
    """A folder that cannot be read: which file of it, for what reason, and what to do."""

    def __init__(self, path: Path, reason: str, way_out: str = AGAIN) -> None:
        super().__init__(path, reason, way_out)
        self.path = path
        self.reason = reason
        self.way_out = way_out

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}\nhelp: {self.way_out}"


def unreadable(path: Path, error: OSError) -> FolderError:
    """A file that this user cannot read, whatever is in it."""
    return FolderError(
        path,
        f"it cannot be read: {error.strerror or error}",
        "let this user read it, or name a copy that this user can read",
    )


def visible(text: str) -> str:
    r"""The text, in which ends of lines are spaces, and what nobody sees is told: `\x1b`."""

    def told(found: re.Match[str]) -> str:
        if found[0] in _SPACES:
            return " "
        return found[0].encode("unicode_escape").decode("ascii")

    return _HIDDEN.sub(told, text)


def visible_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """The same of all columns of text."""
    texts = [name for name, kind in rows.schema.items() if kind == pl.String]
    told = {it: {word: visible(word) for word in rows[it].unique().drop_nulls()} for it in texts}
    return rows.with_columns(pl.col(it).replace(told[it]) for it in texts)
