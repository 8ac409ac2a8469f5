"""The accuracy of clocks: their rates, and the error bounds that ours states."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

from eigenbench.columns import Beside, Column
from eigenbench.levels import Level
from eigenbench.precision import LOADS, Failed, Load, Program, Record, Shares, loaded
from eigenbench.precision import ways as levels_of
from eigenbench.processes import Deadline
from eigenbench.samples import COUNT, NANOSECONDS, PERCENT, PPM, Probe
from eigenbench.stats import percentile
from eigenbench.suites import Effort, Efforts, Failure, Outcome, Value

RATE = "rate"
RATE_ROWS = (
    ("eigentime-monotonic", "eigentime, as CLOCK_MONOTONIC", "clock.monotonic(now)"),
    ("eigentime-now", "eigentime, instants", "Instant::now_ordered() - first"),
    ("quanta", "quanta", "quanta::Instant::elapsed()"),
    ("minstant", "minstant", "minstant::Instant::elapsed()"),
    ("fastant", "fastant", "fastant::Instant::elapsed()"),
    ("std", "std", "std::time::Instant::elapsed()"),
)
RATE_SECONDS = 4.0
QUICK_SECONDS = 2.0
# Concurrent processes; they sleep nearly all the time.
RATE_PROCESSES = 3

BOUND = "bound"
BOUND_LEVEL = f"{BOUND}/eigentime"
BOUND_ROWS = (("eigentime", "eigentime, stated bound", "Clock::read_ordered()"),)
BOUND_SECONDS = 5.0
ALL = "all"
# The suffix of a share's key: the number of readings.
READINGS = "/readings"
# The time that a program takes to start, and to be scheduled under load.
START_S = 6.0


@dataclass(frozen=True)
class Gaps:
    """How long a clock is left alone between readings, and in how many processes."""

    key: str
    title: str
    shortest_us: float
    longest_us: float
    processes: int = 1


# Long gaps yield few readings, so many processes sleep through them at the same time.
GAPS = (
    Gaps("short", "1 – 100 µs", 1, 100),
    Gaps("middle", "0.1 – 10 ms", 100, 10e3),
    Gaps("long", "10 ms – 3 s", 10e3, 3e6, 16),
)


@dataclass(frozen=True)
class Rates:
    """How much too fast clocks run, over a few seconds from their first reading."""

    program: Program
    quick: bool
    name: str = "clock-rates"
    title: str = "Rates of clocks, against CLOCK_MONOTONIC"
    columns: tuple[Column, ...] = ()
    efforts: Efforts = Efforts(Effort(3, 40), Effort(1, 12))  # noqa: RUF009
    _shares: Shares = field(default_factory=Shares)

    @property
    def seconds(self) -> float:
        """How long a process reads its clocks."""
        return QUICK_SECONDS if self.quick else RATE_SECONDS

    @property
    def note(self) -> str:
        """How it is measured."""
        return (
            f"How far a clock is from the kernel's after {self.seconds:.0f} seconds, in "
            "parts per million: the absolute value, for several processes, each of which "
            "has calibrated its clocks anew. Ours is read every few hundredths of a second "
            "besides, as in a program that uses it; what it does when it is left alone is in "
            "the next table. Both ends are the shortest of 200 brackets, which makes the "
            "figure good to 0.02 ppm."
        )

    @property
    def probes(self) -> tuple[Probe, ...]:
        """One for each load."""
        return tuple(
            Probe(f"{RATE}/{load.key}", f"rate error, {load.title}", PPM)
            for load in LOADS
        )

    @property
    def levels(self) -> tuple[str, ...]:
        """All clocks."""
        return tuple(f"{RATE}/{key}" for key, *_ in RATE_ROWS)

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """The results of a few processes, or the level's share of the last ones."""
        yield from self._shares.take(level.key, wanted, lambda: self._round(deadline))

    def _round(self, deadline: Deadline) -> dict[str, list[Outcome]]:
        outcomes: dict[str, list[Outcome]] = {key: [] for key in self.levels}
        command = ["bounds", "--seconds", str(self.seconds)]
        command += ["--shortest", "1e3", "--longest", "1e5"]
        for load in LOADS:
            probe = f"{RATE}/{load.key}"
            limit = deadline.within(self.seconds + START_S)
            try:
                with loaded(self.program, load):
                    results = self.program.together([command] * RATE_PROCESSES, limit)
            except Failed as failed:
                for found in outcomes.values():
                    found.append(Failure(probe, str(failed)))
                continue
            for part, records in enumerate(results):
                for record in records:
                    if "ppm" in record:
                        value = Value(probe, abs(record["ppm"]), part)
                        outcomes[f"{RATE}/{record['clock']}"].append(value)
        return outcomes


