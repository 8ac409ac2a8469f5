"""Which CPU is disturbed least by devices, and how to have them disturb others."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

INTERRUPTS = Path("/proc/interrupts")
# A folder for each, with the list of CPUs that may handle it.
AFFINITIES = Path("/proc/irq")


def quietest(allowed: Collection[int], interrupts: str) -> int:
    """The CPU among `allowed` that devices have interrupted least; of equals the last.

    `interrupts` is what /proc/interrupts says: a line of CPUs, then one per interrupt,
    whose name is a number if it is a device's.
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
    """Has devices interrupt other CPUs than this one for as long as the block takes.

    What the kernel or a lack of rights does not allow stays as it is. Somebody who kills
    this program (SIGKILL) has to put the lists back, or restart the machine.
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
