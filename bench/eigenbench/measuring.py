"""The measuring program itself: the overhead of its loop, and its results beside those of its
peers."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from eigenbench.columns import Beside, Column, Percentile, Times
from eigenbench.levels import Level
from eigenbench.precision import Failed, Program, Round, Shares, ways
from eigenbench.processes import Deadline, run
from eigenbench.programs import Programs, best_batches
from eigenbench.samples import COUNT, MICROSECONDS, NANOSECONDS, PERCENT, Probe
from eigenbench.suites import Effort, Efforts, Failure, Outcome, Value

LOOP = "loop"
BARE = f"{LOOP}/bare"
GROSS = f"{LOOP}/gross"
NET = f"{LOOP}/net"
LOOP_ROWS = (
    ("bare", "a loop in C", "while (calls--) clock_gettime(…)"),
    ("gross", "eigentime-probe, its loop included", "eigentime-probe calls"),
    ("net", "eigentime-probe, its loop subtracted", "eigentime-probe calls"),
)
# The probe's metric, and its name in `bench/programs/calls.c`.
TIMED = {
    f"{LOOP}/vdso": ("vdso_clock_gettime_monotonic", "monotonic"),
    f"{LOOP}/raw": ("clock_gettime_monotonic", "raw-monotonic"),
}
LOOP_BATCH_NS = 5e6
LOOP_CALLS = 100_000
LOOP_RECORDS = 5
HANG_S = 20.0

WAKE = "wake"
OURS = f"{WAKE}/probe"
CYCLICTEST = f"{WAKE}/cyclictest"
RTLA = f"{WAKE}/rtla"
WAKE_PROBE = f"{WAKE}/1000"
WAKE_INTERVAL_US = 1_000
WAKES = 2_000
QUICK_WAKES = 500
PRIORITY = 80
# Values above this are counted by cyclictest and rtla, but not recorded.
HISTOGRAM_US = 1_000
TRACERS = Path("/sys/kernel/tracing/available_tracers")

WARP = "warp"
WARPS = f"{WARP}/probe"
WARP_S = 1
WARP_CLOCKS = ("tsc", "CLOCK_MONOTONIC", "CLOCK_MONOTONIC_RAW", "CLOCK_REALTIME")


@dataclass(frozen=True)
class Loops:
    """The same calls in a loop in C and in the probe, batch by batch."""

    program: Program
    programs: Programs
    name: str = "probe-loop"
    title: str = "eigentime-probe: what its loop adds to a call"
    note: str = (
        "One call of CLOCK_MONOTONIC, the best of five batches in each round. The loop in C "
        "calls the C library, which calls the vDSO; the probe calls the vDSO itself."
    )
    probes: tuple[Probe, ...] = (
        Probe(f"{LOOP}/vdso", "the vDSO", NANOSECONDS),
        Probe(f"{LOOP}/raw", "a system call", NANOSECONDS),
    )
    columns: tuple[Column, ...] = (Times("× loop in C", BARE),)
    levels: tuple[str, ...] = (BARE, GROSS, NET)
    efforts: Efforts = Efforts(Effort(15, 20), Effort(3, 4))  # noqa: RUF009
    _shares: Shares = field(default_factory=Shares)

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """The results of a batch of each call; one start of the probe has both of its rows."""
        if level.key != BARE:
            yield from self._shares.take(
                level.key, wanted, lambda: self._probed(deadline)
            )
            return
        for probe in wanted:
            try:
                yield Value(probe, self._bare(TIMED[probe][1], deadline))
            except Failed as failed:
                yield Failure(probe, str(failed))

    def _bare(self, name: str, deadline: Deadline) -> float:
        batch = str(self.programs.to_ticks(LOOP_BATCH_NS))
        pinned = ("taskset", "-c", str(self.program.cpu))
        command = [*pinned, self.programs.path("calls"), batch, name]
        finished = run(command, deadline.within(HANG_S))
        for _, ticks in best_batches(finished.out):
            if isinstance(ticks, str):
                raise Failed(ticks)
            return self.programs.to_ns(ticks)
        raise Failed(finished.complaint)

    def _probed(self, deadline: Deadline) -> Round:
        command = ["calls", "--cpu", str(self.program.cpu)]
        command += ["--calls", str(LOOP_CALLS), "--records", str(LOOP_RECORDS)]
        found: dict[str, list[Outcome]] = {GROSS: [], NET: []}
        for probe, (metric, _) in TIMED.items():
            try:
                records = self.program.records(
                    [*command, "--metric", metric], deadline.within(HANG_S)
                )
            except Failed as failed:
                for outcomes in found.values():
                    outcomes.append(Failure(probe, str(failed)))
                continue
            calls = [record for record in records if record.get("metric") == metric]
            gross = [record["elapsed_ns"] / record["calls"] for record in calls]
            net = [float(record["call_ns"]) for record in calls]
            for key, costs in ((GROSS, gross), (NET, net)):
                found[key].append(
                    Value(probe, min(costs)) if costs else Failure(probe, "no record")
                )
        return found


@dataclass(frozen=True)
class Wakes:
    """How late each program measures the same periodic wake-ups."""

    program: Program
    quick: bool
    name: str = "probe-wakes"
    title: str = "Wake-ups every millisecond, as each program counts them"
    columns: tuple[Column, ...] = (
        Percentile(99),
        Percentile(99.9),
        Beside("max", "/max", highest=True, scale=MICROSECONDS.scale),
        Beside("in the histogram, %", "/kept"),
        Beside("deadlines missed", "/missed", highest=True),
    )
    levels: tuple[str, ...] = (OURS, CYCLICTEST, RTLA)
    efforts: Efforts = Efforts(Effort(4, 30), Effort(1, 4))  # noqa: RUF009

    @property
    def wakes(self) -> int:
        """The number of wake-ups in a round."""
        return QUICK_WAKES if self.quick else WAKES

    @property
    def note(self) -> str:
        """The meaning of the columns."""
        return (
            f"clock_nanosleep(TIMER_ABSTIME) under SCHED_FIFO, {self.wakes:,} in each round; "
            f"cyclictest and rtla with a histogram up to {HISTOGRAM_US:,} µs, cyclictest "
            "without its tuning of the machine. The percentiles are of what a histogram has; "
            "*max* is what each says itself. *Deadlines missed* are those that a late wake-up "
            "has slept through: where they are not counted, a long delay is one sample among "
            "many."
        )

    @property
    def probes(self) -> tuple[Probe, ...]:
        """One, and the additional figures."""
        return (
            Probe(WAKE_PROBE, "late by", MICROSECONDS),
            Probe(f"{WAKE_PROBE}/max", "max", MICROSECONDS, row=False),
            Probe(f"{WAKE_PROBE}/kept", "in the histogram", PERCENT, row=False),
            Probe(f"{WAKE_PROBE}/missed", "deadlines missed", COUNT, row=False),
        )

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """The results of a round by one program."""
        programs = {
            OURS: self._probe,
            CYCLICTEST: self._cyclictest,
            RTLA: self._rtla,
        }
        try:
            found = list(programs[level.key](deadline.within(HANG_S)))
        except Failed as failed:
            found = [Failure(probe, str(failed)) for probe in wanted]
        yield from (outcome for outcome in found if outcome.probe in wanted)

    def _probe(self, deadline: Deadline) -> Iterator[Outcome]:
        command = ["sleep", "--cpu", str(self.program.cpu)]
        command += ["--policy", f"fifo:{PRIORITY}", "--method", "clock_nanosleep"]
        command += ["--interval", str(WAKE_INTERVAL_US * 1_000)]
        records = self.program.records([*command, "--count", str(self.wakes)], deadline)
        found = [record for record in records if record["kind"] == "sleeps"]
        misses = [float(miss) for record in found for miss in record["miss_ns"]]
        if not misses:
            raise Failed("no record")
        yield from _wakes(misses, len(misses) / self.wakes, max(misses))
        missed = sum(sum(record["missed"]) for record in found)
        yield Value(f"{WAKE_PROBE}/missed", missed)

    def _cyclictest(self, deadline: Deadline) -> Iterator[Outcome]:
        with tempfile.TemporaryDirectory(prefix="eigenbench-") as folder:
            file = Path(folder) / "cyclictest.json"
            command = ["cyclictest", "--quiet", "--default-system", "--mlockall"]
            command += ["--policy=fifo", f"--priority={PRIORITY}"]
            command += [f"--affinity={self.program.cpu}"]
            command += [f"--interval={WAKE_INTERVAL_US}", f"--loops={self.wakes}"]
            command += [f"--histogram={HISTOGRAM_US}", f"--json={file}"]
            finished = run(command, deadline)
            if not finished.succeeded:
                raise Failed(finished.complaint)
            yield from cyclictest_outcomes(json.loads(file.read_text()))

    def _rtla(self, deadline: Deadline) -> Iterator[Outcome]:
        seconds = max(1, self.wakes * WAKE_INTERVAL_US // 1_000_000)
        command = ["rtla", "timerlat", "hist", "--no-aa"]
        command += ["--period", str(WAKE_INTERVAL_US), "--duration", f"{seconds}s"]
        command += ["--cpus", str(self.program.cpu), "--priority", f"f:{PRIORITY}"]
        command += ["--entries", str(HISTOGRAM_US)]
        finished = run(command, deadline)
        if not finished.succeeded:
            raise Failed(finished.complaint)
        yield from rtla_outcomes(finished.out)


def cyclictest_outcomes(document: Mapping[str, Any]) -> Iterator[Outcome]:
    """The results in cyclictest's output file."""
    thread = document["thread"]["0"]
    counts = {int(micros): count for micros, count in thread["histogram"].items()}
    kept = sum(counts.values()) / thread["cycles"]
    yield from _wakes(_spread(counts), kept, thread["max"] * MICROSECONDS.scale)


