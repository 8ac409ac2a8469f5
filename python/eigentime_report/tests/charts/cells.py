"""Cells and comparisons without a folder, as charts are given them; times in nanoseconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eigentime_report.analysis import Compared
from eigentime_report.results import Cell, Quantity
from eigentime_report.statistics import compare

CALL = Quantity(
    "calls", "calls/vdso_gettimeofday", "vdso_gettimeofday", {}, None, "time of one call"
)
SLEEP = Quantity(
    "sleep",
    "sleep/nanosleep/1ms/other/slack=50us",
    "nanosleep",
    {"interval": "1 ms", "policy": "other", "slack": "50 µs"},
    1_000_000,
    "miss time",
)
EVENT = Quantity(
    "events",
    "events/timerfd/50us",
    "timerfd",
    {"interval": "50 µs"},
    50_000,
    "Interval between two events of a timerfd",
    is_deviation=True,
)
READ = Quantity("read", "read/tsc/hot", "tsc", {"cache": "hot"}, None, "time of one reading")


def cell(
    values: Any,
    level: str = "baseline",
    load: str = "idle",
    quantity: Quantity = CALL,
    *,
    weights: Any = None,
    blocks: int | Sequence[int] = 5,
) -> Cell:
    """A cell; `blocks` equal ones, or the block of each value."""
    values = np.asarray(values, dtype=np.float64)
    if isinstance(blocks, int):
        blocks = (np.arange(len(values)) * blocks // max(len(values), 1)).tolist()
    return Cell(
        quantity,
        level,
        load,
        values,
        None if weights is None else np.asarray(weights, dtype=np.int64),
        np.asarray(blocks, dtype=np.int32),
        frozenset(),
        {},
    )


def lognormal(
    count: int, median: float, sigma: float = 0.3, seed: int = 1
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Values that are never 0 or less, with a tail."""
    return median * np.random.default_rng(seed).lognormal(0, sigma, count)


def places(
    medians: Mapping[tuple[str, str], float], quantity: Quantity = SLEEP, count: int = 500
) -> list[Cell]:
    """A cell for each level and load, with these medians."""
    return [
        cell(lognormal(count, median, seed=seed), level, load, quantity)
        for seed, ((level, load), median) in enumerate(medians.items())
    ]


def compared(
    groups: Mapping[str, tuple[float, float, int]], quantity: Quantity = CALL, held: str = "idle"
) -> Compared:
    """A comparison of normal samples: mean, standard deviation and size by name."""
    random = np.random.default_rng(8)
    values = {
        name: random.normal(mean, sd, count) if sd else np.full(count, float(mean))
        for name, (mean, sd, count) in groups.items()
    }
    return Compared(
        quantity=quantity,
        factor="level",
        held=held,
        statistic="mean",
        unit="block",
        why="because",
        blocks=9,
        comparison=compare(values),
    )


# One that costs more, and one that costs the same.
LEVELS = compared(
    {"baseline": (100, 1, 30), "namespace": (105, 1, 30), "container": (100, 0.5, 30)}
)
