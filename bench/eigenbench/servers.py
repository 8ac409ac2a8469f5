"""What suites have in common that start a server at a level and measure its work."""

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
    """Failures of all probes, for this reason."""
    return (Failure(probe, reason) for probe in wanted)


def clients_text(clients: int) -> str:
    """The number of clients, in words."""
    return f"{clients} client{'s' if clients > 1 else ''}"


def answers(
    process: subprocess.Popen[bytes],
    deadline: Deadline,
    ask: Callable[[], bool],
    interval_s: float,
) -> bool:
    """Whether a server answers in time, without ending before."""
    while deadline.remaining() and process.poll() is None:
        if ask():
            return True
        time.sleep(interval_s)
    return False


def why_not_started(
    process: subprocess.Popen[bytes], log: Path, waited_s: float
) -> str:
    """The output of a server that does not answer."""
    if process.returncode is None:
        return f"no answer in {waited_s:.0f} s"
    complaint = log.read_text(errors="replace").strip().splitlines()
    return complaint[0] if complaint else f"exit status {process.returncode}"
