"""Two folders of results: what the second one differs in is known."""

from pathlib import Path
from typing import Any

import making

from eigentime_report.results import Results, load

VDSO = "vdso_clock_gettime_monotonic"
GROWN = 1.08
SHRUNK = 0.9


def folder(path: Path, *, seed: int, vdso: float = 1.0, getres: float = 1.0, **rest: Any) -> Path:
    """A folder in which two calls take so many times as long."""
    options: dict[str, Any] = {
        "levels": ("baseline", "namespace"),
        "loads": ("idle", "cpu"),
        "blocks": 10,
        "seed": seed,
        "run": f"run {seed} of {path.name}",
        **rest,
    }
    return making.folder(
        path,
        calls=[
            making.Calls(metric=VDSO, centre=20.0 * vdso, sd=0.2, records=100),
            making.Calls(metric="clock_getres", centre=130.0 * getres, sd=2.0, records=100),
            making.Calls(metric="timer_create", centre=280.0, sd=3.0, records=100),
        ],
        reads=[making.Reads(source="tsc", centre=20.0, sd=2.0)],
        sleeps=[
            making.Sleeps(
                method="nanosleep", interval_ns=1_000_000, centre=60_000 * vdso, sd=500, count=3_000
            )
        ],
        events=[making.Events(source="timerfd", interval_ns=50_000, sd=800, count=2_000)],
        **options,
    )


def pair(path: Path, **rest: Any) -> tuple[Results, Results]:
    """Results from before, and from afterwards, when one call had grown and one had shrunk."""
    before = folder(path / "before", seed=1, **rest)
    after = folder(path / "after", seed=2, vdso=GROWN, getres=SHRUNK, **rest)
    return load(before), load(after)
