"""The Rust program that measures clocks, sleeps and events, and its records.

It is in `bench/precision`, with the peers as its dependencies, and prints one JSON object per
line. One start measures everything that is compared, in turn: that alternates more finely than
by levels. Each level then takes its share.
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
# A complete build with the library and all peers, on a slow machine.
BUILD_TIMEOUT_S = 600.0
PEERS = ("quanta", "minstant", "fastant", "spin_sleep")

# The contents of one line of the program's output.
Record = dict[str, Any]
# The outcomes of one start, by level.
Round = Mapping[str, Sequence[Outcome]]


class Failed(Exception):
    """The program failed, with the reason."""


@dataclass(frozen=True)
class Program:
    """Where the program is, or why it is missing."""

    file: Path
    absent: str = ""

    @cached_property
    def cpu(self) -> int:
        """The CPU to measure on: the one that devices disturb least."""
        return quietest(os.sched_getaffinity(0), INTERRUPTS.read_text())

    @property
    def others(self) -> list[int]:
        """All other CPUs; the same one, if there is no other."""
        return sorted(os.sched_getaffinity(0) - {self.cpu}) or [self.cpu]

    def command(self, *arguments: str) -> list[str]:
        """The program with arguments."""
        return [str(self.file), *arguments]

    def records(self, arguments: Sequence[str], deadline: Deadline) -> list[Record]:
        """The records that the program prints."""
        finished = run(self.command(*arguments), deadline)
        if not finished.succeeded:
            raise Failed(finished.complaint)
        return parsed(finished.out)

    def together(
        self, several: Sequence[Sequence[str]], deadline: Deadline
    ) -> list[list[Record]]:
        """The records that the program prints when it is started several times at once."""
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
    """The folder for cargo's output, as set by the Makefile."""
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
    """The measurements of one start of the program, for each level to take its share."""

    _left: dict[str, list[Outcome]] = field(default_factory=dict)

    def take(
        self, level: str, wanted: Sequence[str], begin: Callable[[], Round]
    ) -> Iterator[Outcome]:
        """The outcomes of a level; restarts the program if the level has taken its last share."""
        if level not in self._left:
            self._left = {key: list(outcomes) for key, outcomes in begin().items()}
        for outcome in self._left.pop(level, []):
            if outcome.probe in wanted:
                yield outcome


@dataclass(frozen=True)
class Load:
    """The load on the machine meanwhile."""

    key: str
    title: str
    # `cpu` or `io`; empty for none.
    kind: str = ""
    # Whether it also runs on the measured CPU.
    everywhere: bool = True


IDLE = Load("idle", "idle")
LOADS = (
    IDLE,
    Load("cpu", "CPU load", "cpu"),
    Load("io", "IO load", "io"),
)
# The time from the start of the load until it is in full effect.
SETTLE_S = 0.3


@contextmanager
def loaded(program: Program, load: Load) -> Iterator[None]:
    """Runs the load on each of its CPUs until the block ends."""
    if not load.kind:
        yield
        return
    cpus = [*program.others, program.cpu] if load.everywhere else program.others
    with ExitStack() as stack:
        # Beside the program, because /tmp may not be on a disk.
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
    """The outcomes of the levels under each load; if one load fails, all levels fail."""
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
    """Levels for ways of reading, sleeping or ticking: key, title, what the user types."""
    return [
        Level(f"{prefix}/{key}", title, typed, ((),), absent=program.absent)
        for key, title, typed in rows
    ]
