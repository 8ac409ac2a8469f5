"""The effects of levels and loads: one sentence for each kind, and details by family."""

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
    """Quantities of a family that are compared at the same places."""

    family: Family
    factor: Factor
    # The fixed load or level, and the two levels or loads that are compared.
    held: str
    base: str
    other: str
    findings: tuple[Finding, ...]
    # The number of blocks, if there are too few to be the units of tests.
    few_blocks: int | None
    # The lower number of blocks of the two sides.
    blocks: int

    @property
    def importance(self) -> float:
        """The mean importance of its findings."""
        return sum(it.importance for it in self.findings) / len(self.findings)

    @property
    def table_key(self) -> str:
        """The table with its numbers."""
        return f"pairs-{self.family.kind}-{self.factor}s"

    @property
    def says_something(self) -> bool:
        """Whether anything was tested."""
        return any(it.verdict != "untested" for it in self.findings)

    def has_news(self, known: "Group") -> bool:
        """Whether a difference is new here, or has another direction."""
        there = {it.quantity: it.verdict for it in known.findings}
        return any(
            it.verdict in DECIDED and there.get(it.quantity) != it.verdict for it in self.findings
        )

    def varied(self, name: str, results: Results) -> Place:
        """The level or load that is compared with the first."""
        return places.level(name, results) if self.factor == "level" else places.load(name)

    def steady(self, results: Results) -> Place:
        """The fixed load or level."""
        if self.factor == "level":
            return places.load(self.held)
        return places.level(self.held, results)

    def is_alone(self, results: Results) -> bool:
        """Whether the fixed load or level is the only one."""
        return len(results.loads if self.factor == "level" else results.levels) == 1


def in_series(groups: Sequence[Group]) -> list[list[Group]]:
    """Groups that differ only in the load or level; the first one with a test comes first."""
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


# For one block, and for several that are too few.
FEW_BLOCKS = (
    "it was measured in one block only, and what drifts from block to block is not in these numbers",
    "it was measured in {blocks} blocks only, whose drift may look like a difference",
)


def differences(analysis: Analysis, groups: Sequence[Group]) -> Iterator[Sentence]:
    """A sentence for each family at each level against the first one, or under each load.

    It is for the first load or level at which anything could be tested; the others are mentioned
    if they add something new.
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


# What differs in one direction, and what does not measurably differ.
SIDES = (("more",), ("less",), ("slight", "same"))
STAYS = ("stays", "stay")
# The maximum number in a sentence, of the most important families.
CLAUSES = 6
OPEN = "open"
# The maximum number of clauses on undecided quantities; the others are counted.
TOLD = 3


@dataclass
class Clause:
    """Quantities of a family that are alike at several places."""

    family: Family
    # The number of the family's quantities there.
    of: int
    groups: list[Group]
    # For each place, the same quantities.
    findings: list[Sequence[Finding]]

    @property
    def is_decided(self) -> bool:
        """Whether there is a difference."""
        return self.findings[0][0].verdict in DECIDED

    def takes(self, group: Group, its: Sequence[Finding]) -> bool:
        """Adds a place if it is alike; returns whether it was added."""
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
        """`vDSO reads take 2.5 % (0.5 ns) longer`, without a repeated verb; and the verb."""
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
    """The number of blocks, if there are too few to state this as a fact."""
    return group.blocks if group.blocks < FEWEST_ROUNDS else None


def _is_alike(a: Finding, b: Finding) -> bool:
    """Whether the verdict is the same, and, if there is a difference, the intervals overlap."""
    if a.verdict not in DECIDED or a.verdict != b.verdict:
        return a.verdict not in DECIDED and b.verdict not in DECIDED
    if a.is_in_times != b.is_in_times or None in (a.low, a.high, b.low, b.high):
        return False
    return (a.low or 0) <= (b.high or 0) and (b.low or 0) <= (a.high or 0)


# A sentence, what it compares, and its importance.
Told: TypeAlias = tuple[Sentence, Factor, float]


def against_first(analysis: Analysis, groups: Sequence[Group]) -> Iterator[Told]:
    """A sentence for each kind over levels, and over loads, without what is undecided."""
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
        # Those about a machine run by a translator come last, because it is like no other.
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
    # In the order of levels and loads.
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
    """Clauses for places that are alike."""
    alike: list[Clause] = []
    for verdicts in SIDES:
        for group in groups:
            its = [it for it in group.findings if it.verdict in verdicts]
            if its and not any(clause.takes(group, its) for clause in alike):
                of = len(group.findings)
                alike.append(Clause(group.family, of, [group], [its]))
    return alike


def still_open(analysis: Analysis, groups: Sequence[Group]) -> Iterator[Sentence]:
    """One sentence, if necessary: what is undecided where, and the width of the first intervals."""
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
