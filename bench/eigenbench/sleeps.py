"""How late sleeps end, and what they cost, compared with the peers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from eigenbench.columns import Beside, Column, Percentile
from eigenbench.levels import Level
from eigenbench.precision import (
    LOADS,
    Load,
    Program,
    Record,
    Shares,
    under_loads,
    ways,
)
from eigenbench.processes import Deadline
from eigenbench.samples import MICROSECONDS, PERCENT, Probe
from eigenbench.suites import Effort, Efforts, Failure, Outcome, Value

PREFIX = "sleep"
CPU = "/share"
OURS = f"{PREFIX}/eigentime"
OURS_FOR = f"{PREFIX}/eigentime-for"
OURS_EQUAL = f"{PREFIX}/eigentime-equal"
OURS_FIFO = f"{PREFIX}/eigentime-fifo"
OURS_REFUSED = f"{PREFIX}/eigentime-refused"
STD = f"{PREFIX}/std"
SPIN_SLEEP = f"{PREFIX}/spin-sleep"

# It affects the whole machine, so it is measured after all others.
APART = "eigentime-held"
ROWS = (
    ("eigentime", "eigentime", "Sleeper::new(), sleep_until()"),
    ("eigentime-for", "eigentime, a duration", "Sleeper::new(), sleep_for()"),
    (
        "eigentime-equal",
        "eigentime, spin_sleep's budget",
        "Policy { quantile: 1.0, cpu: 1.0, max_guard: 75 µs }, sleep_for()",
    ),
    ("eigentime-fifo", "eigentime, FIFO", "Sleeper::builder().realtime(80)"),
    (
        APART,
        "eigentime, FIFO, latency held",
        "Sleeper::builder().realtime(80).hold_latency()",
    ),
    (
        "eigentime-refused",
        "eigentime, no privileges",
        "Sleeper::builder().realtime(80), refused",
    ),
    ("std", "thread::sleep", "std::thread::sleep()"),
    ("std-fifo", "thread::sleep, FIFO", "std::thread::sleep(), SCHED_FIFO"),
    ("usleep", "usleep", "usleep()"),
    ("nanosleep", "nanosleep", "nanosleep()"),
    ("timerfd", "timerfd", "timerfd_settime(), read()"),
    ("spin-sleep", "spin_sleep", "spin_sleep::sleep()"),
    (
        "spin-sleeper",
        "SpinSleeper, 60 µs",
        "SpinSleeper::new(60_000), SpinLoopHint",
    ),
    (
        "spin-sleeper-fifo",
        "SpinSleeper, 60 µs, FIFO",
        "SpinSleeper::new(60_000), SpinLoopHint, SCHED_FIFO",
    ),
)


@dataclass(frozen=True)
class Length:
    """The length of a sleep, and their number in each turn of a way."""

    micros: int
    title: str
    sleeps: int
    quick: int
    # The limit of a turn: on a busy machine, sleeps of 10 µs can take thousands.
    limit_ms: int = 100


LENGTHS = (
    Length(10, "10 µs", 100, 60),
    Length(100, "100 µs", 100, 60),
    Length(1_000, "1 ms", 60, 20),
    Length(10_000, "10 ms", 9, 2, 120),
)
TURNS = 5
QUICK_TURNS = 2
HANG_S = 30.0


@dataclass(frozen=True)
class Sleeps:
    """Short turns of each way of sleeping, one after the other, on one CPU."""

    program: Program
    quick: bool
    name: str = "sleeps"
    title: str = "Sleeps: by how much they end late"
    note: str = (
        "How much later than it should CLOCK_MONOTONIC, read right before the call "
        "and right after it, shows the end: a reading of the clock is in it, and of "
        "those that are told a duration and no instant also the time until they look. "
        "*spin_sleep's budget* is its guard of 125 µs, less the timer slack of 50 µs that "
        "its timer has and ours has not. Each way of sleeping has a thread of its own; they take turns on "
        "one processor. The first 50 sleeps of each thread do not count. *Load*: on "
        "every processor a process that calculates, or one that writes to a disk and "
        "waits for it beside two threads that exchange datagrams. Where there are "
        "fewer than 1,000 sleeps, p99.9 is the longest."
    )
    columns: tuple[Column, ...] = (
        Percentile(99),
        Percentile(99.9),
        Beside("CPU, %", CPU),
    )
    efforts: Efforts = Efforts(Effort(4, 135), Effort(1, 20))  # noqa: RUF009
    _shares: Shares = field(default_factory=Shares)

    @property
    def probes(self) -> tuple[Probe, ...]:
        """One for each load and length, and its share of a CPU."""
        rows = [
            Probe(_key(length, load), f"{length.title}, {load.title}", MICROSECONDS)
            for load in LOADS
            for length in LENGTHS
        ]
        cpu = [
            Probe(f"{it.key}{CPU}", f"CPU, {it.title}", PERCENT, False) for it in rows
        ]
        return (*rows, *cpu)

    @property
    def levels(self) -> tuple[str, ...]:
        """All ways."""
        return tuple(f"{PREFIX}/{key}" for key, *_ in ROWS)

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """The results for all lengths under all loads, or the level's share of them."""
        yield from self._shares.take(level.key, wanted, lambda: self._round(deadline))

    def _round(self, deadline: Deadline) -> dict[str, list[Outcome]]:
        def all_lengths(load: Load, outcomes: dict[str, list[Outcome]]) -> None:
            for length in LENGTHS:
                self._length(length, load, deadline, outcomes)

        def failures(load: Load, why: str) -> list[Outcome]:
            return [it for length in LENGTHS for it in _failed(_key(length, load), why)]

        return under_loads(self.program, LOADS, self.levels, all_lengths, failures)

    def _length(
        self,
        length: Length,
        load: Load,
        deadline: Deadline,
        outcomes: dict[str, list[Outcome]],
    ) -> None:
        turns = QUICK_TURNS if self.quick else TURNS
        sleeps = length.quick if self.quick else length.sleeps
        command = ["sleeps", "--cpu", str(self.program.cpu)]
        command += ["--micros", str(length.micros), "--turns", str(turns)]
        command += ["--sleeps", str(sleeps), "--limit", str(length.limit_ms)]
        limit = deadline.within(HANG_S)
        records = self.program.records(command, limit)
        records += self.program.records([*command, "--way", APART], limit)
        for record in records:
            found = outcomes[f"{PREFIX}/{record['way']}"]
            found += outcomes_of(record, _key(length, load))


def outcomes_of(record: Record, probe: str) -> Iterator[Outcome]:
    """The outcome of one way."""
    if record["reason"]:
        yield from _failed(probe, record["reason"])
        return
    for part, miss in enumerate(record["misses"]):
        yield Value(probe, miss, part)
    for part, share in enumerate(record["cpu"]):
        yield Value(f"{probe}{CPU}", share, part)


def _failed(probe: str, reason: str) -> list[Outcome]:
    return [Failure(probe, reason), Failure(f"{probe}{CPU}", reason)]


def _key(length: Length, load: Load) -> str:
    return f"{PREFIX}/{length.micros}/{load.key}"


def sleep_levels(program: Program) -> list[Level]:
    """The ways of sleeping."""
    return ways(program, PREFIX, ROWS)
