"""Commands that write to one directory, one beside the other or one after another that was killed."""

import random
import shutil
import subprocess
import time
from pathlib import Path

from killed import await_session
from moving import EIGENTIME, TIMELINE, Moving, check_steps, ensure, state_of, ticks


def begin(moving, directory):
    words = [EIGENTIME, "checkpoint", *moving.subject(), "-o", str(directory)]
    return subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def end(moving):
    moving.await_lines(len(moving.lines()) + 2)
    check_steps(ticks(moving.lines()))
    moving.end()


def contended(program):
    """Of two timelines one is in the directory, and whole, and the other runs on."""
    directory = Path("both.checkpoint")
    both = [Moving(name, program, TIMELINE) for name in ("one", "other")]
    for moving in both:
        moving.directory = directory
        moving.await_lines(2)
    won = 0
    for apart in (0, 0, 0.005, 0.01, 0.02, 0.05):
        shutil.rmtree(directory, ignore_errors=True)
        asked = []
        for moving in both:
            moving.tree = {moving.pid}
            asked.append(begin(moving, directory))
            time.sleep(apart)
        said = [one.communicate()[1] for one in asked]
        done = [one.returncode == 0 for one in asked]
        ensure(sum(done) < 2, f"both are in one directory: {said}")
        for moving, is_done in zip(both, done, strict=True):
            if is_done:
                moving.reap()
                moving.restore()
                won += 1
            moving.await_lines(len(moving.lines()) + 2)
    ensure(won > 0, "none was ever written")
    for moving in both:
        end(moving)


def retried(program):
    """A command is killed, and CRIU goes on: the next one does not touch what that writes."""
    others = Path("retried.checkpoint.partial")
    others.mkdir()
    (others / "precious").touch()
    moving = Moving("retried", program, TIMELINE)
    for number in range(8):
        moving.await_lines(len(moving.lines()) + 2)
        shutil.rmtree(moving.directory, ignore_errors=True)
        moving.tree = {moving.pid}
        first = begin(moving, moving.directory)
        time.sleep(random.random() / 4)
        first.kill()
        first.communicate()
        second = begin(moving, moving.directory)
        said = second.communicate()[1]
        until = time.monotonic() + 60
        for asked in (first, second):
            await_session(asked.pid, until)
        while not moving.directory.exists():
            written = len(moving.lines())
            time.sleep(0.1)
            if len(moving.lines()) > written:
                break
            state = state_of(moving.pid)
            ensure(time.monotonic() < until, f"round {number}: {state}, {said}")
        if moving.directory.exists():
            moving.reap()
            subprocess.run(
                [EIGENTIME, "ctl", "rm", "retried"], check=False, capture_output=True
            )
            moving.restore()
    end(moving)
    ensure((others / "precious").exists(), "what was another's is gone")
    shutil.rmtree(moving.directory, ignore_errors=True)
    last = Moving("last", program, TIMELINE)
    last.directory = moving.directory
    last.await_lines(2)
    last.checkpoint()
    left = list(Path().glob("retried.checkpoint.partial-*"))
    ensure(not left, f"left: {left}")
    last.reap()
