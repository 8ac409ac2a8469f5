"""A folder of results: its tables, checked for the complete and unique rows that its manifest
requires."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from eigentime_report.results import tables
from eigentime_report.results.manifest import RUNNING, TOLD_APART, WARP, Planned, Run
from eigentime_report.results.tables import AGAIN, WARPS, FolderError, Table
from eigentime_report.units import count, typed_span

# The names of a kind's rows, in words.
NAMES = {"calls": "records", "read": "readings", "sleep": "sleeps", "events": "events"}
# The columns that identify a step, beside the measurement.
STEP = ("run", "level", "load", "block")
# The columns that distinguish a step's comparisons of clocks.
PAIR = ("cpu", "other_cpu")

MERGE = (
    "take the file from a copy; folders are put together by `eigentime bench merge`, which "
    "keeps each row once"
)


def check(file: Path, kind: str, runs: Sequence[Run], steps: pl.DataFrame) -> None:
    """Raises `FolderError` for duplicate samples, or samples missing from a complete run."""
    key = [*STEP, *TOLD_APART[kind]]
    # Readings are counted in the rows, and missed events in each of them.
    came = pl.col("count").list.sum() if kind == "read" else pl.col("rows")
    missed = pl.col("missed_of_all") if kind == "events" else pl.lit(0)
    counted = (
        steps.with_columns(came=came, missed=missed)
        .group_by(*key, "order", maintain_order=True)
        .agg(pl.col("came").sum(), pl.col("missed").first(), pl.col("again").any())
        .group_by(key, maintain_order=True)
        .agg(pl.col("came", "missed").sum(), pl.col("again").any())
    )
    wanted = asked(runs, kind)
    strange = counted.join(wanted, on=key, how="anti", maintain_order="left")
    if len(strange):
        row = strange.row(0, named=True)
        reason = (
            f"it has {_name(kind, row)} at {row['level']}, {row['load']}, block {row['block']}, "
            "which the manifest's plan does not have: the file is of another folder"
        )
        raise FolderError(file, reason)
    both = (
        wanted.group_by(key, maintain_order=True)
        .agg(pl.col("asked", "excused").sum())
        .join(counted, on=key, how="left", maintain_order="left")
        .with_columns(pl.col("came", "missed").fill_null(0), pl.col("again").fill_null(False))
    )
    more = pl.col("again") | (pl.col("came") > pl.col("asked"))
    less = pl.col("came") + pl.col("missed") + pl.col("excused") < pl.col("asked")
    for is_wrong, meaning in (
        (more, "some are there twice"),
        (less, "some are missing, although its run is complete"),
    ):
        wrong = both.filter(is_wrong)
        if len(wrong):
            row, others = wrong.row(0, named=True), len(wrong) - 1
            told = f", as have {count(others)} more steps" if others else ""
            reason = (
                f"{_name(kind, row)} at {row['level']}, {row['load']}, block {row['block']} has "
                f"{count(row['came'])} of {count(row['asked'])} {NAMES[kind]}{told}: {meaning}"
            )
            raise FolderError(file, reason, *([MERGE] if is_wrong is more else []))


def lone(kind: str, steps: pl.DataFrame) -> Iterator[str]:
    """The steps with only a single event, which shows nothing about its timer, in words."""
    if kind != "events":
        return
    alone = steps.filter(pl.col("after_ns").list.len() == 0)
    places = ["level", "load", *TOLD_APART[kind]]
    by_place = alone.group_by(places, maintain_order=True)
    found = by_place.agg(pl.len().alias("steps"), pl.col("missed_of_all").sum())
    for row in found.iter_rows(named=True):
        blocks = "a block" if row["steps"] == 1 else f"{count(row['steps'])} blocks"
        yield (
            f"{_name(kind, row)} at {row['level']}, {row['load']}: a single event came in {blocks}, "
            f"and {count(row['missed_of_all'])} were missed, so there is no time from one to the next."
        )


def check_warps(file: Path, runs: Sequence[Run], rows: pl.DataFrame) -> None:
    """Checks that each block compares all clocks between the same processors, exactly once."""
    _check_once(file, rows, [*STEP, "clock", *PAIR])
    wanted = asked(runs, WARP).filter(pl.col("asked") > pl.col("excused"))
    sizes = rows.group_by(STEP).agg(
        rows=pl.len(), clocks=pl.struct("clock").n_unique(), pairs=pl.struct(PAIR).n_unique()
    )
    found = wanted.join(sizes, on=STEP, how="left", maintain_order="left")
    for is_wrong, what in (
        (pl.col("rows").is_null(), "comparison of clocks"),
        (pl.col("rows") < pl.col("clocks") * pl.col("pairs"), "part of a comparison of clocks"),
    ):
        wrong = found.filter(is_wrong)
        if len(wrong):
            reason = f"{_at(wrong, what)} missing, although the run is complete"
            raise FolderError(file, reason)


def check_loads(file: Path, runs: Sequence[Run], rows: pl.DataFrame) -> Iterator[str]:
    """Checks that each load of a complete run was observed; a probe that failed at its end may
    have lost a block."""
    _check_once(file, rows, rows.columns)
    planned = pl.concat([asked(runs, kind).select(*STEP, "asked") for kind in TOLD_APART])
    excused = {
        (run.run, level.name, load)
        for run in runs
        for level in run.levels
        for load in run.loads
        if _is_excused(run, level.name, Planned(load, "", (), 0))
    }
    wanted = planned.filter(pl.col("asked") > 0).select(STEP).unique(maintain_order=True)
    places = wanted.group_by("run", "level", "load", maintain_order=True)
    seen = set(rows.select(STEP).unique().iter_rows())
    for place, blocks in places:
        unseen = [row for row in blocks.iter_rows() if row not in seen]
        if place in excused or not unseen:
            continue
        at = f"{place[1]}, {place[2]}"
        if len(unseen) == len(blocks):
            reason = f"all of {at} is missing, although the run is complete"
            raise FolderError(file, reason)
        yield (
            f"{file}: what the load did at {at} is not known of {count(len(unseen))} "
            f"of {count(len(blocks))} blocks."
        )


def asked(runs: Sequence[Run], kind: str) -> pl.DataFrame:
    """What each step should contain, and how much of it may be missing."""
    rows = [
        (run.run, level.name, it.load, block, *it.key, share, excused and share)
        for run in runs
        for it in run.planned
        if it.kind == kind
        for level in run.levels
        for excused in [_is_excused(run, level.name, it)]
        for block in range(run.blocks)
        for share in [it.share(block, run.blocks)]
    ]
    names = (*STEP, *TOLD_APART[kind], "asked", "excused")
    counts = {"block", "interval_ns", "asked", "excused"}
    schema = {it: pl.Int64 if it in counts else pl.String for it in names}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _is_excused(run: Run, level: str, it: Planned) -> bool:
    """Whether it may be missing, because the run continues or the manifest gives a reason."""
    if not run.is_complete:
        return True
    if any(at.name == level and at.unavailable for at in run.levels):
        return True
    skips = [
        set(skip.what.replace(",", " ").split())
        for skip in (*run.skipped, *run.failed)
        if skip.level == level and skip.load in (None, it.load)
    ]
    if not skips:
        return False
    own = set(map(str, it.key))
    named = {word for planned in run.planned for word in map(str, planned.key)}
    # A skip names this measurement, or none, as that of a load does. A missing comparison of clocks
    # does not excuse missing readings of them.
    return any(
        it.kind == WARP if WARP in words else bool(words & own) or not words & named
        for words in skips
    )


def _name(kind: str, row: Mapping[str, Any]) -> str:
    """`sleep/epoll/1ms/other`."""
    columns = TOLD_APART[kind]
    words = [typed_span(row[it]) if it == "interval_ns" else row[it] for it in columns]
    return "/".join([kind, *words])


def _check_once(file: Path, rows: pl.DataFrame, told_apart: Sequence[str]) -> None:
    again = rows.filter(rows.select(told_apart).is_duplicated())
    if len(again):
        raise FolderError(file, f"{_at(again, 'row')} there more than once", MERGE)


def _at(rows: pl.DataFrame, what: str) -> str:
    """The position of the first one, and the number of the others."""
    row, others = rows.row(0, named=True), len(rows) - 1
    more = f" and {count(others)} more are" if others else " is"
    return f"a {what} at {row['level']}, {row['load']}, block {row['block']}{more}"


# The columns that the manifest describes.
PLACE = ("run", "level", "load")
# An added column: the index of the run among all runs.
RUN = "run_place"

UNKNOWN = "it has rows of run {run!r} at level {level!r} under load {load!r}, which the manifest does not know"
OTHER_MACHINE = "column 'machine' has {machine!r}, and the manifest has {machine_!r}"
BEYOND = "column 'block' has {block}, and the manifest's plan has {blocks_} blocks"
TOGETHER = "take all files of one folder, or merge folders by `eigentime bench merge`"


class Folder:
    """A folder, whose runs and blocks are numbered after those of the previous folders."""

    def __init__(self, path: Path, runs: Sequence[Run], first_run: int, first_block: int) -> None:
        self.path = path
        self.runs = runs
        # Notes for the reader.
        self.notes: list[str] = []
        rows = []
        for place, run in enumerate(runs, first_run):
            known = (run.machine, place, first_block, run.blocks)
            rows += [
                (run.run, level.name, load, run.name_of(level.name), *known)
                for level in run.levels
                for load in run.loads
            ]
            first_block += run.blocks
        texts = dict.fromkeys((*PLACE, "level_", "machine_"), pl.String)
        counts = dict.fromkeys((RUN, "first_", "blocks_"), pl.Int64)
        self._known = pl.DataFrame(rows, schema={**texts, **counts}, orient="row")

    def samples(self, table: Table) -> pl.DataFrame:
        """The steps of a table, with lists of samples; no columns if it has none."""
        path = self._path(table)
        if path is None or table.kind is None:
            return pl.DataFrame()
        steps = tables.steps(path, table)
        if steps.is_empty():
            wanted = asked(self.runs, table.kind)
            if not wanted.filter(pl.col("asked") > pl.col("excused")).is_empty():
                reason = (
                    "it has no rows, although its run is complete and has not left all of it out"
                )
                raise FolderError(path, reason)
            if self._is_planned(table):
                self.notes.append(f"{path}: nothing of it could be measured.")
            return steps
        placed = self._placed(steps, path)
        check(path, table.kind, self.runs, steps)
        self.notes += lone(table.kind, placed)
        return placed.filter(pl.col(next(iter(table.varying))).list.len() > 0)

    def whole(self, table: Table) -> pl.DataFrame:
        """A small table; no rows if it does not exist."""
        path = self._path(table)
        if path is None:
            return pl.DataFrame(schema=dict(table.columns))
        rows = tables.whole(path, table)
        if table is WARPS:
            check_warps(path, self.runs, rows)
        else:
            self.notes += check_loads(path, self.runs, rows)
        return self._placed(rows, path).select(list(table.columns))

    def _path(self, table: Table) -> Path | None:
        """The file of a table; None if it does not exist and is not required."""
        path = self.path / table.file
        if path.is_file():
            return path
        if not self._is_planned(table):
            return None
        if any(run.state == RUNNING for run in self.runs):
            raise FolderError(
                path,
                "it is not there: the run has not ended in order, and its tables are "
                "written when it ends",
                "continue the run by the same command: what is done is kept, and Ctrl-C "
                "writes the tables of it",
            )
        raise FolderError(path, "it is not there, although it was to be measured")

    def _is_planned(self, table: Table) -> bool:
        """Whether any of it was planned."""
        return table.kind is None or any(table.kind in run.kinds for run in self.runs)

    def _placed(self, rows: pl.DataFrame, path: Path) -> pl.DataFrame:
        """Rows with the index of their run, and the number of their block among all runs."""
        placed = rows.join(self._known, on=PLACE, how="left", maintain_order="left")
        for is_wrong, reason, way_out in (
            (pl.col(RUN).is_null(), UNKNOWN, TOGETHER),
            (pl.col("machine") != pl.col("machine_"), OTHER_MACHINE, AGAIN),
            (pl.col("block") >= pl.col("blocks_"), BEYOND, AGAIN),
        ):
            wrong = placed.filter(is_wrong)
            if len(wrong):
                row = wrong.row(0, named=True)
                text = f"{reason.format(**row)}: the file is of another folder"
                raise FolderError(path, text, way_out)
        number = pl.col("block") + pl.col("first_")
        placed = placed.with_columns(block=number, level="level_")
        return placed.drop("level_", "machine_", "first_", "blocks_")
