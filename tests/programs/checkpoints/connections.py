"""Connections between two processes of a tree, which are moved with them."""

import ctypes
import subprocess
import time

from moving import (
    LATE,
    Moving,
    check_policy,
    check_steps,
    command,
    ensure,
    ticks,
)

CLONE_NEWNET = 0x40000000
ESTABLISHED = "--criu-arg=--tcp-established"
# Of programs/checkpoints/connected.py.
WAIT = 8


def own_network():
    """What CRIU blocks of a connection that it has written concerns nobody else."""
    ensure(ctypes.CDLL(None).unshare(CLONE_NEWNET) == 0, "no network namespace")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def readings(moving):
    return [line for line in moving.lines() if line[0].isdigit()]


def connected(program, timeline, rate, way, policy):
    """What was on its way arrives, once and in order; a poll under way keeps its deadline, and a receive timeout starts
    again. Without CRIU's option for TCP, both commands name it."""
    own_network()
    options = [ESTABLISHED] if way == "tcp" else []
    moving = Moving("connected", [*program, way], timeline)
    moving.await_lines(5)
    if options:
        words = ["checkpoint", *moving.subject(), "-o", moving.directory]
        said = command(*words, status=125)
        ensure(ESTABLISHED in said and "restore" in said, said)
        ensure(not moving.directory.exists(), "something is left")
        moving.await_lines(len(moving.lines()) + 5)
    asked = time.monotonic()
    moving.checkpoint(*options)
    moving.reap()
    before = len(readings(moving))
    time.sleep(2)
    if options:
        said = command("restore", moving.directory, status=125)
        ensure(ESTABLISHED in said, said)
        moving.reap()
    began = time.time()
    moving.restore("--policy", policy, *options, elsewhere=True)
    done, away = time.time(), time.monotonic() - asked
    moving.await_lines(len(moving.lines()) + 5)
    found = ticks(readings(moving))
    check_policy(found, before, moving.stood(), policy, rate, began, done)
    if way != "pipe":
        judge_timeouts(moving, timeline, away * rate if policy == "catch-up" else 0)
    moving.await_lines(len(moving.lines()) + 5)
    check_steps(ticks(readings(moving)))
    moving.end()


def judge_timeouts(moving, timeline, passed):
    end = time.monotonic() + 60
    while len(told := [it.split() for it in moving.lines() if it[0].isalpha()]) < 2:
        ensure(time.monotonic() < end, f"{moving.lines()[-3:]}")
        time.sleep(0.02)
    late = {kind: float(by) for kind, by in told}
    ensure(late.keys() == {"poll", "timeout"}, f"{told}")
    # What starts again has waited for at most as long before.
    most = LATE + WAIT + passed
    of_poll = most if timeline is None else LATE + max(0, passed - WAIT)
    ensure(-0.002 <= late["poll"] <= of_poll, f"{late}, not {of_poll}")
    ensure(-0.002 <= late["timeout"] <= most, f"{late}, not {most}")
