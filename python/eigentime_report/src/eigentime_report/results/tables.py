"""The Parquet files: what is read of each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

import polars as pl

# A column that folders add: the place of the run among all runs.
RUN = "run_place"


class Type(Enum):
    """What a column holds: its name in messages, and how it is told."""

    TEXT = "text"
    COUNT = "whole numbers"
    NUMBER = "numbers"
    FLAG = "true and false"

    def holds(self, kind: pl.DataType) -> bool:
        """Is this column's type of this sort?"""
        tests: dict[Type, Callable[[], bool]] = {
            Type.TEXT: lambda: kind in (pl.String, pl.Categorical, pl.Enum),
            Type.COUNT: kind.is_integer,
            Type.NUMBER: kind.is_numeric,
            Type.FLAG: lambda: kind == pl.Boolean,
        }
        return tests[self]()

    @property
    def kept(self) -> type[pl.DataType]:
        """How it is kept in a data frame."""
        others: dict[Type, type[pl.DataType]] = {
            Type.TEXT: pl.String,
            Type.COUNT: pl.Int64,
            Type.FLAG: pl.Boolean,
        }
        return others.get(self, pl.Float64)


TEXT, COUNT, NUMBER, FLAG = Type.TEXT, Type.COUNT, Type.NUMBER, Type.FLAG

Columns = Mapping[str, Type]


@dataclass(frozen=True)
class Table:
    """What is read of a file."""

    # The kind of measurements in it; None: loads, of which every run has some.
    kind: str | None
    file: str
    # The same in all rows of a step.
    steady: Columns
    # Of each row.
    varying: Columns = field(default_factory=dict)
    # Columns that may have no value.
    optional: frozenset[str] = frozenset()
    # The first row of a step has no value here, and is no sample; all others have one.
    only_with: str | None = None
    # The place of a row among those of its step, from 0; None: they have no order.
    index: str | None = None

    @property
    def columns(self) -> Columns:
        """All that is read."""
        index = {self.index: COUNT} if self.index else {}
        return {**self.steady, **self.varying, **index}


def schema_of(columns: Columns) -> pl.Schema:
    """How these columns are kept."""
    return pl.Schema({name: kind.kept for name, kind in columns.items()})


EVERYWHERE: Columns = {
    "run": TEXT,
    "machine": TEXT,
    "level": TEXT,
    "load": TEXT,
    "block": COUNT,
    "order": COUNT,
}

SAMPLES = (
    Table(
        kind="calls",
        file="calls.parquet",
        steady={
            **EVERYWHERE,
            "metric": TEXT,
            "served": TEXT,
            "calls": COUNT,
            "loop_ns": NUMBER,
            "policy": TEXT,
            "slack_ns": COUNT,
        },
        varying={"call_ns": NUMBER},
        index="record",
    ),
    Table(
        kind="read",
        file="reads.parquet",
        steady={
            **EVERYWHERE,
            "source": TEXT,
            "cache": TEXT,
            "served": TEXT,
            "empty_mean_ticks": NUMBER,
            "empty_median_ticks": NUMBER,
            "step_ticks": COUNT,
            "ticks_per_ns": NUMBER,
            "mean_ticks": NUMBER,
            "sd_ticks": NUMBER,
            "max_ticks": COUNT,
        },
        varying={"value_ticks": COUNT, "value_ns": NUMBER, "count": COUNT},
        optional=frozenset({"served"}),
    ),
    Table(
        kind="sleep",
        file="sleeps.parquet",
        steady={
            **EVERYWHERE,
            "method": TEXT,
            "interval_ns": COUNT,
            "slack_ns": COUNT,
            "policy": TEXT,
            "cpu_ns": NUMBER,
            "reading_ns": COUNT,
            "degradation": TEXT,
        },
        varying={"miss_ns": NUMBER, "missed": COUNT},
        index="sleep",
    ),
    Table(
        kind="events",
        file="events.parquet",
        steady={
            **EVERYWHERE,
            "source": TEXT,
            "place": TEXT,
            "interval_ns": COUNT,
            "missed_of_all": COUNT,
            "degradation": TEXT,
            "policy": TEXT,
        },
        varying={"after_ns": NUMBER},
        optional=frozenset({"after_ns"}),
        only_with="after_ns",
        index="event",
    ),
)

WARPS = Table(
    kind="warp",
    file="warps.parquet",
    steady={
        **EVERYWHERE,
        "clock": TEXT,
        "cpu": COUNT,
        "other_cpu": COUNT,
        "looked_ns": COUNT,
        "readings": COUNT,
        "backwards": COUNT,
        "worst_ns": NUMBER,
        "smallest_visible_ns": NUMBER,
    },
)
LOADS = Table(
    kind=None,
    file="loads.parquet",
    steady={
        **EVERYWHERE,
        "is_loading": FLAG,
        "how": TEXT,
        "looked_ns": COUNT,
        "cpu_percent": NUMBER,
        "context_switches_per_second": NUMBER,
        "interrupts_per_second": NUMBER,
        "numbers_json": TEXT,
    },
)
