"""What is measured: each suite is a group of probes that one start measures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from eigenbench import levels
from eigenbench.columns import BESIDE_PEERS, Column
from eigenbench.levels import Level
from eigenbench.processes import Deadline, run
from eigenbench.programs import Programs, best_batches
from eigenbench.samples import MICROSECONDS, MILLISECONDS, NANOSECONDS, Probe

# A round at one level takes a second; whatever takes longer than this hangs.
HANG_S = 6.0

COMPARED = (
    levels.HOST,
    levels.NAMESPACE,
    levels.OFFSET,
    levels.BOTH,
    levels.RATE_10,
    levels.FROZEN,
    levels.FAKETIME_OFFSET,
    levels.FAKETIME_RATE,
    levels.HOST_AGAIN,
)
# Where the supervisor takes part, it matters where the scheduler puts it.
SUPERVISED = (
    *COMPARED[: COMPARED.index(levels.FROZEN)],
    levels.RATE_10_ONE_CPU,
    levels.RATE_10_TRAPPED,
    levels.RATE_10_TRACED,
    *COMPARED[COMPARED.index(levels.FROZEN) :],
)
# And beside what else follows programs.
FOLLOWED = (*SUPERVISED[:-1], levels.STRACE, levels.FOLLOWER, levels.HOST_AGAIN)

# A shell that starts many short commands, as scripts do.
SCRIPT = ("sh", "-c", "i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i+1)); done")


@dataclass(frozen=True)
class Effort:
    """How long to try: rounds, and seconds after which none is begun.

    More rounds are made only where a target is undecided.
    """

    rounds: int
    seconds: float


@dataclass(frozen=True)
class Efforts:
    """The effort of a full and of a quick run."""

    full: Effort
    quick: Effort


@dataclass(frozen=True)
class Value:
    """One probe's value in one round."""

    probe: str
    value: float
    # Which of the round's values it is, where a round has several.
    part: int = 0


@dataclass(frozen=True)
class Failure:
    """Why a probe has no value; it is not asked for again at that level."""

    probe: str
    reason: str


@dataclass(frozen=True)
class Gap:
    """Why a probe has no value in one round; it is asked for again in the next."""

    probe: str
    reason: str


Outcome = Value | Gap | Failure


