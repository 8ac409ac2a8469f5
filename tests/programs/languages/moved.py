"""Keeps running while it is moved between timelines: see moved.c."""

import subprocess
import sys
import threading
import time

PAUSE_S = 0.02

seen = {"back": 0, "failed": 0, "loops": 0}
lock = threading.Lock()


def live() -> None:
    """Sleep and read the clock in turn."""
    last = time.monotonic()
    while True:
        following = time.monotonic()
        with lock:
            seen["back"] += following < last
            seen["loops"] += 1
        last = following
        time.sleep(PAUSE_S)


def measure(name: str, wanted_s: float) -> None:
    """Print when a sleep starts and ends."""
    print(f"{name} begin", flush=True)
    time.sleep(wanted_s)
    print(f"{name} end", flush=True)


def main() -> None:
    """Answer every line of the input."""
    for _ in range(int(sys.argv[1])):
        threading.Thread(target=live, daemon=True).start()
    print("ready", flush=True)
    for line in iter(sys.stdin.readline, ""):
        wanted_s = float(line) / 1e3
        print(f"date={time.time():.3f}", flush=True)
        for key, value in seen.items():
            print(f"{key}={value}", flush=True)
        measure("old", wanted_s)
        thread = threading.Thread(target=measure, args=("new", wanted_s))
        thread.start()
        thread.join()
        subprocess.run(["sh", sys.argv[2], str(wanted_s)], check=True)
        print("done", flush=True)
    sys.exit(7)


if __name__ == "__main__":
    main()
