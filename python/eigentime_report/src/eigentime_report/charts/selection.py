"""The cells of one chart: their levels, loads and colours, and what has to be said of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eigentime_report import units
from eigentime_report.charts.description import (
    Axis,
    Chart,
    Dash,
    Floats,
    Key,
    Panel,
    Symbol,
)
from eigentime_report.charts.sample import Sample
from eigentime_report.charts.theme import LEVEL_COLOURS, Paint, Strength
from eigentime_report.results import Cell, Quantity

# How the lines of a load are drawn. Means alone are dashed.
DASHES: dict[str, Dash] = {
    "idle": "solid",
    "cpu": "dot",
    "io": "dashdot",
    "network": "longdash",
}
_OTHER_DASHES: tuple[Dash, ...] = ("dashdot", "longdash", "dot")
SYMBOLS: tuple[Symbol, ...] = ("circle", "square", "diamond", "cross")

# Less than this percentage of something is not written as a number.
LEAST_PERCENT = 0.01

NOTHING = "Nothing was measured here that could be shown."


@dataclass(frozen=True, eq=False)
class Shown:
    """A cell in a chart: its values in order of size, and how it is drawn."""

    cell: Cell
    sample: Sample
    # The cell's own are better than those of the sample where readings are in buckets.
    mean: float
    median: float
    # Where its level stands among all levels of the report.
    place: int
    dash: Dash

    @property
    def name(self) -> str:
        """The level and the load."""
        return f"{self.cell.level}, {self.cell.load}"

    @property
    def symbol(self) -> Symbol:
        """The shape of its points; another one where colours come again."""
        return SYMBOLS[self.place // LEVEL_COLOURS % len(SYMBOLS)]

    def paint(self, strength: Strength = "solid") -> Paint:
        """The colour of its level."""
        return level_paint(self.place, strength)


@dataclass(frozen=True, eq=False)
class Selection:
    """What one chart shows: cells of one quantity."""

    quantity: Quantity | None
    shown: tuple[Shown, ...]
    levels: tuple[str, ...]
    loads: tuple[str, ...]
    # Of what was left out before anything was drawn.
    remarks: tuple[str, ...]

    @classmethod
    def of(
        cls,
        cells: Iterable[Cell],
        levels: Sequence[str] | None,
        loads: Sequence[str] | None = None,
        *,
        magnitude: bool = False,
    ) -> Selection:
        """The cells in the order of the levels and loads; with `magnitude` without signs."""
        given = list(cells)
        names = {cell.quantity.name for cell in given}
        if len(names) > 1:
            raise ValueError(
                f"a chart shows one quantity, and these are {len(names)}: "
                f"{', '.join(sorted(names))}; choose the cells of one"
            )
        all_levels = _ordered(levels, (cell.level for cell in given))
        all_loads = _ordered(loads, (cell.load for cell in given))
        given.sort(
            key=lambda cell: (
                all_loads.index(cell.load),
                all_levels.index(cell.level),
            )
        )
        shown, remarks = [], []
        for cell in given:
            values = np.abs(cell.values) if magnitude else cell.values
            sample = Sample.of(values, cell.weights)
            if sample.lost:
                remarks.append(
                    f"{sample.lost:,} values of {cell.level} under {cell.load} are no "
                    "finite numbers and are left out."
                )
            if sample.count == 0:
                remarks.append(f"{cell.level} under {cell.load}: nothing was measured.")
                continue
            own = sample if magnitude or sample.lost else cell
            place = all_levels.index(cell.level)
            dash = _dash(cell.load, all_loads)
            shown.append(Shown(cell, sample, own.mean, own.median, place, dash))
        return cls(
            given[0].quantity if given else None,
            tuple(shown),
            tuple(dict.fromkeys(one.cell.level for one in shown)),
            tuple(dict.fromkeys(one.cell.load for one in shown)),
            tuple(remarks),
        )

    @cached_property
    def count(self) -> int:
        """How many samples there are in all."""
        return sum(one.sample.count for one in self.shown)

    def key(self, kind: str) -> str:
        """A name for files and for the page."""
        return slug(kind, self.quantity.name if self.quantity else "nothing")

    def title(self, kind: str) -> str:
        """What the chart is called."""
        return f"{kind}: {self.quantity.title}" if self.quantity else kind

    def level_keys(self) -> tuple[Key, ...]:
        """An entry of the legend for each level."""
        first = {one.cell.level: one for one in reversed(self.shown)}
        return tuple(
            Key(level_group(level), level, first[level].paint())
            for level in self.levels
        )

    def load_keys(self) -> tuple[Key, ...]:
        """An entry of the legend for each load."""
        dashes = {one.cell.load: one.dash for one in self.shown}
        return tuple(
            Key(load_group(load), load, Paint("muted"), dashes[load])
            for load in self.loads
        )

    def nothing(self, kind: str, *why: str) -> Chart:
        """A chart that says that there is nothing to show, and why if that is known."""
        caption = sentences(NOTHING, *why, *self.remarks)
        return nothing(self.key(kind), self.title(kind), caption)


def nothing(key: str, title: str, caption: str) -> Chart:
    """A chart without marks; the caption says why."""
    panel = Panel("", Axis(""), Axis(""), words="Nothing to show")
    return Chart(key, title, (panel,), caption=caption, height=100)


def level_paint(place: int, strength: Strength = "solid") -> Paint:
    """The colour of the level that stands at this place among all."""
    return Paint(f"level-{place % LEVEL_COLOURS}", strength)


def level_group(level: str) -> str:
    """The legend's group of a level."""
    return f"level {level}"


def load_group(load: str) -> str:
    """The legend's group of a load."""
    return f"load {load}"


def slug(*words: str) -> str:
    """A name of letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower()).strip("-")


def sentences(*parts: str) -> str:
    """Those that say something, one after the other."""
    return " ".join(part for part in parts if part)


def seconds(nanoseconds: Floats) -> Floats:
    """The same times in seconds."""
    return np.asarray(nanoseconds, dtype=np.float64) * 1e-9


def listed(what: str, found: Iterable[tuple[str, int, int]]) -> str:
    """How many of how many, by name, where there are any: `Beyond: a 3 of 9 (33 %); b ….`"""
    given = [f"{name} {share(part, whole)}" for name, part, whole in found if part]
    return f"{what}: {'; '.join(given)}." if given else ""


def share(part: int, whole: int) -> str:
    """How many of how many, and the share: `12 of 20,000 (0.06 %)`."""
    percent = 100 * part / whole
    written = f"{percent:.2g}" if percent < 10 else f"{percent:.0f}"
    if percent < LEAST_PERCENT:
        written = f"< {LEAST_PERCENT}"
    return f"{units.count(part)} of {units.count(whole)} ({written} %)"


def _ordered(given: Sequence[str] | None, found: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*(given or ()), *found]))


def _dash(load: str, loads: Sequence[str]) -> Dash:
    if load in DASHES:
        return DASHES[load]
    others = [other for other in loads if other not in DASHES]
    return _OTHER_DASHES[others.index(load) % len(_OTHER_DASHES)]
