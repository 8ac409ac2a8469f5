#!/usr/bin/env python3
"""What helps periodic events under load: each mechanism, with and without it."""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from eigenbench import precision
from eigenbench.events import outcomes_of
from eigenbench.guest import KERNEL, Guest, guest
from eigenbench.precision import Failed, Load, Record, loaded
from eigenbench.processes import Deadline
from eigenbench.suites import Value
from eigenbench.table import markdown as table

ROOT = Path(__file__).resolve().parent.parent
REALTIME_KERNEL = KERNEL.parent.parent / "vm-rt" / KERNEL.name
PERIOD_US = 50
EVENTS = 4_500
# In each round the sources take turns, so that a disturbance of the machine affects all of them.
ROUNDS = 10
GUEST_ROUNDS = 3
HANG_S = 60.0
BOOT_S = 120.0
# The figures of a row: the suffix of the probe, and the heading.
FIGURES = {
    "": "SD",
    "/off50": "off, median",
    "/off99": "p99",
    "/off99.9": "p99.9",
    "/off100": "max",
}
HOST_SOURCES = (
    "timerfd-fifo",
    "ticker-fifo",
    "ahead-fifo",
    "ahead-fifo-everywhere",
    "ahead-deadline",
    "spin-fifo",
    "relay-fifo",
)
# A guest without a dedicated processor cannot measure time; but the interruptions of a thread that
# spins there can be counted, over three seconds.
GUEST_SOURCE = "spin-fifo"
GUEST_EVENTS = 60_000
LOADS = (
    Load("io-aside", "IO load aside", "io", everywhere=False),
    Load("io", "IO load everywhere", "io"),
)
ISOLATED = "isolcpus=1 nohz_full=1 rcu_nocbs=1 irqaffinity=0"


@dataclass(frozen=True)
class Kernel:
    """How a guest is started."""

    title: str
    file: Path
    append: str = ""


KERNELS = (
    Kernel("guest", KERNEL),
    Kernel("guest, isolated processor", KERNEL, ISOLATED),
    Kernel("guest, PREEMPT_RT", REALTIME_KERNEL),
    Kernel("guest, PREEMPT_RT, isolated processor", REALTIME_KERNEL, ISOLATED),
)
# Rows, by source and load, with the values of each figure.
Rows = defaultdict[tuple[str, str], defaultdict[str, list[float]]]
# Interrupts per second, by place and load.
Counts = defaultdict[tuple[str, str], list[float]]


def main() -> int:
    """Measures, and prints the tables."""
    parser = argparse.ArgumentParser(prog="bench/mechanisms.py", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--guest-rounds", type=int, default=GUEST_ROUNDS)
    arguments = parser.parse_args()
    program = precision.build(precision.target(ROOT))
    if program.absent:
        print(f"mechanisms: {program.absent}", file=sys.stderr)
        return 1
    rows: Rows = defaultdict(lambda: defaultdict(list))
    counts: Counts = defaultdict(list)
    missing: set[str] = set()
    for _ in range(arguments.rounds):
        for load in LOADS:
            with loaded(program, load):
                for source in HOST_SOURCES:
                    words = command(program.cpu, source)
                    records = program.records(words, Deadline(HANG_S))
                    missing |= set(keep(rows, load.title, records))
    for _ in range(arguments.guest_rounds):
        for kernel in KERNELS:
            try:
                in_guest(program, kernel, counts)
            except Failed as failed:
                missing.add(f"{kernel.title}: {failed}")
    header = ["source", "load", *FIGURES.values(), "rounds"]
    print(table(header, "llrrrrrr", shown(rows)))
    header = ["where", "load", "interrupts/s", "min – max", "rounds"]
    print("\n" + table(header, "llrrr", counted(counts)))
    for line in sorted(missing):
        print(f"\nNot measured: {line}.")
    return 0


def command(cpu: int, source: str, events: int = EVENTS) -> list[str]:
    """The arguments of the program."""
    words = ["events", "--cpu", str(cpu), "--micros", str(PERIOD_US)]
    return [*words, "--events", str(events), "--source", source]


def in_guest(program: precision.Program, kernel: Kernel, counts: Counts) -> None:
    """Counts how often the second processor is interrupted while it handles the events."""
    words = [program.file.name, *command(1, GUEST_SOURCE, GUEST_EVENTS), "> /dev/null"]
    with guest([program.file], Deadline(BOOT_S), kernel.file, kernel.append) as machine:
        for load in LOADS:
            for cpu in (0, 1) if load.everywhere else (0,):
                line = f"{program.file.name} load io --cpu {cpu} --folder /tmp"
                machine.call(f"{line} > /dev/null 2>&1 &", Deadline(HANG_S))
            before, begin = interrupts(machine)
            machine.call(" ".join(words), Deadline(HANG_S))
            after, end = interrupts(machine)
            where = f"{kernel.title}, {machine.accelerator}"
            counts[where, load.title].append((after - before) / (end - begin))
            machine.call("kill $(jobs -p); wait", Deadline(HANG_S))


def interrupts(machine: Guest) -> tuple[int, float]:
    """The second processor's interrupts so far, and the guest's uptime in seconds."""
    said = machine.call("cat /proc/interrupts /proc/uptime", Deadline(HANG_S))
    *lines, uptime = said.splitlines()
    counted = [line.split()[1:3] for line in lines if ":" in line]
    seconds = [pair for pair in counted if all(it.isdigit() for it in pair)]
    return sum(int(pair[1]) for pair in seconds if len(pair) > 1), float(
        uptime.split()[0]
    )


def keep(rows: Rows, load: str, records: Sequence[Record]) -> Iterator[str]:
    """Keeps the figures of one round, in µs; returns which sources have none, and why."""
    for record in records:
        if record["reason"]:
            yield f"{record['source']}: {record['reason']}"
            continue
        for outcome in outcomes_of(record, "", PERIOD_US * 1e3):
            if isinstance(outcome, Value) and outcome.probe in FIGURES:
                found = rows[record["source"], load][outcome.probe]
                found.append(outcome.value / 1e3)


def shown(rows: Rows) -> Iterator[list[str]]:
    """The median over rounds, and for the standard deviation also its range."""
    for name, figures in rows.items():
        deviations = figures[""]
        cells = [f"{median(figures[key]):.2f}" for key in FIGURES]
        cells[0] += f" ({min(deviations):.2f} – {max(deviations):.2f})"
        yield [*name, *cells, str(len(deviations))]


def counted(counts: Counts) -> Iterator[list[str]]:
    """The median over rounds, and the range."""
    for name, rates in counts.items():
        between = f"{min(rates):.0f} – {max(rates):.0f}"
        yield [*name, f"{median(rates):.0f}", between, str(len(rates))]


if __name__ == "__main__":
    sys.exit(main())
