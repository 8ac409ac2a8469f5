#!/usr/bin/env python3
"""Hold readings after pauses against their bounds, in processes that did nothing else."""

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from eigenbench import precision
from eigenbench.precision import Record
from eigenbench.processes import Deadline
from eigenbench.table import markdown as table

ROOT = Path(__file__).resolve().parent.parent
PAUSES_S = (0.001, 1.0, 10.0, 60.0, 300.0)
LONG_S = (600.0, 3600.0)
PROCESSES = 8
# What a process takes for its start, and what it goes on for after its reading.
START_S = 10.0
AFTER_S = 0.5
# After the first calibration, and before the shortest pause that is stopped ends.
STOPPED_AFTER_S = 0.3
SHORTEST_STOP_S = 1.0
# In percent of the readings of a cell.
ALLOWED = 0.1
MISSING = (
    "a suspended virtual machine, a clock that is stepped or slewed, and another "
    "clocksource are not measured: they need a machine of their own"
)


def main() -> int:
    """All pauses at once; status 3 if a cell has too many readings outside."""
    parser = argparse.ArgumentParser(prog="bench/pauses.py", description=__doc__)
    parser.add_argument(
        "--long", action="store_true", help="pauses of 10 and 60 minutes, too"
    )
    arguments = parser.parse_args()
    program = precision.build(precision.target(ROOT))
    if program.absent:
        print(f"pauses: {program.absent}", file=sys.stderr)
        return 1
    pauses = PAUSES_S + (LONG_S if arguments.long else ())
    cells = [(pause, False) for pause in pauses]
    cells += [(pause, True) for pause in pauses if pause >= SHORTEST_STOP_S]
    try:
        readings = measured(program, cells)
    except precision.Failed as failed:
        print(f"pauses: {failed}", file=sys.stderr)
        return 1
    rows, worst = [], 0.0
    for (pause, stopped), records in zip(cells, readings, strict=True):
        row, outside = judged(records)
        worst = max(worst, outside)
        rows.append([f"{pause:g} s", "stopped" if stopped else "sleeping", *row])
    header = ["pause", "process", "readings", "outside", "bound, ns", "worst bound, ns"]
    print(table(header, "llrrrr", rows))
    print(f"\nOf these, {MISSING}.")
    return 3 if worst > ALLOWED else 0


def measured(
    program: precision.Program, cells: Sequence[tuple[float, bool]]
) -> list[list[Record]]:
    """The readings of each cell, whose processes all run at the same time."""
    started = []
    try:
        for pause, stopped in cells:
            gap = str(pause * 1e6)
            command = ["bounds", "--seconds", str(max(pause, AFTER_S) + AFTER_S)]
            command += ["--shortest", gap, "--longest", gap]
            for _ in range(PROCESSES):
                out = tempfile.TemporaryFile()  # noqa: SIM115
                process = subprocess.Popen(program.command(*command), stdout=out)
                started.append((process, out, stopped, time.monotonic() + pause))
        time.sleep(STOPPED_AFTER_S)
        stops = [(process, end) for process, _, stopped, end in started if stopped]
        for process, _ in stops:
            process.send_signal(signal.SIGSTOP)
        for process, end in sorted(stops, key=lambda stop: stop[1]):
            # A little before the pause ends: the reading is to be the process's next act.
            time.sleep(max(0.0, end - STOPPED_AFTER_S - time.monotonic()))
            process.send_signal(signal.SIGCONT)
        deadline = Deadline(max(pause for pause, _ in cells) + START_S)
        readings: list[list[Record]] = []
        for number, (process, out, _, _) in enumerate(started):
            if process.wait(deadline.remaining()):
                raise precision.Failed(f"exit status {process.returncode}")
            out.seek(0)
            records = precision.parsed(out.read().decode())
            if number % PROCESSES == 0:
                readings.append([])
            readings[-1] += [it for one in records for it in one.get("readings", [])]
        return readings
    except subprocess.TimeoutExpired as error:
        raise precision.Failed("timed out") from error
    finally:
        for process, out, _, _ in started:
            process.kill()
            process.wait()
            out.close()


def judged(readings: Sequence[Record]) -> tuple[list[str], float]:
    """A row, and how many percent are outside; a reading without a bound is."""
    if not readings:
        raise precision.Failed("a process has read nothing")
    bounds = [it["bound"] for it in readings if it["bound"] is not None]
    held = sum(
        it["bound"] is not None and it["least"] <= it["bound"] for it in readings
    )
    outside = 100 * (1 - held / len(readings))
    shown = [f"{median(bounds):.0f}", f"{max(bounds)}"] if bounds else ["none", "none"]
    return [str(len(readings)), f"{outside:.2f} %", *shown], outside


if __name__ == "__main__":
    sys.exit(main())