def rtla_outcomes(text: str) -> Iterator[Outcome]:
    """The results that rtla prints for the threads, in the columns named `Thr-`."""
    rows = [line.split() for line in text.splitlines() if line and line[0] != "#"]
    heads = next((row for row in rows if row[0] == "Index"), [])
    column = next((at for at, head in enumerate(heads) if head.startswith("Thr")), 0)
    if not column:
        raise Failed("rtla printed no histogram")
    named = {row[0]: row[column] for row in rows if len(row) > column}
    counts = {int(at): int(count) for at, count in named.items() if at.isdigit()}
    count, longest = int(named["count:"]), float(named["max:"])
    kept = sum(counts.values()) / max(count, 1)
    yield from _wakes(_spread(counts), kept, longest * MICROSECONDS.scale)


def _spread(counts: Mapping[int, int]) -> list[float]:
    """The values in a histogram of microseconds, in nanoseconds."""
    scale = MICROSECONDS.scale
    return [micros * scale for micros, count in counts.items() for _ in range(count)]


def _wakes(late_ns: Sequence[float], kept: float, longest: float) -> Iterator[Outcome]:
    for part, late in enumerate(late_ns):
        yield Value(WAKE_PROBE, late, part)
    yield Value(f"{WAKE_PROBE}/max", longest)
    yield Value(f"{WAKE_PROBE}/kept", kept * 100)


