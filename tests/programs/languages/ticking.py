"""Prints a number, the wall clock and the monotonic clock, ten times a second."""

import itertools
import time

for number in itertools.count():
    print(number, time.time(), time.monotonic(), flush=True)
    time.sleep(0.1)
