"""What is measured, and which values come of it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Columns = dict[str, Any]

# Scatter of each shape: mean 0, standard deviation 1.
SHAPES: Mapping[str, Callable[[np.random.Generator, int], Floats]] = {
    "normal": lambda lots, count: lots.standard_normal(count),
    "constant": lambda _, count: np.zeros(count),
    "exponential": lambda lots, count: lots.standard_exponential(count) - 1,
    # A long tail: sigma 1.
    "lognormal": lambda lots, count: (
        (lots.lognormal(0, 1, count) - np.exp(0.5)) / np.sqrt((np.e - 1) * np.e)
    ),
    # A tail that is straight in a log-log plot: a = 3.
    "pareto": lambda lots, count: (lots.pareto(3, count) - 0.5) / np.sqrt(0.75),
}

# Sleeps in a record of the probe, which has its own processor time.
CHUNK = 8_192
# Numbers of up to so many binary digits have buckets of their own.
DIGITS = 11


@dataclass(frozen=True)
class Place:
    """Where something is measured."""

    level: str
    load: str
    block: int


@dataclass(frozen=True)
class Effect:
    """What a level or a load does: the centre times and plus this, the scatter times."""

    times: float = 1.0
    plus: float = 0.0
    scatter: float = 1.0


Effects = Mapping[Any, float | Effect]


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """How values are drawn; all lengths are nanoseconds.

    A value is `centre`, times and plus the effects of its level (`levels`), load
    (`loads`) and both together (`pairs`, by level and load), plus what its block adds,
    plus scatter of a shape. A bare number as an effect is a factor of the centre.
    `exactly` draws values itself, whatever else is said.
    """

    # Standard deviation of a place's values.
    sd: float = 0.0
    shape: str = "normal"
    levels: Effects = field(default_factory=dict)
    loads: Effects = field(default_factory=dict)
    pairs: Effects = field(default_factory=dict)
    # What is added in block 0, 1, …, at every level and under every load.
    blocks: Sequence[float] = ()
    # Standard deviation of what is added to each step, by itself.
    steps_sd: float = 0.0
    # Levels, loads, or pairs of them, where it is not measured.
    without: Collection[str | tuple[str, str]] = ()
    exactly: Callable[[Place, np.random.Generator, int], Any] | None = None

    kind: ClassVar[str]

    def is_at(self, level: str, load: str) -> bool:
        """Is it measured there?"""
        return not {level, load, (level, load)} & set(self.without)

    def draw(self, centre: float, place: Place, lots: np.random.Generator, count: int) -> Floats:
        """Values of a step."""
        if self.exactly:
            return np.asarray(self.exactly(place, lots, count), dtype=np.float64)
        scatter = self.sd
        found = (
            self.levels.get(place.level, 1.0),
            self.loads.get(place.load, 1.0),
            self.pairs.get((place.level, place.load), 1.0),
        )
        for it in found:
            effect = it if isinstance(it, Effect) else Effect(times=it)
            centre = centre * effect.times + effect.plus
            scatter *= effect.scatter
        if self.blocks:
            centre += self.blocks[place.block % len(self.blocks)]
        centre += self.steps_sd * lots.standard_normal()
        return centre + scatter * SHAPES[self.shape](lots, count)


@dataclass(frozen=True)
class Calls(Drawn):
    """`calls.parquet`: `records` in all blocks together, each of so many `calls`."""

    metric: str
    centre: float
    records: int = 40
    calls: int = 1_000
    loop_ns: float = 1.0
    served: str | None = None
    served_at: Mapping[str, str] = field(default_factory=dict)

    kind: ClassVar[str] = "calls"

    @property
    def subject(self) -> str:
        """What is measured."""
        return self.metric

    @property
    def count(self) -> int:
        """How many in all blocks."""
        return self.records

    @property
    def sleeps(self) -> bool:
        """Is each call a sleep of 100 ms?"""
        return self.metric in ("nanosleep", "clock_nanosleep")

    def plan(self) -> Columns:
        """As the manifest has it."""
        calls = 1 if self.sleeps else self.calls
        return {"metric": self.metric, "records": self.records, "calls": calls}

    def step(self, place: Place, lots: np.random.Generator, count: int) -> list[Columns]:
        """A step's rows: what is the same in all of them, and lists of what is not."""
        calls, loop = (1, 0.0) if self.sleeps else (self.calls, self.loop_ns)
        drawn = self.draw(self.centre, place, lots, count)
        elapsed = np.rint((drawn + loop) * calls).clip(0)
        served = "vdso" if self.metric.startswith("vdso_") else "system_call"
        rows = {
            "metric": self.metric,
            "served": self.served_at.get(place.level, self.served or served),
            "record": np.arange(count),
            "calls": calls,
            "elapsed_ns": elapsed,
            "loop_ns": self.loop_ns,
            "call_ns": elapsed / calls - loop,
            "cpu": 1,
            "policy": "other",
            "slack_ns": 50_000,
        }
        return [rows]


