"""The clocks of what was restored, and the first reading of a program (programs/counted.c), to a millisecond."""

import subprocess
import time
from fractions import Fraction

from databases import SLEW
from moving import (
    Moving,
    catches_up,
    ensure,
    policy_of,
    show,
    slews,
)

MS = 1_000_000


class Reading:
    """A line of the program, in nanoseconds."""

    def __init__(self, line):
        _, wall, monotonic, before, after = line.split()
        self.clocks = {
            "realtime": int(wall.replace(".", "")),
            "monotonic": int(monotonic.replace(".", "")),
        }
        self.counted = int(before), int(after)


def on_host(program):
    """What it reads there."""
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as reads:
        # The first may be slow.
        lines = [reads.stdout.readline() for _ in range(3)]
        reads.kill()
    return min(map(Reading, lines), key=lambda it: it.counted[1] - it.counted[0])


def first_reading(program, timeline, rate, policy):
    moving = Moving("first", program, timeline)
    moving.await_lines(5)
    moving.checkpoint()
    moving.reap()
    before = len(moving.lines())
    time.sleep(1)
    early, began = on_host(program), time.time_ns()
    moving.restore("--policy", policy)
    moving.await_lines(before + 2)
    hosts = early, on_host(program)
    judge(moving, before, hosts, show("first"), policy, rate, began)
    moving.end()


def judge(moved, before, hosts, shown, policy, rate, began):
    """Each clock is where the policy says, and what is read first, after so many lines, is so."""
    clocks = {
        clock["clock"]: (int(clock["virtual_ns"]), int(clock["host_ns"]))
        for clock in shown["clocks"]
    }
    saved, host = moved.stood(), clocks["realtime"][1]
    passed = {
        clock: clocks[clock][0] - stood for clock, stood in saved["clocks"].items()
    }
    ensure(len(passed) == 5, f"{passed}")
    rates = {
        clock: rate * (1 + SLEW) if slews(policy, clock) else rate for clock in passed
    }
    away = (host - saved["host_realtime_ns"]) * rate
    for clock, by in passed.items():
        if catches_up(policy, clock):
            ensure(abs(by - away) < MS, f"{clock} is {by - away} ns off: {passed}")
            continue
        ensure(
            0 <= by <= (host - began) * rates[clock], f"{clock} has gone on by {by} ns"
        )
        alike = policy_of(policy, clock)
        onward = [by for it, by in passed.items() if policy_of(policy, it) == alike]
        ensure(by - min(onward) < MS, f"{clock} is not where the others are: {passed}")
    first = next(
        reading
        for reading in map(Reading, moved.lines()[before:])
        if reading.clocks["monotonic"] >= saved["clocks"]["monotonic"]
    )
    at = [host_at(count, hosts) for count in first.counted]
    for clock, read in first.clocks.items():
        least, most = [clocks[clock][0] + (it - host) * rates[clock] for it in at]
        ensure(
            least - MS <= read <= most + MS,
            f"{clock} is read first as {read}, not {int(least)} to {int(most)}",
        )


def host_at(count, hosts):
    """The host's wall clock when its counter showed that, by two readings of both."""
    (begin, one), (end, other) = [
        (sum(it.counted) / 2, it.clocks["realtime"]) for it in hosts
    ]
    return one + int(
        Fraction(other - one) * Fraction(count - begin) / Fraction(end - begin)
    )
