"""Finding the CPU that devices disturb least, and making them disturb others."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

INTERRUPTS = Path("/proc/interrupts")
# It has a folder for each interrupt, with the list of CPUs that may handle it.
AFFINITIES = Path("/proc/irq")


def quietest(allowed: Collection[int], interrupts: str) -> int:
    """The CPU among `allowed` that devices have interrupted least; the last of equals.

    `interrupts` is the text of /proc/interrupts: a line of CPUs, then one per interrupt, whose
    name is a number if it is a device's.
    """
    header, *lines = interrupts.splitlines()
    cpus = _cpus(header)
    counts = dict.fromkeys(allowed, 0)
    for line in lines:
        name, *fields = line.split()
        if name.removesuffix(":").isdigit():
            for cpu, count in zip(cpus, fields, strict=False):
                if cpu in counts:
                    counts[cpu] += int(count)
    return min(counts, key=lambda cpu: (counts[cpu], -cpu))


@contextmanager
def spared(cpu: int, affinities: Path = AFFINITIES) -> Iterator[None]:
    """Makes devices interrupt other CPUs than this one until the block ends.

    What the kernel or missing rights do not allow stays unchanged. Whoever kills this program
    (SIGKILL) must restore the lists, or restart the machine.
    """
    cpus = _cpus(INTERRUPTS.read_text().splitlines()[0])
    others = ",".join(str(other) for other in cpus if other != cpu)
    before: dict[Path, str] = {}
    try:
        for file in affinities.glob("*/smp_affinity_list") if others else ():
            with suppress(OSError):
                found = file.read_text()
                file.write_text(others)
                before[file] = found
        yield
    finally:
        for file, found in before.items():
            # The device may be gone.
            with suppress(OSError):
                file.write_text(found)


def _cpus(header: str) -> list[int]:
    return [int(name.removeprefix("CPU")) for name in header.split()]
