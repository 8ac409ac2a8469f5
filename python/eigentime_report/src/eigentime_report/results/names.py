"""Names of what was measured, by their parts, and what is near a name that nothing has."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from eigentime_report.results.quantity import Quantity

# So many names are offered for one that is not known.
OFFERED = 4


def having(parts: Iterable[str], quantities: Iterable[Quantity]) -> list[Quantity]:
    """The quantities whose names have all of these parts, in any order."""
    wanted = set(parts)
    return [it for it in quantities if wanted <= set(it.name.split("/"))]


def offered(wanted: Sequence[str], quantities: Iterable[Quantity]) -> str:
    """Parts of names that are like the unknown ones, or names that have the most parts."""
    names = [quantity.name for quantity in quantities]
    parts = list(dict.fromkeys(part for name in names for part in name.split("/")))
    unknown = [part for part in wanted if part not in parts]
    near = [like for part in unknown for like in like_it(part, parts)]
    if not near and len(unknown) < len(wanted):
        shared = {name: len({*wanted} & {*name.split("/")}) for name in names}
        near = sorted((it for it in names if shared[it]), key=lambda it: -shared[it])
    shown = ", ".join(list(dict.fromkeys(near or names))[:OFFERED])
    return (
        f"near it: {shown}" if near else f"there are {shown}, … ({len(names)} in all)"
    )


def like_it(name: str, known: Sequence[str]) -> list[str]:
    """Names that this is a piece of, or else those that are spelt nearly so."""
    pieces = [it for it in known if name.lower() in it.lower()]
    return pieces or get_close_matches(name, known, n=OFFERED, cutoff=0.6)
