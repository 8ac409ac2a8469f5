"""The duration of a command, on the host's clock.

Its end is noticed at once: `Popen.wait` with a timeout only checks at intervals.
"""

import os
import select
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from eigenbench.processes import Deadline, Finished, child


class CommandError(Exception):
    """A timed command failed, or did not end in time."""


@dataclass(frozen=True)
class Timed:
    """When a command began and ended, in nanoseconds of the host."""

    begin: int
    end: int
    # When the watched descriptor first became readable; 0 if none was watched.
    readable: int = 0

    @property
    def took(self) -> int:
        """The duration."""
        return self.end - self.begin


def timed(
    command: Sequence[str],
    deadline: Deadline,
    out: IO[bytes] | int = subprocess.DEVNULL,
    watched: int | None = None,
) -> Timed:
    """Runs a command to its end, and until `watched` is readable."""
    with tempfile.TemporaryFile() as err:
        begin = time.monotonic_ns()
        with child(command, out, err) as process:
            end = os.pidfd_open(process.pid)
            try:
                wanted = [end] if watched is None else [end, watched]
                at = _readable(wanted, deadline)
            finally:
                os.close(end)
            status = process.wait() if end in at else None
        if status == 0 and len(at) == len(wanted):
            return Timed(begin, at[end], at.get(watched, 0) if watched else 0)
        err.seek(0)
        complaint = err.read().decode(errors="replace")
    raise CommandError(Finished(status or None, "", complaint).complaint)


def _readable(descriptors: Sequence[int], deadline: Deadline) -> dict[int, int]:
    """When each descriptor became readable; those that did not in time are missing."""
    at: dict[int, int] = {}
    while left := [one for one in descriptors if one not in at]:
        ready = select.select(left, [], [], deadline.remaining())[0]
        now = time.monotonic_ns()
        if not ready:
            break
        at.update((one, now) for one in ready)
    return at
