"""The results of many comparisons of clocks with the kernel's."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from eigenbench.bounds import RATE_ROWS
from eigenbench.precision import Record
from eigenbench.stats import percentile
from eigenbench.table import markdown as table

TITLES = {key: title for key, title, _ in RATE_ROWS}
# The time that the program takes to start.
START_S = 10.0


def summed(looks: Sequence[Record]) -> dict[str, Any]:
    """How far each clock drifted, and whether ours kept its stated bounds."""
    clocks = {}
    for name in looks[0]["ahead"] if looks else ():
        ahead = [look["ahead"][name] for look in looks]
        clocks[name] = {
            # Nanoseconds per second are parts per billion.
            "ppm": ahead[-1] / looks[-1]["seconds"] / 1e3,
            "end_ns": ahead[-1],
            "farthest_ns": max(ahead, key=abs),
        }
    bounds = [
        look["reading"]["bound"]
        for look in looks
        if look["reading"]["bound"] is not None
    ]
    return {
        "seconds": looks[-1]["seconds"] if looks else 0.0,
        "count": len(looks),
        "broken": sum(not look["held"] for look in looks),
        "bound_median_ns": median(bounds) if bounds else None,
        "bound_p99_ns": percentile(bounds, 99),
        "trust": sorted({look["trust"] for look in looks}),
        "clocks": clocks,
    }


def markdown(result: Mapping[str, Any]) -> str:
    """A small table, and a sentence about the bounds."""
    rows = [
        [
            TITLES.get(name, name),
            f"{clock['ppm']:+.4f}",
            f"{clock['end_ns'] / 1e3:+.3f}",
            f"{clock['farthest_ns'] / 1e3:+.3f}",
        ]
        for name, clock in result["clocks"].items()
    ]
    header = ["clock", "rate error, ppm", "ahead at the end, µs", "farthest, µs"]
    held = result["count"] - result["broken"]
    stated = (
        f"{result['bound_median_ns']:.0f} ns in the median, "
        f"{result['bound_p99_ns']:.0f} ns at p99"
        if result["bound_median_ns"] is not None
        else "none"
    )
    return (
        f"{table(header, 'lrrr', rows)}\n\n"
        f"Over {result['seconds']:.0f} s the stated bound held at {held} of "
        f"{result['count']} looks; it was {stated}. Trust: "
        f"{'; '.join(result['trust']) or 'nothing'}."
    )
