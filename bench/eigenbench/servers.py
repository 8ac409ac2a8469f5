"""What the suites share that start a server at a level and ask it for work."""

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from eigenbench import levels
from eigenbench.processes import Deadline
from eigenbench.suites import Failure, Outcome

LEVELS = (
    levels.HOST,
    levels.NAMESPACE,
    levels.OFFSET,
    levels.RATE_10,
    levels.RATE_10_TRAPPED,
    levels.FAKETIME_RATE,
    levels.STRACE,
    levels.FOLLOWER,
    levels.HOST_AGAIN,
)


def all_failed(wanted: Sequence[str], reason: str) -> Iterator[Outcome]:
    """Why there is nothing to be measured."""
    return (Failure(probe, reason) for probe in wanted)


def clients_text(clients: int) -> str:
    """How many clients, in words."""
    return f"{clients} client{'s' if clients > 1 else ''}"


def answers(
    process: subprocess.Popen[bytes],
    deadline: Deadline,
    ask: Callable[[], bool],
    interval_s: float,
) -> bool:
    """Whether a server answers in time, and does not end before."""
    while deadline.remaining() and process.poll() is None:
        if ask():
            return True
        time.sleep(interval_s)
    return False


def why_not_started(
    process: subprocess.Popen[bytes], log: Path, waited_s: float
) -> str:
    """What a server said that does not answer."""
    if process.returncode is None:
        return f"no answer in {waited_s:.0f} s"
    complaint = log.read_text(errors="replace").strip().splitlines()
    return complaint[0] if complaint else f"exit status {process.returncode}"
