"""A folder that has some of everything."""

from pathlib import Path

import making
import pytest

CALLS = [
    making.Calls(
        "vdso_gettimeofday",
        20.0,
        sd=0.3,
        levels={"namespace": 1.05},
        served_at={"vm": "system_call"},
    ),
    making.Calls("nanosleep", 1e8, sd=1e5, records=8),
    making.Calls("timer_create", 300.0, sd=4, without=["vm"]),
]
READS = [
    making.Reads("clock_gettime", 25.0, sd=3.0, cache="cold", served="vdso"),
    making.Reads("tsc", 15.0, sd=2.0, step_ticks=26, without=[("vm", "cpu")]),
]
SLEEPS = [
    making.Sleeps("epoll", 1_000_000, 60_000, sd=900, shape="lognormal", loads={"cpu": 50.0}),
    making.Sleeps("epoll", 100_000, 55_000, sd=900, slack_ns=1, degradation="not locked"),
    making.Sleeps("epoll", 100_000, 6_000, sd=90, policy="fifo:50"),
]
EVENTS = [
    making.Events("hrtimer", 50_000, sd=150, missed=3),
    making.Events("timerfd", 10_000, sd=900),
]
LEVELS = ("baseline", "vm", "namespace")
LOADS = ("cpu", "idle")
BLOCKS = 3


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of all kinds of measurements, which left nothing out."""
    return making.folder(
        tmp_path_factory.mktemp("results") / "whole",
        calls=CALLS,
        reads=READS,
        sleeps=SLEEPS,
        events=EVENTS,
        warps=["tsc", "CLOCK_MONOTONIC"],
        backwards={("vm", "tsc"): 4},
        levels=LEVELS,
        loads=LOADS,
        blocks=BLOCKS,
        notes={"vm": {"accelerator": "tcg"}},
        seed=11,
    )