@dataclass(frozen=True)
class Warps:
    """The smallest difference that the comparison of clocks between processors could notice."""

    program: Program
    name: str = "probe-warps"
    title: str = "The smallest warp between two processors that is detectable"
    note: str = (
        "The shortest time in which one processor's reading came after the other's: by "
        f"more than that a clock must be behind to be seen. Of {WARP_S} s in each round. "
        "*Backwards*: readings that were behind."
    )
    columns: tuple[Column, ...] = (
        Beside("readings, millions", "/readings", scale=1e6),
        Beside("backwards", "/backwards", highest=True),
    )
    levels: tuple[str, ...] = (WARPS,)
    efforts: Efforts = Efforts(Effort(5, 10), Effort(1, 3))  # noqa: RUF009

    @property
    def probes(self) -> tuple[Probe, ...]:
        """One for each clock, and the additional figures."""
        rows = [Probe(f"{WARP}/{clock}", clock, NANOSECONDS) for clock in WARP_CLOCKS]
        beside = [
            Probe(f"{row.key}/{what}", row.title, COUNT, row=False)
            for row in rows
            for what in ("readings", "backwards")
        ]
        return (*rows, *beside)

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """The results for all clocks at once: they share the second."""
        command = ["warp", "--seconds", str(WARP_S)]
        for clock in WARP_CLOCKS:
            command += ["--clock", clock]
        try:
            records = self.program.records(command, deadline.within(HANG_S))
        except Failed as failed:
            yield from (Failure(probe, str(failed)) for probe in wanted)
            return
        yield from warp_outcomes(records)


def warp_outcomes(records: Sequence[Mapping[str, Any]]) -> Iterator[Outcome]:
    """For each clock, all pairs of processors together."""
    for clock in WARP_CLOCKS:
        pairs = [
            record
            for record in records
            if record["kind"] == "warp"
            and record["clock"] == clock
            and record["cpus"][0] != record["cpus"][1]
            and record["readings"]
        ]
        key = f"{WARP}/{clock}"
        if not pairs:
            yield from (
                Failure(f"{key}{what}", "there is one processor only")
                for what in ("", "/readings", "/backwards")
            )
            continue
        yield Value(key, median(pair["smallest_visible_ns"] for pair in pairs))
        yield Value(f"{key}/readings", sum(pair["readings"] for pair in pairs))
        yield Value(f"{key}/backwards", sum(pair["backwards"] for pair in pairs))


def program(file: Path) -> Program:
    """The probe, or why it is missing."""
    return Program(file, "" if os.access(file, os.X_OK) else "not built")


def measuring_levels(probe: Program) -> list[Level]:
    """The loops, the programs that wake up, and the test of warps."""
    typed = f"--method clock_nanosleep --policy fifo:{PRIORITY}"
    return [
        *ways(probe, LOOP, LOOP_ROWS),
        Level(
            OURS,
            "eigentime-probe",
            f"eigentime-probe sleep {typed}",
            ((),),
            absent=probe.absent,
        ),
        Level(
            CYCLICTEST,
            "cyclictest",
            "cyclictest --policy=fifo --default-system",
            ((),),
            absent="" if shutil.which("cyclictest") else "not installed",
        ),
        Level(
            RTLA,
            "rtla timerlat",
            "rtla timerlat hist",
            ((),),
            absent=_no_rtla(),
        ),
        Level(
            WARPS,
            "eigentime-probe",
            "eigentime-probe warp",
            ((),),
            absent=probe.absent,
        ),
    ]


def _no_rtla(tracers: Path = TRACERS) -> str:
    if shutil.which("rtla") is None:
        return "not installed"
    try:
        known = tracers.read_text().split()
    except OSError:
        return "no tracefs here"
    return "" if "timerlat" in known else "the kernel has no timerlat tracer"
