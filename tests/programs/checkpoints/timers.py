"""Arms a timer of every kind and prints a number, the wall clock and the monotonic clock once all have gone off, again
and again. If one is lost, no further line follows.
"""

import ctypes
import itertools
import os
import select
import signal
import threading
import time

SPAN = 0.1
LIBC = ctypes.CDLL(None, use_errno=True)
ABSOLUTE = 1
SIGEV_SIGNAL = 0
POSIX, INTERVAL = signal.SIGUSR2, signal.SIGALRM


class Spec(ctypes.Structure):
    """An `itimerspec`."""

    _fields_ = [(name, ctypes.c_long) for name in ("s", "ns", "due_s", "due_ns")]

    def __init__(self, due, interval=0):
        super().__init__(interval, 0, int(due), int(due % 1 * 1e9))


class Event(ctypes.Structure):
    """A `sigevent`."""

    _fields_ = [
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("rest", ctypes.c_char * 48),
    ]


def done(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "a timer cannot be made")
    return result


def by_descriptor(clock, flags):
    descriptor = done(LIBC.timerfd_create(clock, 0))
    spec = Spec(SPAN + (time.clock_gettime(clock) if flags else 0))
    done(LIBC.timerfd_settime(descriptor, flags, ctypes.byref(spec), None))
    os.read(descriptor, 8)
    os.close(descriptor)


def by_signal(number, arm):
    arm()
    signal.sigwait({number})


def new_timer(clock):
    timer = ctypes.c_void_p()
    event = Event(None, POSIX, SIGEV_SIGNAL)
    done(LIBC.timer_create(clock, ctypes.byref(event), ctypes.byref(timer)))
    return timer


def posix_timer(clock, span, interval=0):
    timer = new_timer(clock)
    setting = Spec(span, interval)
    return lambda: done(LIBC.timer_settime(timer, 0, ctypes.byref(setting), None))


def main():
    signal.pthread_sigmask(signal.SIG_BLOCK, {POSIX, INTERVAL})
    wall, monotonic = time.CLOCK_REALTIME, time.CLOCK_MONOTONIC
    kinds = [
        (by_descriptor, wall, ABSOLUTE),
        (by_descriptor, monotonic, ABSOLUTE),
        (by_descriptor, monotonic, 0),
        (time.sleep, SPAN),
        (select.poll().poll, SPAN * 1000),
        (by_signal, POSIX, posix_timer(monotonic, SPAN)),
        (by_signal, INTERVAL, lambda: signal.setitimer(signal.ITIMER_REAL, SPAN)),
    ]
    for number in itertools.count():
        threads = [threading.Thread(target=wait, args=args) for wait, *args in kinds]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(number, time.time(), time.monotonic(), flush=True)


if __name__ == "__main__":
    main()
