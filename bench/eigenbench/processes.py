"""Child processes that always end, and a deadline for the whole run.

Each child leads a process group of its own, so that Ctrl-C reaches only the harness, which then
ends the group by the child's ID.
"""

import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import ceil
from typing import IO

# How long a child may take to end after SIGTERM; then SIGKILL follows.
GRACE_S = 1.0
POLL_S = 0.01


class Deadline:
    """The instant by which everything must have ended."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """The remaining seconds, never negative."""
        return max(0.0, self._end - time.monotonic())

    def within(self, seconds: float) -> "Deadline":
        """A deadline in `seconds`, or this one if it is earlier."""
        return Deadline(min(seconds, self.remaining()))


@dataclass(frozen=True)
class Finished:
    """The results of a child; `status` is None if it had to be killed."""

    status: int | None
    out: str
    err: str

    @property
    def succeeded(self) -> bool:
        """Whether it ended by itself with status 0."""
        return self.status == 0

    @property
    def complaint(self) -> str:
        """Why it did not succeed, in one line."""
        if self.status is None:
            return "timed out"
        lines = [line.strip() for line in self.err.splitlines() if line.strip()]
        return lines[0] if lines else f"exit status {self.status}"


@dataclass(frozen=True)
class Used:
    """The resources used by a child and by its own children that it waited for."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


@contextmanager
def child(
    argv: Sequence[str],
    out: IO[bytes] | int = subprocess.DEVNULL,
    err: IO[bytes] | int = subprocess.DEVNULL,
    env: Mapping[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
) -> Iterator[subprocess.Popen[bytes]]:
    """A running child; it is ended on leaving, if it has not ended by itself."""
    process = subprocess.Popen(
        argv,
        # `next_line` asks the kernel whether there is another line.
        bufsize=0,
        stdin=stdin,
        stdout=out,
        stderr=err,
        env=env,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        end(process)
        for pipe in process.stdin, process.stdout, process.stderr:
            if pipe is not None:
                # Input that it did not read is lost.
                with suppress(OSError):
                    pipe.close()


def run(argv: Sequence[str], deadline: Deadline) -> Finished:
    """Runs a command to its end or to the deadline, and keeps its output."""
    # Files, because a pipe would stay open in a grandchild that outlives its parent.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        status: int | None = None
        try:
            with child(argv, out, err) as process:
                if exits(process.pid, deadline):
                    status = process.wait()
        except OSError as error:
            return Finished(127, "", f"{argv[0]}: {error.strerror}")
        return Finished(status, _content(out), _content(err))


def run_used(argv: Sequence[str], deadline: Deadline) -> tuple[Finished, Used | None]:
    """Runs a command like `run`; also returns the resources used, if it ended by itself."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        used = None
        start = time.monotonic()
        try:
            with child(argv, out, err) as process:
                if exits(process.pid, deadline):
                    wall_s = time.monotonic() - start
                    _, status, usage = os.wait4(process.pid, 0)
                    process.returncode = os.waitstatus_to_exitcode(status)
                    # Linux counts the peak in KiB.
                    used = Used(
                        wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
                    )
        except OSError as error:
            return Finished(127, "", f"{argv[0]}: {error.strerror}"), None
        ended = process.returncode if used else None
        return Finished(ended, _content(out), _content(err)), used


def next_line(process: subprocess.Popen[bytes], deadline: Deadline) -> str:
    """The next line of a child; empty if none comes in time."""
    assert process.stdout
    if not select.select([process.stdout], [], [], deadline.remaining())[0]:
        return ""
    return process.stdout.readline().decode().strip()


def exits(pid: int, deadline: Deadline) -> bool:
    """Whether a child that was not reaped has exited, or does before the deadline."""
    process = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(process, select.POLLIN)
        return bool(poll.poll(ceil(deadline.remaining() * 1e3)))
    finally:
        os.close(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a child and the rest of its group; does nothing if it was reaped."""
    if process.returncode is not None:
        return
    _signal_group(process.pid, signal.SIGTERM)
    exits(process.pid, Deadline(GRACE_S))
    # It is not reaped yet, so no other process can have the group's ID.
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()


def _signal_group(leader: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, number)


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
