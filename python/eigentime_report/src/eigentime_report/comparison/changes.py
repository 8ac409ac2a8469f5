"""Two sets of results, one from before and one from afterwards: what has changed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from eigentime_report import statistics
from eigentime_report.analysis import COMPARED, Compared
from eigentime_report.comparison.shifts import AFTER, BEFORE, FEWEST_BLOCKS, compare
from eigentime_report.results import Quantity, Results
from eigentime_report.results.manifest import Run
from eigentime_report.results.replicates import BLOCK

# What runs are expected to have in common, or to differ in on purpose, by the names of `Run`.
# A quantity, a level and a load.
Place: TypeAlias = tuple[Quantity, str, str]

CIRCUMSTANCES = ("machine", "kernel", "eigentime", "probe", "preset")


class ComparisonError(Exception):
    """Two sets of results that cannot be compared, with the reason and the way out."""


@dataclass(frozen=True, eq=False)
class Change(Compared):
    """A quantity at one level under one load, before and afterwards."""

    level: str
    load: str
    # Of all values, before and afterwards; what was asked for is not in them.
    medians: tuple[float, float]

    @property
    def sides(self) -> tuple[int, int]:
        """In how many blocks it was measured before, and afterwards."""
        before, after = self.comparison.groups
        return before.n, after.n

    @property
    def is_decidable(self) -> bool:
        """Are there enough blocks on each side to tell a change from drift?"""
        return min(self.sides) >= FEWEST_BLOCKS

    @property
    def pair(self) -> statistics.Contrast:
        """By how much there is more afterwards."""
        return self.against_base(AFTER)


@dataclass(frozen=True, eq=False)
class Changes:
    """What has changed from one set of results to another."""

    before: Results
    after: Results
    changes: tuple[Change, ...]
    confidence: float
    same_within: float

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that were measured in both."""
        return tuple(dict.fromkeys(it.quantity.kind for it in self.changes))

    def of(self, kind: str) -> tuple[Change, ...]:
        """The changes of a kind."""
        return tuple(it for it in self.changes if it.quantity.kind == kind)

    @cached_property
    def circumstances(self) -> tuple[tuple[str, str, str], ...]:
        """What the runs differ in: its name, before, afterwards."""
        pairs = (
            (name, _told(self.before.runs, name), _told(self.after.runs, name))
            for name in CIRCUMSTANCES
        )
        return tuple(pair for pair in pairs if pair[1] != pair[2])

    @cached_property
    def unmatched(self) -> tuple[str, ...]:
        """Quantities that one of both has alone, or at other levels or loads, in words."""
        both = {(it.quantity, it.level, it.load) for it in self.changes}
        return tuple(
            sentence
            for results, when in ((self.before, BEFORE), (self.after, AFTER))
            if (sentence := _alone({*_places(results)} - both, when))
        )


def compare_results(
    before: Results, after: Results, *, confidence: float = 0.95, same_within: float = 0.01
) -> Changes:
    """Compares what both have measured at the same levels under the same loads."""
    known = {run.run for run in before.runs}
    if same := [run for run in after.runs if run.run in known]:
        raise ComparisonError(
            f"{before.folders[0]} and {after.folders[0]} hold the same run, of {same[0].begin}\n"
            "help: name two runs; a run that is compared with itself does not differ"
        )
    common = set(_places(before))
    changes = tuple(
        _change(at, before, after, confidence, same_within) for at in _places(after) if at in common
    )
    if not changes:
        raise ComparisonError(
            f"{before.folders[0]} and {after.folders[0]} have no measurement in common: "
            f"{_summary(before)}; {_summary(after)}\n"
            "help: measure both by the same arguments; a level that is called differently can be "
            "named by --level NAME=command:…"
        )
    return Changes(before, after, changes, confidence, same_within)


def _change(
    at: Place, before: Results, after: Results, confidence: float, same_within: float
) -> Change:
    quantity, level, load = at
    one, other = (cell for it in (before, after) if (cell := it.find(*at)))
    statistic = COMPARED[quantity.kind]
    least = min(one.by(BLOCK), other.by(BLOCK), key=lambda it: it.count)
    return Change(
        quantity=quantity,
        factor="level",
        held=f"{level}, {load}",
        statistic=statistic,
        unit=BLOCK,
        why=least.why,
        blocks=least.blocks,
        comparison=compare(statistic, one, other, confidence=confidence, same_within=same_within),
        level=level,
        load=load,
        medians=(one.median - quantity.asked_ns, other.median - quantity.asked_ns),
    )


def _told(runs: tuple[Run, ...], name: str) -> str:
    return ", ".join(dict.fromkeys(str(getattr(run, name)) for run in runs))


def _places(results: Results) -> list[Place]:
    return [
        (quantity, cell.level, cell.load)
        for quantity in results.quantities
        for cell in results.cells(quantity)
    ]


def _alone(places: set[Place], when: str) -> str:
    if not places:
        return ""
    name, level, load = min((it.name, level, load) for it, level, load in places)
    more = f", and {len(places) - 1} more" if len(places) > 1 else ""
    return f"Measured {when} only: {name} at {level}, {load}{more}."


def _summary(results: Results) -> str:
    kinds = dict.fromkeys(quantity.kind for quantity in results.quantities)
    return (
        f"{results.folders[0]} has {', '.join(kinds) or 'no quantities'} at levels "
        f"{', '.join(results.levels)}, under {', '.join(results.loads)}"
    )
