"""Restored programs that join a timeline that exists."""

import threading
import time

from moving import (
    EIGENTIME,
    KINDS,
    Moving,
    check_steps,
    command,
    ensure,
    judge_waits,
    show,
    ticks,
)

SLEEPER = ["/bin/sleep", "100000"]
# Beside the host's date, for a program that waits by it.
RATED = ["--rate", "2"]


class Member(Moving):
    """One of two programs of timeline 'shop', or, plain, one of none that joins it later."""

    def __init__(self, words, kind):
        self.shop = Moving("shop", SLEEPER, KINDS[kind][0] or RATED)
        self.shop.await_clocks()
        joins = (
            [] if kind == "plain" else [EIGENTIME, "run", "--timeline", "shop", "--"]
        )
        super().__init__("member", [*joins, *words])

    def join(self, *options, status=0):
        return command(
            "restore", self.directory, "--join", "shop", *options, status=status
        )

    def end(self):
        super().end()
        self.shop.end()


def reading(clock):
    """What a clock of timeline 'shop' shows, in seconds."""
    clocks = show("shop")["clocks"]
    return next(int(it["virtual_ns"]) for it in clocks if it["clock"] == clock) / 1e9


def joins(program, kind):
    """A ticker has the clocks of the timeline at once, and follows them."""
    clocks = ["realtime", "monotonic"]
    moving = Member(program, kind)
    # The second time, it has been brought there before.
    for _ in range(2):
        moving.await_lines(len(moving.lines()) + 3)
        moving.checkpoint()
        moving.reap()
        written = len(moving.lines())
        command("ctl", "set", "shop", "--rate", "3")
        command("ctl", "leap", "shop", "1h")
        before = [reading(clock) for clock in clocks]
        moving.join()
        after = [reading(clock) for clock in clocks]
        moving.await_lines(written + 3)
        found = ticks(moving.lines())
        check_steps(found)
        # One more may have been read before it was stopped.
        first = next(it for it in found[written:] if it[1] >= before[0])
        ensure(found.index(first) <= written + 1, f"{found[written:]} after {before}")
        for index, _ in enumerate(clocks):
            value = first[1 + index]
            # It has slept meanwhile.
            ensure(before[index] <= value <= after[index] + 3, f"{value}: {after}")
        members = [member["pid"] for member in show("shop")["members"]]
        ensure(sorted(members) == sorted([moving.shop.pid, moving.pid]), f"{members}")
        command("ctl", "leap", "shop", "1h")
        least = after[0] + 3600
        end = time.monotonic() + 60
        while ticks(moving.lines())[-1][1] < least:
            ensure(time.monotonic() < end, f"{moving.lines()[-1]}, not {least}")
            time.sleep(0.02)
    moving.end()


def joining_waits(program, kind):
    """Threads wait in every way: none is early, each ends once."""
    moving = Member(program, kind)
    moving.await_lines(1)
    began = time.monotonic()
    moving.checkpoint()
    moving.reap()
    time.sleep(6)
    stepping = Stepping()
    moving.join()
    stepping.end()
    passed = (time.monotonic() - began) * KINDS["named"][1] + stepping.passed
    judge_waits(moving, passed, is_plain=kind == "plain")
    moving.end()


class Stepping(threading.Thread):
    """Leaps of the timeline, one after the other, meanwhile."""

    def __init__(self):
        super().__init__()
        self.passed, self.ends = 0, False
        self.start()

    def run(self):
        while not self.ends:
            command("ctl", "leap", "shop", "10ms")
            self.passed += 0.01

    def end(self):
        self.ends = True
        self.join()
        ensure(self.passed > 0, "it has not leapt")


def joining_refused(program):
    """What cannot join says so, nothing of it is left, and it can be restored otherwise."""
    moving = Member(program, "named")
    moving.await_lines(3)
    moving.checkpoint()
    moving.reap()
    written = len(moving.lines())
    said = command("restore", moving.directory, "--join", "nowhere", status=125)
    ensure("no timeline 'nowhere'" in said, said)
    said = moving.join("--policy", "catch-up", status=125)
    ensure("cannot be used with" in said, said)
    command("ctl", "create", "other", "--monotonic", "30d")
    said = command("restore", moving.directory, "--join", "other", status=125)
    ensure("has the memory of another timeline" in said, said)
    moving.reap()
    command("ctl", "rm", "other")
    moving.restore()
    command("ctl", "leap", "member", "1d")
    moving.await_lines(written + 3)
    moving.checkpoint()
    moving.reap()
    said = moving.join(status=125)
    ensure("would step back by 8" in said and "ctl leap" in said, said)
    moving.reap()
    command("ctl", "leap", "shop", "1d")
    moving.join()
    moving.await_lines(written + 6)
    check_steps(ticks(moving.lines()))
    moving.end()
