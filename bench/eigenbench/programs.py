"""The C programs: compiled if older than their source, and their output."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from eigenbench.processes import Deadline, run

SOURCES = Path(__file__).resolve().parent.parent / "programs"
NAMES = ("tickrate", "calls", "spawner", "changes", "threads", "minutes", "follower")
# Run in containers that have no C library.
IN_CONTAINERS = ("calls", "inside")
CROWD = "crowd"
# Linked statically.
STATIC = (*IN_CONTAINERS, CROWD)
NO_JEMALLOC = "no_jemalloc"
FLAGS = ("-O2", "-Wall", "-Wextra", "-std=gnu17", "-pthread")

COMPILE_TIMEOUT_S = 60.0
# Long enough to measure the frequency to a few parts per million.
TICKRATE_MS = 300


class ProgramError(Exception):
    """A program cannot be compiled, or failed."""


@dataclass(frozen=True)
class Programs:
    """Where the compiled programs are, and how fast their counter runs."""

    folder: Path
    ticks_per_s: float

    def path(self, name: str) -> str:
        """The program's file, for use in a command."""
        return str(self.folder / name)

    @property
    def in_containers(self) -> list[Path]:
        """The files of the programs that containers run."""
        return [_static(self.folder) / name for name in IN_CONTAINERS]

    @property
    def crowd(self) -> str:
        """The program that starts many sleeping processes."""
        return str(_static(self.folder) / CROWD)

    def to_ns(self, ticks: float) -> float:
        """Converts ticks to nanoseconds of host time."""
        return ticks / self.ticks_per_s * 1e9

    def to_ticks(self, ns: float) -> int:
        """Converts nanoseconds of host time to ticks."""
        return round(ns * self.ticks_per_s / 1e9)


def prepare(folder: Path) -> Programs:
    """Compiles what is missing or out of date, and measures the counter's rate."""
    compiler = c_compiler()
    if compiler is None:
        raise ProgramError("no C compiler found: install the package gcc")
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        _compile(compiler, name, folder / name)
    _static(folder).mkdir(exist_ok=True)
    for name in STATIC:
        _compile(compiler, name, _static(folder) / name, "-static")
    library = no_jemalloc(folder) / "libjemalloc.so.2"
    library.parent.mkdir(exist_ok=True)
    _compile(compiler, NO_JEMALLOC, library, "-shared", "-fPIC")
    return Programs(folder, tick_rate(folder))


def c_compiler() -> str | None:
    """The C compiler; None if there is none."""
    return shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")


def no_jemalloc(folder: Path) -> Path:
    """A folder in which the dynamic linker finds our stand-in instead of jemalloc."""
    return folder / "no-jemalloc"


def _static(folder: Path) -> Path:
    return folder / "static"


def tick_rate(folder: Path) -> float:
    """Ticks of the counter per second of host time, measured now."""
    timeout = Deadline(10.0)
    finished = run([str(folder / "tickrate"), str(TICKRATE_MS)], timeout)
    if not finished.succeeded:
        raise ProgramError(f"tickrate: {finished.complaint}")
    return float(finished.out)


def best_batches(out: str) -> Iterator[tuple[str, float | str]]:
    """The output of `calls`: for each probe the ticks per call, or what was wrong."""
    for line in out.splitlines():
        fields = line.split("\t")
        if len(fields) != 3:
            continue
        probe, calls, ticks = fields
        yield probe, ticks if calls == "wrong" else float(ticks) / float(calls)


def _compile(compiler: str, name: str, binary: Path, *more: str) -> None:
    source = SOURCES / f"{name}.c"
    newest = max(file.stat().st_mtime for file in (source, SOURCES / "ticks.h"))
    if binary.exists() and binary.stat().st_mtime > newest:
        return
    command = [compiler, *FLAGS, *more, str(source), "-o", str(binary)]
    finished = run(command, Deadline(COMPILE_TIMEOUT_S))
    if not finished.succeeded:
        raise ProgramError(f"{source.name} does not compile:\n{finished.err}")
