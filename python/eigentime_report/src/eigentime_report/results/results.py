"""The contents of one or several folders of results, how to read them, and notes for the reader."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

import polars as pl

from eigentime_report.basics import grouped, once
from eigentime_report.results import manifest
from eigentime_report.results.cell import Cell
from eigentime_report.results.folder import Folder
from eigentime_report.results.manifest import RUNNING, Level, Run, Skip
from eigentime_report.results.quantity import KINDS, Quantity, in_order
from eigentime_report.results.samples import Key, Samples
from eigentime_report.results.tables import LOADS, SAMPLES, WARPS, FolderError
from eigentime_report.units import count

# The quantity, level and load of a measurement.
Measured = Collection[tuple[str, str, str]]


def _unfinished(runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        done = f"{count(run.steps_done)} of {count(run.steps)} steps are done"
        told = f"is {run.state}: {done}, and these are used"
        if run.state == RUNNING:
            told = f"has not ended in order: the tables are what was there when it last did, and {done}"
        if not run.is_complete:
            yield f"{_named(run)} {told}. The same command goes on with it."


def _mixed(runs: Sequence[Run]) -> Iterator[str]:
    """Runs whose values are combined although they should not be without caution."""
    for label, alike in grouped((run.label, run) for run in runs).items():
        of = f" of {label}" if label else ""
        for what in ("machine", "kernel", "eigentime", "probe"):
            values = dict.fromkeys(str(getattr(run, what)) for run in alike)
            if len(values) > 1:
                yield (
                    f"The runs{of} differ in {what} ({', '.join(values)}), and their values are "
                    "taken together: to keep them apart, name their folders one by one."
                )


def _of_runs(runs: Sequence[Run], say: Callable[[Run], Iterable[str]]) -> Iterator[str]:
    """Statements about runs, with their names if only some of several are meant."""
    said = grouped((sentence, run) for run in runs for sentence in dict.fromkeys(say(run)))
    for sentence, by in said.items():
        if len(by) == len(runs):
            yield sentence
        else:
            yield f"{_named(*by)}: {sentence}"


def _unavailable(run: Run) -> Iterator[str]:
    for level in run.levels:
        if level.unavailable:
            yield f"Level {level.name} could not be had: {level.unavailable}"


def _left_out(run: Run) -> Iterator[str]:
    for what, skips in (("was not measured", run.skipped), ("failed", run.failed)):
        places = grouped(((skip.what, skip.why), skip) for skip in skips)
        for (name, why), there in places.items():
            yield f"{name} {what} ({_places(there, run)}): {why}"


def _places(skips: Iterable[Skip], run: Run) -> str:
    """Levels, each with its loads unless these are all of them."""
    loads = grouped(
        (it.level, load) for it in skips for load in ([it.load] if it.load else run.loads)
    )
    # Levels with the same loads are listed together.
    levels = grouped((tuple(dict.fromkeys(own)), level) for level, own in loads.items())
    return "; ".join(
        ", ".join(alike) + ("" if set(own) >= set(run.loads) else f" under {', '.join(own)}")
        for own, alike in levels.items()
    )


def _incomparable(levels: Sequence[str], measured: Measured) -> Iterator[str]:
    """Levels that have nothing comparable with the first one."""
    of = {level: {(what, load) for what, at, load in measured if at == level} for level in levels}
    first, *others = levels or ("",)
    for level in others:
        if of[level] | of[first] and not of[level] & of[first]:
            yield (
                f"Level {level} has no quantity in common with {first}, so it is compared with "
                "nothing: measure both by the same arguments."
            )


def _without_load(levels: Sequence[str], loads: Sequence[str], measured: Measured) -> Iterator[str]:
    for load in loads:
        there = {level for _, level, under in measured if under == load}
        missing = [level for level in levels if level not in there]
        if there and missing:
            yield f"Nothing was measured under load {load} at {', '.join(missing)}."


def _named(*runs: Run) -> str:
    """`The run of 2026-01-02 on vm`, or `The runs of 2026-01-02 and 2026-01-03 on vm`."""
    machines = dict.fromkeys(run.machine for run in runs)
    *first, last = sorted(run.begin for run in runs)
    begun = f"{', '.join(first)} and {last}" if first else last
    return f"The run{'s' if first else ''} of {begun} on {' and '.join(machines)}"


# How many names are suggested for an unknown one.
OFFERED = 4


class Results:
    """The measurements of one or several runs, by quantity, level and load."""

    def __init__(self, folders: Sequence[Folder]) -> None:
        self.folders: tuple[Path, ...] = tuple(it.path for it in folders)
        self.runs: tuple[Run, ...] = tuple(run for it in folders for run in it.runs)
        # The comparisons of clocks, and the effects of the loads.
        self.warps: pl.DataFrame = pl.concat(it.whole(WARPS) for it in folders)
        self.load_checks: pl.DataFrame = pl.concat(it.whole(LOADS) for it in folders)
        planned = once(run.name_of(it.name) for run in self.runs for it in run.levels)
        loads = in_order(load for run in self.runs for load in run.loads)
        metrics = once(it for run in self.runs for it in run.metrics)
        self._samples = {
            kind.name: Samples(
                kind, table, [it.samples(table) for it in folders], planned, loads, metrics
            )
            for kind, table in zip(KINDS, SAMPLES, strict=True)
        }
        keys = [key for samples in self._samples.values() for key in samples.keys]
        if not keys and self.warps.is_empty():
            raise FolderError(
                self.folders[0],
                "there are no measurements in it: no step of its run is done",
                "continue the run by the same command, or name another folder",
            )
        at = {level for _, level, _ in keys} | set(self.warps["level"])
        under = {load for _, _, load in keys} | set(self.warps["load"])
        # The others are compared with the first one.
        self.levels: tuple[str, ...] = tuple(it for it in planned if it in at)
        self.loads: tuple[str, ...] = tuple(it for it in loads if it in under)
        self.quantities: tuple[Quantity, ...] = tuple(once(it for it, _, _ in keys))
        # The quantity, level and load of all measurements, in this order.
        self.measured: tuple[Key, ...] = tuple(keys)
        self._keys = {(str(it), level, load): (it, level, load) for it, level, load in keys}
        self._cells: dict[Key, Cell] = {}
        self._found = [text for it in folders for text in it.notes]

    def __repr__(self) -> str:
        names = ", ".join(str(it) for it in self.folders)
        return (
            f"<Results of {names}: {len(self.quantities)} quantities, "
            f"levels {', '.join(self.levels)}, loads {', '.join(self.loads)}>"
        )

    def cell(self, quantity: Quantity | str, level: str, load: str) -> Cell | None:
        """The measurements of a quantity, given by its name or parts of it, at this place.

        None if nothing was measured there; KeyError if there is no such quantity, level or load,
        or if several quantities have these parts.
        """
        found = self._named(quantity)
        if len(found) > 1:
            names = ", ".join(map(str, found))
            raise KeyError(f"'{quantity}' may be any of {names}: `cells` gives all")
        _check_known("level", level, self.levels)
        _check_known("load", load, self.loads)
        return self.find(found[0], level, load)

    def find(self, quantity: Quantity | str, level: str, load: str) -> Cell | None:
        """The same, but None if these results do not know the name, as when comparing two sets."""
        key = self._keys.get((str(quantity), level, load))
        if key is None:
            return None
        if key not in self._cells:
            known = once(it.accelerator for _, it in self.places(level) if it.accelerator)
            more = {"accelerator": ", ".join(known)} if known else {}
            self._cells[key] = self._samples[key[0].kind].cell(key, more)
        return self._cells[key]

    def cells(self, quantity: Quantity | str, load: str | None = None) -> list[Cell]:
        """The cells of all quantities with these parts of a name, `sleep/nanosleep`.

        They are for each load, or for this one, and for each level. KeyError if there is none.
        """
        if load is not None:
            _check_known("load", load, self.loads)
        found = [
            self.find(each, level, where)
            for each in self._named(quantity)
            for where in (self.loads if load is None else (load,))
            for level in self.levels
        ]
        return [cell for cell in found if cell]

    def places(self, level: str) -> list[tuple[Run, Level]]:
        """What each run's manifest says about a level."""
        return [
            (run, it) for run in self.runs for it in run.levels if run.name_of(it.name) == level
        ]

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Notes for the reader, the most serious first: reasons for doubt, and what is missing."""
        runs, levels, loads, measured = self.runs, self.levels, self.loads, self._keys.keys()
        return (
            *_unfinished(runs),
            *_mixed(runs),
            *_of_runs(runs, lambda run: run.remarks),
            *_of_runs(runs, _unavailable),
            *_of_runs(runs, _left_out),
            *self._found,
            *_incomparable(levels, measured),
            *_without_load(levels, loads, measured),
        )

    def _named(self, quantity: Quantity | str) -> list[Quantity]:
        """The quantity with this name, or all that have its parts."""
        name = str(quantity)
        if known := [it for it in self.quantities if it.name == name]:
            return known
        parts = name.split("/")
        if found := having(parts, self.quantities):
            return found
        raise KeyError(f"nothing is called '{name}'; {offered(parts, self.quantities)}")


def load(*folders: str | Path, labels: Sequence[str] | None = None) -> Results:
    """Reads folders that `eigentime bench` or `eigentime bench merge` has written.

    Rows of several folders are combined, level by level, as if they had been merged. With `labels`,
    one for each folder, they are kept apart: their levels are named `LABEL: LEVEL`.

    Raises `FolderError` for what cannot be read.
    """
    if not folders:
        raise ValueError("no folder is named: at least one that eigentime bench has written")
    if labels is not None and not len(set(labels)) == len(labels) == len(folders):
        raise ValueError(f"{len(folders)} folders need as many labels, each of them once")
    paths = [Path(it) for it in folders]
    runs = [manifest.read(path) for path in paths]
    _check_once([run for each in runs for run in each])
    opened: list[Folder] = []
    before: list[Run] = []
    for path, own, label in zip(paths, runs, labels or [""] * len(runs), strict=True):
        labelled = [replace(run, label=label) for run in own]
        blocks = sum(run.blocks for run in before)
        opened.append(Folder(path, labelled, len(before), blocks))
        before += own
    return Results(opened)


def having(parts: Iterable[str], quantities: Iterable[Quantity]) -> list[Quantity]:
    """The quantities whose names have all of these parts, in any order."""
    wanted = set(parts)
    return [it for it in quantities if wanted <= set(it.name.split("/"))]


def offered(wanted: Sequence[str], quantities: Iterable[Quantity]) -> str:
    """Parts of names that are similar to the unknown ones, or names with the most parts."""
    names = [quantity.name for quantity in quantities]
    parts = once(part for name in names for part in name.split("/"))
    unknown = [part for part in wanted if part not in parts]
    near = [like for part in unknown for like in _like(part, parts)]
    if not near and len(unknown) < len(wanted):
        shared = {name: len({*wanted} & {*name.split("/")}) for name in names}
        near = sorted((it for it in names if shared[it]), key=lambda it: -shared[it])
    shown = ", ".join(once(near or names)[:OFFERED])
    if near:
        return f"near it: {shown}"
    return f"there are {shown}, … ({len(names)} in all)"


def _like(name: str, known: Sequence[str]) -> list[str]:
    """Names that contain this, or else those that are spelled similarly."""
    pieces = [it for it in known if name.lower() in it.lower()]
    return pieces or get_close_matches(name, known, n=OFFERED, cutoff=0.6)


def _check_once(runs: Sequence[Run]) -> None:
    """Checks that each run is in only one folder, and only once."""
    known: dict[str, Run] = {}
    for run in runs:
        other = known.setdefault(run.run, run)
        if other is not run:
            raise FolderError(
                run.folder,
                f"its run of {run.begin} is in {other.folder} already: one is a copy, or was "
                "merged of the other",
                "name each run once, and leave the other folder out",
            )


def _check_known(what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise KeyError(f"there is no {what} '{name}': there are {', '.join(known)}")
