"""Arms timers of every kind that only their process can set, in it and in its children, and writes again and again when
each is due, as a line of JSON.
"""

import ctypes
import json
import os
import signal
import time

from timers import ABSOLUTE, LIBC, Spec, done, new_timer

CHILDREN = 5
LONG = 1000


def timer_of(clock, flags, interval):
    """Arms one; returns what tells when it is due."""
    timer = new_timer(clock)
    setting = Spec(LONG + (time.clock_gettime(clock) if flags else 0), interval)
    done(LIBC.timer_settime(timer, flags, ctypes.byref(setting), None))

    def due():
        left = Spec(0)
        done(LIBC.timer_gettime(timer, ctypes.byref(left)))
        return time.clock_gettime(clock) + left.due_s + left.due_ns / 1e9

    return due


def interval_timer():
    signal.setitimer(signal.ITIMER_REAL, LONG, LONG)
    return lambda: time.monotonic() + signal.getitimer(signal.ITIMER_REAL)[0]


def main():
    for _ in range(CHILDREN):
        if os.fork() == 0:
            break
    dues = {
        "monotonic": timer_of(time.CLOCK_MONOTONIC, 0, 0),
        "periodic": timer_of(time.CLOCK_MONOTONIC, 0, LONG),
        "wall": timer_of(time.CLOCK_REALTIME, ABSOLUTE, 0),
        "interval": interval_timer(),
    }
    while True:
        told = {name: due() for name, due in dues.items()}
        # In one piece, since others write to it as well.
        os.write(1, (json.dumps({"pid": os.getpid(), **told}) + "\n").encode())
        time.sleep(0.1)


if __name__ == "__main__":
    main()
