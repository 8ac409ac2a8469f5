"""Whether readings keep their bounds after a pause, and after events during one."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import product

from eigenbench.bounds import ALL, BOUND_LEVEL, READINGS, beside, judged
from eigenbench.columns import Beside, Column
from eigenbench.guest import Guest, guest
from eigenbench.levels import Level
from eigenbench.long_sleeps import FIRST, NOTE, LongSleep, begun
from eigenbench.precision import Failed, Program, Record, parsed
from eigenbench.processes import Deadline, child
from eigenbench.samples import COUNT, PERCENT, Probe
from eigenbench.stats import share_interval
from eigenbench.suites import Effort, Efforts, Failure, Outcome, Value

PREFIX = "pause"
GUEST = "disturbed pause"
# The figures of a cell, and of the worst one, or the one with the least data.
OUTSIDE = "outside"
WORST = "worst"
QUICK_PAUSES_S = (0.001, 1.0)
PAUSES_S = (*QUICK_PAUSES_S, 10.0, 60.0, 300.0, 600.0, 3600.0)
# A shorter one would end before the process is stopped.
SHORTEST_STOP_S = 1.0
PROCESSES = 8
# The time that all processes take to start, and old ones until they know the rate well.
START_S = 60.0

GUEST_QUICK_PAUSES_S = (2.0,)
GUEST_PAUSES_S = (*GUEST_QUICK_PAUSES_S, 10.0)
GUEST_PROCESSES = 4
# How long the virtual machine is stopped.
SUSPENDED_S = 2.0
COLUMNS: tuple[Column, ...] = (
    Beside("not surely inside", "/unsure"),
    Beside("bound, ns", "/bound"),
    Beside("worst bound, ns", "/bound100", highest=True),
    Beside("bracket, ns", "/bracket"),
    Beside("readings", READINGS),
)
HOW = (
    "A process reads the clock 21 times after its pause: *fresh* if it has read it "
    "once before, *old* if it has read it a hundred times a second for two seconds"
)


@dataclass(frozen=True)
class Cell:
    """A pause of a process."""

    seconds: float
    old: bool
    upkeep: bool = False
    stopped: bool = False

    @property
    def title(self) -> str:
        """Its title in the table."""
        parts = [f"{self.seconds:g} s", "old" if self.old else "fresh"]
        parts += ["upkeep"] * self.upkeep + ["stopped"] * self.stopped
        return ", ".join(parts)

    @property
    def key(self) -> str:
        """The same without spaces."""
        return self.title.replace(", ", "-").replace(" ", "")

    @property
    def arguments(self) -> list[str]:
        """The program's arguments."""
        flags = ["--old"] * self.old + ["--upkeep"] * self.upkeep
        return ["pauses", str(self.seconds), *flags]


def _probes(prefix: str, cells: Sequence[tuple[str, str]]) -> tuple[Probe, ...]:
    title = f"outside, the worst {prefix}"
    worst = Probe(f"{prefix}/{WORST}", title, PERCENT)
    rows = [worst, Probe(f"{worst.key}{READINGS}", title, COUNT, row=False)]
    every = Probe(f"{prefix}/{ALL}", f"outside, every {prefix}", PERCENT)
    named = [(f"{prefix}/{key}/{OUTSIDE}", f"outside, {title}") for key, title in cells]
    for row in (every, *(Probe(key, title, PERCENT) for key, title in named)):
        rows += [row, *beside(row)]
    return tuple(rows)


def outcomes_of(prefix: str, cells: dict[str, list[Record]]) -> Iterator[Outcome]:
    """The outcome of all cells, of each of them, and of the worst."""
    everything = [reading for readings in cells.values() for reading in readings]
    yield from judged(f"{prefix}/{ALL}", everything)
    shares = []
    for key, readings in cells.items():
        probe = f"{prefix}/{key}/{OUTSIDE}"
        outcomes = list(judged(probe, readings))
        yield from outcomes
        values = {it.probe: it.value for it in outcomes if isinstance(it, Value)}
        shares.append((values.get(probe, 0.0), len(readings)))
    share, number = max(shares, key=_at_worst)
    yield Value(f"{prefix}/{WORST}", share)
    yield Value(f"{prefix}/{WORST}{READINGS}", number)


