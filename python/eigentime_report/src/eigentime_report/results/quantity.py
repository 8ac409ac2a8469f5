"""What is measured: names that stay, and the order in which they are shown."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eigentime_report.units import span, typed_span

CALLS = "calls"
READ = "read"
SLEEP = "sleep"
EVENTS = "events"

# The probe's lists, in its order.
METRICS = (
    "clock_nanosleep", "nanosleep", "clock_getres", "clock_gettime_boottime",
    "clock_gettime_monotonic", "gettimeofday", "timer_create", "timer_settime", "timer_delete",
    "timer_getoverrun", "timerfd_create", "timerfd_settime", "vdso_clock_gettime_boottime",
    "vdso_clock_gettime_monotonic", "vdso_gettimeofday",
)  # fmt: skip
READS = ("tsc", "clock_gettime", "clock_gettime_raw", "library")
CACHES = ("hot", "cold")
METHODS = (
    "usleep", "nanosleep", "clock_nanosleep", "timerfd", "posix_timer", "epoll", "sleeper",
)  # fmt: skip
SOURCES = ("timerfd", "clock_nanosleep", "ticker", "bpf_timer", "hrtimer")
LOADS = ("idle", "cpu", "io", "network")

# Metrics of calls that sleep, and what for.
ASLEEP = frozenset(METRICS[:2])
ASLEEP_NS = 100_000_000
# The policy of threads that nobody gave another, and the kernel's own timer slack.
ORDINARY = "other"
USUAL_SLACK_NS = 50_000


@dataclass(frozen=True, repr=False)
class Quantity:
    """Something that is measured at levels and under loads.

    `name` is all of it: kind, subject and factors.
    """

    kind: str
    name: str
    subject: str = field(compare=False)
    factors: Mapping[str, str] = field(compare=False)
    interval_ns: int | None = field(compare=False)
    meaning: str = field(compare=False)

    def __str__(self) -> str:
        return self.name

    # As it is named everywhere, also where there is a list of them.
    __repr__ = __str__

    @property
    def asked_ns(self) -> int:
        """How much of each value was asked for; what is more than this is how late it was."""
        is_asleep = self.kind == CALLS and self.subject in ASLEEP
        return ASLEEP_NS if is_asleep else 0

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
    """What the quantities of a table are told apart by: its columns."""

    name: str
    subject: str
    factors: tuple[str, ...]
    meaning: str
    # Known subjects, in the order in which they are shown.
    subjects: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a quantity is a combination of."""
        return (self.subject, *self.factors)

    def quantity(self, row: Mapping[str, Any]) -> Quantity:
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
        meaning = self.meaning
        if self.name == CALLS and subject in ASLEEP:
            meaning = f"time of one call, asked for {span(ASLEEP_NS)}"
        interval_ns = row.get("interval_ns")
        return Quantity(self.name, "/".join(words), subject, factors, interval_ns, meaning)

    def place(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        """Where its quantity stands among those of this kind."""
        known = {self.subject: self.subjects, "cache": CACHES, "policy": (ORDINARY,)}
        return tuple(_order(known.get(it, ()))(row[it]) for it in self.columns)


def _order(known: Sequence[str]) -> Any:
    """A key: what is known in its order, then the rest in its own."""
    places = {it: place for place, it in enumerate(known)}
    return lambda value: (places.get(value, len(places)), value)


KINDS = (
    Kind(CALLS, "metric", (), "time of one call", METRICS),
    Kind(READ, "source", ("cache",), "time of one reading", READS),
    Kind(SLEEP, "method", ("interval_ns", "policy", "slack_ns"), "miss time", METHODS),
    Kind(EVENTS, "source", ("interval_ns",), "deviation of the interval", SOURCES),
)


def in_order(loads: Iterable[str]) -> tuple[str, ...]:
    """Loads as they are shown: idle first."""
    return tuple(sorted(set(loads), key=_order(LOADS)))
