"""What was aimed at, and whether it was reached: by an interval over the rounds."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from fnmatch import fnmatchcase
from statistics import median

from eigenbench import (
    bandwidth,
    bounds,
    coverage,
    events,
    idle,
    levels,
    measuring,
    members,
    moments,
    pauses,
    reads,
    reporting,
    sleeps,
)
from eigenbench.named import PRIVATE
from eigenbench.samples import Rounds, Samples
from eigenbench.stats import (
    Summary,
    absolute_deviation,
    bootstrap,
    by_round,
    differences,
    ratios,
    share_interval,
    summarize,
)

VDSO_READS = ("realtime", "monotonic")
NAMED_READS = tuple(
    f"named/{read}" for read in (*VDSO_READS, "raw-realtime", "raw-monotonic")
)
IN_TIMELINES = (
    levels.CONTAINER_DATE,
    levels.CONTAINER_OFFSETS,
    levels.CONTAINER_RATE,
)
NAMED_WAITS = tuple(
    f"named/{wait}" for wait in ("poll", "nanosleep", "futex", "cond-monotonic")
)


class Figure(Enum):
    """What of many values."""

    MEDIAN = auto()
    MAD = auto()
    # Of all readings of all rounds, where each value is a share of so many readings in percent.
    SHARE = auto()

    def of(self, values: Sequence[float]) -> float:
        """That of these."""
        return FIGURES[self](values)


FIGURES: dict[Figure, Callable[[Sequence[float]], float]] = {
    Figure.MEDIAN: median,
    Figure.MAD: absolute_deviation,
}


class Outcome(Enum):
    """What a limit is to what was measured."""

    REACHED = "reached"
    MISSED = "missed"
    # The limit is within the interval, or there were too few rounds for one.
    UNDECIDED = "undecided"
    UNMEASURED = "not measured"


@dataclass(frozen=True)
class Target:
    """An upper limit for some probes at some levels."""

    title: str
    # Their keys, or patterns of keys.
    probes: tuple[str, ...]
    levels: tuple[str, ...]
    limit: float
    # The level whose cost the limit is a multiple of; None: the limit is in
    # the probe's base unit.
    base: str | None
    # The limit is in that unit too, of what is added to the cost of `base`.
    added: bool = False
    # The percentile of each round's values that counts; None: all of them do.
    percent: float | None = None
    # What of the values is held against the limit.
    figure: Figure = Figure.MEDIAN
    # The probe whose cost the limit is a multiple of, at the level `base`; None: the same.
    beside: str | None = None
    # More is better: the limit is one from below.
    at_least: bool = False

    @property
    def is_multiple(self) -> bool:
        """Whether the limit is a number of times, and in no unit."""
        return self.base is not None and not self.added


@dataclass(frozen=True)
class Verdict:
    """A target for one probe at one level, and what was measured."""

    target: Target
    probe: str
    level: str
    measured: Summary | None
    # The figure that is held against the limit, and between what it lies with 95 %.
    counted: float | None = None
    interval: tuple[float, float] | None = None
    # Why nothing was measured.
    reason: str = ""

    @property
    def outcome(self) -> Outcome:
        """Whether the whole interval keeps the limit, or breaks it."""
        if self.counted is None:
            return Outcome.UNMEASURED
        if self.interval is None:
            return Outcome.UNDECIDED
        low, high = self.interval
        limit = self.target.limit
        if self.target.at_least:
            low, high, limit = -high, -low, -limit
        if high <= limit:
            return Outcome.REACHED
        return Outcome.MISSED if low > limit else Outcome.UNDECIDED


PRECISION = (
    Target(
        "`now()`: at most 1.05 × the bare counter",
        (reads.PROBE,),
        (reads.NOW,),
        1.05,
        reads.COUNTER,
    ),
    Target(
        "`now()`: not slower than quanta (a hundredth is noise)",
        (reads.PROBE,),
        (reads.NOW,),
        1.01,
        reads.QUANTA,
    ),
    Target(
        "`now_ordered()`: not slower than the vDSO",
        (reads.PROBE,),
        (reads.ORDERED,),
        1.0,
        reads.VDSO,
    ),
    Target(
        "outside the stated bound: at most 0.1 % of the readings",
        (
            *(f"{bounds.BOUND}/{load.key}/{bounds.ALL}" for load in bounds.LOADS),
            *(
                f"{part}/{cells}"
                for part in (pauses.PREFIX, pauses.GUEST)
                for cells in (bounds.ALL, pauses.WORST)
            ),
        ),
        (bounds.BOUND_LEVEL,),
        0.1,
        None,
        figure=Figure.SHARE,
    ),
    Target(
        "a sleep of 1 ms: the median at most 120 ns late",
        ("sleep/1000/idle",),
        (sleeps.OURS, sleeps.OURS_FIFO),
        120.0,
        None,
        percent=50,
    ),
    Target(
        "a sleep of 1 ms: p99 at most a fifth of thread::sleep's",
        ("sleep/1000/idle",),
        (sleeps.OURS, sleeps.OURS_FIFO),
        0.2,
        sleeps.STD,
        percent=99,
    ),
    Target(
        "a sleep of 1 ms: at most 4 % of a CPU where FIFO is allowed",
        (f"sleep/1000/idle{sleeps.CPU}",),
        (sleeps.OURS_FIFO,),
        4.0,
        None,
    ),
    Target(
        "a sleep for a duration: not more of a CPU than spin_sleep (a hundredth is noise)",
        (f"sleep/*{sleeps.CPU}",),
        (sleeps.OURS_FOR,),
        1.01,
        sleeps.SPIN_SLEEP,
        percent=50,
    ),
    Target(
        "a sleep for a duration: p99 not above spin_sleep's",
        tuple(f"sleep/*/{load.key}" for load in sleeps.LOADS),
        (sleeps.OURS_FOR,),
        1.0,
        sleeps.SPIN_SLEEP,
        percent=99,
    ),
    *(
        Target(
            f"a sleep for a duration, at spin_sleep's budget: {title}",
            tuple(f"sleep/{micros}/idle{suffix}" for micros in (100, 1_000)),
            (sleeps.OURS_EQUAL,),
            limit,
            sleeps.SPIN_SLEEP,
            percent=percent,
        )
        for title, suffix, limit, percent in (
            ("p99 not above its own", "", 1.0, 99.0),
            ("not more of a CPU (a hundredth is noise)", sleeps.CPU, 1.01, 50.0),
        )
    ),
    *(
        Target(
            f"50 µs, IO load aside, {which}: the SD at most a hundredth of {native}'s",
            (f"event/50/io-aside{suffix}",),
            (events.TICKER_FIFO,),
            0.01,
            base,
        )
        for which, suffix in (("all", ""), ("without flagged", "/kept"))
        for native, base in (
            ("timerfd", events.TIMERFD),
            ("clock_nanosleep", events.NANOSLEEP),
        )
    ),
)
MEASURING = (
    Target(
        "the probe's loop: at most 1.05 × a loop in C",
        tuple(measuring.TIMED),
        (measuring.GROSS,),
        1.05,
        measuring.BARE,
    ),
)
REPORTING = (
    Target(
        "a report of ten million samples: at most a minute",
        (f"{reporting.LARGE}/wall",),
        (reporting.PAGE,),
        60e9,
        None,
    ),
    Target(
        "a report of ten million samples: at most 2 GiB",
        (f"{reporting.LARGE}/peak",),
        (reporting.PAGE,),
        2.0**31,
        None,
    ),
)
ESTIMATING = (
    *(
        Target(
            f"300 M with up to 200 M of cross traffic, and 1 G: {title}",
            tuple(
                f"{bandwidth.BANDWIDTH}/{road}/{kept}"
                for road in (
                    *(f"300/{cross}" for cross in bandwidth.CROSS_M[:-1]),
                    *(f"300-tbf/{cross}" for cross in bandwidth.CROSS_M[:-1]),
                    "1000/500",
                )
            ),
            (bandwidth.PRECISE,),
            limit,
            None,
            figure=figure,
        )
        for title, kept, limit, figure in (
            ("off by at most 2 % in the median", bandwidth.OFF, 2.0, Figure.MEDIAN),
            ("a MAD of at most 1 % of the capacity", bandwidth.ERROR, 1.0, Figure.MAD),
        )
    ),
    Target(
        "10 G: off by at most 1.1 % in the median",
        (f"{bandwidth.BANDWIDTH}/10000/*/{bandwidth.OFF}",),
        (bandwidth.PRECISE,),
        1.1,
        None,
    ),
    Target(
        "10 G: a MAD of at most 20 Mbit/s, 0.2 % of the capacity",
        (f"{bandwidth.BANDWIDTH}/10000/*/{bandwidth.ERROR}",),
        (bandwidth.PRECISE,),
        0.2,
        None,
        figure=Figure.MAD,
    ),
    Target(
        "from 1 G on: at most 5 % of what saturating would have sent",
        (
            f"{bandwidth.BANDWIDTH}/1000/*/{bandwidth.SHARE}",
            f"{bandwidth.BANDWIDTH}/10000/*/{bandwidth.SHARE}",
        ),
        (bandwidth.PRECISE,),
        5.0,
        None,
    ),
    Target(
        "an estimate: at most 5 s",
        (f"{bandwidth.BANDWIDTH}/*/{bandwidth.TIME}",),
        (bandwidth.PRECISE,),
        5e9,
        None,
    ),
)
COVERING = tuple(
    Target(
        f"intervals of a nominal 95 %: {title} contain what was available",
        (f"{coverage.COVERAGE}/*/{bandwidth.WITHIN}",),
        (bandwidth.SHORT,),
        limit,
        None,
        figure=Figure.SHARE,
        at_least=at_least,
    )
    for title, limit, at_least in (
        ("at least 93 %", 93.0, True),
        ("at most 97 %", 97.0, False),
    )
)
TARGETS = (
    Target(
        "offset only: at most 1.05 × the bare time namespace",
        VDSO_READS,
        (levels.OFFSET, levels.BOTH),
        1.05,
        levels.NAMESPACE,
    ),
    Target(
        "any rate: at most 1.15 × the host",
        VDSO_READS,
        (levels.RATE_10, levels.FROZEN),
        1.15,
        levels.HOST,
    ),
    *(
        Target(
            "a raw read: at most 2 × the host's read through the vDSO",
            (f"raw-{read}",),
            (levels.RATE_10, levels.FROZEN),
            2.0,
            levels.HOST,
            beside=read,
        )
        for read in VDSO_READS
    ),
    Target(
        "any rate: at most half of libfaketime",
        VDSO_READS,
        (levels.RATE_10,),
        0.50,
        levels.FAKETIME_RATE,
    ),
    Target(
        "a `poll` with a timeout: at most 1.7 × the host",
        ("poll",),
        (levels.RATE_10,),
        1.7,
        levels.HOST,
    ),
    Target(
        "`nanosleep(0)`: at most 1.15 × the host",
        ("nanosleep",),
        (levels.RATE_10,),
        1.15,
        levels.HOST,
    ),
    Target(
        "a redirected `poll`, where nothing is rewritten: at most 15 µs",
        ("poll",),
        (levels.RATE_10_TRAPPED,),
        15_000.0,
        None,
    ),
    Target(
        "a process started inside: at most 1.27 × the host",
        ("spawn",),
        (levels.OFFSET, levels.BOTH, levels.RATE_10),
        1.27,
        levels.HOST,
    ),
    Target(
        "a script of 200 short commands: at most 1.3 × the host",
        ("script",),
        (levels.OFFSET, levels.BOTH, levels.RATE_10),
        1.3,
        levels.HOST,
    ),
    *(
        Target(title, probes, (levels.RATE_10,), limit, levels.HOST, at_least=True)
        for title, probes, limit in (
            ("Redis, 1 client: at least 0.9 × the host", ("redis-*-1",), 0.9),
            ("Redis, 20 clients: at least 0.97 × the host", ("redis-*-20",), 0.97),
            (
                "PostgreSQL, `pgbench -S`: at least 0.95 × the host",
                ("pgbench-*",),
                0.95,
            ),
        )
    ),
    *(
        Target(title, (probe,), (levels.SKIP,), limit, None)
        for title, probe, limit in (
            ("a year of a loop that wakes each minute: at most 60 s", idle.YEAR, 60e9),
            ("a command that sleeps for 30 days: at most 0.1 s", idle.MONTH, 0.1e9),
        )
    ),
    *(
        Target(
            f"{title}: at most {limit:.2f} × the host",
            probes,
            (levels.OFFSET, levels.RATE_10),
            limit,
            levels.HOST,
        )
        for title, probes, limit in (
            ("`fork` without `exec`", (moments.FORK,), 1.05),
            ("a thread made and joined", (moments.THREAD,), 1.02),
            (
                "a signal, and a program that gets 10,000 a second",
                (moments.SIGNAL, moments.WORK),
                1.05,
            ),
            ("`make -j2`", (moments.MAKE,), 1.10),
        )
    ),
    Target(
        "the first hundred waits from a place: at most 0.3 × tracing for life",
        (moments.FIRST, moments.LATER),
        (levels.RATE_10,),
        0.3,
        levels.RATE_10_TRACED,
    ),
    *(
        Target(
            "a change of a named timeline reaches the last of "
            f"{count:,} members: at most {limit_ms} ms",
            (f"change-{count}/command", f"change-{count}-frozen/command"),
            (levels.CHANGED,),
            limit_ms * 1e6,
            None,
        )
        for count, limit_ms in ((100, 3), (1_000, 30))
    ),
    *(
        Target(
            "per process, 10,000 cost at most 1.5 × as much as 1,000",
            (f"{members.MEMBERS}/10000{what}",),
            (levels.RATE_10,),
            1.5,
            levels.RATE_10,
            beside=f"{members.MEMBERS}/1000{what}",
        )
        for what in ("", members.MEMORY, members.START, members.END)
    ),
    Target(
        f"{members.IDLE_SIZE:,} members that sleep: no context switch",
        (members.IDLE_MEMBERS,),
        (levels.RATE_10, levels.CHANGED),
        0.0,
        None,
    ),
    Target(
        "a process with 50 threads attached: stopped for at most 20 ms",
        ("attach/50",),
        (levels.ATTACHED,),
        20e6,
        None,
    ),
    Target(
        "a container: create and start take at most 30 ms more",
        ("create/*",),
        IN_TIMELINES,
        30e6,
        levels.CONTAINER,
        added=True,
    ),
    *(
        Target(
            f"named, {title}: at most 1.05 × the private timeline",
            probes,
            (named,),
            1.05,
            PRIVATE[named],
        )
        for title, probes, named in (
            # At a rate of 1 a raw read of the monotonic clock is stopped in a named
            # timeline alone, as relative waits are: its rate may change later.
            ("offset only, reads", NAMED_READS[:-1], levels.NAMED_OFFSET),
            ("rate 10, reads", NAMED_READS, levels.NAMED_RATE),
            ("rate 10, waits", NAMED_WAITS, levels.NAMED_RATE),
            (
                "rate 10, waits, one processor",
                NAMED_WAITS,
                levels.NAMED_RATE_ONE_CPU,
            ),
        )
    ),
    *PRECISION,
    *MEASURING,
    *REPORTING,
    *ESTIMATING,
    *COVERING,
)


def verdicts(samples: Samples, measured_probes: Collection[str]) -> Iterator[Verdict]:
    """Every target whose probes were part of the run, probe by level."""
    for target in TARGETS:
        for pattern in target.probes:
            for probe in measured_probes:
                if fnmatchcase(probe, pattern):
                    for level in target.levels:
                        yield _verdict(samples, target, probe, level)


def _verdict(samples: Samples, target: Target, probe: str, level: str) -> Verdict:
    own = _counted(samples, target, probe, level)
    values = own
    if target.base is not None:
        compared = differences if target.added else ratios
        beside = target.beside or probe
        values = compared(own, _counted(samples, target, beside, target.base))
    if not values:
        missing = level if not own else target.base or level
        reason = samples.reason(probe, missing) or "no time left"
        return Verdict(target, probe, level, None, reason=reason)
    measured = summarize(values.values())
    if target.figure is Figure.SHARE:
        numbers = samples.of(f"{probe}{bounds.READINGS}", level)
        share, interval = _share(values, numbers)
        return Verdict(target, probe, level, measured, share, interval)
    figure = target.figure.of(list(values.values()))
    interval = bootstrap(values, target.figure.of)
    return Verdict(target, probe, level, measured, figure, interval)


def _share(shares: Rounds, numbers: Rounds) -> tuple[float, tuple[float, float]]:
    """The share that all rounds have together, and its exact interval: few readings decide nothing."""
    known = {turn: int(numbers.get(turn, 0)) for turn in shares}
    of = sum(known.values())
    hits = sum(round(shares[turn] / 100 * known[turn]) for turn in shares)
    low, high = share_interval(hits, of)
    return 100 * hits / max(of, 1), (100 * low, 100 * high)


def undecided(samples: Samples, probes: Collection[str]) -> bool:
    """Whether more rounds could decide any target of these probes."""
    found = verdicts(samples, probes)
    return any(verdict.outcome is Outcome.UNDECIDED for verdict in found)


def _counted(samples: Samples, target: Target, probe: str, level: str) -> Rounds:
    values = samples.of(probe, level)
    return values if target.percent is None else by_round(values, target.percent)