def _at_worst(cell: tuple[float, int]) -> float:
    share, number = cell
    return share_interval(round(share / 100 * number), number)[1]


@dataclass(frozen=True)
class Pauses:
    """Processes that all pause at the same time, asleep or stopped."""

    program: Program
    quick: bool
    # The processes that sleep for some minutes beside them.
    sleeps: tuple[LongSleep, ...] = ()
    name: str = "clock-bounds"
    title: str = "Readings outside the error bound that they state, after a pause"
    note: str = (
        f"{HOW}; *upkeep* has a thread that keeps the clock in order, and *stopped* ones "
        f"are stopped by a signal until the pause is over. All processes pause at once. {NOTE}"
    )
    levels: tuple[str, ...] = (BOUND_LEVEL,)
    columns: tuple[Column, ...] = (*COLUMNS, Beside("first, µs", FIRST, scale=1e3))
    efforts: Efforts = Efforts(  # noqa: RUF009
        Effort(1, max(PAUSES_S) + START_S), Effort(1, 30)
    )

    @property
    def cells(self) -> list[Cell]:
        """All pauses of all kinds of processes."""
        pauses = QUICK_PAUSES_S if self.quick else PAUSES_S
        kinds = product(pauses, (False, True), (False, True), (False, True))
        cells = [Cell(*kind) for kind in kinds]
        return [it for it in cells if not it.stopped or it.seconds >= SHORTEST_STOP_S]

    @property
    def probes(self) -> tuple[Probe, ...]:
        """One for each cell, and one for the worst."""
        cells = _probes(PREFIX, [(cell.key, cell.title) for cell in self.cells])
        return (*cells, *(probe for sleep in self.sleeps for probe in sleep.probes))

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """The results of all cells at once."""
        with begun(self.sleeps) as sleeping:
            try:
                yield from outcomes_of(PREFIX, self._readings(deadline))
            except Failed as failed:
                yield from (Failure(probe, str(failed)) for probe in wanted)
                return
            yield from sleeping.outcomes(deadline)

    def _readings(self, deadline: Deadline) -> dict[str, list[Record]]:
        found: dict[str, list[Record]] = {cell.key: [] for cell in self.cells}
        with ExitStack() as stack:
            started = []
            for cell in [cell for cell in self.cells for _ in range(PROCESSES)]:
                command = self.program.command(*cell.arguments)
                process = stack.enter_context(
                    child(command, subprocess.PIPE, stdin=subprocess.PIPE)
                )
                started.append((cell, process))
            for _, process in started:
                _awaited(process)
            stops = []
            for cell, process in started:
                assert process.stdin is not None
                process.stdin.close()
                if cell.stopped:
                    # The end of its wait is then fixed, and is not set anew when it continues.
                    _awaited(process)
                    process.send_signal(signal.SIGSTOP)
                    stops.append((time.monotonic() + cell.seconds, process))
            for end, process in sorted(stops, key=lambda stop: stop[0]):
                time.sleep(max(0.0, end - time.monotonic()))
                process.send_signal(signal.SIGCONT)
            for cell, process in started:
                try:
                    process.wait(deadline.remaining())
                except subprocess.TimeoutExpired as error:
                    raise Failed("timed out") from error
                if process.returncode:
                    raise Failed(f"exit status {process.returncode}")
                found[cell.key] += _after(process.stdout.read().decode())
        return found


