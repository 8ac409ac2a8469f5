"""The regularity of periodic events, compared with the kernel's timers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from eigenbench.columns import Beside, Column
from eigenbench.interrupts import spared
from eigenbench.levels import Level
from eigenbench.precision import Load, Program, Record, Shares, under_loads, ways
from eigenbench.processes import Deadline
from eigenbench.samples import COUNT, MICROSECONDS, Probe, Unit
from eigenbench.stats import interval, percentile
from eigenbench.suites import Effort, Efforts, Failure, Outcome, Value

PREFIX = "event"
TICKER = f"{PREFIX}/ticker"
TICKER_FIFO = f"{PREFIX}/ticker-fifo"
TIMERFD = f"{PREFIX}/timerfd"
NANOSLEEP = f"{PREFIX}/nanosleep"

ROWS = (
    (
        "ticker-fifo",
        "eigentime ticker, FIFO",
        "Ticker::builder().pin(cpu).realtime(80).lock_memory()",
    ),
    ("ticker", "eigentime ticker", "Ticker::builder().pin(cpu)"),
    ("timerfd", "timerfd", "timerfd_settime(), read()"),
    ("nanosleep", "clock_nanosleep", "clock_nanosleep(TIMER_ABSTIME)"),
    ("timerfd-fifo", "timerfd, FIFO", "timerfd, SCHED_FIFO"),
    ("nanosleep-fifo", "clock_nanosleep, FIFO", "clock_nanosleep, SCHED_FIFO"),
)
ASIDE = (
    Load("idle", "idle"),
    Load("cpu-aside", "CPU load aside", "cpu", everywhere=False),
    Load("io-aside", "IO load aside", "io", everywhere=False),
)
EVERYWHERE = (
    Load("cpu", "CPU load everywhere", "cpu"),
    Load("io", "IO load everywhere", "io"),
)
LOADS = (*ASIDE, *EVERYWHERE)
PERIODS_US = (10, 50, 100, 150)
# As many as in the paper of 2015, on which this table is modelled.
EVENTS = 4_500
QUICK_EVENTS = 450
HANG_S = 60.0

# The figures beside the standard deviation: suffix and unit.
BESIDE: dict[str, Unit] = {
    "/mean": MICROSECONDS,
    "/confidence": MICROSECONDS,
    "/kept": MICROSECONDS,
    "/flagged": COUNT,
    "/missed": COUNT,
    "/off50": MICROSECONDS,
    "/off99": MICROSECONDS,
    "/off99.9": MICROSECONDS,
    "/off100": MICROSECONDS,
}
MICRO = MICROSECONDS.scale


@dataclass(frozen=True)
class Events:
    """Periodic events of each source in turn, delivered on one CPU."""

    program: Program
    quick: bool
    name: str = "events"
    title: str = "Intervals between periodic events: their standard deviation"
    columns: tuple[Column, ...] = (
        Beside("mean", "/mean", scale=MICRO),
        Beside("± 99 %", "/confidence", scale=MICRO),
        Beside("SD without", "/kept", scale=MICRO),
        Beside("flagged", "/flagged"),
        Beside("missed", "/missed"),
        Beside("off, median", "/off50", scale=MICRO),
        Beside("p99", "/off99", scale=MICRO),
        Beside("p99.9", "/off99.9", scale=MICRO),
        Beside("max", "/off100", highest=True, scale=MICRO),
    )
    efforts: Efforts = Efforts(Effort(2, 110), Effort(1, 16))  # noqa: RUF009
    _shares: Shares = field(default_factory=Shares)

    @property
    def events(self) -> int:
        """The number of events per source in a round."""
        return QUICK_EVENTS if self.quick else EVENTS

    @property
    def note(self) -> str:
        """The meaning of the columns."""
        return (
            f"{self.events:,} intervals for each figure, all sources delivering on one "
            "processor, in turn; devices interrupt other processors meanwhile, as far as "
            "the kernel and this user's rights allow. *Aside*: the load has the other "
            "processors; *everywhere*: that one, too. *Mean* and its 99 % confidence interval are of one round. "
            "*Flagged*: intervals in which another thread had the processor (involuntary "
            "switches) or the hypervisor (steal time, which the kernel counts in "
            "hundredths of a second, so that short ones are missed), or in which the "
            "ticker, which spins, saw a gap between two readings of the clock (interrupts "
            "and the hypervisor: who waits in the kernel cannot see them); they are in all "
            "figures but *SD without*, which leaves out the interval after each, too: a late "
            "event makes that one short. *Off*: how far an interval is from the period. "
            "*Missed*: periods that the source itself counts as missed. All in µs."
        )

    @property
    def probes(self) -> tuple[Probe, ...]:
        """One for each load and period, and the additional figures."""
        rows = [
            Probe(_key(micros, load), f"{micros} µs, {load.title}", MICROSECONDS)
            for load in LOADS
            for micros in PERIODS_US
        ]
        beside = [
            Probe(f"{row.key}{suffix}", row.title, unit, row=False)
            for row in rows
            for suffix, unit in BESIDE.items()
        ]
        return (*rows, *beside)

    @property
    def levels(self) -> tuple[str, ...]:
        """All sources."""
        return tuple(f"{PREFIX}/{key}" for key, *_ in ROWS)

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """The results for all periods under all loads, or the level's share of them."""
        yield from self._shares.take(level.key, wanted, lambda: self._round(deadline))

    def _round(self, deadline: Deadline) -> dict[str, list[Outcome]]:
        def all_periods(load: Load, outcomes: dict[str, list[Outcome]]) -> None:
            for micros in PERIODS_US:
                self._period(micros, load, deadline, outcomes)

        def failures(load: Load, why: str) -> list[Outcome]:
            return [Failure(_key(micros, load), why) for micros in PERIODS_US]

        with spared(self.program.cpu):
            return under_loads(self.program, LOADS, self.levels, all_periods, failures)

    def _period(
        self,
        micros: int,
        load: Load,
        deadline: Deadline,
        outcomes: dict[str, list[Outcome]],
    ) -> None:
        command = ["events", "--cpu", str(self.program.cpu)]
        command += ["--micros", str(micros), "--events", str(self.events)]
        for record in self.program.records(command, deadline.within(HANG_S)):
            found = outcomes[f"{PREFIX}/{record['source']}"]
            found += outcomes_of(record, _key(micros, load), micros * MICRO)


