"""What levels and loads do to families of quantities, each against the first one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from eigentime_report.analysis import Analysis, Compared, Factor
from eigentime_report.conclusions import places
from eigentime_report.conclusions.families import Family, family_of
from eigentime_report.conclusions.findings import DECIDED, Finding, beside, beyond_chance, finding
from eigentime_report.conclusions.places import Place
from eigentime_report.conclusions.trust import failed_loads
from eigentime_report.results import Results


@dataclass(frozen=True)
class Group:
    """Quantities of a family that are compared in the same places."""

    family: Family
    factor: Factor
    # The load or level that is the same, and the two levels or loads that differ.
    held: str
    base: str
    other: str
    findings: tuple[Finding, ...]
    # In how many blocks they were measured, if these are too few to be the units of tests.
    few_blocks: int | None
    # In how many blocks the least of them were measured at either.
    blocks: int

    @property
    def importance(self) -> float:
        """How much it matters: the mean of all in it."""
        return sum(it.importance for it in self.findings) / len(self.findings)

    @property
    def table_key(self) -> str:
        """The table that has its numbers."""
        return f"pairs-{self.family.kind}-{self.factor}s"

    @property
    def says_something(self) -> bool:
        """Was anything tested?"""
        return any(it.verdict != "untested" for it in self.findings)

    def has_news(self, known: "Group") -> bool:
        """Does anything differ here that did not there, or did to the other side?"""
        there = {it.quantity: it.verdict for it in known.findings}
        return any(
            it.verdict in DECIDED and there.get(it.quantity) != it.verdict for it in self.findings
        )

    def varied(self, name: str, results: Results) -> Place:
        """A level, or a load, of those that differ."""
        return places.level(name, results) if self.factor == "level" else places.load(name)

    def steady(self, results: Results) -> Place:
        """The load, or the level, that is the same."""
        if self.factor == "level":
            return places.load(self.held)
        return places.level(self.held, results)

    def is_alone(self, results: Results) -> bool:
        """Is there no other load, or level, than the one that is the same?"""
        return len(results.loads if self.factor == "level" else results.levels) == 1


def in_series(groups: Sequence[Group]) -> list[list[Group]]:
    """Groups that differ in the load, or level, only; first the first one that says something."""
    series: dict[tuple[Factor, Family, str], list[Group]] = {}
    for group in groups:
        key = (group.factor, group.family, group.other)
        series.setdefault(key, []).append(group)
    return [sorted(its, key=lambda it: not it.says_something) for its in series.values()]


def groups_of(analysis: Analysis, factor: Factor) -> Iterator[Group]:
    """Families at each level or load, the first load or level first."""
    results = analysis.results
    skipped = failed_loads(results)
    found: dict[tuple[str, Family, str, str], list[Compared]] = {}
    for kind in analysis.kinds:
        for compared in analysis.comparisons(kind, factor):
            for other in compared.others:
                both = (other, compared.base)
                if not {_place(factor, it, compared.held) for it in both} & skipped:
                    family = family_of(compared.quantity)
                    key = (compared.held, family, compared.base, other)
                    found.setdefault(key, []).append(compared)
    steady = results.loads if factor == "level" else results.levels
    ordered = sorted(found.items(), key=lambda item: steady.index(item[0][0]))
    for (held, family, base, other), its in ordered:
        told, blocks = [], []
        for it in its:
            cells = [
                cell
                for name in (base, other)
                if (cell := results.cell(it.quantity, *_place(factor, name, held)))
            ]
            told.append(beside(finding(it, other), *cells))
            blocks += [len(np.unique(cell.blocks)) for cell in cells]
        few = [it.blocks for it in its if it.unit != "block"]
        yield Group(
            family,
            factor,
            held,
            base,
            other,
            tuple(beyond_chance(told, 1 - analysis.confidence)),
            few_blocks=min(few, default=None),
            blocks=min(blocks),
        )


def _place(factor: Factor, varied: str, held: str) -> tuple[str, str]:
    """A level and a load."""
    return (varied, held) if factor == "level" else (held, varied)