@dataclass(frozen=True)
class Bounds:
    """Whether readings are within their stated bounds, after gaps of all lengths."""

    program: Program
    quick: bool
    name: str = "clock-bounds"
    title: str = "Readings outside the error bound that they state"
    note: str = (
        "After each gap ours is read between two readings of CLOCK_MONOTONIC, then "
        "before and after one, all in order: that brackets what each should show. A "
        "reading is *outside* if it is farther from that bracket than its bound: then "
        "it is certainly wrong. *Not surely inside*: the bound does not reach over "
        "the bracket's farther end, which a short bound cannot, however right it is. "
        "Gaps are random, each magnitude as likely as any other; the processes are "
        "new in each round."
    )
    levels: tuple[str, ...] = (BOUND_LEVEL,)
    columns: tuple[Column, ...] = (
        Beside("not surely inside", "/unsure"),
        Beside("bound, ns", "/bound"),
        Beside("bound, p99", "/bound99"),
        Beside("worst", "/bound100", highest=True),
        Beside("bracket, ns", "/bracket"),
        Beside("readings", READINGS),
    )
    efforts: Efforts = Efforts(Effort(3, 55), Effort(1, 12))  # noqa: RUF009

    @property
    def probes(self) -> tuple[Probe, ...]:
        """One for each load and each kind of gap, and the additional figures."""
        kinds = [(ALL, "all gaps"), *((gaps.key, gaps.title) for gaps in GAPS)]
        rows = [
            Probe(
                f"{BOUND}/{load.key}/{key}", f"outside, {load.title}, {title}", PERCENT
            )
            for load in LOADS
            for key, title in kinds
        ]
        return tuple(probe for row in rows for probe in (row, *beside(row)))

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """The results of new processes for each load, for all gaps at once."""
        for load in LOADS:
            limit = deadline.within(BOUND_SECONDS + START_S)
            try:
                with loaded(self.program, load):
                    outcomes = list(self._loaded(load, limit))
            except Failed as failed:
                outcomes = [
                    Failure(probe, str(failed))
                    for probe in wanted
                    if probe.startswith(f"{BOUND}/{load.key}/")
                ]
            yield from (it for it in outcomes if it.probe in wanted)

    def _loaded(self, load: Load, deadline: Deadline) -> Iterator[Outcome]:
        kinds = [gaps for gaps in GAPS for _ in range(gaps.processes)]
        # Other gaps in every process and in every run.
        seed = time.monotonic_ns()
        seconds = QUICK_SECONDS if self.quick else BOUND_SECONDS
        commands = [
            [*_command(gaps, seed + place), "--seconds", str(seconds)]
            for place, gaps in enumerate(kinds)
        ]
        results = self.program.together(commands, deadline)
        readings: dict[str, list[Record]] = {gaps.key: [] for gaps in GAPS}
        for gaps, records in zip(kinds, results, strict=True):
            for record in records:
                readings[gaps.key] += record.get("readings", [])
        everything = [reading for some in readings.values() for reading in some]
        for key, some in {ALL: everything, **readings}.items():
            yield from judged(f"{BOUND}/{load.key}/{key}", some)


def beside(row: Probe) -> Iterator[Probe]:
    """The figures beside the share of readings outside their bounds."""
    units = {"unsure": PERCENT, "bound": NANOSECONDS, "bound99": NANOSECONDS}
    units |= {"bound100": NANOSECONDS, "bracket": NANOSECONDS}
    for key, unit in units.items():
        yield Probe(f"{row.key}/{key}", row.title, unit, row=False)
    yield Probe(f"{row.key}{READINGS}", row.title, COUNT, row=False)


def _command(gaps: Gaps, seed: int) -> list[str]:
    return [
        *("bounds", "--seed", str(seed)),
        *("--shortest", str(gaps.shortest_us), "--longest", str(gaps.longest_us)),
    ]


def judged(probe: str, readings: Sequence[Record]) -> Iterator[Outcome]:
    """The outcome of readings; one without a bound counts as outside."""
    if not readings:
        yield Failure(probe, "no readings")
        return
    bounds = [reading["bound"] for reading in readings if reading["bound"] is not None]
    least = sum(_within(reading, "least") for reading in readings)
    most = sum(_within(reading, "most") for reading in readings)
    yield Value(probe, 100 * (1 - least / len(readings)))
    yield Value(f"{probe}/unsure", 100 * (1 - most / len(readings)))
    if bounds:
        yield Value(f"{probe}/bound", median(bounds))
        yield Value(f"{probe}/bound99", percentile(bounds, 99) or 0.0)
        yield Value(f"{probe}/bound100", max(bounds))
    yield Value(f"{probe}/bracket", median(reading["width"] for reading in readings))
    yield Value(f"{probe}{READINGS}", len(readings))


def _within(reading: Record, distance: str) -> bool:
    return reading["bound"] is not None and reading[distance] <= reading["bound"]


def bound_levels(program: Program) -> list[Level]:
    """The clocks whose rates are compared, and ours with its bound."""
    return [
        *levels_of(program, RATE, RATE_ROWS),
        *levels_of(program, BOUND, BOUND_ROWS),
    ]
