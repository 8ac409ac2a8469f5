"""Where was measured: levels, loads, and whether clocks went backwards there."""

import numpy as np
import polars as pl

from eigentime_report.results import Results
from eigentime_report.results.manifest import Level
from eigentime_report.tables.table import Column, Row, Table

LEVELS = (
    Column("level", "Level"),
    Column("machine", "Machine"),
    Column("kernel", "Kernel"),
    Column("run", "Run"),
    Column("begin", "Begun"),
    Column("blocks", "Blocks", "count"),
    Column("made", "How it was made"),
    Column("state", "State"),
)

LOADS = (
    Column("level", "Level"),
    Column("load", "Load"),
    Column("looks", "Looks", "count"),
    Column("loading", "Looks at which it did what it is for", "%"),
    Column("cpu", "CPU, median", "%"),
    Column("switches", "Context switches a second, median", "number"),
    Column("interrupts", "Interrupts a second, median", "number"),
    Column("how", "What it did"),
)

WARPS = (
    Column("level", "Level"),
    Column("load", "Load"),
    Column("clock", "Clock"),
    Column("pairs", "Pairs of processors", "count"),
    Column("looked", "Looked for", "ns"),
    Column("readings", "Readings compared", "count"),
    Column("backwards", "Behind one before", "count"),
    Column("worst", "Furthest back", "ns"),
    Column("visible", "Seen from", "ns"),
)


SERVED = (
    Column("quantity", "Quantity"),
    Column("level", "Level"),
    Column("served", "Served by"),
    Column("mean", "Mean", "ns"),
)

SERVERS = {"vdso": "the vDSO", "system_call": "the kernel"}


def served_table(results: Results) -> Table:
    """Who serves what asks the vDSO: it, or the kernel behind it."""
    rows = []
    for quantity in results.quantities:
        for level in results.levels:
            cells = [
                it
                for load in results.loads
                if (it := results.cell(quantity, level, load))
            ]
            names = sorted({name for cell in cells for name in cell.served})
            if not names or not (
                quantity.subject.startswith("vdso_") or quantity.kind == "read"
            ):
                continue
            served = " and ".join(SERVERS.get(name, name) for name in names)
            rows.append(
                Row((quantity.name, level, served, cells[0].mean), quantity.name)
            )
    return Table(
        key="served",
        title="Who serves reads of clocks",
        columns=SERVED,
        rows=tuple(rows),
        notes=("The mean is that under the first load that was measured.",),
    )


def levels_table(results: Results) -> Table:
    """Each level of each run: on which machine, how it was made."""
    rows = [
        Row(
            cells=(
                run.name_of(level.name),
                run.machine,
                run.kernel,
                run.run,
                run.begin,
                run.blocks,
                _made(level),
                run.state,
            )
        )
        for run in results.runs
        for level in run.levels
    ]
    return Table(
        key="levels",
        title="Where was measured",
        columns=LEVELS,
        rows=tuple(rows),
        notes=("The first level is what the others are compared with.", *results.notes),
    )


def loads_table(results: Results) -> Table:
    """What each load did at each level, looked at once a second."""
    checks = results.load_checks
    rows = []
    for (level, load), part in _by(checks, results, "level", "load"):
        rows.append(
            Row(
                cells=(
                    level,
                    load,
                    len(part),
                    _mean(part["is_loading"]) * 100,
                    _median(part["cpu_percent"]),
                    _median(part["context_switches_per_second"]),
                    _median(part["interrupts_per_second"]),
                    _how(part["how"]),
                ),
                group=level,
            )
        )
    return Table(
        key="loads",
        title="What ran beside the measurements",
        columns=LOADS,
        rows=tuple(rows),
        notes=("CPU: of all processors' time, the part that was not idle.",),
    )


def warps_table(results: Results) -> Table:
    """Clocks compared with themselves, within threads and between processors."""
    rows = []
    for (level, load, clock), part in _by(
        results.warps, results, "level", "load", "clock"
    ):
        rows.append(
            Row(
                cells=(
                    level,
                    load,
                    clock,
                    part.select("cpu", "other_cpu").n_unique(),
                    int(part["looked_ns"].sum()),
                    int(part["readings"].sum()),
                    int(part["backwards"].sum()),
                    _max(part["worst_ns"]),
                    _max(part["smallest_visible_ns"]),
                ),
                group=f"{level} {load}",
            )
        )
    return Table(
        key="warps",
        title="Whether clocks went backwards",
        columns=WARPS,
        rows=tuple(rows),
        notes=(
            (
                "Seen from: a step back of so much would have been seen, between the pair of processors "
                "where it is seen worst."
            ),
        ),
    )


def _made(level: Level) -> str:
    if level.unavailable:
        return f"could not be had: {level.unavailable}"
    words = [f"by {' '.join(level.command)}"] if level.command else []
    return "; ".join(
        [*words, *(f"{name}: {value}" for name, value in level.notes.items())]
    )


def _by(
    frame: pl.DataFrame, results: Results, *columns: str
) -> list[tuple[tuple[str, ...], pl.DataFrame]]:
    """Its parts, levels and loads in the order of the results."""
    places = {"level": results.levels, "load": results.loads}
    parts = [
        (tuple(map(str, key)), part)
        for key, part in frame.group_by(columns, maintain_order=True)
    ]

    def place(item: tuple[tuple[str, ...], pl.DataFrame]) -> tuple[int, ...]:
        known = zip(columns, item[0], strict=True)
        return tuple(
            places[column].index(word) if word in places.get(column, ()) else 0
            for column, word in known
        )

    return sorted(parts, key=place)


def _how(column: pl.Series) -> str:
    """What the load did, the most frequent first."""
    ways = column.value_counts(sort=True)[column.name].to_list()
    more = f"; and {len(ways) - 1} more" if len(ways) > 1 else ""
    return f"{ways[0]}{more}"


def _mean(column: pl.Series) -> float:
    return float(column.cast(pl.Float64).to_numpy().mean())


def _median(column: pl.Series) -> float:
    return float(np.median(column.to_numpy()))


def _max(column: pl.Series) -> float:
    return float(column.cast(pl.Float64).to_numpy().max())
