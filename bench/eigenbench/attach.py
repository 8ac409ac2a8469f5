"""How long a process is stopped while it is attached, and while it is detached."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from eigenbench import levels
from eigenbench.columns import Column, Percentile
from eigenbench.levels import RATE, RATE_TOLERANCE, Level
from eigenbench.processes import Deadline, child, next_line, run
from eigenbench.programs import Programs
from eigenbench.samples import MILLISECONDS, Probe
from eigenbench.suites import Effort, Efforts, Failure, Outcome, Value

HANG_S = 10.0
# How long the process reads its clock, to show that it was attached at all.
LOOK_NS = 20e6
# How long a busy machine may delay that.
HELD_UP = 4


@dataclass(frozen=True)
class Threads:
    """The kinds of processes, by their threads."""

    key: str
    title: str
    waiting: int
    spinning: int

    @property
    def count(self) -> int:
        """Their total number."""
        return self.waiting + self.spinning


PROCESSES = (
    Threads("50", "50 threads, 4 of which read the clock", 46, 4),
    Threads("1", "1 thread", 1, 0),
)
# In this order, with the same process.
STEPS = ("attach", "detach")

EFFORTS = Efforts(Effort(25, 40), Effort(5, 12))


class _Failed(Exception):
    """A step did not do what it should."""


@dataclass(frozen=True)
class Attach:
    """How long `eigentime attach` and `detach` report that they stopped a process."""

    programs: Programs
    name: str = "attach"
    title: str = "A running process attached, and detached: how long it is stopped"
    note: str = (
        "`stopped_ns` of `attach --json` and `detach --json`, a fresh process in each "
        "round. Its threads wait in `clock_nanosleep`, `poll` and "
        "`pthread_cond_timedwait`, or read the clock without pause. It counts only "
        "if the process then sees the rate, and after `detach` the host's."
    )
    levels: tuple[str, ...] = (levels.ATTACHED,)
    columns: tuple[Column, ...] = (Percentile(95),)
    efforts: Efforts = EFFORTS

    @property
    def probes(self) -> tuple[Probe, ...]:
        """One for each step and kind of process."""
        return tuple(
            Probe(f"{step}/{process.key}", f"`{step}`, {process.title}", MILLISECONDS)
            for step in STEPS
            for process in PROCESSES
        )

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """Start each kind of process, attach it, detach it."""
        for process in PROCESSES:
            steps = [step for step in STEPS if f"{step}/{process.key}" in wanted]
            if not steps:
                continue
            within = deadline.within(HANG_S)
            try:
                with self._started(process, within) as running:
                    # Detaching requires attaching, but not the other way round.
                    for step in STEPS[: STEPS.index(steps[-1]) + 1]:
                        stopped_ns = self._taken(level, step, process, running, within)
                        if step in steps:
                            steps.remove(step)
                            yield Value(f"{step}/{process.key}", stopped_ns)
            # A broken pipe, if the process is gone.
            except (_Failed, OSError) as failed:
                for step in steps:
                    yield Failure(f"{step}/{process.key}", str(failed))

    @contextmanager
    def _started(
        self, process: Threads, deadline: Deadline
    ) -> Iterator[subprocess.Popen[bytes]]:
        command = [self.programs.path("threads")]
        command += [str(process.waiting), str(process.spinning)]
        command += [str(self.programs.to_ticks(LOOK_NS))]
        pipe = subprocess.PIPE
        with child(command, out=pipe, stdin=pipe) as running:
            if next_line(running, deadline) != "ready":
                raise _Failed("the process did not start")
            yield running

    def _taken(
        self,
        level: Level,
        step: str,
        process: Threads,
        running: subprocess.Popen[bytes],
        deadline: Deadline,
    ) -> float:
        """How long a step stopped the process."""
        options = ("--rate", f"{RATE:.0f}") if step == "attach" else ()
        command = [level.prefix[0], step, "--json", "--pid", str(running.pid), *options]
        finished = run(command, deadline)
        if not finished.succeeded:
            raise _Failed(finished.complaint)
        said = json.loads(finished.out)
        if said["threads"] != process.count:
            raise _Failed(f"`{step}` found {said['threads']} threads")
        self._look(RATE if step == "attach" else 1.0, running, deadline)
        return float(said["stopped_ns"])

    def _look(
        self, promised: float, running: subprocess.Popen[bytes], deadline: Deadline
    ) -> None:
        assert running.stdin
        running.stdin.write(b"\n")
        running.stdin.flush()
        line = next_line(running, deadline)
        if not line:
            raise _Failed("the process does not go on")
        moved_ns, ticks = map(float, line.split())
        rate = moved_ns / self.programs.to_ns(ticks)
        # The counter is read before and after the clock: a delay can only lower the rate.
        if not promised / HELD_UP <= rate <= promised * (1 + RATE_TOLERANCE):
            raise _Failed(f"its clock moves at {rate:.2f} of the host's rate")
