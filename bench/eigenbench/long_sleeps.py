"""Sleeps of minutes through each interface: whether any ends early by the kernel's clock.

They run beside the pauses, which last longer, so that they do not prolong the run.
"""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from eigenbench.bounds import READINGS
from eigenbench.precision import ROOT, Program, parsed
from eigenbench.processes import Deadline, child
from eigenbench.samples import COUNT, MICROSECONDS, PERCENT, Probe
from eigenbench.suites import Failure, Outcome, Value

PREFIX = "long sleep"
FIRST = "/first"
SECONDS = (60, 120, 300)
QUICK_SECONDS = (1,)
SCRIPT = ROOT / "bench" / "programs" / "long_sleep.py"
LIBRARIES = ROOT / "build" / "lib"
LIBRARY = LIBRARIES / "libeigentime.so"
PRELOAD = LIBRARIES / "libeigentime_preload.so"
PYTHON = ROOT / "build" / "python" / "venv" / "bin" / "python"
NOTE = (
    "*Early* are sleeps of 1 to 5 minutes, for a duration and until a time, that ended before "
    "CLOCK_MONOTONIC showed so; they are made meanwhile, by the sleeper in Rust and in C (of "
    "which that for C++ is a header), in Python, and by the C library with the preload library. "
    "*First* is the one that ended soonest after its time."
)


@dataclass(frozen=True)
class LongSleep:
    """Sleeps of one length through one interface, in one process."""

    key: str
    title: str
    command: tuple[str, ...]
    needed: Path

    @property
    def probe(self) -> str:
        """The key of its row."""
        return f"{PREFIX}/{self.key}"

    @property
    def probes(self) -> tuple[Probe, ...]:
        """The share of early sleeps, their number, and the first of them."""
        return (
            Probe(self.probe, f"early, {self.title}", PERCENT),
            Probe(f"{self.probe}{READINGS}", self.title, COUNT, row=False),
            Probe(f"{self.probe}{FIRST}", self.title, MICROSECONDS, row=False),
        )


def long_sleeps(program: Program, quick: bool) -> tuple[LongSleep, ...]:
    """All of them."""
    ways = ("--way", "eigentime", "--way", "eigentime-for")
    found = []
    for seconds in QUICK_SECONDS if quick else SECONDS:
        micros = str(seconds * 1_000_000)
        rust = program.command("sleeps", "--cpu", str(program.cpu), "--micros", micros)
        rust += ["--turns", "1", "--sleeps", "1", *ways]
        script = (str(SCRIPT), "libc", str(seconds))
        c = ("python3", str(SCRIPT), "c", str(LIBRARY), str(seconds))
        rows = (
            ("rust", "Rust", tuple(rust), program.file),
            ("c", "C", c, LIBRARY),
            (
                "python",
                "Python",
                (str(PYTHON), str(SCRIPT), "python", str(seconds)),
                PYTHON,
            ),
            (
                "preload",
                "preload",
                ("env", f"LD_PRELOAD={PRELOAD}", "python3", *script),
                PRELOAD,
            ),
        )
        found += [
            LongSleep(f"{seconds}s-{key}", f"{seconds} s, {title}", command, needed)
            for key, title, command, needed in rows
        ]
    return tuple(found)


@dataclass
class Begun:
    """The running sleeps."""

    sleeps: list[tuple[LongSleep, subprocess.Popen[bytes] | None]]

    def outcomes(self, deadline: Deadline) -> Iterator[Outcome]:
        """Their results, once they have ended."""
        for sleep, process in self.sleeps:
            if process is None:
                yield from _failed(sleep, f"no {sleep.needed.name}")
                continue
            try:
                out, _ = process.communicate(timeout=deadline.remaining())
            except subprocess.TimeoutExpired:
                yield from _failed(sleep, "timed out")
                continue
            misses = [it for record in parsed(out.decode()) for it in record["misses"]]
            if process.returncode or not misses:
                yield from _failed(sleep, f"exit status {process.returncode}")
                continue
            early = sum(miss < 0 for miss in misses)
            yield Value(sleep.probe, 100 * early / len(misses))
            yield Value(f"{sleep.probe}{READINGS}", len(misses))
            yield Value(f"{sleep.probe}{FIRST}", min(misses))


@contextmanager
def begun(sleeps: Sequence[LongSleep]) -> Iterator[Begun]:
    """These sleeps, each in a process that ends with the block."""
    with ExitStack() as stack:
        started: list[tuple[LongSleep, subprocess.Popen[bytes] | None]] = []
        for sleep in sleeps:
            process = None
            if sleep.needed.exists():
                process = stack.enter_context(child(sleep.command, subprocess.PIPE))
            started.append((sleep, process))
        yield Begun(started)


def _failed(sleep: LongSleep, reason: str) -> Iterator[Outcome]:
    for probe in sleep.probes:
        yield Failure(probe.key, reason)
