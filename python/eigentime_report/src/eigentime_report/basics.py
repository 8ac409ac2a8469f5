"""What all parts use: things that belong together, how several are told, and what is refused."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

Key = TypeVar("Key")
Item = TypeVar("Item")


class Refused(Exception):
    """What cannot be done, with the reason and the way out."""


def grouped(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """The items of each key, in the order in which they come."""
    found: dict[Key, list[Item]] = {}
    for key, item in pairs:
        found.setdefault(key, []).append(item)
    return found


def once(items: Iterable[Item]) -> list[Item]:
    """Each of them once, in their order."""
    return list(dict.fromkeys(items))


def listed(words: Sequence[str], most: int = 6) -> str:
    """`a, b and c`; of many the first ones, and how many more there are."""
    shown = list(words)
    if len(shown) > most:
        shown = [*shown[: most - 1], f"{len(shown) - most + 1} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
