"""What is compared: the ways to give a program other clocks.

A level is a command that is put in front of another one. Before anything is
measured each level is looked at from inside: if its clocks do not show what
the level promises, a cost of them would mean nothing.
"""

import os
import shlex
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from eigenbench.processes import Deadline, run
from eigenbench.programs import Programs, no_jemalloc

DAY_S = 86_400.0
NAMESPACE_S = 1_000.0
RATE = 10.0
# The timeline whose clocks are changed while it is measured.
CHANGED_NAME = "changed"

LOOK_TIMEOUT_S = 10.0
# How long the clocks are watched, and by how much they may be off: the look
# itself takes a while, and a busy machine can hold a process up.
LOOK_NS = 100e6
OFFSET_TOLERANCE_S = 30.0
RATE_TOLERANCE = 0.1


@dataclass(frozen=True)
class Promise:
    """What the clocks of a level show; None where it promises nothing."""

    wall_offset_s: float | None = 0.0
    monotonic_offset_s: float | None = 0.0
    rate: float = 1.0


@dataclass(frozen=True)
class Level:
    """One way to give a program other clocks."""

    key: str
    title: str
    # What a user would type in front of a command.
    typed: str
    # Commands that come to the same thing; the first that keeps the promise is used.
    prefixes: tuple[tuple[str, ...], ...]
    promise: Promise = Promise()
    # Why it cannot be used here, as shown in the tables; empty if it can.
    absent: str = ""

    @property
    def prefix(self) -> tuple[str, ...]:
        """What to put in front of a command."""
        return self.prefixes[0]

    def command(self, *argv: str) -> list[str]:
        """`argv` run at this level."""
        return [*self.prefix, *argv]


HOST = "host"
HOST_AGAIN = "host-again"
NAMESPACE = "namespace"
OFFSET = "eigentime-offset"
BOTH = "eigentime-both"
RATE_10 = "eigentime-rate"
RATE_10_ONE_CPU = "eigentime-rate-one-cpu"
RATE_10_TRAPPED = "eigentime-rate-trapped"
RATE_10_TRACED = "eigentime-rate-traced"
FROZEN = "eigentime-freeze"
SKIP = "eigentime-skip-idle"
NAMED_OFFSET = "eigentime-named-offset"
NAMED_RATE = "eigentime-named-rate"
NAMED_RATE_ONE_CPU = "eigentime-named-rate-one-cpu"
CHANGED = "eigentime-named-changed"
ATTACHED = "eigentime-attached"
FAKETIME_OFFSET = "faketime-offset"
FAKETIME_RATE = "faketime-rate"
FAKETIME_MALLOC = "faketime-malloc"
STRACE = "strace"
FOLLOWER = "follower"
CONTAINER = "container"
CONTAINER_UNSET = "container-unset"
CONTAINER_DATE = "container-date"
CONTAINER_OFFSETS = "container-offsets"
CONTAINER_RATE = "container-rate"
CONTAINER_AGAIN = "container-again"


def all_levels(eigentime: Path, programs: Programs) -> list[Level]:
    """Every level, in the order of the tables; the peers' absence is noted."""
    return [
        Level(HOST, "host", "", ((),)),
        _namespace(),
        *_eigentime(eigentime),
        *_named(eigentime),
        _attached(eigentime),
        *_faketime(no_jemalloc(programs.folder)),
        _strace(),
        Level(
            FOLLOWER,
            "a bare ptrace follower",
            "follower",
            ((programs.path(FOLLOWER),),),
        ),
        # The same again: what differs from 1.00 here is noise.
        Level(HOST_AGAIN, "host, once more", "", ((),)),
    ]


def _namespace() -> Level:
    seconds = f"{NAMESPACE_S:.0f}"
    options: tuple[str, ...] = ("-T", "--monotonic", seconds, "--boottime", seconds)
    if os.geteuid() != 0:
        options = ("-U", "--map-current-user", *options)
    tool = shutil.which("unshare")
    return Level(
        NAMESPACE,
        "time namespace",
        shlex.join(("unshare", *options)),
        (
            (tool or "", *options, "--"),
            # Before Linux 6.3 only a child enters the namespace, not an exec.
            (tool or "", "--fork", *options, "--"),
        ),
        Promise(monotonic_offset_s=NAMESPACE_S),
        absent="" if tool else "not installed",
    )


# Key, title, what stands in front of `eigentime run`, its options, the promise.
Row = tuple[str, str, tuple[str, ...], tuple[str, ...], Promise]


def _eigentime(binary: Path) -> list[Level]:
    uptime = f"+{NAMESPACE_S:.0f}"
    rate = ("--rate", f"{RATE:.0f}")
    fast = Promise(rate=RATE)
    rows: list[Row] = [
        (OFFSET, "wall offset", (), ("--offset", "+1d"), Promise(DAY_S)),
        (
            BOTH,
            "all offsets",
            (),
            ("--monotonic", uptime, "--boottime", uptime, "--offset", "+1d"),
            Promise(DAY_S, NAMESPACE_S),
        ),
        (RATE_10, "rate 10", (), rate, fast),
        (RATE_10_ONE_CPU, "rate 10, one processor", _pinned(), rate, fast),
        (
            RATE_10_TRAPPED,
            "rate 10, nothing rewritten",
            (),
            (*rate, "--no-rewrite"),
            fast,
        ),
        (
            RATE_10_TRACED,
            "rate 10, traced for life",
            (),
            (*rate, "--traced"),
            fast,
        ),
        (FROZEN, "frozen", (), ("--freeze",), Promise(rate=0.0)),
    ]
    return _runs(binary, rows)


