"""Which CPU is disturbed least by devices."""

from collections.abc import Collection
from pathlib import Path

INTERRUPTS = Path("/proc/interrupts")


def quietest(allowed: Collection[int], interrupts: str) -> int:
    """The CPU among `allowed` that devices have interrupted least; of equals the last.

    `interrupts` is what /proc/interrupts says: a line of CPUs, then one per interrupt,
    whose name is a number if it is a device's.
    """
    header, *lines = interrupts.splitlines()
    cpus = [int(name.removeprefix("CPU")) for name in header.split()]
    counts = dict.fromkeys(allowed, 0)
    for line in lines:
        name, *fields = line.split()
        if name.removesuffix(":").isdigit():
            for cpu, count in zip(cpus, fields, strict=False):
                if cpu in counts:
                    counts[cpu] += int(count)
    return min(counts, key=lambda cpu: (counts[cpu], -cpu))
