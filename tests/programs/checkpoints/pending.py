"""Lets a periodic timer go off while its signal is blocked, and once it is told by SIGUSR1, counts how often that is
delivered.
"""

import signal
import time

from timers import POSIX, posix_timer

LONG = 1000


def main():
    signal.pthread_sigmask(signal.SIG_BLOCK, {POSIX, signal.SIGUSR1})
    posix_timer(time.CLOCK_MONOTONIC, 0.1, LONG)()
    while POSIX not in signal.sigpending():
        time.sleep(0.01)
    print("pending", flush=True)
    signal.sigwait({signal.SIGUSR1})
    count = 0
    while signal.sigtimedwait({POSIX}, 0.5):
        count += 1
    print(count, flush=True)


if __name__ == "__main__":
    main()
