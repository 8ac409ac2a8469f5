"""Common helpers: grouping, lists in words, and errors."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

Key = TypeVar("Key")
Item = TypeVar("Item")


class Refused(Exception):
    """A rejected request, with the reason and the remedy."""


def grouped(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """The items of each key, in their original order."""
    found: dict[Key, list[Item]] = {}
    for key, item in pairs:
        found.setdefault(key, []).append(item)
    return found


def once(items: Iterable[Item]) -> list[Item]:
    """The items without duplicates, in their order."""
    return list(dict.fromkeys(items))


def listed(words: Sequence[str], most: int = 6) -> str:
    """`a, b and c`; for many items the first ones, and the number of the rest."""
    shown = list(words)
    if len(shown) > most:
        shown = [*shown[: most - 1], f"{len(shown) - most + 1} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
