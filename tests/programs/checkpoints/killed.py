"""The command is killed at random moments."""

import os
import random
import shutil
import subprocess
import time
from pathlib import Path

from moving import (
    EIGENTIME,
    Moving,
    check_steps,
    command,
    ensure,
    lines_of_all,
    state_of,
    ticks,
)


def killing(program, count):
    """The command is killed at a random moment: the program runs on, or it is in a whole checkpoint."""
    moving = Moving("killing", program, ["--rate", "2"])
    for number in range(count):
        moving.await_lines(len(moving.lines()) + 2)
        shutil.rmtree(moving.directory, ignore_errors=True)
        words = [EIGENTIME, "checkpoint", "killing", "-o", str(moving.directory)]
        asked = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        time.sleep(random.random() / 2)
        asked.kill()
        asked.wait()
        # CRIU is nobody's to kill, and brings to an end what it has begun.
        end = time.monotonic() + 60
        while any(b"criu" in path.read_bytes() for path in lines_of_all()):
            ensure(time.monotonic() < end, "criu does not end")
            time.sleep(0.05)
        time.sleep(0.1)
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            pass
        state = Path(f"/proc/{moving.pid}/stat")
        runs = state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] != "Z"
        ensure(
            runs != moving.directory.exists(), f"round {number}: runs {runs}, or both"
        )
        if not runs:
            moving.reap()
            subprocess.run(
                [EIGENTIME, "ctl", "rm", "killing"], check=False, capture_output=True
            )
            moving.restore()
    moving.await_lines(len(moving.lines()) + 3)
    check_steps(ticks(moving.lines()))
    moving.end()


def killing_restore(program, count):
    """`restore` is killed at a random moment: its processes run, or there are none and they can be restored."""
    moving = Moving("back", program, ["--rate", "2"])
    moving.await_lines(3)
    moving.checkpoint()
    moving.reap()
    size = moving.out.stat().st_size
    for number in range(count):
        asked = subprocess.Popen(
            [EIGENTIME, "restore", str(moving.directory), "--timeline", "back"],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        end = time.monotonic() + 60
        if number % 2:
            # Its timeline is just being made.
            while not Path(
                os.environ["EIGENTIME_RUNTIME_DIR"], "eigentime/back"
            ).exists():
                ensure(time.monotonic() < end, "it makes no timeline")
            time.sleep(random.random() / 200)
        else:
            time.sleep(random.random() / 2)
        asked.kill()
        asked.wait()
        while any(b"criu" in path.read_bytes() for path in lines_of_all()):
            ensure(time.monotonic() < end, "criu does not end")
            time.sleep(0.05)
        # One that has been ended may still be seen for a moment.
        written = len(moving.lines())
        while (state := state_of(moving.pid)) and len(moving.lines()) <= written:
            ensure(
                time.monotonic() < end, f"round {number}: it is left in state {state}"
            )
            time.sleep(0.02)
        if state is None:
            ensure(moving.out.stat().st_size == size, f"round {number}: it has run")
            moving.reap()
            while "back" in command("ctl", "list"):
                ensure(time.monotonic() < end, f"round {number}: its timeline is left")
                time.sleep(0.02)
            continue
        command("ctl", "leap", "back", "1s")
        moving.checkpoint()
        moving.reap()
        size = moving.out.stat().st_size
    moving.restore()
    moving.await_lines(len(moving.lines()) + 2)
    check_steps(ticks(moving.lines()))
    moving.end()
