"""The cost of a clock reading, compared with the bare counter and the peers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

from eigenbench.columns import Column, Times
from eigenbench.levels import Level
from eigenbench.precision import Failed, Program, Shares, ways
from eigenbench.processes import Deadline
from eigenbench.samples import NANOSECONDS, Probe
from eigenbench.suites import Effort, Efforts, Failure, Outcome, Value

PREFIX = "read"
COUNTER = f"{PREFIX}/counter"
NOW = f"{PREFIX}/eigentime-now"
ORDERED = f"{PREFIX}/eigentime-ordered"
QUANTA = f"{PREFIX}/quanta"
VDSO = f"{PREFIX}/vdso"

ROWS = (
    ("counter", "bare counter", "rdtsc"),
    ("counter-processor", "counter, rdtscp", "rdtscp"),
    ("counter-fenced", "counter, fenced", "lfence; rdtsc"),
    ("eigentime-now", "eigentime, now", "eigentime_clock::Instant::now()"),
    ("eigentime-ordered", "eigentime, ordered", "Instant::now_ordered()"),
    ("eigentime-read", "eigentime, with its error", "Clock::read()"),
    ("eigentime-monotonic", "eigentime, as CLOCK_MONOTONIC", "clock.monotonic(now)"),
    ("eigentime-recent", "eigentime, recent", "Clock::recent()"),
    ("eigentime-raw", "eigentime, raw", "Clock::raw()"),
    ("quanta", "quanta", "quanta::Instant::now()"),
    ("quanta-raw", "quanta, raw", "quanta::Clock::raw()"),
    ("minstant", "minstant", "minstant::Instant::now()"),
    ("fastant", "fastant", "fastant::Instant::now()"),
    ("std", "std", "std::time::Instant::now()"),
    ("vdso", "vDSO", "clock_gettime(CLOCK_MONOTONIC)"),
    ("vdso-coarse", "vDSO, coarse", "clock_gettime(CLOCK_MONOTONIC_COARSE)"),
    ("counter-again", "bare counter, once more", "rdtsc"),
)
PROBE = "read"
HANG_S = 10.0


@dataclass(frozen=True)
class Reads:
    """Short batches of each clock in turn, in one process on one CPU."""

    program: Program
    name: str = "clock-reads"
    title: str = "A reading of a clock"
    note: str = (
        "The median of 101 batches of 4,000 readings in each round; the clocks take "
        "turns batch by batch, in one process on one processor, a new one for each "
        "round. Each reading is used, and what the loop around it costs is included "
        "for all."
    )
    probes: tuple[Probe, ...] = (Probe(PROBE, "one reading", NANOSECONDS),)
    columns: tuple[Column, ...] = (
        Times("× counter", COUNTER),
        Times("× quanta", QUANTA),
        Times("× vDSO", VDSO),
    )
    efforts: Efforts = Efforts(Effort(15, 20), Effort(3, 4))  # noqa: RUF009
    _shares: Shares = field(default_factory=Shares)

    @property
    def levels(self) -> tuple[str, ...]:
        """All clocks."""
        return tuple(f"{PREFIX}/{key}" for key, *_ in ROWS)

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """The results of a start of the program, or the level's share of the last one."""
        yield from self._shares.take(level.key, wanted, lambda: self._round(deadline))

    def _round(self, deadline: Deadline) -> dict[str, list[Outcome]]:
        command = ["reads", "--cpu", str(self.program.cpu)]
        try:
            records = self.program.records(command, deadline.within(HANG_S))
        except Failed as failed:
            return {key: [Failure(PROBE, str(failed))] for key in self.levels}
        return {
            f"{PREFIX}/{record['clock']}": [Value(PROBE, median(record["nanos"]))]
            for record in records
        }


def read_levels(program: Program) -> list[Level]:
    """The clocks."""
    return ways(program, PREFIX, ROWS)
