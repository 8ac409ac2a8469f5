"""The cost of a report: seconds and memory, and its intervals compared with scipy's."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from eigenbench.columns import Column, Times
from eigenbench.levels import Level
from eigenbench.processes import Deadline, run, run_used
from eigenbench.samples import MEBIBYTES, SECONDS, Probe
from eigenbench.suites import Effort, Efforts, Failure, Outcome, Value

ROOT = Path(__file__).resolve().parent.parent.parent
PYTHON = ROOT / "build" / "venv" / "bin" / "python"
# A results folder of `eigentime bench` that is stored with the documentation.
KEPT = ROOT / "docs" / "results" / "data"
SCRIPT = ROOT / "bench" / "programs" / "reporting.py"

SAMPLES = 10_000_000
MAKING_S = 120.0
HANG_S = 300.0

REPORT = "report"
LARGE = f"{REPORT}/large"
SMALL = f"{REPORT}/kept"
PAGE = "eigentime-report"

INTERVAL = "interval"
OURS = f"{INTERVAL}/ours"
SCIPY = f"{INTERVAL}/scipy"
QUANTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class Reports:
    """Whole reports: from the folder's files to the page."""

    # The temporary place for folders and pages.
    ground: Path
    name: str = "reports"
    title: str = "A report, from the folder to the page"
    note: str = (
        f"Ten million samples: made up, {SAMPLES // 2:,} sleeps and as many events of 92 quantities "
        "at 4 levels under 4 loads, in 10 blocks. The other folder is the one in `docs/results/data`. "
        "CPU time is that of all threads; the peak is of resident memory."
    )
    columns: tuple[Column, ...] = ()
    levels: tuple[str, ...] = (PAGE,)
    efforts: Efforts = Efforts(Effort(3, 240), Effort(1, 90))  # noqa: RUF009
    _made: list[Path] = field(default_factory=list)

    @property
    def probes(self) -> tuple[Probe, ...]:
        """Time and memory, for both folders."""
        return tuple(
            Probe(f"{key}/{what}", f"{title}: {shown}", unit)
            for key, title in (
                (LARGE, "ten million samples"),
                (SMALL, "`docs/results/data`"),
            )
            for what, shown, unit in (
                ("wall", "time", SECONDS),
                ("cpu", "CPU time", SECONDS),
                ("peak", "peak memory", MEBIBYTES),
            )
        )

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """The cost of one report of each folder."""
        for key in (LARGE, SMALL):
            asked = [probe for probe in wanted if probe.startswith(f"{key}/")]
            if asked:
                outcomes = self._report(level, key, deadline)
                yield from (it for it in outcomes if it.probe in asked)

    def _report(self, level: Level, key: str, deadline: Deadline) -> list[Outcome]:
        parts = ("wall", "cpu", "peak")
        try:
            folder = self._large(deadline) if key == LARGE else KEPT
        except OSError as error:
            return [Failure(f"{key}/{part}", str(error)) for part in parts]
        page = self.ground / "report.html"
        command = level.command(str(folder), "-o", str(page))
        finished, used = run_used(command, deadline.within(HANG_S))
        if not finished.succeeded or used is None:
            return [Failure(f"{key}/{part}", finished.complaint) for part in parts]
        scale = SECONDS.scale
        figures = (used.wall_s * scale, used.cpu_s * scale, float(used.peak_bytes))
        return [
            Value(f"{key}/{part}", figure)
            for part, figure in zip(parts, figures, strict=True)
        ]

    def _large(self, deadline: Deadline) -> Path:
        """The folder with ten million samples, created on first use."""
        if not self._made:
            folder = self.ground / "ten-million"
            command = [str(PYTHON), str(SCRIPT), "make", str(folder), str(SAMPLES)]
            finished = run(command, deadline.within(MAKING_S))
            if not finished.succeeded:
                raise OSError(f"no folder to report on: {finished.complaint}")
            self._made.append(folder)
        return self._made[0]


@dataclass(frozen=True)
class Intervals:
    """The interval of a quantile, by resampling whole blocks."""

    name: str = "report-intervals"
    title: str = "An interval of a quantile, whole blocks drawn"
    note: str = (
        "The percentile interval at the same level, of 100,000 values in 10 blocks by 4,000 draws: "
        "the time of the call, sorting included. The ends differ by no more than draws do."
    )
    columns: tuple[Column, ...] = (Times("× eigentime", OURS),)
    levels: tuple[str, ...] = (OURS, SCIPY)
    efforts: Efforts = Efforts(Effort(3, 90), Effort(1, 25))  # noqa: RUF009

    @property
    def probes(self) -> tuple[Probe, ...]:
        """One for each quantile."""
        return tuple(
            Probe(f"{INTERVAL}/{q}", f"quantile {q:g}", SECONDS) for q in QUANTILES
        )

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """The results of all quantiles, in one process."""
        quantiles = [probe.rpartition("/")[2] for probe in wanted]
        finished = run(level.command(*quantiles), deadline.within(HANG_S))
        if not finished.succeeded:
            yield from (Failure(probe, finished.complaint) for probe in wanted)
            return
        for probe, seconds in zip(wanted, json.loads(finished.out), strict=True):
            yield Value(probe, seconds * SECONDS.scale)


def reporting_levels(report: Path, python: Path = PYTHON) -> list[Level]:
    """The command, and two ways to an interval."""
    absent = "" if os.access(report, os.X_OK) else "not built"
    script = (str(python), str(SCRIPT), "interval")
    return [
        Level(
            PAGE,
            "eigentime report",
            "eigentime report DIR -o report.html",
            ((str(report),),),
            absent=absent,
        ),
        Level(
            OURS,
            "eigentime_report",
            "statistics.quantile_interval(values, q, blocks=blocks)",
            ((*script, "ours"),),
            absent=absent,
        ),
        Level(
            SCIPY,
            "scipy",
            "scipy.stats.bootstrap((block_numbers,), quantile_of_blocks)",
            ((*script, "scipy"),),
            absent=absent,
        ),
    ]
