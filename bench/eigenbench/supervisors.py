"""What a supervisor takes, as the kernel counts it."""

import json
import os
import resource
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from eigenbench.processes import Deadline
from eigenbench.timelines import FOLDER, VARIABLE

PROCESSES = Path("/proc")
# As far as the kernel keeps it.
GUARDIAN = "eigentime-guard"
ASK_TIMEOUT_S = 5.0
# So long nothing was done: it waits, and does not come after itself.
SETTLED_S = 0.2


@dataclass(frozen=True)
class Process:
    """A process and what it has used."""

    pid: int

    @property
    def cpu_ns(self) -> int:
        """The processor time of all of its threads, also of those that have ended."""
        # From <linux/posix-timers.h>: the clock of a process (CPUCLOCK_SCHED).
        return time.clock_gettime_ns((~self.pid << 3) | 2)

    @property
    def memory_bytes(self) -> int:
        """What of its memory is in use."""
        return 1024 * int(_field(self._folder / "status", "VmRSS").split()[0])

    @property
    def switches(self) -> int:
        """How often its threads gave a processor up, or lost it."""
        kinds = ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
        return sum(
            int(_field(thread / "status", kind))
            for thread in (self._folder / "task").iterdir()
            for kind in kinds
        )

    @property
    def guardian(self) -> "Process":
        """The child that ends or continues what the supervisor cannot any more."""
        for folder in PROCESSES.iterdir():
            # Others may end meanwhile.
            with suppress(ValueError, FileNotFoundError, ProcessLookupError):
                found = Process(int(folder.name))
                status = folder / "status"
                if int(_field(status, "PPid")) == self.pid and (
                    _field(status, "Name") == GUARDIAN
                ):
                    return found
        raise LookupError(f"process {self.pid} has no guardian")

    def settle(self, deadline: Deadline) -> None:
        """Wait until it has nothing to do."""
        before = -1
        while (now := self.cpu_ns) != before:
            if not deadline.remaining():
                raise TimeoutError(f"process {self.pid} does not come to rest")
            before = now
            time.sleep(SETTLED_S)

    @property
    def _folder(self) -> Path:
        return PROCESSES / str(self.pid)


def supervisor_of(timeline: str) -> Process:
    """The supervisor of a named timeline, as it says itself."""
    path = Path(os.environ[VARIABLE], FOLDER, timeline)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ASK_TIMEOUT_S)
        connection.connect(str(path))
        connection.sendall(b'{"method":"info"}\n')
        with connection.makefile() as answers:
            return Process(json.loads(answers.readline())["result"]["supervisor"])


def room() -> int:
    """How many more processes this machine lets us start."""
    limits = [
        int((PROCESSES / "sys/kernel" / name).read_text())
        for name in ("pid_max", "threads-max")
    ]
    own, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    # For the superuser it does not count.
    if own != resource.RLIM_INFINITY and os.geteuid() != 0:
        limits.append(own)
    # Threads that run, and all of them, such as 3/412.
    threads = (PROCESSES / "loadavg").read_text().split()[3].partition("/")[2]
    return min(limits) - int(threads)


def _field(file: Path, name: str) -> str:
    for line in file.read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value.strip()
    raise LookupError(f"{file} has no {name}")
