"""What tables show of a quantity at two places, and whether it can be called better there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from eigentime_report.analysis import COMPARED, missed_share
from eigentime_report.results import Cell

# What has to be no worse, where less of what is compared is called better.
NO_WORSE: Mapping[str, Mapping[str, Callable[[Cell], float]]] = {
    "sleep": {"the p99": lambda cell: cell.quantile(0.99)},
    "events": {
        "the p99": lambda cell: cell.quantile(0.99),
        "the share of missed events": missed_share,
    },
}


@dataclass(frozen=True)
class Shown:
    """The mean, median or SD of all values there was, and is: of sleeps, how late they end."""

    was: float
    now: float

    @property
    def difference(self) -> float:
        """In nanoseconds."""
        return self.now - self.was

    @property
    def change(self) -> float | None:
        """As a part of what was; None where there was nothing."""
        return self.difference / self.was if self.was > 0 else None


def shown(base: Cell, other: Cell) -> Shown:
    """Of the level or load that is set against the first one."""
    asked = base.quantity.asked_ns
    statistic = COMPARED[base.quantity.kind]
    was, now = (float(getattr(cell, statistic)) - asked for cell in (base, other))
    return Shown(was, now)


def against(base: Cell, other: Cell, *, is_more: bool) -> Sequence[str]:
    """What is to the other side than the test says, by the names of its measures."""
    names = {"mean": "the mean", "median": "the median", "sd": "the SD"}
    difference = shown(base, other).difference
    found = []
    if difference < 0 if is_more else difference > 0:
        found.append(names[COMPARED[base.quantity.kind]])
    if not is_more:
        worse = NO_WORSE.get(base.quantity.kind, {})
        found += [name for name, of in worse.items() if of(other) > of(base)]
    return found
