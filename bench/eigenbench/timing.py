"""How long a command takes, by the host's clock.

Its end is seen at once: `Popen.wait` with a timeout only looks every so often.
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
    """A command that is to be timed failed, or did not end in time."""


@dataclass(frozen=True)
class Timed:
    """When a command began and ended, in nanoseconds of the host."""

    begin: int
    end: int
    # When the descriptor that was watched could first be read; 0 if none was.
    readable: int = 0

    @property
    def took(self) -> int:
        """From begin to end."""
        return self.end - self.begin


def timed(
    command: Sequence[str],
    deadline: Deadline,
    out: IO[bytes] | int = subprocess.DEVNULL,
    watched: int | None = None,
) -> Timed:
    """Run a command to its end, and until `watched` can be read."""
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
    """When each descriptor could be read; without those that could not in time."""
    at: dict[int, int] = {}
    while left := [one for one in descriptors if one not in at]:
        ready = select.select(left, [], [], deadline.remaining())[0]
        now = time.monotonic_ns()
        if not ready:
            break
        at.update((one, now) for one in ready)
    return at
