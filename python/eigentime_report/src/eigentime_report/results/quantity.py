"""What is measured: names that stay, and the order in which they are shown."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eigentime_report.results.manifest import CLOSER, Metric
from eigentime_report.units import span, typed_span

CALLS, READ, SLEEP, EVENTS = "calls", "read", "sleep", "events"

CACHES = ("hot", "cold")
LOADS = ("idle", "cpu", "io", "network")
# The policy of threads that nobody gave another, and the kernel's own timer slack.
ORDINARY = "other"
USUAL_SLACK_NS = 50_000


@dataclass(frozen=True, repr=False)
class Quantity:
    """Something that is measured at levels and under loads.

    `name` is all of it: kind, subject and factors. `asked_ns` is how much of each value was asked
    for; what is more than this is how late it was.
    """

    kind: str
    name: str
    subject: str = field(compare=False)
    factors: Mapping[str, str] = field(compare=False)
    interval_ns: int | None = field(compare=False)
    meaning: str = field(compare=False)
    asked_ns: int = field(default=0, compare=False)
    # Whether values are better the closer they are to the interval: what is shown is by how much
    # they are not.
    is_deviation: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return self.name

    # As it is named everywhere, also where there is a list of them.
    __repr__ = __str__

    @property
    def measure(self) -> str:
        """What its values are, in a word: `duration`, `latency`."""
        if self.is_deviation:
            return "deviation of the interval"
        return self.meaning.partition(" of ")[0].lower()

    @property
    def title(self) -> str:
        """As `eigentime bench` calls it: `nanosleep 1 ms, fifo:50`, without what is usual."""
        name = self.subject
        if self.interval_ns is not None:
            name += f" {span(self.interval_ns)}"
        usual = {"policy": ORDINARY, "slack": span(USUAL_SLACK_NS)}
        for factor, value in self.factors.items():
            if factor == "interval" or usual.get(factor) == value:
                continue
            name += f", slack {value}" if factor == "slack" else f", {value}"
        return name


@dataclass(frozen=True)
class Kind:
    """What the quantities of a table are told apart by, its columns, and the column of their values."""

    name: str
    value: str
    subject: str
    factors: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a quantity is a combination of."""
        return (self.subject, *self.factors)

    def quantity(self, row: Mapping[str, Any], metrics: Sequence[Metric]) -> Quantity:
        """The quantity of a row."""
        subject = row[self.subject]
        factors = {it: row[it] for it in self.factors}
        words = [self.name, subject]
        if "interval_ns" in factors:
            words.append(typed_span(interval := factors.pop("interval_ns")))
            factors = {"interval": span(interval), **factors}
        words += [factors[it] for it in ("cache", "policy") if it in factors]
        slack = factors.pop("slack_ns", None)
        # Threads of real-time policies have none.
        if slack is not None and factors["policy"] == ORDINARY:
            factors["slack"] = span(slack)
            words.append(f"slack={typed_span(slack)}")
        its = next(it for it in metrics if (it.kind, it.name) == (self.name, subject))
        return Quantity(
            self.name,
            "/".join(words),
            subject,
            factors,
            row.get("interval_ns"),
            its.meaning,
            its.asked or 0,
            its.better == CLOSER,
        )

    def place(self, row: Mapping[str, Any], metrics: Sequence[Metric]) -> tuple[Any, ...]:
        """Where its quantity stands among those of this kind."""
        subjects = [it.name for it in metrics if it.kind == self.name]
        known = {self.subject: subjects, "cache": CACHES, "policy": (ORDINARY,)}
        return tuple(_order(known.get(it, ()))(row[it]) for it in self.columns)


def _order(known: Sequence[str]) -> Any:
    """A key: what is known in its order, then the rest in its own."""
    places = {it: place for place, it in enumerate(known)}
    return lambda value: (places.get(value, len(places)), value)


KINDS = (
    Kind(CALLS, "call_ns", "metric"),
    Kind(READ, "value_ns", "source", ("cache",)),
    Kind(SLEEP, "miss_ns", "method", ("interval_ns", "policy", "slack_ns")),
    Kind(EVENTS, "after_ns", "source", ("interval_ns",)),
)


def in_order(loads: Iterable[str]) -> tuple[str, ...]:
    """Loads as they are shown: idle first."""
    return tuple(sorted(set(loads), key=_order(LOADS)))
