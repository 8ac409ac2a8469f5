"""A folder as large as hours of measuring make it: half sleeps, half events."""

from collections.abc import Sequence
from pathlib import Path

from making.quantities import Calls, Events, Reads, Sleeps
from making.run import folder

METRICS = ("nanosleep", "gettimeofday", "timer_create", "vdso_gettimeofday")
METHODS = ("usleep", "nanosleep", "clock_nanosleep", "timerfd", "posix_timer", "epoll")
SLEEPS_NS = (50_000, 100_000, 1_000_000, 10_000_000)
SOURCES = ("timerfd", "clock_nanosleep", "ticker", "bpf_timer", "hrtimer")
EVENTS_NS = (10_000, 50_000, 100_000, 150_000)
LEVELS = ("baseline", "namespace", "container", "vm")
LOADS = ("idle", "cpu", "io", "network")


def large(
    path: Path | str,
    samples: int = 10_000_000,
    *,
    levels: Sequence[str] = LEVELS,
    loads: Sequence[str] = LOADS,
    blocks: int = 10,
) -> Path:
    """Write a folder of so many sleeps and events together, and of what the papers had."""
    places = len(levels) * len(loads)
    each = samples // 2 // places
    slower = {"cpu": 4.0, "io": 2.0}
    sleeps = [
        Sleeps(
            method,
            interval,
            50_000,
            sd=3_000,
            shape="lognormal",
            count=each // len(METHODS) // len(SLEEPS_NS) // 3,
            policy=policy,
            slack_ns=slack,
            loads=slower,
        )
        for method in METHODS
        for interval in SLEEPS_NS
        for policy, slack in (("other", 50_000), ("other", 1), ("fifo:50", None))
    ]
    # The first event of each block is no sample.
    count = each // len(SOURCES) // len(EVENTS_NS) + blocks
    events = [
        Events(source, interval, sd=400, shape="lognormal", count=count, missed=2)
        for source in SOURCES
        for interval in EVENTS_NS
    ]
    calls = [
        Calls(metric, 20.0 + 10 * place, sd=0.5, records=200, levels={"vm": 1.2})
        for place, metric in enumerate(METRICS)
    ]
    reads = [
        Reads(source, 20.0, sd=4.0, shape="lognormal", count=100_000, step_ticks=26)
        for source in ("tsc", "clock_gettime")
    ]
    return folder(
        path,
        calls=calls,
        reads=reads,
        sleeps=sleeps,
        events=events,
        warps=["tsc"],
        levels=levels,
        loads=loads,
        blocks=blocks,
        preset="paper",
    )
