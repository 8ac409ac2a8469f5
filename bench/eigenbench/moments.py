"""What a timeline costs programs when they do not ask for the time.

Programs are traced only while the supervisor acts on them. The suites compare this
with the host and with tracing for life.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from eigenbench import levels
from eigenbench.columns import Column, Times
from eigenbench.levels import Level
from eigenbench.processes import Deadline, Finished, run
from eigenbench.programs import Programs, best_batches, c_compiler
from eigenbench.samples import MICROSECONDS, SECONDS, Probe
from eigenbench.suites import (
    HANG_S,
    Calls,
    Effort,
    Efforts,
    Failure,
    Outcome,
    Suite,
    Value,
)
from eigenbench.timing import CommandError, timed

FORK = "moments/fork"
THREAD = "moments/thread"
SIGNAL = "moments/signal"
WORK = "moments/work"
MAKE = "make"
FIRST = "first-waits/first"
LATER = "first-waits/later"

TRACED = (
    levels.HOST,
    levels.OFFSET,
    levels.RATE_10,
    levels.RATE_10_TRACED,
    levels.HOST_AGAIN,
)
COLUMNS: tuple[Column, ...] = (
    Times("× host", levels.HOST),
    Times("× traced for life", levels.RATE_10_TRACED),
)

# C files of the project, without its main file.
UNITS = 200
MAKE_HANG_S = 60.0
HEADER = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
"""
UNIT = """\
#include "project.h"

static int length_of(int value)
{{
	char text[32];
	snprintf(text, sizeof text, "%d", value);
	return (int)strlen(text);
}}

int unit_{number}(int value)
{{
	int *values = calloc({number} + 1, sizeof *values);
	int sum = 0;
	for (int i = 0; values && i <= {number}; i++) {{
		values[i] = length_of(value + i);
		sum += values[i];
	}}
	free(values);
	return sum;
}}
"""
MAKEFILE = """\
objects := $(patsubst %.c,%.o,$(wildcard *.c))

program: $(objects)
	$(CC) -o $@ $^

%.o: %.c project.h
	$(CC) -O1 -c -o $@ $<
"""
# Without the options and the job server of a make that runs this.
OWN_MAKE = ("env", "-u", "MAKEFLAGS", "-u", "MFLAGS", "-u", "MAKELEVEL", "make")

FIRST_CALLS = 100
LATER_PROGRAMS = 5
REPEATED = f'i=0; while [ $i -le {LATER_PROGRAMS} ]; do "$@" || exit; i=$((i+1)); done'


@dataclass(frozen=True)
class Makes:
    """A project that is built from scratch."""

    programs: Programs
    folder: Path
    name: str = "make"
    title: str = f"`make -j2` of {UNITS + 1} C files, at the level"
    note: str = (
        "The whole command, from scratch. Each file takes three programs: the compiler's "
        "driver, the compiler and the assembler."
    )
    probes: tuple[Probe, ...] = (Probe(MAKE, f"{UNITS + 1} files", SECONDS),)
    levels: tuple[str, ...] = TRACED
    columns: tuple[Column, ...] = COLUMNS
    efforts: Efforts = Efforts(Effort(3, 75), Effort(1, 25))  # noqa: RUF009

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """One build."""
        project = self.folder / "project"
        if not project.exists():
            write_project(project)
        for built in (*project.glob("*.o"), *project.glob("program")):
            built.unlink()
        command = level.command(
            *OWN_MAKE, "-j2", f"--directory={project}", f"CC={c_compiler()}"
        )
        try:
            took_ns = timed(command, deadline.within(MAKE_HANG_S)).took
        except (CommandError, OSError) as error:
            yield from (Failure(probe, str(error)) for probe in wanted)
            return
        yield from (Value(probe, took_ns) for probe in wanted)


