"""A JSON document that says where in it something is not as it should be."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from eigentime_report.results.bounds import MOST
from eigentime_report.results.errors import FolderError
from eigentime_report.results.visible import visible


class Tree:
    """A value of a document, and the way to it."""

    def __init__(self, value: Any, file: Path, way_out: str, at: str = "") -> None:
        self._value = value
        self._file = file
        self._way_out = way_out
        self._at = at

    def __getitem__(self, key: str) -> "Tree":
        """A member that has to be there."""
        if key not in self._members():
            raise self._wrong(f"has no {key!r}")
        return self._below(key)

    def __iter__(self) -> Iterator["Tree"]:
        """The items of a list."""
        if not isinstance(self._value, list):
            raise self._wrong("is no list")
        for index, item in enumerate(self._value):
            yield Tree(item, self._file, self._way_out, f"{self._at}[{index}]")

    # One that is null, false or empty is there all the same: only `get` tells.
    def __bool__(self) -> bool:
        return True

    def get(self, key: str) -> "Tree | None":
        """A member, unless it is missing or null."""
        return None if self._members().get(key) is None else self._below(key)

    def items(self) -> Iterator[tuple[str, "Tree"]]:
        """The members of an object."""
        for key in self._members():
            yield key, self._below(key)

    def text(self) -> str:
        """A text."""
        if not isinstance(self._value, str):
            raise self._wrong("is no text")
        return visible(self._value)

    def lines(self) -> str:
        """A text whose lines are told apart, as the last words of a program."""
        if not isinstance(self._value, str):
            raise self._wrong("is no text")
        return "\n".join(map(visible, self._value.split("\n")))

    def text_of(self, key: str) -> str | None:
        """A member that is a text, unless it is missing or null."""
        it = self.get(key)
        return it.text() if it else None

    def one_of(self, known: Collection[str]) -> str:
        """A text that is one of these."""
        text = self.text()
        if text not in known:
            raise self._wrong(f"is {text!r}, and none of {', '.join(known)}")
        return text

    def count(self, most: int = MOST) -> int:
        """A whole number from 0."""
        value = self._value
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self._wrong("is no count")
        if value > most:
            raise self._wrong(f"is more than {most}")
        return value

    def plain(self) -> int | float | bool | str:
        """A number, a text, or whether."""
        if not isinstance(self._value, int | float | str):
            raise self._wrong("is neither number nor text")
        return self.text() if isinstance(self._value, str) else self._value

    def _members(self) -> dict[str, Any]:
        if not isinstance(self._value, dict):
            raise self._wrong("is no object")
        return self._value

    def _below(self, key: str) -> "Tree":
        at = f"{self._at}.{key}" if self._at else key
        return Tree(self._members()[key], self._file, self._way_out, at)

    def _wrong(self, reason: str) -> FolderError:
        return FolderError(
            self._file, f"{self._at or 'the document'} {reason}", self._way_out
        )
