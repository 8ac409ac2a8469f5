"""Which values a column can have: what is beyond is damage, and no measurement."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

# Nanoseconds of a year: nothing that is measured takes longer.
YEAR = 366 * 86_400 * 10**9
# Counts are kept in 64 bits with a sign.
MOST = 2**63 - 1


@dataclass(frozen=True)
class Bounds:
    """The least and the greatest value; another column may give the least one."""

    least: pl.Expr | float = 0
    most: pl.Expr | float = MOST


TIME = Bounds(0, YEAR)
# Clocks may go back, and wake-ups come early.
DIFFERENCE = Bounds(-YEAR, YEAR)
RATE = Bounds(0, 1e15)
TICKS = Bounds(0, 1e18)

# By their names: one name means one thing in all tables. Counts that are not here are from 0.
BOUNDS: Mapping[str, Bounds] = {
    "calls": Bounds(least=1),
    "loop_ns": TIME,
    # The loop is subtracted from what both took.
    "call_ns": Bounds(-pl.col("loop_ns"), YEAR),
    "empty_mean_ticks": TICKS,
    "empty_median_ticks": TICKS,
    "step_ticks": Bounds(1, 1e18),
    "ticks_per_ns": Bounds(1e-9, 1e6),
    "mean_ticks": TICKS,
    "sd_ticks": TICKS,
    "value_ns": DIFFERENCE,
    "count": Bounds(least=1),
    "interval_ns": TIME,
    "cpu_ns": TIME,
    "reading_ns": TIME,
    "miss_ns": DIFFERENCE,
    "missed": Bounds(0, 2**32 - 1),
    "after_ns": DIFFERENCE,
    "looked_ns": TIME,
    "backwards": Bounds(0, pl.col("readings")),
    "worst_ns": TIME,
    "smallest_visible_ns": TIME,
    # What is rounded may be a little more than all.
    "cpu_percent": Bounds(0, 100.01),
    "context_switches_per_second": RATE,
    "interrupts_per_second": RATE,
}


def beyond(rows: pl.DataFrame) -> str | None:
    """What is said of the first column with a value that cannot be."""
    for name, kind in rows.schema.items():
        if not kind.is_numeric():
            continue
        its, column = BOUNDS.get(name, Bounds()), pl.col(name)
        reasons = {
            "less than it can be": column < its.least,
            "more than it can be": column > its.most,
        }
        if kind.is_float():
            reasons = {"no finite number": ~column.is_finite(), **reasons}
        for reason, is_wrong in reasons.items():
            wrong = rows.select(is_wrong.alias(name))[name].arg_true()
            if len(wrong):
                value = rows[name][wrong[0]]
                return f"column {name!r} has {value}, which is {reason}"
    return None
