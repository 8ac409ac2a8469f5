"""The Rust program that measures clocks, sleeps and events, and its records.

It lives in `bench/precision`, with the peers as its dependencies, and prints one JSON
object on each line. One start measures all the ways that are compared, in turn: that
is alternating more finely than by levels, each of which then takes its share.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from eigenbench.interrupts import INTERRUPTS, quietest
from eigenbench.levels import Level
from eigenbench.processes import Deadline, child, run
from eigenbench.suites import Outcome

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "bench" / "precision"
PACKAGE = "eigentime-precision"
# From nothing, with the library and all peers, on a slow machine.
BUILD_TIMEOUT_S = 600.0
PEERS = ("quanta", "minstant", "fastant", "spin_sleep")

# What one line of the program's output says.
Record = dict[str, Any]
# What one start comes to, by level.
Round = Mapping[str, Sequence[Outcome]]


class Failed(Exception):
    """The program did not do what it should, and why."""


@dataclass(frozen=True)
class Program:
    """Where the program is, or why it is not there."""

    file: Path
    absent: str = ""

    @cached_property
    def cpu(self) -> int:
        """Where to measure: the CPU that devices disturb least."""
        return quietest(os.sched_getaffinity(0), INTERRUPTS.read_text())

    @property
    def others(self) -> list[int]:
        """All CPUs but that one; it too, if it is the only one."""
        return sorted(os.sched_getaffinity(0) - {self.cpu}) or [self.cpu]

    def command(self, *arguments: str) -> list[str]:
        """The program with arguments."""
        return [str(self.file), *arguments]

    def records(self, arguments: Sequence[str], deadline: Deadline) -> list[Record]:
        """What the program prints."""
        finished = run(self.command(*arguments), deadline)
        if not finished.succeeded:
            raise Failed(finished.complaint)
        return parsed(finished.out)

    def together(
        self, several: Sequence[Sequence[str]], deadline: Deadline
    ) -> list[list[Record]]:
        """What the program prints when it is started several times at once."""
        with ExitStack() as stack:
            started = []
            for arguments in several:
                out = stack.enter_context(tempfile.TemporaryFile())
                process = child(self.command(*arguments), out)
                started.append((stack.enter_context(process), out))
            results = []
            for process, out in started:
                try:
                    status = process.wait(deadline.remaining())
                except subprocess.TimeoutExpired as error:
                    raise Failed("timed out") from error
                if status:
                    raise Failed(f"exit status {status}")
                out.seek(0)
                results.append(parsed(out.read().decode()))
        return results


def target(root: Path) -> Path:
    """Where cargo puts what it builds, as the Makefile sets it."""
    return Path(os.environ.get("CARGO_TARGET_DIR", root / "build" / "target"))


def build(folder: Path) -> Program:
    """Build the program, or say why that is not possible here."""
    file = folder / "release" / "precision"
    cargo = shutil.which("cargo")
    if cargo is None:
        return Program(file, "not built: no cargo")
    command = ["env", f"CARGO_TARGET_DIR={folder}", cargo, "build", "--release"]
    command += ["--quiet", "--manifest-path", str(SOURCE / "Cargo.toml")]
    finished = run(command, Deadline(BUILD_TIMEOUT_S))
    return Program(
        file, "" if finished.succeeded else f"not built: {finished.complaint}"
    )


def peers(manifest: Path = SOURCE / "Cargo.toml") -> dict[str, str]:
    """The versions of the peers, which the manifest pins."""
    pinned = re.findall(r'^(\w+) = "=([\d.]+)"', manifest.read_text(), re.MULTILINE)
    return {name: version for name, version in pinned if name in PEERS}


def parsed(out: str) -> list[Record]:
    """The records in what the program printed."""
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


@dataclass
class Shares:
    """What one start of the program has measured, for each level to take its share."""

    _left: dict[str, list[Outcome]] = field(default_factory=dict)

    def take(
        self, level: str, wanted: Sequence[str], begin: Callable[[], Round]
    ) -> Iterator[Outcome]:
        """The outcomes of a level; a new start if it has taken those of the last."""
        if level not in self._left:
            self._left = {key: list(outcomes) for key, outcomes in begin().items()}
        for outcome in self._left.pop(level, []):
            if outcome.probe in wanted:
                yield outcome


@dataclass(frozen=True)
class Load:
    """What the machine does besides."""

    key: str
    title: str
    # `cpu` or `io`; empty for nothing.
    kind: str = ""
    # On the CPU that is measured too.
    everywhere: bool = True


IDLE = Load("idle", "idle")
LOADS = (
    IDLE,
    Load("cpu", "CPU load", "cpu"),
    Load("io", "IO load", "io"),
)
# From the start of the load until it has come to its full strength.
SETTLE_S = 0.3


@contextmanager
def loaded(program: Program, load: Load) -> Iterator[None]:
    """The load, on each of its CPUs, for as long as the block takes."""
    if not load.kind:
        yield
        return
    cpus = [*program.others, program.cpu] if load.everywhere else program.others
    with ExitStack() as stack:
        # Beside the program, since /tmp may be no disk.
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="eigenbench-", dir=program.file.parent)
        )
        busy = []
        for cpu in sorted(set(cpus)):
            command = ["load", load.kind, "--cpu", str(cpu), "--folder", folder]
            busy.append(stack.enter_context(child(program.command(*command))))
        settled = Deadline(SETTLE_S)
        while settled.remaining():
            _alive(busy, load)
        yield
        _alive(busy, load)


def under_loads(
    program: Program,
    loads: Iterable[Load],
    levels: Iterable[str],
    run_under: Callable[[Load, dict[str, list[Outcome]]], None],
    failures: Callable[[Load, str], Iterable[Outcome]],
) -> dict[str, list[Outcome]]:
    """What the levels come to under each load; where one fails, all of them do."""
    outcomes: dict[str, list[Outcome]] = {key: [] for key in levels}
    for load in loads:
        try:
            with loaded(program, load):
                run_under(load, outcomes)
        except Failed as failed:
            for found in outcomes.values():
                found += failures(load, str(failed))
    return outcomes


def _alive(busy: Sequence[subprocess.Popen[bytes]], load: Load) -> None:
    if any(process.poll() is not None for process in busy):
        raise Failed(f"the {load.title} ended by itself")


def ways(
    program: Program, prefix: str, rows: Sequence[tuple[str, str, str]]
) -> list[Level]:
    """Levels for ways of reading, sleeping or ticking: key, title, what one types."""
    return [
        Level(f"{prefix}/{key}", title, typed, ((),), absent=program.absent)
        for key, title, typed in rows
    ]
