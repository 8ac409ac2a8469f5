"""What supervisors and their guardians use: processor time, memory, context switches."""

import json
import os
import resource
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from eigenbench.processes import Deadline, exits
from eigenbench.timelines import FOLDER, VARIABLE

PROCESSES = Path("/proc")
# The kernel keeps the first 15 bytes of a name.
GUARDIAN = "eigentime-guard"
ASK_TIMEOUT_S = 5.0
# A process that has used no processor for this long has nothing left to do.
SETTLED_S = 0.2
# Reading about a process that has ended raises one of these.
GONE = (FileNotFoundError, ProcessLookupError)


@dataclass(frozen=True)
class Process:
    """A process, and what the kernel knows about it."""

    pid: int

    @property
    def cpu_ns(self) -> int:
        """The processor time of all its threads, including those that have ended."""
        # From <linux/posix-timers.h>: the clock of a process (CPUCLOCK_SCHED).
        return time.clock_gettime_ns((~self.pid << 3) | 2)

    @property
    def memory_bytes(self) -> int:
        """Its resident memory."""
        return 1024 * int(_field(self.folder / "status", "VmRSS").split()[0])

    @property
    def switches(self) -> int:
        """The context switches of its threads, voluntary and involuntary."""
        kinds = ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
        return sum(
            int(_field(thread / "status", kind))
            for thread in (self.folder / "task").iterdir()
            for kind in kinds
        )

    @property
    def parent(self) -> "Process":
        """The process that started or adopted it."""
        return Process(int(_field(self.folder / "status", "PPid")))

    @property
    def guardian(self) -> "Process":
        """The guardian that a supervisor has beside it."""
        for process in _processes():
            with suppress(*GONE):
                name = _field(process.folder / "status", "Name")
                if name == GUARDIAN and process.parent == self:
                    return process
        raise LookupError(f"process {self.pid} has no guardian")

    def settle(self, deadline: Deadline) -> None:
        """Wait until it has nothing left to do."""
        before = -1
        while (now := self.cpu_ns) != before or self.is_running:
            if not deadline.remaining():
                raise TimeoutError(f"process {self.pid} does not come to rest")
            before = now
            time.sleep(SETTLED_S)

    def last_cpu_ns(self, deadline: Deadline) -> float:
        """All the processor time that it used, once it has ended. It must be a child of ours."""
        if not exits(self.pid, deadline):
            raise TimeoutError(f"process {self.pid} does not end")
        _, _, usage = os.wait4(self.pid, 0)
        return (usage.ru_utime + usage.ru_stime) * 1e9

    @property
    def is_running(self) -> bool:
        """Whether any of its threads runs or waits for a processor."""
        threads = (self.folder / "task").iterdir()
        return any(_field(it / "status", "State").startswith("R") for it in threads)

    @property
    def folder(self) -> Path:
        """Its directory in procfs."""
        return PROCESSES / str(self.pid)


def supervisors(command: Sequence[str]) -> set[Process]:
    """The supervisors that `eigentime run` with these arguments has started."""
    found = {}
    for process in begun_with(command):
        with suppress(*GONE):
            found[process] = process.parent
    # Guardians are their children and have the same arguments.
    return {process for process, parent in found.items() if parent not in found}


def begun_with(arguments: Sequence[str]) -> Iterator[Process]:
    """All processes whose arguments begin with these."""
    wanted = b"".join(os.fsencode(argument) + b"\0" for argument in arguments)
    for process in _processes():
        with suppress(*GONE):
            if (process.folder / "cmdline").read_bytes().startswith(wanted):
                yield process


def supervisor_of(timeline: str) -> Process:
    """The supervisor of a named timeline, by its own account."""
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
    """How many more processes may be started on this machine."""
    limits = [
        int((PROCESSES / "sys/kernel" / name).read_text())
        for name in ("pid_max", "threads-max")
    ]
    own, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    # The superuser is exempt from it.
    if own != resource.RLIM_INFINITY and os.geteuid() != 0:
        limits.append(own)
    # Such as 3/412: the runnable threads, and all threads.
    threads = (PROCESSES / "loadavg").read_text().split()[3].partition("/")[2]
    return min(limits) - int(threads)


def _field(file: Path, name: str) -> str:
    for line in file.read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value.strip()
    raise LookupError(f"{file} has no {name}")