class Suite(Protocol):
    """A group of probes and how one round of them is measured at a level."""

    @property
    def name(self) -> str:
        """What `--only` calls it."""

    @property
    def title(self) -> str:
        """The heading of its table."""

    @property
    def note(self) -> str:
        """What a reader has to know about its figures."""

    @property
    def probes(self) -> tuple[Probe, ...]:
        """What it measures, in the order of the table."""

    @property
    def levels(self) -> tuple[str, ...]:
        """The keys of the levels it compares, in the order of a round."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """What its table shows beside the figures themselves."""

    @property
    def efforts(self) -> Efforts:
        """How long it may take."""

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """One round at one level: an outcome for each probe that is wanted."""


@dataclass(frozen=True)
class Calls:
    """Calls that one process makes over and over.

    The program's name for a probe is what follows the last slash of its key.
    """

    name: str
    title: str
    note: str
    probes: tuple[Probe, ...]
    batch_ns: float
    efforts: Efforts
    programs: Programs
    levels: tuple[str, ...] = COMPARED
    columns: tuple[Column, ...] = BESIDE_PEERS

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """Start the program for all probes, and again after one that hangs."""
        batch = str(self.programs.to_ticks(self.batch_ns))
        rest = {probe.rpartition("/")[2]: probe for probe in wanted}
        while rest:
            command = level.command(self.programs.path("calls"), batch, *rest)
            finished = run(command, deadline.within(HANG_S))
            for name, ticks in best_batches(finished.out):
                probe = rest.pop(name)
                if isinstance(ticks, str):
                    yield Failure(probe, ticks)
                else:
                    yield Value(probe, self.programs.to_ns(ticks))
            if rest:
                yield Failure(rest.pop(next(iter(rest))), finished.complaint)


@dataclass(frozen=True)
class Spawns:
    """Processes started one after another, inside a level or by its command."""

    name: str
    title: str
    note: str
    probes: tuple[Probe]
    count: int
    # Whether the program that starts them is itself at the level.
    inside: bool
    efforts: Efforts
    programs: Programs
    levels: tuple[str, ...] = COMPARED
    columns: tuple[Column, ...] = BESIDE_PEERS
    started: tuple[str, ...] = ("/bin/true",)

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """The median of `count` starts."""
        spawner = [self.programs.path("spawner"), str(self.count)]
        if self.inside:
            command = level.command(*spawner, *self.started)
        else:
            command = [*spawner, *level.command(*self.started)]
        finished = run(command, deadline.within(HANG_S))
        for probe in wanted:
            if finished.succeeded:
                yield Value(probe, self.programs.to_ns(float(finished.out)))
            else:
                yield Failure(probe, finished.complaint)


def program_suites(programs: Programs) -> list[Suite]:
    """The suites that are measured with our own programs."""
    return [
        Calls(
            name="clocks",
            title="Clock reads through the C library",
            note="Best of five batches in each round.",
            probes=(
                Probe("realtime", "`clock_gettime(CLOCK_REALTIME)`", NANOSECONDS),
                Probe("monotonic", "`clock_gettime(CLOCK_MONOTONIC)`", NANOSECONDS),
                Probe("time", "`time()`", NANOSECONDS),
                Probe(
                    "realtime-coarse",
                    "`clock_gettime(CLOCK_REALTIME_COARSE)`",
                    NANOSECONDS,
                ),
            ),
            batch_ns=5e6,
            efforts=Efforts(Effort(21, 80), Effort(5, 15)),
            programs=programs,
        ),
        Calls(
            name="syscalls",
            title="Clock reads by a raw system call",
            note="Best of five batches in each round.",
            probes=(
                Probe(
                    "raw-realtime",
                    "`syscall(SYS_clock_gettime, CLOCK_REALTIME)`",
                    NANOSECONDS,
                ),
                Probe(
                    "raw-monotonic",
                    "`syscall(SYS_clock_gettime, CLOCK_MONOTONIC)`",
                    NANOSECONDS,
                ),
            ),
            batch_ns=5e6,
            efforts=Efforts(Effort(21, 60), Effort(5, 10)),
            programs=programs,
            levels=SUPERVISED,
        ),
        Calls(
            name="waits",
            title="Waits that are over at once, and a call that is no wait",
            note="Best of five batches in each round; the timer slack is 1 ns. "
            "`pthread_cond_timedwait` is a round trip between two threads, two "
            "waits and two signals, on one processor.",
            probes=(
                Probe("poll", "`poll(ready, 1000)`", MICROSECONDS),
                Probe("nanosleep", "`nanosleep(0)`", MICROSECONDS),
                Probe("futex", "`futex(WAIT, other value, 1 s)`", MICROSECONDS),
                Probe(
                    "cond-realtime",
                    "`pthread_cond_timedwait`, CLOCK_REALTIME",
                    MICROSECONDS,
                ),
                Probe(
                    "cond-monotonic",
                    "`pthread_cond_timedwait`, CLOCK_MONOTONIC",
                    MICROSECONDS,
                ),
                Probe("getppid", "`getppid`", MICROSECONDS),
            ),
            batch_ns=10e6,
            efforts=Efforts(Effort(15, 140), Effort(3, 20)),
            programs=programs,
            levels=FOLLOWED,
        ),
        Spawns(
            name="spawn",
            title="A process started by a program that is at the level",
            note="`posix_spawn` to the end of `waitpid`, the median of 40 in each "
            "round.",
            probes=(Probe("spawn", "`/bin/true`", MICROSECONDS),),
            count=40,
            inside=True,
            efforts=Efforts(Effort(21, 50), Effort(5, 9)),
            programs=programs,
            levels=FOLLOWED,
        ),
        Spawns(
            name="script",
            title="A shell script of 200 short commands, at the level",
            note="`/bin/true` 200 times; the median of 3 in each round.",
            probes=(Probe("script", "200 times `/bin/true`", MILLISECONDS),),
            count=3,
            inside=True,
            efforts=Efforts(Effort(11, 80), Effort(2, 14)),
            programs=programs,
            levels=FOLLOWED,
            started=SCRIPT,
        ),
        Spawns(
            name="start",
            title="The whole command, started on the host",
            note="`posix_spawn` to the end of `waitpid`, the median of 15 in each "
            "round.",
            probes=(Probe("start", "`… /bin/true`", MILLISECONDS),),
            count=15,
            inside=False,
            efforts=Efforts(Effort(21, 60), Effort(5, 10)),
            programs=programs,
        ),
    ]
