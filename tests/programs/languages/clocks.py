"""Waits by the usual means of Python; `clocks.py MS` makes every wait last MS milliseconds."""

import asyncio
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable


def measure(name: str, wanted_s: float, wait: Callable[[], object]) -> None:
    """Print when a wait starts and ends, and how long it took on both clocks."""
    print(f"{name} begin", flush=True)
    start, wall = time.monotonic(), time.time()
    wait()
    mono, walled = time.monotonic() - start, time.time() - wall
    print(
        f"{name} end wanted_ms={wanted_s * 1e3:.3f} mono_ms={mono * 1e3:.3f}"
        f" wall_ms={walled * 1e3:.3f}",
        flush=True,
    )


def wait_for_child(wanted_s: float) -> None:
    """Give up on a child that would run for much longer."""
    try:
        subprocess.run(["sleep", str(100 * wanted_s)], timeout=wanted_s, check=False)
    except subprocess.TimeoutExpired:
        return
    raise RuntimeError("the child ended by itself")


def wait_for_alarm(wanted_s: float) -> None:
    """Wait for the signal of an interval timer."""
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, wanted_s)
    signal.pause()


def wait_on_queue(wanted_s: float) -> None:
    """Wait for a queue that stays empty."""
    try:
        queue.Queue().get(timeout=wanted_s)
    except queue.Empty:
        return
    raise RuntimeError("something was in the queue")


def wait_on_socket(wanted_s: float) -> None:
    """Wait for a socket that stays silent."""
    here, there = socket.socketpair()
    with here, there:
        here.settimeout(wanted_s)
        try:
            here.recv(1)
        except TimeoutError:
            return
    raise RuntimeError("something was received")


def main() -> None:
    """Run every wait once."""
    wanted_s = float(sys.argv[1]) / 1e3
    print(f"date={int(time.time())}", flush=True)
    measure("sleep", wanted_s, lambda: time.sleep(wanted_s))
    measure("event", wanted_s, lambda: threading.Event().wait(wanted_s))
    measure("select", wanted_s, lambda: select.select([], [], [], wanted_s))
    measure("asyncio", wanted_s, lambda: asyncio.run(asyncio.sleep(wanted_s)))
    measure("queue", wanted_s, lambda: wait_on_queue(wanted_s))
    measure("socket", wanted_s, lambda: wait_on_socket(wanted_s))
    measure("setitimer", wanted_s, lambda: wait_for_alarm(wanted_s))
    measure("subprocess", wanted_s, lambda: wait_for_child(wanted_s))


if __name__ == "__main__":
    main()
