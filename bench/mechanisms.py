#!/usr/bin/env python3
"""What helps periodic events under load: each mechanism beside the same without it."""

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
from eigenbench.precision import Failed, Load, Record, loaded, parsed
from eigenbench.processes import Deadline
from eigenbench.suites import Value
from eigenbench.table import markdown as table

ROOT = Path(__file__).resolve().parent.parent
REALTIME_KERNEL = KERNEL.parent.parent / "vm-rt" / KERNEL.name
PERIOD_US = 50
EVENTS = 4_500
# In each the sources take turns, so that what disturbs the machine disturbs all of them.
ROUNDS = 10
GUEST_ROUNDS = 3
HANG_S = 60.0
BOOT_S = 120.0
# The figures of a row: suffix of the probe, and heading.
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
    "ahead-deadline",
    "spin-fifo",
    "relay-fifo",
)
GUEST_SOURCES = ("timerfd-fifo", "ahead-fifo", "ahead-deadline", "spin-fifo")
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
# A row: where, which source, under which load; and the values of each figure.
Rows = defaultdict[tuple[str, str, str], defaultdict[str, list[float]]]


def main() -> int:
    """Measure, and print a table as the rows are known."""
    parser = argparse.ArgumentParser(prog="bench/mechanisms.py", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--guest-rounds", type=int, default=GUEST_ROUNDS)
    arguments = parser.parse_args()
    program = precision.build(precision.target(ROOT))
    if program.absent:
        print(f"mechanisms: {program.absent}", file=sys.stderr)
        return 1
    rows: Rows = defaultdict(lambda: defaultdict(list))
    missing: set[str] = set()
    for _ in range(arguments.rounds):
        for load in LOADS:
            with loaded(program, load):
                for source in HOST_SOURCES:
                    found = program.records(
                        command(program.cpu, source), Deadline(HANG_S)
                    )
                    keep(rows, missing, "host", load.title, found)
    for _ in range(arguments.guest_rounds):
        for kernel in KERNELS:
            try:
                in_guest(program, kernel, rows, missing)
            except Failed as failed:
                missing.add(f"{kernel.title}: {failed}")
    print(
        table(
            ["where", "source", "load", *FIGURES.values(), "rounds"],
            "lllrrrrrr",
            shown(rows),
        )
    )
    for line in sorted(missing):
        print(f"\nNot measured: {line}.")
    return 0


def command(cpu: int, source: str) -> list[str]:
    """Arguments of the program."""
    words = ["events", "--cpu", str(cpu), "--micros", str(PERIOD_US)]
    return [*words, "--events", str(EVENTS), "--source", source]


def in_guest(
    program: precision.Program, kernel: Kernel, rows: Rows, missing: set[str]
) -> None:
    """All sources, in one machine: its second processor has the events."""
    with guest([program.file], Deadline(BOOT_S), kernel.file, kernel.append) as machine:
        for load in LOADS:
            cpus = (0, 1) if load.everywhere else (0,)
            for cpu in cpus:
                busy(machine, f"{program.file.name} load io --cpu {cpu} --folder /tmp")
            for source in GUEST_SOURCES:
                words = [program.file.name, *command(1, source)]
                said = machine.call(" ".join(words), Deadline(HANG_S))
                where = f"{kernel.title}, {machine.accelerator}"
                keep(rows, missing, where, load.title, parsed(said))
            machine.call("kill $(jobs -p); wait", Deadline(HANG_S))


def busy(machine: Guest, line: str) -> None:
    """Leave something running."""
    machine.call(f"{line} > /dev/null 2>&1 &", Deadline(HANG_S))


def keep(
    rows: Rows, missing: set[str], where: str, load: str, records: Sequence[Record]
) -> None:
    """The figures of one round, in µs."""
    for record in records:
        if record["reason"]:
            missing.add(f"{where}, {record['source']}: {record['reason']}")
            continue
        for outcome in outcomes_of(record, "", PERIOD_US * 1e3):
            if isinstance(outcome, Value) and outcome.probe in FIGURES:
                rows[where, record["source"], load][outcome.probe].append(
                    outcome.value / 1e3
                )


def shown(rows: Rows) -> Iterator[list[str]]:
    """The median over rounds, and of the standard deviation its range, too."""
    for name, figures in rows.items():
        deviations = figures[""]
        cells = [f"{median(figures[key]):.2f}" for key in FIGURES]
        cells[0] += f" ({min(deviations):.2f} – {max(deviations):.2f})"
        yield [*name, *cells, str(len(deviations))]


if __name__ == "__main__":
    sys.exit(main())
