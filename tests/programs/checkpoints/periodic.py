"""Periodic timers: whenever one goes off, how often it was due, and by how many periods the clock has passed the first."""

import ctypes
import os
import select
import signal
import struct
import time

libc = ctypes.CDLL(None, use_errno=True)
MONOTONIC, ABSOLUTE, BY_SIGNAL = time.CLOCK_MONOTONIC, 1, 0
SIGNAL = signal.SIGUSR2
TURN = 0.02


def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "no timer")
    return result


signal.pthread_sigmask(signal.SIG_BLOCK, {SIGNAL})
descriptor = check(libc.timerfd_create(MONOTONIC, 0))
event = struct.pack("QiiQQQQQQ", 0, SIGNAL, BY_SIGNAL, *[0] * 6)
timer = ctypes.c_void_p()
check(libc.timer_create(MONOTONIC, event, ctypes.byref(timer)))
first = int(time.clock_gettime(MONOTONIC)) + 2
setting = struct.pack("4q", 1, 0, first, 0)
check(libc.timerfd_settime(descriptor, ABSOLUTE, setting, None))
check(libc.timer_settime(timer, ABSOLUTE, setting, None))


def tell(kind, count):
    passed = time.clock_gettime(MONOTONIC) - first
    print(kind, count, int(passed), passed % 1, flush=True)


while True:
    if select.select([descriptor], [], [], TURN)[0]:
        tell("descriptor", int.from_bytes(os.read(descriptor, 8), "little"))
    if signal.sigtimedwait({SIGNAL}, TURN):
        tell("posix", 1 + check(libc.timer_getoverrun(timer)))
