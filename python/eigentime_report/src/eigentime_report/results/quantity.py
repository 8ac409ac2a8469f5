"""Quantities: their stable names, and their order."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eigentime_report.results.manifest import CLOSER, Metric
from eigentime_report.units import span, typed_span

CALLS, READ, SLEEP, EVENTS = "calls", "read", "sleep", "events"

CACHES = ("hot", "cold")
LOADS = ("idle", "cpu", "io", "network")
# The default policy of threads, and the kernel's default timer slack.
ORDINARY = "other"
USUAL_SLACK_NS = 50_000


@dataclass(frozen=True, repr=False)
class Quantity:
    """A quantity that is measured at levels and under loads.

    `name` contains everything: kind, subject and factors. `asked_ns` is the requested part of
    each value; the rest is lateness.
    """

    kind: str
    name: str
    subject: str = field(compare=False)
    factors: Mapping[str, str] = field(compare=False)
    interval_ns: int | None = field(compare=False)
    meaning: str = field(compare=False)
    asked_ns: int = field(default=0, compare=False)
    # Whether values closer to the interval are better: then the deviation from it is shown.
    is_deviation: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return self.name

    # Its unambiguous name, also for lists.
    __repr__ = __str__

    @property
    def measure(self) -> str:
        """What its values are, in one word: `duration`, `latency`."""
        if self.is_deviation:
            return "deviation of the interval"
        return self.meaning.partition(" of ")[0].lower()

    @property
    def title(self) -> str:
        """Its title in `eigentime bench`: `nanosleep 1 ms, fifo:50`, without defaults."""
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
    """A kind of quantity: the columns that distinguish quantities, and the column of their
    values."""

    name: str
    value: str
    subject: str
    factors: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns whose combination is a quantity."""
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
        # Threads with real-time policies have none.
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
        """Its position among the quantities of its kind."""
        subjects = [it.name for it in metrics if it.kind == self.name]
        known = {self.subject: subjects, "cache": CACHES, "policy": (ORDINARY,)}
        return tuple(_order(known.get(it, ()))(row[it]) for it in self.columns)


def _order(known: Sequence[str]) -> Any:
    """A sort key: known names in their order, then the rest in its own."""
    places = {it: place for place, it in enumerate(known)}
    return lambda value: (places.get(value, len(places)), value)


KINDS = (
    Kind(CALLS, "call_ns", "metric"),
    Kind(READ, "value_ns", "source", ("cache",)),
    Kind(SLEEP, "miss_ns", "method", ("interval_ns", "policy", "slack_ns")),
    Kind(EVENTS, "after_ns", "source", ("interval_ns",)),
)


def in_order(loads: Iterable[str]) -> tuple[str, ...]:
    """Loads in the order in which they are shown: idle first."""
    return tuple(sorted(set(loads), key=_order(LOADS)))
