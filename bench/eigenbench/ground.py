"""A temporary place for a run's containers: everything left in it is removed at the end.

Runtimes leave a container's processes to whoever adopts them, as engines' monitors do. This
process adopts them too, so that they are always reaped.
"""

import ctypes
import itertools
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from eigenbench.processes import POLL_S, Deadline, run

CGROUPS = Path("/sys/fs/cgroup")
MOUNTS = Path("/proc/self/mountinfo")
PROCESSES = Path("/proc")
# Part of a container's root file system, for engines that cannot create them there.
MOUNT_POINTS = ("dev", "etc", "proc", "run", "sys", "tmp")
# From <linux/prctl.h>.
SET_CHILD_SUBREAPER = 36
REMOVAL_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Ground:
    """A folder, a root file system for containers, and unique names."""

    folder: Path
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def rootfs(self) -> Path:
        """The containers' root file system, which is read-only for them."""
        return self.folder / "rootfs"

    @property
    def cgroup(self) -> str:
        """The prefix of all control groups' names."""
        return _prefix()

    def name(self) -> str:
        """A unique name for a container."""
        return f"{_prefix()}-{next(self._numbers)}"

    @contextmanager
    def freezer(self) -> Iterator[Path]:
        """A control group that can freeze processes; they must have ended when it is left."""
        folder = _unified() / self.name()
        folder.mkdir()
        try:
            yield folder
        finally:
            _remove_cgroup(folder, Deadline(REMOVAL_TIMEOUT_S))

    def reap(self) -> bool:
        """Reaps the adopted processes that have ended; returns whether any are left.

        There must be no other child meanwhile.
        """
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            return True
        return False

    def settle(self, deadline: Deadline) -> bool:
        """Waits for the end of the processes that name the folder in their arguments.

        Engines leave processes behind that clean up; returns whether all have ended in time.
        """
        while self.reap() and _naming(self.folder):
            if not deadline.remaining():
                return False
            time.sleep(POLL_S)
        return True


@contextmanager
def ground(programs: Iterable[Path]) -> Iterator[Ground]:
    """A ground with `programs`; afterwards nothing of it remains."""
    folder = Path(tempfile.mkdtemp(prefix="eigenbench-containers-"))
    there = Ground(folder)
    _adopt(orphans=True)
    try:
        for mount_point in MOUNT_POINTS:
            (there.rootfs / mount_point).mkdir(parents=True)
        for program in programs:
            shutil.copy2(program, there.rootfs)
        yield there
    finally:
        deadline = Deadline(REMOVAL_TIMEOUT_S)
        _kill_members(deadline)
        while there.reap() and deadline.remaining():
            time.sleep(POLL_S)
        _adopt(orphans=False)
        for cgroup in _cgroups():
            _remove_cgroup(cgroup, deadline)
        for mount in reversed(mounts_below(folder, MOUNTS.read_text())):
            run(["umount", "--lazy", mount], deadline)
        shutil.rmtree(folder, ignore_errors=True)


def _adopt(*, orphans: bool) -> None:
    """Makes this process the parent of orphaned descendants, or undoes that."""
    if ctypes.CDLL(None, use_errno=True).prctl(SET_CHILD_SUBREAPER, int(orphans)):
        raise OSError(ctypes.get_errno(), "cannot adopt processes")


def mounts_below(folder: Path, mountinfo: str) -> list[str]:
    """The mount points in a folder, in mount order."""
    points = (line.split()[4] for line in mountinfo.splitlines())
    return [point for point in points if Path(point).is_relative_to(folder)]


def _prefix() -> str:
    return f"eigenbench-{os.getpid()}"


def _unified() -> Path:
    """The hierarchy of version 2, which may be mounted beside those of version 1."""
    hybrid = CGROUPS / "unified"
    return hybrid if hybrid.is_dir() else CGROUPS


def _cgroups() -> list[Path]:
    """Our control groups, in every hierarchy."""
    pattern = f"{_prefix()}*"
    return [*CGROUPS.glob(pattern), *CGROUPS.glob(f"*/{pattern}")]


def _members(cgroups: Iterable[Path]) -> list[int]:
    """The processes in control groups and in those below them."""
    found = []
    for cgroup in cgroups:
        for file in cgroup.rglob("cgroup.procs"):
            with suppress(OSError):
                found += map(int, file.read_text().split())
    # Processes in other process-ID namespaces show as 0.
    return [process for process in found if process]


def _naming(folder: Path) -> list[int]:
    """The processes that name the folder in their arguments, except this one."""
    wanted = os.fsencode(folder)
    found = []
    for process in PROCESSES.iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            with suppress(OSError):
                if wanted in (process / "cmdline").read_bytes():
                    found.append(int(process.name))
    return found


def _kill_members(deadline: Deadline) -> None:
    """Kills the remaining processes in our control groups."""
    while (members := _members(_cgroups())) and deadline.remaining():
        for process in members:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(POLL_S)


def _remove_cgroup(cgroup: Path, deadline: Deadline) -> None:
    folders = [path for path in cgroup.rglob("*") if path.is_dir()]
    for folder in [*sorted(folders, reverse=True), cgroup]:
        while folder.exists():
            with suppress(OSError):
                folder.rmdir()
                break
            # Its last process may not be reaped yet.
            if not deadline.remaining():
                return
            time.sleep(POLL_S)
