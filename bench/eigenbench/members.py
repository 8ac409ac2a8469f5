"""Many processes in one timeline: the cost of each, and of all while they sleep."""

import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from eigenbench import levels
from eigenbench.columns import Beside, Column, Times
from eigenbench.levels import CHANGED_NAME, Level
from eigenbench.processes import POLL_S, Deadline, child, next_line
from eigenbench.programs import Programs
from eigenbench.samples import KIBIBYTES, MICROSECONDS, PER_SECOND, Probe
from eigenbench.suites import Effort, Efforts, Failure, Outcome, Suite, Value
from eigenbench.supervisors import Process, begun_with, room, supervisor_of, supervisors

SIZES = (100, 1_000, 10_000)
# How many processes are left for others to start.
SPARE = 2_000
MEMBERS = "members"
# What the supervisor uses per process.
START, END, MEMORY = "/start", "/end", "/memory"
HANG_S = 90.0
# The arguments of each process begin with these.
SLEEPER = ("crowd", "sleeper")

IDLE_MEMBERS = "idle-members"
IDLE_SIZE = 1_000
IDLE_S = 10.0


class _Failed(Exception):
    """A step did not do what it should."""


@dataclass(frozen=True)
class Crowd:
    """A program that starts many sleeping processes and ends them."""

    command: Sequence[str]
    running: subprocess.Popen[bytes]
    complaints: IO[bytes]
    size: int
    deadline: Deadline

    @property
    def supervisor(self) -> Process:
        """The supervisor of its private timeline."""
        found = supervisors(self.command)
        if len(found) != 1:
            raise _Failed(f"{len(found)} supervisors, not one")
        return found.pop()

    def start(self) -> float:
        """Start all processes; returns the ticks that each takes until it is about to sleep."""
        self._go_on()
        ticks = self.expect("started") / self.size
        while any(sleeper.is_running for sleeper in begun_with(SLEEPER)):
            if not self.deadline.remaining():
                raise _Failed("its processes do not come to rest")
            time.sleep(POLL_S)
        return ticks

    def end(self) -> None:
        """End all processes, then the program itself."""
        self._go_on()
        self.expect("ended")
        self._go_on()

    def expect(self, step: str) -> float:
        """Wait until it has done a step; returns the ticks that this took, if it says so."""
        said, _, ticks = next_line(self.running, self.deadline).partition("\t")
        if said == step:
            return float(ticks or 0)
        if not self.deadline.remaining():
            raise _Failed("timed out")
        self.complaints.seek(0)
        lines = self.complaints.read().decode(errors="replace").splitlines()
        raise _Failed(lines[0] if lines else "it ended early")

    def _go_on(self) -> None:
        assert self.running.stdin
        self.running.stdin.write(b"\n")
        self.running.stdin.flush()


@contextmanager
def crowd(
    level: Level, programs: Programs, size: int, deadline: Deadline
) -> Iterator[Crowd]:
    """A crowd at a level, before any of its processes is started."""
    if room() < size + SPARE:
        raise _Failed(f"no more than {room()} processes can be started here")
    command = level.command(programs.crowd, str(size))
    # That of the previous round may not have ended yet.
    while supervisors(command):
        if not deadline.remaining():
            raise _Failed("the supervisor of the previous round does not end")
        time.sleep(POLL_S)
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryFile() as complaints,
        child(command, out=pipe, err=complaints, stdin=pipe) as running,
    ):
        there = Crowd(command, running, complaints, size, deadline)
        there.expect("begin")
        yield there