def outcomes_of(record: Record, probe: str, period_ns: float) -> Iterator[Outcome]:
    """The outcome of one source."""
    if record["reason"]:
        yield Failure(probe, record["reason"])
        return
    intervals = record["intervals"]
    flagged = {*record["preempted"], *record["stopped"], *record["stolen"]}
    # A late event makes the interval before it long and the next one short.
    left_out = flagged | {place + 1 for place in flagged}
    all_of_them = interval(intervals)
    kept = interval(
        [value for place, value in enumerate(intervals) if place not in left_out]
    )
    off = [abs(value - period_ns) for value in intervals]
    yield Value(probe, all_of_them.deviation)
    yield Value(f"{probe}/mean", all_of_them.mean)
    yield Value(f"{probe}/confidence", all_of_them.confidence)
    yield Value(f"{probe}/kept", kept.deviation)
    yield Value(f"{probe}/flagged", len(flagged))
    yield Value(f"{probe}/missed", record["missed"])
    for percent in 50, 99, 99.9, 100:
        yield Value(f"{probe}/off{percent:g}", percentile(off, percent) or 0.0)


def _key(micros: int, load: Load) -> str:
    return f"{PREFIX}/{micros}/{load.key}"


def event_levels(program: Program) -> list[Level]:
    """The sources of events."""
    return ways(program, PREFIX, ROWS)
