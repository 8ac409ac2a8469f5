"""What levels add and what loads do: in one sentence for each kind, and family by family."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

import numpy as np

from eigentime_report import units
from eigentime_report.analysis import Analysis, Factor
from eigentime_report.basics import grouped, listed
from eigentime_report.conclusions import clauses, places, wording
from eigentime_report.conclusions.measured import failed_loads
from eigentime_report.conclusions.places import Place
from eigentime_report.conclusions.wording import DECIDED, MAIN, Family, Finding, Sentence
from eigentime_report.results import Results
from eigentime_report.results.cell import things
from eigentime_report.verdicts import FEWEST_ROUNDS


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
    series = grouped(((it.factor, it.family, it.other), it) for it in groups)
    return [sorted(its, key=lambda it: not it.says_something) for its in series.values()]


def groups_of(analysis: Analysis, factor: Factor) -> Iterator[Group]:
    """Families at each level or load, the first load or level first."""
    results = analysis.results
    skipped = failed_loads(results)
    found = grouped(
        ((it.held, wording.family_of(it.quantity), it.base, other), it)
        for kind in analysis.kinds
        for it in analysis.comparisons(kind, factor)
        for other in it.others
        if not {_place(factor, name, it.held) for name in (other, it.base)} & skipped
    )
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
            told.append(wording.beside(wording.finding(it, other), *cells))
            blocks += [len(np.unique(cell.blocks)) for cell in cells]
        few = min((it.blocks for it in its if it.unit != "block"), default=None)
        judged = tuple(wording.beyond_chance(told, 1 - analysis.confidence))
        yield Group(family, factor, held, base, other, judged, few, min(blocks))


def _place(factor: Factor, varied: str, held: str) -> tuple[str, str]:
    """A level and a load."""
    return (varied, held) if factor == "level" else (held, varied)


# Of one block, and of several that are too few.
FEW_BLOCKS = (
    "it was measured in one block only, and what drifts from block to block is not in these numbers",
    "it was measured in {blocks} blocks only, whose drift may look like a difference",
)


def differences(analysis: Analysis, groups: Sequence[Group]) -> Iterator[Sentence]:
    """A sentence for each family at each level against the first one, or under each load.

    It is that of the first load, or level, at which anything could be tested; of the others
    those are told that have something new.
    """
    for first, *others in in_series(groups):
        for group in (first, *(it for it in others if it.has_news(first))):
            yield Sentence(
                _text(analysis, group),
                group.table_key,
                wording.below_main(group.importance),
                group.family.key,
            )


def _text(analysis: Analysis, group: Group) -> str:
    results = analysis.results
    where = [group.varied(group.other, results).there]
    if not group.is_alone(results):
        where.append(group.steady(results).there)
    base = group.varied(group.base, results)
    parts = [
        clauses.clauses(group.family, [group.findings], analysis.same_within, base.there, base.noun)
    ]
    if group.few_blocks is not None and group.says_something:
        parts.append(FEW_BLOCKS[group.few_blocks > 1].format(blocks=group.few_blocks))
    return f"{wording.capital(', '.join(where))}, {'; '.join(parts)}."


# What differs to one side, and what does not measurably.
SIDES = (("more",), ("less",), ("slight", "same"))
STAYS = ("stays", "stay")
# So many are told in a sentence, of the families that matter most.
CLAUSES = 6
OPEN = "open"
# In so many clauses it is told what is open; of the others, how many they are.
TOLD = 3


@dataclass
class Clause:
    """Quantities of a family that are alike in several places."""

    family: Family
    # How many the family has there.
    of: int
    groups: list[Group]
    # Of each place the same quantities.
    findings: list[Sequence[Finding]]

    @property
    def is_decided(self) -> bool:
        """Is there a difference?"""
        return self.findings[0][0].verdict in DECIDED

    def takes(self, group: Group, its: Sequence[Finding]) -> bool:
        """Is it the same there? If so, that place belongs to it."""
        is_same = (
            few_blocks(group) == few_blocks(self.groups[0])
            and self.of == len(group.findings)
            and [it.quantity for it in its] == [it.quantity for it in self.findings[0]]
            and all(
                _is_alike(mine, other)
                for known in self.findings
                for mine, other in zip(known, its, strict=True)
            )
        )
        if is_same:
            self.groups.append(group)
            self.findings.append(its)
        return is_same

    def told(self, analysis: Analysis, again: str) -> tuple[str, str]:
        """`vDSO reads take 2.5 % (0.5 ns) longer`, without the verb that is said again; and the verb."""
        own = [it.quantity for it in self.findings[0]]
        many = len(own) > 1
        verbs = self.family.measure.verb if self.is_decided else STAYS
        verb = verbs[many]
        if few_blocks(self.groups[0]):
            verb = f"seem{'' if many else 's'} to {verbs[1]}"
        much = f"within {units.margin(analysis.same_within)}"
        if self.is_decided:
            findings = [it.as_shown for each in self.findings for it in each]
            much = clauses.amount(findings, self.family.measure)
        words = (self.family.subject(own, self.of), verb if verb != again else "", much)
        return " ".join(filter(None, words)), verb


def few_blocks(group: Group) -> int | None:
    """In how many blocks it was measured, if these are too few to state it as a fact."""
    return group.blocks if group.blocks < FEWEST_ROUNDS else None


def _is_alike(a: Finding, b: Finding) -> bool:
    """The same verdict, and intervals that overlap: where there is a difference."""
    if a.verdict not in DECIDED or a.verdict != b.verdict:
        return a.verdict not in DECIDED and b.verdict not in DECIDED
    if a.is_in_times != b.is_in_times or None in (a.low, a.high, b.low, b.high):
        return False
    return (a.low or 0) <= (b.high or 0) and (b.low or 0) <= (a.high or 0)


# A sentence, what it is over, and how much it matters.
Told: TypeAlias = tuple[Sentence, Factor, float]


def against_first(analysis: Analysis, groups: Sequence[Group]) -> Iterator[Told]:
    """A sentence for each kind over levels, and over loads: what is open is not in it."""
    results = analysis.results
    firsts = [its[0] for its in in_series(groups)]

    def key(group: Group) -> tuple[Factor, str, str]:
        return group.factor, group.held, group.family.kind

    for (factor, _, _), own in groupby(sorted(firsts, key=key), key=key):
        by_family = grouped((group.family, group) for group in own)
        ordered = sorted(by_family.values(), key=lambda its: -max(it.importance for it in its))
        alike = [it for its in ordered for it in _clauses(its)]
        if not alike:
            continue
        # Those about a translator's machine, which is like no other, last.
        alike.sort(key=lambda it: _is_translated(it.groups[0], analysis))
        first = ordered[0][0]
        opening = f"Against {first.varied(first.base, results).noun}"
        if not first.is_alone(results):
            opening += f", {first.steady(results).there}"
        text = f"{opening}: {_told(analysis, alike[:CLAUSES])}."
        sentence = Sentence(text, first.table_key, MAIN, first.family.key)
        yield sentence, factor, max(it.importance for its in ordered for it in its)


def _is_translated(group: Group, analysis: Analysis) -> bool:
    level = group.other if group.factor == "level" else group.held
    return places.is_translated(level, analysis.results)


def _told(analysis: Analysis, alike: Sequence[Clause]) -> str:
    """`in a container vDSO reads take 2.5 % (0.5 ns) longer, sleeps stay within 1 %; in …`."""
    results = analysis.results
    order = (*results.levels, *results.loads)
    by_place: dict[str, list[Clause]] = {}
    # The first levels and loads first.
    for clause in sorted(alike, key=lambda it: order.index(it.groups[0].other)):
        where = listed([it.varied(it.other, results).there for it in clause.groups])
        if few := few_blocks(clause.groups[0]):
            where += f", by {things(few, 'block')} only,"
        by_place.setdefault(where, []).append(clause)
    told = []
    for where, own in by_place.items():
        parts, verb = [], ""
        for clause in own:
            part, verb = clause.told(analysis, verb)
            parts.append(part)
        told.append(f"{where} {', '.join(parts)}")
    return "; ".join(told)


def _clauses(groups: Sequence[Group]) -> list[Clause]:
    """Places that are alike together."""
    alike: list[Clause] = []
    for verdicts in SIDES:
        for group in groups:
            its = [it for it in group.findings if it.verdict in verdicts]
            if its and not any(clause.takes(group, its) for clause in alike):
                of = len(group.findings)
                alike.append(Clause(group.family, of, [group], [its]))
    return alike


def still_open(analysis: Analysis, groups: Sequence[Group]) -> Iterator[Sentence]:
    """One sentence, if there is anything: what is open where, and how wide the first intervals are."""
    left = [
        (group, own)
        for group, *_ in in_series(groups)
        if (own := [it for it in group.findings if it.verdict == "undecided"])
    ]
    if not left:
        return
    left.sort(key=lambda item: (item[0].factor == "load", -item[0].family.weight))
    where = grouped(
        (
            (its.factor, its.family.subject([it.quantity for it in own], len(its.findings))),
            its.varied(its.other, analysis.results).there,
        )
        for its, own in left
    )
    alike = grouped((tuple(at), name) for (_, name), at in where.items())
    next(iter(alike.values()))[0] += f" (intervals {clauses.intervals(left[0][1])})"
    told = [f"{listed(names)} {listed(list(at), 4)}" for at, names in alike.items()]
    if len(told) > TOLD:
        told[TOLD:] = [f"and {len(told) - TOLD} more"]
    unseen = any(it.unseen_ns is not None for _, own in left for it in own)
    text = f"Undecided, for want of blocks{', or of finer clocks' if unseen else ''}: {'; '.join(told)}."
    yield Sentence(text, left[0][0].table_key, MAIN, OPEN)
