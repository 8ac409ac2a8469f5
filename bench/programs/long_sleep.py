"""Sleeps through one interface, relative and then absolute, and prints how late each ended.

long_sleep.py c LIBRARY SECONDS
long_sleep.py python SECONDS
long_sleep.py libc SECONDS

`libc` selects the functions of the C library, or of a library that the caller has preloaded.
Several threads sleep at once. CLOCK_MONOTONIC is read with a system call, which no library
can intercept.
"""

import ctypes
import json
import platform
import sys
import threading
from collections.abc import Callable

THREADS = 8
NS = 10**9
CLOCK_MONOTONIC = 1
TIMER_ABSTIME = 1
CLOCK_GETTIME = {"x86_64": 228, "aarch64": 113}[platform.machine()]
LIBC = ctypes.CDLL(None)

# For this many nanoseconds, and until CLOCK_MONOTONIC shows this many.
Sleeps = tuple[Callable[[int], object], Callable[[int], object]]


class Timespec(ctypes.Structure):
    """As in C."""

    _fields_ = (("seconds", ctypes.c_long), ("nanos", ctypes.c_long))


def kernel_ns() -> int:
    """CLOCK_MONOTONIC."""
    now = Timespec()
    if LIBC.syscall(CLOCK_GETTIME, CLOCK_MONOTONIC, ctypes.byref(now)):
        raise OSError("clock_gettime")
    return now.seconds * NS + now.nanos


def of_c(library: str) -> Sleeps:
    """The functions for C, on which those for C++ are a header."""
    here = ctypes.CDLL(library)
    here.eigentime_from_monotonic.restype = ctypes.c_uint64
    sleeper = ctypes.c_void_p()
    if here.eigentime_sleeper_new(None, ctypes.byref(sleeper)):
        raise OSError("eigentime_sleeper_new")

    def until(ns: int) -> int:
        instant = ctypes.c_uint64(here.eigentime_from_monotonic(ctypes.c_int64(ns)))
        return here.eigentime_sleep_until(sleeper, instant, None)

    return lambda ns: here.eigentime_sleep_for(sleeper, ctypes.c_int64(ns), None), until


def of_python() -> Sleeps:
    """The functions of the Python package."""
    import eigentime

    sleeper = eigentime.Sleeper()
    return sleeper.sleep_ns, sleeper.sleep_until_ns


def of_libc() -> Sleeps:
    """The functions of the C library."""

    def spec(ns: int) -> object:
        return ctypes.byref(Timespec(ns // NS, ns % NS))

    def until(ns: int) -> int:
        return LIBC.clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, spec(ns), None)

    return lambda ns: LIBC.nanosleep(spec(ns), None), until


WAYS: dict[str, Callable[..., Sleeps]] = {
    "c": of_c,
    "python": of_python,
    "libc": of_libc,
}


def main() -> None:
    """Sleeps, and prints how late each sleep ended, in nanoseconds."""
    way, *arguments, seconds = sys.argv[1:]
    length = int(float(seconds) * NS)
    misses: list[int] = []

    def sleep() -> None:
        relative, until = WAYS[way](*arguments)
        end = kernel_ns() + length
        relative(length)
        misses.append(kernel_ns() - end)
        end = kernel_ns() + length
        until(end)
        misses.append(kernel_ns() - end)

    threads = [threading.Thread(target=sleep) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(misses) < 2 * THREADS:
        # The thread has printed the reason.
        sys.exit(1)
    print(json.dumps({"misses": misses, "reason": ""}))


if __name__ == "__main__":
    main()
