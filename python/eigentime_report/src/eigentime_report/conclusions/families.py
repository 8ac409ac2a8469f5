"""What belongs together in a sentence: quantities that one reads about as one thing."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from eigentime_report.results import Quantity


@dataclass(frozen=True)
class Measure:
    """How one speaks of an amount: of one quantity, and of several."""

    verb: tuple[str, str]
    # "takes 38 times as long", "takes 3 % longer", "takes 3 % less time".
    as_much: str
    more: str
    less: str
    # "takes 20 ns", "ends 80 µs late".
    amount: str


TIME = Measure(("takes", "take"), "as long", "longer", "less time", "{}")
LATENESS = Measure(("ends", "end"), "as late", "later", "less late", "{} late")
SCATTER = Measure(("scatters", "scatter"), "as much", "more", "less", "by {}")


@dataclass(frozen=True)
class Family:
    """Quantities of one sort, and how one speaks of them."""

    key: str
    # The quantities' names that belong to it.
    pattern: str
    kind: str
    one: str
    many: str
    measure: Measure
    # In which order one reads about them: what is greater comes first.
    weight: int

    def counted(self, number: int) -> str:
        """`1 vDSO read`, `3 vDSO reads`."""
        return f"{number} {self.one if number == 1 else self.many}"

    def of_all(self, its: Iterable[Quantity], of: int) -> str:
        """`all 3 vDSO reads`, `2 of 3 vDSO reads`, or the name of a single one."""
        own = list(its)
        if len(own) < of:
            return f"{len(own)} of {self.counted(of)}"
        if of == 1:
            return own[0].title
        return f"both {self.many}" if of == 2 else f"all {self.counted(of)}"


# The first one that holds a quantity has it.
FAMILIES = (
    Family("vdso", "calls/vdso_", "calls", "vDSO read", "vDSO reads", TIME, 100),
    Family("sleeps", "calls/.*nanosleep$", "calls", "sleep of 100 ms", "sleeps of 100 ms", LATENESS, 80),
    Family("timers", "calls/timer", "calls", "timer call", "timer calls", TIME, 85),
    Family("system-calls", "calls/", "calls", "clock system call", "clock system calls", TIME, 90),
    Family("reads", "read/", "read", "single reading of a clock", "single readings of clocks", TIME, 70),
    Family("misses", "sleep/", "sleep", "sleep", "sleeps", LATENESS, 75),
    Family("events", "events/", "events", "timer", "timers", SCATTER, 65),
)  # fmt: skip


def family_of(quantity: Quantity) -> Family:
    """The family of a quantity."""
    return next(it for it in FAMILIES if re.match(it.pattern, quantity.name))


def by_family(quantities: Iterable[Quantity]) -> dict[Family, list[Quantity]]:
    """Quantities by their families, in the order in which one reads about them."""
    found: dict[Family, list[Quantity]] = {}
    for quantity in quantities:
        found.setdefault(family_of(quantity), []).append(quantity)
    return dict(sorted(found.items(), key=lambda item: -item[0].weight))
