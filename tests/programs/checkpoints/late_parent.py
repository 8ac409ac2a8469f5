"""Prints a number, the wall clock and the monotonic clock, ten times a second, and each signal that tells of a
child. Its children wait, and others come first: where processors are busy, it runs last.
"""

import itertools
import os
import signal
import time

CHILDREN = 3

for _ in range(CHILDREN):
    if os.fork() == 0:
        while True:
            time.sleep(60)
signal.signal(signal.SIGCHLD, lambda number, _: print("SIGNAL", number, flush=True))
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
for number in itertools.count():
    print(number, time.time(), time.monotonic(), flush=True)
    time.sleep(0.1)