def _named(binary: Path) -> list[Level]:
    """Named timelines: the first program makes each, all others join it."""
    day = ("--timeline", "moved", "--offset", "+1d")
    fast = ("--timeline", "fast", "--rate", f"{RATE:.0f}")
    # Its supervisor stays on the processor on which it was made.
    one = ("--timeline", "one", "--rate", f"{RATE:.0f}")
    changed = ("--timeline", CHANGED_NAME)
    rows: list[Row] = [
        (NAMED_OFFSET, "named, wall offset", (), day, Promise(DAY_S)),
        (NAMED_RATE, "named, rate 10", (), fast, Promise(rate=RATE)),
        (
            NAMED_RATE_ONE_CPU,
            "named, rate 10, one processor",
            _pinned(),
            one,
            Promise(rate=RATE),
        ),
        (CHANGED, "named", (), changed, Promise()),
    ]
    return _runs(binary, rows)


def _attached(binary: Path) -> Level:
    """Looked at by a program that starts in such a timeline."""
    rate = ("--rate", f"{RATE:.0f}")
    row: Row = (ATTACHED, "attached", (), rate, Promise(rate=RATE))
    typed = shlex.join(("eigentime", "attach", *rate, "--pid", "PID"))
    return replace(_runs(binary, [row])[0], typed=typed)


def _pinned() -> tuple[str, ...]:
    # Program and supervisor take turns; on two processors each turn is a wake-up
    # of an idle one, which on a virtual machine costs more than all the rest.
    return ("taskset", "-c", str(min(os.sched_getaffinity(0))))


def _runs(binary: Path, rows: Sequence[Row]) -> list[Level]:
    absent = "" if os.access(binary, os.X_OK) else "not built"
    return [
        Level(
            key,
            f"eigentime, {title}",
            shlex.join((*before, "eigentime", "run", *options)),
            ((*before, str(binary), "run", *options, "--"),),
            promise,
            absent,
        )
        for key, title, before, options, promise in rows
    ]


def _faketime(other_allocator: Path) -> list[Level]:
    tool = shutil.which("faketime")
    absent = "" if tool else "not installed"
    rate = f"+0 x{RATE:.0f}"
    environment = ("env", f"LD_LIBRARY_PATH={other_allocator}")
    # It shows the wall clock as the monotonic clock, so nothing is promised there.
    fast = Promise(0.0, None, RATE)
    plain: tuple[str, tuple[str, ...]] = ("", ())
    stand_in = ("LD_LIBRARY_PATH=… ", environment)
    rows: list[tuple[str, str, tuple[str, tuple[str, ...]], str, Promise]] = [
        (FAKETIME_OFFSET, "wall offset", plain, "+1d", Promise(DAY_S, None)),
        (FAKETIME_RATE, "rate 10", plain, rate, fast),
        (FAKETIME_MALLOC, "rate 10, no jemalloc", stand_in, rate, fast),
    ]
    return [
        Level(
            key,
            f"libfaketime, {title}",
            f"{shown}{shlex.join(('faketime', '-f', spec))}",
            ((*before, tool or "", "-f", spec),),
            promise,
            absent,
        )
        for key, title, (shown, before), spec, promise in rows
    ]


def _strace() -> Level:
    tool = shutil.which("strace")
    options = ("-f", "-o", os.devnull)
    return Level(
        STRACE,
        "strace",
        shlex.join(("strace", *options)),
        ((tool or "", *options),),
        absent="" if tool else "not installed",
    )


def verified(level: Level, programs: Programs, deadline: Deadline) -> Level:
    """The level with the prefix that works here, or with why none does."""
    if level.absent:
        return level
    reasons = []
    for prefix in level.prefixes:
        reason = _broken(prefix, level.promise, programs, deadline)
        if not reason:
            return replace(level, prefixes=(prefix,))
        reasons.append(reason)
    return replace(level, absent=f"does not work here: {reasons[0]}")


def _broken(
    prefix: Sequence[str], promise: Promise, programs: Programs, deadline: Deadline
) -> str:
    """How the clocks under `prefix` differ from the promise; empty if not at all."""
    wall, monotonic = time.time(), time.monotonic()
    command = [*prefix, *look(programs.path("calls"), programs)]
    finished = run(command, deadline.within(LOOK_TIMEOUT_S))
    if not finished.succeeded:
        return finished.complaint
    return unkept(promise, finished.out, wall, monotonic)


def look(calls: str, programs: Programs) -> list[str]:
    """The command that tells what clocks show; `calls` is its file as seen inside."""
    return [calls, "look", str(programs.to_ticks(LOOK_NS))]


def unkept(promise: Promise, said: str, wall: float, monotonic: float) -> str:
    """How what `look` said differs from the promise; empty if not at all.

    `wall` and `monotonic` are what the host's clocks showed before.
    """
    shown = [int(field) / 1e9 for field in said.split()]
    wall_moved, monotonic_moved = shown[2:]
    if _far(shown[0] - wall, promise.wall_offset_s):
        return f"the wall clock is {shown[0] - wall:+.0f} s off the host's"
    if _far(shown[1] - monotonic, promise.monotonic_offset_s):
        return f"the monotonic clock is {shown[1] - monotonic:+.0f} s off the host's"
    for name, moved in ("wall", wall_moved), ("monotonic", monotonic_moved):
        # A hold-up between the reads only ever makes a clock move further.
        rate = moved / (LOOK_NS / 1e9)
        if not promise.rate * (1 - RATE_TOLERANCE) <= rate <= promise.rate * 3:
            return f"the {name} clock moves at {rate:.2f} of the host's rate"
    return ""


def _far(offset_s: float, promised_s: float | None) -> bool:
    return promised_s is not None and abs(offset_s - promised_s) > OFFSET_TOLERANCE_S
