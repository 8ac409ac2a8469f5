"""Clocks that are slewed after a restore: all of them, the wall clock alone, or the monotonic ones alone."""

import json
import os
import re
import signal
import time

from moving import (
    LATE,
    TIMELINE,
    Moving,
    catches_up,
    check_steps,
    command,
    ensure,
    first_since,
    show,
    slews,
    ticks,
)

# How long programs are away, and by which part of a second clocks gain in a second then.
AWAY = 2
SLEW = 0.5


def readings(shown):
    """What the host and the program are shown, in seconds, by clock."""
    return {
        clock["clock"]: (int(clock["host_ns"]) / 1e9, int(clock["virtual_ns"]) / 1e9)
        for clock in shown["clocks"]
    }


def rate_by(policy, clock, rate):
    """At which rate a clock runs while those are slewed that the policy says."""
    return rate * (1 + SLEW) if slews(policy, clock) else rate


def check_rates(before, after, wanted):
    """Each clock runs at the rate that is wanted of it; that of the monotonic one is told, to the last digit."""
    told = after["rate"]
    ensure(abs(told - wanted("monotonic")) < 1e-6, f"its rate is {told}")
    before, after = readings(before), readings(after)
    for clock in ("realtime", "monotonic"):
        host, virtual = (
            late - early
            for early, late in zip(before[clock], after[clock], strict=True)
        )
        ensure(
            abs(virtual / host / wanted(clock) - 1) < 0.01,
            f"{clock} gains {virtual} in {host} s, not {wanted(clock)} in one",
        )


def end_of_slew(name):
    """What is shown of a timeline once its clocks are slewed no more."""
    end = time.monotonic() + 60
    while "slewed_ns" in (shown := show(name)):
        ensure(time.monotonic() < end, f"it is still slewed: {shown}")
        time.sleep(0.05)
    return shown


def moved(program, timeline, policy):
    """A program that was away; how many lines it had written, and when it was to go on."""
    moving = Moving("slew", program, timeline)
    moving.await_lines(5)
    moving.checkpoint()
    moving.reap()
    before = len(moving.lines())
    time.sleep(AWAY)
    began = time.time()
    said = moving.restore("--policy", policy, "--slew-rate", str(SLEW))
    told = re.search(r"its clocks will have caught up in ([0-9.]+) s\n", said)
    least = AWAY / SLEW
    ensure(told and least <= float(told[1]) < least + LATE / SLEW, said)
    return moving, before, began


def slew(program, timeline, rate, policy):
    """What is slewed reaches what it would have shown, and nothing steps."""
    moving, before, began = moved(program, timeline, policy)
    saved = moving.stood()
    first = show("slew")
    moving.await_lines(before + 2)
    shown = show("slew")
    ensure(shown.get("slewed_ns", 0) > 0, f"it does not tell of it: {shown}")
    check_rates(first, shown, lambda clock: rate_by(policy, clock, rate))
    tick = first_since(ticks(moving.lines()), before, saved)
    least = saved["clocks"]["realtime"] / 1e9
    if catches_up(policy, "realtime"):
        least += (began - saved["host_realtime_ns"] / 1e9) * rate
    most = least + (time.time() - began) * rate_by(policy, "realtime", rate)
    ensure(least <= tick[1] <= most, f"{tick} is not {least} to {most}")
    check_end(moving, policy, rate)


def check_end(moving, policy, rate):
    """What is slewed shows in the end what it would have shown if it had not been away; then the program ends."""
    saved = moving.stood()
    shown = end_of_slew("slew")
    caught_up = readings(shown)
    away = caught_up["realtime"][0] - saved["host_realtime_ns"] / 1e9
    for clock in ("realtime", "monotonic"):
        if slews(policy, clock):
            behind = saved["clocks"][clock] / 1e9 + away * rate - caught_up[clock][1]
            # As late as the supervisor was to slow down.
            ensure(abs(behind) < 0.25, f"{clock} is {behind} s behind")
    time.sleep(0.3)
    check_rates(shown, show("slew"), lambda _: rate)
    check_steps(ticks(moving.lines()))
    moving.end()


def slew_kept(program):
    """Where programs keep running without their supervisor, they do so after a restore, and the next one ends the slew."""
    moving, _, _ = moved(program, [*TIMELINE, "--keep-running"], "slew")
    killed = show("slew")["supervisor"]
    os.kill(killed, signal.SIGKILL)
    shown = show("slew")
    ensure(shown["supervisor"] != killed, f"it is shown by {killed}, which was killed")
    ensure(shown.get("slewed_ns", 0) > 0, f"it is not slewed: {shown}")
    check_end(moving, "slew", 2)
    end = time.monotonic() + 60
    while "slew " in (listed := command("ctl", "list")):
        ensure(time.monotonic() < end, f"its timeline is left: {listed}")
        time.sleep(0.02)


def slew_changed(program, timeline, rate, policy):
    """Whoever changes the clocks ends it: they go on at their own rate, and so does what is saved of them."""
    moving, _, _ = moved(program, timeline, policy)
    whole, part = json.loads(command("ctl", "save", "slew"))["rate"]
    ensure(abs(whole + part / 2**64 - rate) < 1e-6, f"its rate is {whole}, {part}")
    command("ctl", "leap", "slew", "1h")
    shown = show("slew")
    ensure("slewed_ns" not in shown, f"it is still slewed: {shown}")
    time.sleep(0.3)
    check_rates(shown, show("slew"), lambda _: rate)
    check_steps(ticks(moving.lines()))
    moving.end()


def slew_timers(program, timeline, _rate):
    """Timers follow also where clocks have caught up, and nobody asks the supervisor anything."""
    moving = Moving("slew", program, timeline)
    moving.await_lines(1)
    moving.checkpoint()
    moving.reap()
    time.sleep(1)
    moving.restore("--policy", "slew", "--slew-rate", "0.5")
    moving.await_lines(3)
    late = [float(line.split()[1]) for line in moving.lines()[1:]]
    ensure(all(-0.002 < by < LATE for by in late), f"late by {late}")
    moving.end()
