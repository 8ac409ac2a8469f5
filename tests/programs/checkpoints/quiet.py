"""Prints a number, the wall clock and the monotonic clock whenever it is sent SIGUSR1. It changes a part of its memory
each time, and says if all of that is not what it was.
"""

import itertools
import signal
import time

SIZE, PART = 1 << 24, 1 << 16

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
held, expected = bytearray(SIZE), bytearray(SIZE)
for number in itertools.count():
    if held != expected:
        print("its memory is not what it was")
    at = number * PART % SIZE
    held[at : at + PART] = expected[at : at + PART] = bytes([number % 255 + 1]) * PART
    print(number, time.time(), time.monotonic(), flush=True)
    signal.sigwait({signal.SIGUSR1})
