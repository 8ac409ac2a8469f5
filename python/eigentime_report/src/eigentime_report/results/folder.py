"""A folder of results: its tables, as its manifest says they are."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from eigentime_report.results import plan, tables
from eigentime_report.results.errors import AGAIN, FolderError
from eigentime_report.results.manifest import RUNNING, Run
from eigentime_report.results.tables import WARPS, Table

# What the manifest knows of rows.
PLACE = ("run", "level", "load")
# A column that is added: the place of the run among all runs.
RUN = "run_place"

UNKNOWN = "it has rows of run {run!r} at level {level!r} under load {load!r}, which the manifest does not know"
OTHER_MACHINE = "column 'machine' has {machine!r}, and the manifest has {machine_!r}"
BEYOND = "column 'block' has {block}, and the manifest's plan has {blocks_} blocks"
TOGETHER = "take all files of one folder, or merge folders by `eigentime bench merge`"


class Folder:
    """A folder, whose runs and blocks are numbered on from those of the folders before."""

    def __init__(self, path: Path, runs: Sequence[Run], first_run: int, first_block: int) -> None:
        self.path = path
        self.runs = runs
        # What a reader must know of it, in words.
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
        """The steps of a table, with lists of samples; without columns if it has none."""
        path = self._path(table)
        if path is None or table.kind is None:
            return pl.DataFrame()
        steps = tables.steps(path, table)
        if steps.is_empty():
            wanted = plan.asked(self.runs, table.kind)
            if not wanted.filter(pl.col("asked") > pl.col("excused")).is_empty():
                reason = (
                    "it has no rows, although its run is complete and has not left all of it out"
                )
                raise FolderError(path, reason)
            if self._is_planned(table):
                self.notes.append(f"{path}: nothing of it could be measured.")
            return steps
        placed = self._placed(steps, path)
        plan.check(path, table.kind, self.runs, steps)
        self.notes += plan.lone(table.kind, placed)
        return placed.filter(pl.col(next(iter(table.varying))).list.len() > 0)

    def whole(self, table: Table) -> pl.DataFrame:
        """A table that is small; without rows if it is not there."""
        path = self._path(table)
        if path is None:
            return pl.DataFrame(schema=dict(table.columns))
        rows = tables.whole(path, table)
        if table is WARPS:
            plan.check_warps(path, self.runs, rows)
        else:
            self.notes += plan.check_loads(path, self.runs, rows)
        return self._placed(rows, path).select(list(table.columns))

    def _path(self, table: Table) -> Path | None:
        """The file of a table; None if it is not there, and need not be."""
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
        """Was anything of it to be measured?"""
        return table.kind is None or any(table.kind in run.kinds for run in self.runs)

    def _placed(self, rows: pl.DataFrame, path: Path) -> pl.DataFrame:
        """Rows with the place of their run, and the number of their block in all runs."""
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
