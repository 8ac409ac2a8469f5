"""What a supervisor takes, as the kernel counts it."""

import json
import os
import resource
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from eigenbench.processes import Deadline, exits
from eigenbench.timelines import FOLDER, VARIABLE

PROCESSES = Path("/proc")
# As far as the kernel keeps it.
GUARDIAN = "eigentime-guard"
ASK_TIMEOUT_S = 5.0
# So long nothing was done: it waits, and does not come after itself.
SETTLED_S = 0.2
# What reading of a process says that has ended meanwhile.
GONE = (FileNotFoundError, ProcessLookupError)


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
        return 1024 * int(_field(self.folder / "status", "VmRSS").split()[0])

    @property
    def switches(self) -> int:
        """How often its threads gave a processor up, or lost it."""
        kinds = ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
        return sum(
            int(_field(thread / "status", kind))
            for thread in (self.folder / "task").iterdir()
            for kind in kinds
        )

    @property
    def parent(self) -> "Process":
        """The process that has started it, or adopted it."""
        return Process(int(_field(self.folder / "status", "PPid")))

    @property
    def guardian(self) -> "Process":
        """The child that ends or continues what the supervisor cannot any more."""
        for process in _processes():
            with suppress(*GONE):
                name = _field(process.folder / "status", "Name")
                if name == GUARDIAN and process.parent == self:
                    return process
        raise LookupError(f"process {self.pid} has no guardian")

    def settle(self, deadline: Deadline) -> None:
        """Wait until it has nothing to do."""
        before = -1
        while (now := self.cpu_ns) != before or self._is_running:
            if not deadline.remaining():
                raise TimeoutError(f"process {self.pid} does not come to rest")
            before = now
            time.sleep(SETTLED_S)

    def last_cpu_ns(self, deadline: Deadline) -> float:
        """What it has used of processors once it has ended; it has to be our child."""
        if not exits(self.pid, deadline):
            raise TimeoutError(f"process {self.pid} does not end")
        _, _, usage = os.wait4(self.pid, 0)
        return (usage.ru_utime + usage.ru_stime) * 1e9

    @property
    def _is_running(self) -> bool:
        """Whether a thread runs, or would if a processor were free."""
        threads = (self.folder / "task").iterdir()
        return any(_field(it / "status", "State").startswith("R") for it in threads)

    @property
    def folder(self) -> Path:
        """What the kernel says of it."""
        return PROCESSES / str(self.pid)


def supervisors(command: Sequence[str]) -> set[Process]:
    """The supervisors that a command has started; it becomes the program itself."""
    wanted = b"".join(os.fsencode(argument) + b"\0" for argument in command)
    found = {}
    for process in _processes():
        with suppress(*GONE):
            if (process.folder / "cmdline").read_bytes() == wanted:
                found[process] = process.parent
    # The guardian has the same arguments.
    return {process for process, parent in found.items() if parent not in found}


def supervisor_of(timeline: str) -> Process:
    """The supervisor of a named timeline, as it says itself."""
    path = Path(os.environ[VARIABLE], FOLDER, timeline)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ASK_TIMEOUT_S)
        connection.connect(str(path))
        connection.sendall(b'{"method":"info"}\n')
        with connection.makefile() as answers:
            return Process(json.loads(answers.readline())["result"]["supervisor"])


def _processes() -> list[Process]:
    return [Process(int(it.name)) for it in PROCESSES.iterdir() if it.name.isdigit()]


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