def _awaited(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    if not process.stdout.readline():
        raise Failed("a process ended before its pause")


def _after(out: str) -> list[Record]:
    return [it for record in parsed(out) for it in record.get("readings", [])]


def _suspend(machine: Guest, deadline: Deadline) -> None:
    machine.order("stop")
    time.sleep(SUSPENDED_S)
    machine.order("cont")


def _line(line: str) -> Callable[[Guest, Deadline], None]:
    def do(machine: Guest, deadline: Deadline) -> None:
        machine.call(line, deadline)

    return do


CLOCKSOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
COUNTER = "tsc"


@dataclass(frozen=True)
class Disturbance:
    """An event during a pause, and how it is undone."""

    key: str
    title: str
    do: Callable[[Guest, Deadline], None]
    undo: str = "true"
    # The clock that is affected, if it is not CLOCK_MONOTONIC.
    wall: bool = False


# The kernel counts rates in units of 2^-16 ppm.
DISTURBANCES = (
    Disturbance("none", "nothing happens", _line("true")),
    Disturbance("suspended", "the virtual machine is suspended for 2 s", _suspend),
    Disturbance(
        "stepped",
        "the wall clock is put forward by an hour",
        _line("date -s @$(($(date +%s) + 3600))"),
        wall=True,
    ),
    Disturbance(
        "slewed",
        "the clock is slewed by 200 ppm",
        _line(f"adjtimex -q -f {200 << 16}"),
        "adjtimex -q -f 0",
    ),
    Disturbance(
        "clocksource",
        "another clocksource, acpi_pm",
        _line(f"echo acpi_pm > {CLOCKSOURCE}"),
        f"echo {COUNTER} > {CLOCKSOURCE}",
    ),
)


@dataclass(frozen=True)
class Disturbances:
    """Events in a virtual machine while its processes pause."""

    program: Program
    quick: bool
    name: str = "clock-bounds"
    title: str = (
        "Readings outside the error bound that they state, after a disturbed pause"
    )
    levels: tuple[str, ...] = (BOUND_LEVEL,)
    columns: tuple[Column, ...] = COLUMNS
    efforts: Efforts = Efforts(Effort(1, 330), Effort(1, 90))  # noqa: RUF009
    _accelerators: list[str] = field(default_factory=list)

    @property
    def note(self) -> str:
        """How this is measured."""
        by = f" by {self._accelerators[-1]}" if self._accelerators else ""
        return (
            f"In a virtual machine{by}, whose kernel keeps time by the counter. {HOW}; "
            "what is said happens in the pause. Where the wall clock is stepped, "
            "readings of it are held against their own bounds and CLOCK_REALTIME."
        )

    @property
    def cells(self) -> list[Cell]:
        """The pauses with disturbances."""
        pauses = GUEST_QUICK_PAUSES_S if self.quick else GUEST_PAUSES_S
        return [Cell(*kind) for kind in product(pauses, (False, True), (False, True))]

    @property
    def probes(self) -> tuple[Probe, ...]:
        """One for each cell and disturbance, and one for the worst."""
        cells = product(DISTURBANCES, self.cells)
        named = [
            (f"{it.key}-{cell.key}", f"{it.title}, {cell.title}") for it, cell in cells
        ]
        return _probes(GUEST, named)

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """The results of one disturbance after another, in one machine."""
        found: dict[str, list[Record]] = {}
        try:
            with guest([self.program.file], deadline) as machine:
                self._accelerators.append(machine.accelerator)
                for disturbance in DISTURBANCES:
                    found |= self._disturbed(machine, disturbance, deadline)
            yield from outcomes_of(GUEST, found)
        except Failed as failed:
            yield from (Failure(probe, str(failed)) for probe in wanted)

    def _disturbed(
        self, machine: Guest, disturbance: Disturbance, deadline: Deadline
    ) -> dict[str, list[Record]]:
        source = machine.call(f"cat {CLOCKSOURCE}", deadline).strip()
        if source != COUNTER:
            raise Failed(f"virtual machine: its kernel keeps time by {source}")
        cells = [cell for cell in self.cells for _ in range(GUEST_PROCESSES)]
        machine.call("rm -f /tmp/*; mkfifo /tmp/gate; exec 9<>/tmp/gate", deadline)
        for number, cell in enumerate(cells):
            words = [self.program.file.name, *cell.arguments]
            words += ["--wall"] * disturbance.wall
            files = f"< /tmp/gate 9>&- > /tmp/out{number}"
            machine.call(f"{' '.join(words)} {files} &", deadline)
        ready = f'test "$(cat /tmp/out* | grep -c ready)" = {len(cells)}'
        machine.call(f"until {ready}; do sleep 0.1; done", deadline)
        # All pauses begin first, and the disturbance comes during them.
        machine.call("exec 9>&-", deadline)
        disturbance.do(machine, deadline)
        machine.call("wait", deadline)
        machine.call(disturbance.undo, deadline)
        found: dict[str, list[Record]] = {}
        for number, cell in enumerate(cells):
            readings = _after(machine.call(f"cat /tmp/out{number}", deadline))
            found.setdefault(f"{disturbance.key}-{cell.key}", []).extend(readings)
        return found