def write_project(folder: Path, units: int = UNITS) -> None:
    """Write a C program of that many files and a main file, with a makefile."""
    folder.mkdir()
    (folder / "Makefile").write_text(MAKEFILE)
    names = [f"unit_{number}" for number in range(units)]
    declared = "".join(f"int {name}(int value);\n" for name in names)
    (folder / "project.h").write_text(HEADER + declared)
    for number, name in enumerate(names):
        (folder / f"{name}.c").write_text(UNIT.format(number=number))
    called = " + ".join(f"{name}(1)" for name in names)
    (folder / "main.c").write_text(
        f'#include "project.h"\n\nint main(void)\n{{\n\treturn {called} == 0;\n}}\n'
    )


@dataclass(frozen=True)
class FirstWaits:
    """The first waits from a call site, during which the supervisor rewrites it."""

    programs: Programs
    name: str = "first-waits"
    title: str = "The first hundred waits from one place, together"
    note: str = (
        "In the first program of a timeline that waits, for which the supervisor also "
        "builds the tables of its decoder, and the median of the "
        f"{LATER_PROGRAMS} programs that follow it."
    )
    probes: tuple[Probe, ...] = (
        Probe(
            FIRST,
            f"{FIRST_CALLS} times `poll(ready, 1000)`, the first program",
            MICROSECONDS,
        ),
        Probe(
            LATER, f"{FIRST_CALLS} times `poll(ready, 1000)`, later ones", MICROSECONDS
        ),
    )
    levels: tuple[str, ...] = (
        levels.HOST,
        levels.RATE_10,
        levels.RATE_10_TRACED,
        levels.HOST_AGAIN,
    )
    columns: tuple[Column, ...] = COLUMNS
    efforts: Efforts = Efforts(Effort(21, 12), Effort(5, 4))  # noqa: RUF009

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """Run several programs in one timeline, one after the other."""
        calls = [self.programs.path("calls"), "first", str(FIRST_CALLS), "poll"]
        command = level.command("sh", "-c", REPEATED, "sh", *calls)
        finished = run(command, deadline.within(HANG_S))
        found = first_calls(finished)
        for probe in wanted:
            if isinstance(found, str):
                yield Failure(probe, found)
            else:
                ticks = found[0] if probe == FIRST else median(found[1:])
                yield Value(probe, self.programs.to_ns(ticks) * FIRST_CALLS)


def first_calls(finished: Finished) -> list[float] | str:
    """The ticks per call in each program, or why one failed."""
    found: list[float] = []
    for _, ticks in best_batches(finished.out):
        if isinstance(ticks, str):
            return ticks
        found.append(ticks)
    # No program follows one that fails.
    return found if len(found) == LATER_PROGRAMS + 1 else finished.complaint


def moment_suites(programs: Programs, folder: Path) -> list[Suite]:
    """Processes, threads, signals, a build, and the first waits."""
    calls = partial(Calls, programs=programs, levels=TRACED, columns=COLUMNS)
    return [
        calls(
            name="fork",
            title="`fork` without `exec`, with the child's end and the wait for it",
            note="Best of five batches in each round.",
            probes=(Probe(FORK, "`fork`, `_exit`, `waitpid`", MICROSECONDS),),
            batch_ns=20e6,
            efforts=Efforts(Effort(15, 20), Effort(3, 6)),
        ),
        calls(
            name="threads",
            title="A thread that ends at once, with the wait for it",
            note="Best of five batches in each round.",
            probes=(Probe(THREAD, "`pthread_create`, `pthread_join`", MICROSECONDS),),
            batch_ns=20e6,
            efforts=Efforts(Effort(21, 20), Effort(3, 6)),
        ),
        calls(
            name="signals",
            title="Signals to the process itself, with a handler",
            note="Best of five batches in each round. The second row is the cost for a "
            "program that gets 10,000 signals a second: 100,000 multiplications, each of "
            "the previous product (about 0.1 ms), then one signal.",
            probes=(
                Probe(SIGNAL, "`kill(getpid())`", MICROSECONDS),
                Probe(WORK, "0.1 ms of work, then `kill(getpid())`", MICROSECONDS),
            ),
            batch_ns=10e6,
            efforts=Efforts(Effort(15, 20), Effort(3, 6)),
        ),
        Makes(programs, folder),
        FirstWaits(programs),
    ]
