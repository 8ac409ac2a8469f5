"""A folder of results: its tables, as its manifest says they are."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from eigentime_report.results import looks, plan
from eigentime_report.results.errors import FolderError
from eigentime_report.results.file import AGAIN, Content, File
from eigentime_report.results.manifest import RUNNING, Run
from eigentime_report.results.tables import RUN, Table, schema_of

# What the manifest knows of rows.
PLACE = ("run", "level", "load")


class Folder:
    """A folder, whose runs and blocks are numbered on from those of the folders before."""

    def __init__(
        self,
        path: Path,
        runs: Sequence[Run],
        label: str,
        first_run: int,
        first_block: int,
    ) -> None:
        self.path = path
        self.runs = tuple(replace(run, label=label) for run in runs)
        # What was to be measured, and has no rows, for a reason that the manifest has.
        self.empty: list[Path] = []
        # What came once only, so that there is no time from one to the next; in words.
        self.lone: list[str] = []
        self._kinds = {kind for run in runs for kind in run.kinds}
        rows = []
        for place, run in enumerate(self.runs, first_run):
            rows += [
                (
                    run.run,
                    level.name,
                    load,
                    run.name_of(level.name),
                    run.machine,
                    place,
                    first_block,
                    run.blocks,
                )
                for level in run.levels
                for load in run.loads
            ]
            first_block += run.blocks
        texts = dict.fromkeys((*PLACE, "level_", "machine_"), pl.String)
        counts = dict.fromkeys((RUN, "first_", "blocks_"), pl.Int64)
        self._known = pl.DataFrame(rows, schema={**texts, **counts}, orient="row")

    def content(self, table: Table) -> Content:
        """The rows of a table, if there is any."""
        file = self._open(table)
        if file is None:
            return Content(pl.DataFrame(), {}, 0)
        content = file.content()
        assert table.kind, table
        if content.stretches.is_empty():
            if self._is_planned(table):
                self._none(file, table.kind)
            return content
        placed = self._placed(content.stretches, file)
        plan.check(file.path, table.kind, self.runs, content)
        self.lone += plan.lone(table.kind, placed)
        return replace(content, stretches=placed.filter(pl.col("length") > 0))

    def whole(self, table: Table) -> pl.DataFrame:
        """A table that is small; without rows if it is not there."""
        file = self._open(table)
        if file is None:
            return pl.DataFrame(schema=schema_of(table.columns))
        rows = file.whole()
        self.lone += looks.check(file.path, table, self.runs, rows)
        return self._placed(rows, file).select(list(table.columns))

    def _open(self, table: Table) -> File | None:
        """The file of a table; None if it is not there, and need not be."""
        path = self.path / table.file
        if path.is_file():
            return File(path, table)
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
        raise FolderError(
            path, "it is not there, although it was to be measured", AGAIN
        )

    def _is_planned(self, table: Table) -> bool:
        """Was anything of it to be measured?"""
        return table.kind is None or table.kind in self._kinds

    def _none(self, file: File, kind: str) -> None:
        """Nothing is in a table that something was to be in: is it said why?"""
        if plan.asks_for(kind, self.runs):
            raise FolderError(
                file.path,
                "it has no rows, although its run is complete and has not left all of it out",
                AGAIN,
            )
        self.empty.append(file.path)

    def _placed(self, rows: pl.DataFrame, file: File) -> pl.DataFrame:
        """Rows with the place of their run, and the number of their block in all runs."""
        placed = rows.join(self._known, on=PLACE, how="left", maintain_order="left")
        strange = placed.filter(pl.col(RUN).is_null())
        if len(strange):
            run, level, load = (strange[name][0] for name in PLACE)
            raise FolderError(
                file.path,
                f"it has rows of run {run!r} at level {level!r} under load {load!r}, which the "
                "manifest does not know: the file is of another folder",
                "take all files of one folder, or merge folders by `eigentime bench merge`",
            )
        elsewhere = placed.filter(pl.col("machine") != pl.col("machine_"))
        if len(elsewhere):
            raise FolderError(
                file.path,
                f"column 'machine' has {elsewhere['machine'][0]!r}, and the manifest has "
                f"{elsewhere['machine_'][0]!r}: the file is of another folder",
                AGAIN,
            )
        beyond = placed.filter(pl.col("block") >= pl.col("blocks_"))
        if len(beyond):
            raise FolderError(
                file.path,
                f"column 'block' has {beyond['block'][0]}, and the manifest's plan has "
                f"{beyond['blocks_'][0]} blocks: the file is of another folder",
                AGAIN,
            )
        number = pl.col("block") + pl.col("first_")
        placed = placed.with_columns(block=number, level="level_")
        return placed.drop("level_", "machine_", "first_", "blocks_")