@dataclass(frozen=True)
class Sizes:
    """Crowds of several sizes, each in a timeline of its own."""

    programs: Programs
    name: str = "members"
    title: str = "Many processes in one timeline: the cost of each"
    note: str = (
        "The time from the first `posix_spawn` of a small static program until the last "
        "one is about to sleep, in `poll` with a timeout of a day. The other columns are "
        "the supervisor's: by how much its memory (`VmRSS`) has grown when all processes "
        "sleep, its processor time until then, and its processor time from then until "
        "all processes, and the supervisor itself, have ended. All figures are totals "
        "divided by the number of processes."
    )
    columns: tuple[Column, ...] = (
        Times("× host", levels.HOST),
        Beside("supervisor's memory, KiB", MEMORY, scale=KIBIBYTES.scale),
        Beside("supervisor's CPU until all sleep, µs", START, scale=MICROSECONDS.scale),
        Beside("until all have ended, µs", END, scale=MICROSECONDS.scale),
    )
    levels: tuple[str, ...] = (levels.HOST, levels.RATE_10)
    efforts: Efforts = Efforts(Effort(3, 65), Effort(1, 25))  # noqa: RUF009

    @property
    def probes(self) -> tuple[Probe, ...]:
        """One for each size, and what is shown beside it."""
        return tuple(
            Probe(
                f"{MEMBERS}/{size}{what}",
                f"{size:,} processes{title}",
                unit,
                row=not what,
            )
            for size in SIZES
            for what, title, unit in (
                ("", "", MICROSECONDS),
                (MEMORY, ": supervisor's memory", KIBIBYTES),
                (START, ": supervisor's CPU until all sleep", MICROSECONDS),
                (END, ": supervisor's CPU until all have ended", MICROSECONDS),
            )
        )

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """Start each crowd and end it."""
        for size in SIZES:
            key = f"{MEMBERS}/{size}"
            asked = [it for it in wanted if f"{it}/".startswith(f"{key}/")]
            if not asked:
                continue
            try:
                yield from self._crowd(level, size, deadline.within(HANG_S))
            except (_Failed, OSError, LookupError) as failed:
                yield from (Failure(probe, str(failed)) for probe in asked)

    def _crowd(self, level: Level, size: int, deadline: Deadline) -> Iterator[Outcome]:
        key = f"{MEMBERS}/{size}"
        with crowd(level, self.programs, size, deadline) as there:
            if level.key == levels.HOST:
                yield Value(key, self.programs.to_ns(there.start()))
                there.end()
                return
            supervisor = there.supervisor
            supervisor.settle(deadline)
            cpu_ns, memory = supervisor.cpu_ns, supervisor.memory_bytes
            yield Value(key, self.programs.to_ns(there.start()))
            supervisor.settle(deadline)
            started_ns = supervisor.cpu_ns
            yield Value(f"{key}{START}", (started_ns - cpu_ns) / size)
            yield Value(f"{key}{MEMORY}", (supervisor.memory_bytes - memory) / size)
            there.end()
            ended_ns = supervisor.last_cpu_ns(deadline)
            yield Value(f"{key}{END}", (ended_ns - started_ns) / size)


@dataclass(frozen=True)
class IdleMembers:
    """How often a supervisor and its guardian wake up while all members sleep."""

    programs: Programs
    name: str = "idle-members"
    title: str = f"{IDLE_SIZE:,} members that sleep"
    note: str = (
        "Context switches of all threads of the supervisor and of its guardian "
        "(`voluntary_ctxt_switches` and `nonvoluntary_ctxt_switches` in proc(5)) in "
        f"{IDLE_S:.0f} s of the host, beginning when all members sleep and the supervisor "
        "has nothing left to do."
    )
    probes: tuple[Probe, ...] = (Probe(IDLE_MEMBERS, "context switches", PER_SECOND),)
    levels: tuple[str, ...] = (levels.RATE_10, levels.CHANGED)
    columns: tuple[Column, ...] = ()
    efforts: Efforts = Efforts(Effort(3, 75), Effort(1, 30))  # noqa: RUF009

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """Leave a crowd alone for a while."""
        try:
            woken = self._woken(level, deadline.within(HANG_S))
        except (_Failed, OSError, LookupError) as failed:
            yield from (Failure(probe, str(failed)) for probe in wanted)
            return
        yield from (Value(probe, woken / IDLE_S) for probe in wanted)

    def _woken(self, level: Level, deadline: Deadline) -> int:
        with crowd(level, self.programs, IDLE_SIZE, deadline) as there:
            there.start()
            named = level.key == levels.CHANGED
            supervisor = supervisor_of(CHANGED_NAME) if named else there.supervisor
            both = (supervisor, supervisor.guardian)
            supervisor.settle(deadline)
            before = sum(process.switches for process in both)
            time.sleep(IDLE_S)
            woken = sum(process.switches for process in both) - before
            there.end()
            return woken


def member_suites(programs: Programs) -> list[Suite]:
    """Crowds that come and go, and one that sleeps."""
    return [Sizes(programs), IdleMembers(programs)]
