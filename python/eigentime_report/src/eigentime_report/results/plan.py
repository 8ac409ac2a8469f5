"""Whether the rows of a table are those that the manifest's plan has: all of them, and once."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from eigentime_report.results.errors import FolderError
from eigentime_report.results.file import AGAIN, Content
from eigentime_report.results.manifest import TOLD_APART, WARP, Planned, Run, Skip
from eigentime_report.units import count, typed_span

# What rows of a kind are, in words.
NAMES = {"calls": "records", "read": "readings", "sleep": "sleeps", "events": "events"}

# What a step is told by, beside what is measured in it.
STEP = ("run", "level", "load", "block")

MERGE = (
    "take the file from a copy; folders are put together by `eigentime bench merge`, which "
    "keeps each row once"
)


def check(file: Path, kind: str, runs: Sequence[Run], content: Content) -> None:
    """Raises `FolderError` for rows that are there twice, or missing of a run that is complete."""
    key = [*STEP, *TOLD_APART[kind]]
    found = _found(kind, content).group_by(key, maintain_order=True)
    counted = found.agg(pl.col("came", "missed").sum(), pl.col("again").any())
    asked_for = pl.concat(asked(run, kind) for run in runs)
    strange = counted.join(asked_for, on=key, how="anti", maintain_order="left")
    if len(strange):
        row = strange.row(0, named=True)
        raise FolderError(
            file,
            f"it has {_name(kind, row)} at {row['level']}, {row['load']}, block {row['block']}, "
            "which the manifest's plan does not have: the file is of another folder",
            AGAIN,
        )
    both = (
        asked_for.group_by(key, maintain_order=True)
        .agg(pl.col("asked", "excused").sum())
        .join(counted, on=key, how="left", maintain_order="left")
    ).with_columns(
        pl.col("came", "missed").fill_null(0), pl.col("again").fill_null(False)
    )
    more = pl.col("again") | (pl.col("came") > pl.col("asked"))
    less = pl.col("came") + pl.col("missed") + pl.col("excused") < pl.col("asked")
    for wrong, meaning, way_out in (
        (more, "some are there twice", MERGE),
        (less, "some are missing, although its run is complete", AGAIN),
    ):
        steps = both.filter(wrong)
        if len(steps):
            raise FolderError(file, f"{_counts(kind, steps)}: {meaning}", way_out)


def asks_for(kind: str, runs: Sequence[Run]) -> bool:
    """Must anything of this kind be there?"""
    asked_for = pl.concat(asked(run, kind) for run in runs)
    return not asked_for.filter(pl.col("asked") > pl.col("excused")).is_empty()


def _counts(kind: str, steps: pl.DataFrame) -> str:
    """What the first one of these steps has, and how many others there are."""
    row = steps.row(0, named=True)
    others = len(steps) - 1
    more = f", as have {count(others)} more steps" if others else ""
    return (
        f"{_name(kind, row)} at {row['level']}, {row['load']}, block {row['block']} has "
        f"{count(row['came'])} of {count(row['asked'])} {NAMES[kind]}{more}"
    )


def _name(kind: str, row: Mapping[str, Any]) -> str:
    """`sleep/epoll/1ms/other`."""
    words = [
        typed_span(row[it]) if it == "interval_ns" else row[it]
        for it in TOLD_APART[kind]
    ]
    return "/".join([kind, *words])


def lone(kind: str, stretches: pl.DataFrame) -> Iterator[str]:
    """Of which steps a single event came, so that nothing is known of its timer; in words."""
    alone = stretches.filter(pl.col("length") == 0)
    if alone.is_empty():
        return
    places = ["level", "load", *TOLD_APART[kind]]
    for row in (
        alone.group_by(places, maintain_order=True)
        .agg(pl.len().alias("steps"), pl.col("missed_of_all").sum().alias("missed"))
        .iter_rows(named=True)
    ):
        name = _name(kind, row)
        steps = "a block" if row["steps"] == 1 else f"{count(row['steps'])} blocks"
        yield (
            f"{name} at {row['level']}, {row['load']}: a single event came in {steps}, and "
            f"{count(row['missed'])} were missed, so there is no time from one to the next."
        )


def _found(kind: str, content: Content) -> pl.DataFrame:
    """What came in each step, and whether any of it came again."""
    stretches = content.stretches
    came = stretches["rows"]
    if kind == "read":
        # Readings are counted in the rows.
        begins = stretches["begin"].to_numpy()
        came = pl.Series("rows", np.add.reduceat(content.arrays["count"], begins))
    step = [*STEP, "order"]
    before = (pl.col("rows").cum_sum() - pl.col("rows")).over(step)
    return (
        stretches.with_columns(
            came=came,
            missed=pl.col("missed_of_all") if kind == "events" else pl.lit(0),
        )
        .sort(*step, "first", maintain_order=True)
        .with_columns(again=(pl.col("first") < before) & pl.lit(kind != "read"))
        .group_by(*step, *TOLD_APART[kind], maintain_order=True)
        .agg(pl.col("came").sum(), pl.col("missed").first(), pl.col("again").any())
    )


def asked(run: Run, kind: str) -> pl.DataFrame:
    """What was to be measured in each step, and how much of it may be missing."""
    named = _named(run)
    rows = [
        (run.run, level.name, it.load, block, *it.key, share, excused and share)
        for it in run.planned
        if it.kind == kind
        for level in run.levels
        for excused in [_is_excused(run, level.name, it, named)]
        for block in range(run.blocks)
        for share in [it.share(block, run.blocks)]
    ]
    schema: dict[str, type[pl.DataType]] = dict.fromkeys(
        (*STEP, *TOLD_APART[kind]), pl.String
    )
    counts = ("block", "interval_ns", "asked", "excused")
    schema |= {name: pl.Int64 for name in counts if name in schema or name[0] in "ae"}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _is_excused(run: Run, level: str, it: Planned, named: set[str]) -> bool:
    """May it be missing: as the run goes on, or as the manifest says why it does not?"""
    if not run.is_complete:
        return True
    if any(at.name == level and at.unavailable for at in run.levels):
        return True
    skips = (*run.skipped, *run.failed)
    return any(
        skip.level == level
        and skip.load in (None, it.load)
        and _is_about(skip, it, named)
        for skip in skips
    )


def _named(run: Run) -> set[str]:
    """All that measurements of its plan are called by."""
    return {word for it in run.planned for word in map(str, it.key)}


def is_left_out(run: Run, level: str, load: str) -> bool:
    """May all of a load be missing at a level?"""
    return _is_excused(run, level, Planned(load, "", (), 0), _named(run))


def _is_about(skip: Skip, it: Planned, named: set[str]) -> bool:
    """Does it name this measurement, or none at all, as that of a load does not?"""
    words = set(skip.what.replace(",", " ").split())
    # Clocks that were not compared say nothing of readings of the same ones.
    if WARP in words:
        return it.kind == WARP
    return bool(words & set(map(str, it.key))) if words & named else True
