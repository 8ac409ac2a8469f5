"""Arms timers that go off one after the other, each with a signal of its own, and prints each signal that comes. It
holds memory that takes CRIU time to write: some go off meanwhile.
"""

import ctypes
import os
import signal
import time

from timers import LIBC, Event, Spec, done

STEP = 0.02
TIMERS = list(range(signal.SIGRTMIN, signal.SIGRTMIN + 30))


def main():
    memory = bytearray(os.urandom(1 << 20)) * 256
    signals = {*TIMERS, signal.SIGALRM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    for number, one in enumerate(TIMERS, 1):
        timer = ctypes.c_void_p()
        event = Event(signal=one)
        done(
            LIBC.timer_create(
                time.CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(timer)
            )
        )
        done(LIBC.timer_settime(timer, 0, ctypes.byref(Spec(number * STEP)), None))
    signal.setitimer(signal.ITIMER_REAL, len(TIMERS) / 2 * STEP)
    print(*sorted(signals), flush=True)
    while memory:
        print(signal.sigwaitinfo(signals).si_signo, flush=True)


main()