@dataclass(frozen=True)
class Reads(Drawn):
    """`reads.parquet`: `count` readings in all blocks, by a counter that goes in steps."""

    source: str
    centre: float
    cache: str = "hot"
    count: int = 20_000
    ticks_per_ns: float = 2.0
    step_ticks: int = 1
    empty_mean_ticks: float = 40.0
    empty_median_ticks: float = 40.0
    served: str | None = None

    kind: ClassVar[str] = "read"

    @property
    def subject(self) -> str:
        """What is measured."""
        return self.source

    def plan(self) -> Columns:
        """As the manifest has it."""
        return {"source": self.source, "cache": self.cache, "count": self.count}

    def step(self, place: Place, lots: np.random.Generator, count: int) -> list[Columns]:
        """A step's rows: a histogram."""
        drawn = self.draw(self.centre, place, lots, count)
        shown = (drawn * self.ticks_per_ns + self.empty_mean_ticks) / self.step_ticks
        ticks = np.rint(shown).clip(0).astype(np.int64) * self.step_ticks
        least, counts = np.unique(bucket(ticks), return_counts=True)
        known = {"clock_gettime": "vdso", "clock_gettime_raw": "system_call"}
        rows = {
            "source": self.source,
            "cache": self.cache,
            "served": self.served or known.get(self.source),
            "value_ticks": least,
            "value_ns": (least - self.empty_mean_ticks) / self.ticks_per_ns,
            "count": counts,
            "empty_mean_ticks": self.empty_mean_ticks,
            "empty_median_ticks": self.empty_median_ticks,
            "step_ticks": self.step_ticks,
            "ticks_per_ns": self.ticks_per_ns,
            "mean_ticks": float(ticks.mean()),
            "sd_ticks": float(ticks.std()),
            "max_ticks": int(ticks.max()),
            "cpu": 1,
            "policy": "other",
        }
        return [rows]


def bucket(ticks: NDArray[np.int64]) -> NDArray[np.int64]:
    """The least value of the bucket that each is in."""
    _, digits = np.frexp(ticks.astype(np.float64))
    shift = np.maximum(digits - DIGITS, 0).astype(np.int64)
    least: NDArray[np.int64] = ticks >> shift << shift
    return least


@dataclass(frozen=True)
class Sleeps(Drawn):
    """`sleeps.parquet`: `count` sleeps in all blocks; `centre` is how late they end."""

    method: str
    interval_ns: int
    centre: float
    count: int = 400
    policy: str = "other"
    slack_ns: int | None = 50_000
    reading_ns: int = 25
    cpu_ns: float = 2_000.0
    degradation: str = ""

    kind: ClassVar[str] = "sleep"

    @property
    def subject(self) -> str:
        """What is measured."""
        return self.method

    @property
    def in_force(self) -> int:
        """The slack: real-time policies have none."""
        return (self.slack_ns or 0) if self.policy == "other" else 0

    def plan(self) -> Columns:
        """As the manifest has it."""
        slack = self.slack_ns if self.policy == "other" else None
        return {
            "method": self.method,
            "interval_ns": self.interval_ns,
            "policy": self.policy,
            "slack_ns": slack,
            "count": self.count,
        }

    def step(self, place: Place, lots: np.random.Generator, count: int) -> list[Columns]:
        """A step's rows, in the probe's chunks."""
        drawn = self.draw(self.centre, place, lots, count)
        miss = np.rint(drawn).astype(np.int64)
        chunks = []
        for first in range(0, count, CHUNK):
            part = miss[first : first + CHUNK]
            rows = {
                "method": self.method,
                "interval_ns": self.interval_ns,
                "slack_ns": self.in_force,
                "policy": self.policy,
                "sleep": np.arange(first, first + len(part)),
                "miss_ns": part,
                "missed": part.clip(0) // self.interval_ns,
                "cpu_ns": self.cpu_ns + first // CHUNK,
                "reading_ns": self.reading_ns,
                "degradation": self.degradation,
                "cpu": 1,
            }
            chunks.append(rows)
        return chunks


@dataclass(frozen=True)
class Events(Drawn):
    """`events.parquet`: `count` events in all blocks; `centre` is added to each interval."""

    source: str
    interval_ns: int
    centre: float = 0.0
    count: int = 400
    # Merged into later ones, in each step.
    missed: int = 0
    degradation: str = ""

    kind: ClassVar[str] = "events"

    @property
    def subject(self) -> str:
        """What is measured."""
        return self.source

    @property
    def place(self) -> str:
        """Where the time is taken."""
        return "kernel" if self.source in ("bpf_timer", "hrtimer") else "user"

    def plan(self) -> Columns:
        """As the manifest has it."""
        return {"source": self.source, "interval_ns": self.interval_ns, "count": self.count}

    def step(self, place: Place, lots: np.random.Generator, count: int) -> list[Columns]:
        """A step's rows: the first event has none before it."""
        drawn = np.rint(self.draw(self.centre, place, lots, count)).astype(np.int64)
        after = self.interval_ns + drawn
        after[0] = drawn[0]
        rows = {
            "source": self.source,
            "place": self.place,
            "interval_ns": self.interval_ns,
            "event": np.arange(count),
            "at_ns": np.cumsum(after),
            "after_ns": np.ma.masked_array(after, mask=np.arange(count) == 0),
            "missed_of_all": self.missed,
            "degradation": self.degradation,
            "cpu": 1,
            "policy": "other",
        }
        return [rows]


Quantity = Calls | Reads | Sleeps | Events
