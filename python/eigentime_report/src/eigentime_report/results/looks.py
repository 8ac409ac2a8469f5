"""Whether the tables of clocks and loads have the rows that the manifest's plan asks for, once.

How many there are of a step is not planned: it hangs on processors, and on how long it took.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from eigentime_report.results.errors import FolderError
from eigentime_report.results.file import AGAIN
from eigentime_report.results.manifest import WARP, Run
from eigentime_report.results.plan import MERGE, STEP, asked, is_left_out
from eigentime_report.results.tables import Table
from eigentime_report.units import count

# What tells the clocks and processors of a step apart.
PAIR = ("cpu", "other_cpu")


def check(
    file: Path, table: Table, runs: Sequence[Run], rows: pl.DataFrame
) -> Iterator[str]:
    """Raises `FolderError` for rows that are there twice or missing; tells what is not known."""
    told_apart = [*STEP, "clock", *PAIR] if table.kind == WARP else rows.columns
    again = rows.filter(rows.select(told_apart).is_duplicated())
    if len(again):
        raise FolderError(
            file, f"{_at(again, 'row')} {_are(again)} there more than once", MERGE
        )
    if table.kind == WARP:
        _check_warps(file, runs, rows)
    else:
        yield from _check_loads(file, runs, rows)


def _check_warps(file: Path, runs: Sequence[Run], rows: pl.DataFrame) -> None:
    """Each block compares clocks, all of them between the same processors."""
    asked_for = pl.concat(asked(run, WARP) for run in runs)
    needed = asked_for.filter(pl.col("asked") > pl.col("excused"))
    missing = needed.join(rows, on=STEP, how="anti", maintain_order="left")
    sizes = rows.group_by(STEP, maintain_order=True).agg(
        pl.len().alias("rows"),
        pl.struct("clock").n_unique().alias("clocks"),
        pl.struct(PAIR).n_unique().alias("pairs"),
    )
    holes = needed.join(sizes, on=STEP, maintain_order="left").filter(
        pl.col("rows") < pl.col("clocks") * pl.col("pairs")
    )
    for wrong, what in (
        (missing, "comparison of clocks"),
        (holes, "part of a comparison of clocks"),
    ):
        if len(wrong):
            raise FolderError(
                file,
                f"{_at(wrong, what)} {_are(wrong)} missing, although the run is complete",
                AGAIN,
            )


def _check_loads(file: Path, runs: Sequence[Run], rows: pl.DataFrame) -> Iterator[str]:
    """Each load of a complete run was looked at; a probe that failed at its end may have lost a block."""
    seen = set(rows.select(STEP).unique().iter_rows())
    for run in runs:
        for level in run.levels:
            for load in run.loads:
                if is_left_out(run, level.name, load):
                    continue
                blocks = [
                    block
                    for block in range(run.blocks)
                    if any(
                        it.load == load and it.share(block, run.blocks)
                        for it in run.planned
                    )
                ]
                unseen = [
                    block
                    for block in blocks
                    if (run.run, level.name, load, block) not in seen
                ]
                at = f"{level.name}, {load}"
                if blocks and len(unseen) == len(blocks):
                    raise FolderError(
                        file,
                        f"all of {at} is missing, although the run is complete",
                        AGAIN,
                    )
                if unseen:
                    yield (
                        f"{file}: what the load did at {at} is not known of {count(len(unseen))} "
                        f"of {count(len(blocks))} blocks."
                    )


def _at(rows: pl.DataFrame, what: str) -> str:
    """Where the first one is, and how many others there are."""
    row, others = rows.row(0, named=True), len(rows) - 1
    more = f" and {count(others)} more" if others else ""
    return f"a {what} at {row['level']}, {row['load']}, block {row['block']}{more}"


def _are(rows: pl.DataFrame) -> str:
    return "are" if len(rows) > 1 else "is"
