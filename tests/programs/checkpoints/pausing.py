"""Arms timers that only their process can set, waits for nothing but their signals, and writes how late each is."""

import os
import signal
import time

from timers import INTERVAL, POSIX, posix_timer

SPAN = 8


def main():
    due = time.monotonic() + SPAN

    def tell(number, _):
        name = signal.Signals(number).name
        # In one piece: the other signal may come meanwhile.
        os.write(1, f"{name} {time.monotonic() - due}\n".encode())

    signal.signal(POSIX, tell)
    signal.signal(INTERVAL, tell)
    posix_timer(time.CLOCK_MONOTONIC, SPAN)()
    signal.setitimer(signal.ITIMER_REAL, SPAN)
    print("armed", flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
