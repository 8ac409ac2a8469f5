"""Prints a number, the wall clock and the monotonic clock, ten times a second, while another thread starts one
program after the other. The first child has ended, and nobody waits for it.
"""

import itertools
import os
import threading
import time

PROGRAM = "/bin/true"


def start():
    child = os.fork()
    if child == 0:
        os.execv(PROGRAM, [PROGRAM])
    return child


def start_and_wait():
    while True:
        os.waitpid(start(), 0)


start()
threading.Thread(target=start_and_wait, daemon=True).start()
for number in itertools.count():
    print(number, time.time(), time.monotonic(), flush=True)
    time.sleep(0.1)
