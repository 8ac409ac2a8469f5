"""Idle time: how fast a timeline skips it."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eigenbench import levels
from eigenbench.columns import Column
from eigenbench.levels import Level
from eigenbench.processes import Deadline, run
from eigenbench.programs import Programs
from eigenbench.samples import MILLISECONDS, SECONDS, Probe
from eigenbench.suites import Effort, Efforts, Failure, Outcome, Spawns, Suite, Value

# A year in minutes.
MINUTES = 525_600
HANG_S = 240.0

YEAR = "idle/year"
MONTH = "idle-month"


@dataclass(frozen=True)
class Years:
    """A loop that wakes every minute, for a year."""

    programs: Programs
    name: str = "idle-year"
    title: str = "A loop that wakes each minute, where idle time is skipped"
    note: str = f"{MINUTES:,} wake-ups, each looked at by the program itself."
    columns: tuple[Column, ...] = ()
    probes: tuple[Probe, ...] = (Probe(YEAR, "a year", SECONDS),)
    levels: tuple[str, ...] = (levels.SKIP,)
    efforts: Efforts = Efforts(Effort(3, 150), Effort(1, 60))  # noqa: RUF009

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """From the start of the command to its end."""
        command = level.command(self.programs.path("minutes"), str(MINUTES))
        begin = time.monotonic()
        finished = run(command, deadline.within(HANG_S))
        took_s = time.monotonic() - begin
        for probe in wanted:
            if finished.succeeded:
                yield Value(probe, took_s * SECONDS.scale)
            else:
                yield Failure(probe, finished.complaint)


def idle_suites(programs: Programs) -> list[Suite]:
    """The skipped time: a year of minutes, and a month at once."""
    return [
        Years(programs),
        Spawns(
            name=MONTH,
            title="The whole command, where it sleeps for 30 days that are skipped",
            note="`posix_spawn` to the end of `waitpid`, the median of 15 in each round.",
            probes=(Probe(MONTH, "`… sleep 30d`", MILLISECONDS),),
            count=15,
            inside=False,
            efforts=Efforts(Effort(21, 30), Effort(5, 5)),
            programs=programs,
            levels=(levels.SKIP,),
            columns=(),
            started=("sleep", "30d"),
        ),
    ]


def idle_levels(eigentime: str) -> list[Level]:
    """The only level; the programs that run there check its clocks."""
    prefix = (eigentime, "run", "--skip-idle", "--")
    typed = "eigentime run --skip-idle"
    return [Level(levels.SKIP, "eigentime, idle time skipped", typed, (prefix,))]
