"""What levels cost and what loads do, family by family."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eigentime_report import units
from eigentime_report.analysis import Analysis, Compared, Factor
from eigentime_report.conclusions import places
from eigentime_report.conclusions.families import Family, family_of
from eigentime_report.conclusions.findings import (
    DECIDED,
    ORDER,
    Finding,
    beside,
    beyond_chance,
    finding,
    times_as_many,
)
from eigentime_report.conclusions.places import Place
from eigentime_report.conclusions.sentence import Sentence, below_main
from eigentime_report.conclusions.trust import failed_loads
from eigentime_report.conclusions.wording import (
    AGAINST,
    AMONG,
    BLOCKS,
    COARSE,
    FEW_BLOCKS,
    FIRST,
    MANY_BLOCKS,
    NEXT,
    PRACTICAL,
    SOME_BLOCKS,
    amount,
    detail,
    effects,
)
from eigentime_report.results import Cell
from eigentime_report.statistics import coarse_text
from eigentime_report.tables.text import listed


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
            it.verdict in DECIDED and there.get(it.quantity) != it.verdict
            for it in self.findings
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
                below_main(group.importance),
                group.family.key,
            )


def in_series(groups: Sequence[Group]) -> list[list[Group]]:
    """Groups that differ in the load, or level, only; first the first one that says something."""
    series: dict[tuple[Factor, Family, str], list[Group]] = {}
    for group in groups:
        key = (group.factor, group.family, group.other)
        series.setdefault(key, []).append(group)
    return [
        sorted(its, key=lambda it: not it.says_something) for its in series.values()
    ]


def groups_of(analysis: Analysis, factor: Factor) -> Iterator[Group]:
    """Families at each level or load, the first load or level first."""
    skipped = failed_loads(analysis.results)
    found: dict[tuple[str, Family, str, str], list[Compared]] = {}
    for kind in analysis.kinds:
        for compared in analysis.comparisons(kind, factor):
            for other in compared.others:
                pair = {
                    _cell(factor, it, compared.held) for it in (other, compared.base)
                }
                if not pair & skipped:
                    family = family_of(compared.quantity)
                    key = (compared.held, family, compared.base, other)
                    found.setdefault(key, []).append(compared)
    alpha = 1 - analysis.confidence
    steady = analysis.results.loads if factor == "level" else analysis.results.levels
    for (held, family, base, other), its in sorted(
        found.items(), key=lambda item: steady.index(item[0][0])
    ):
        cells = {it.quantity: _both(analysis, it, other) for it in its}
        told = [beside(finding(it, other), *cells[it.quantity]) for it in its]
        findings = beyond_chance(told, alpha)
        few = [it.blocks for it in its if it.unit != "block"]
        yield Group(
            family,
            factor,
            held,
            base,
            other,
            tuple(findings),
            few_blocks=min(few, default=None),
            blocks=min(
                len(np.unique(cell.blocks)) for both in cells.values() for cell in both
            ),
        )


def _both(analysis: Analysis, compared: Compared, other: str) -> tuple[Cell, Cell]:
    """What was measured at the first level, or under the first load, and at the other."""
    one, two = (
        analysis.results.cell(
            compared.quantity, *_cell(compared.factor, it, compared.held)
        )
        for it in (compared.base, other)
    )
    if one is None or two is None:
        raise LookupError(f"{compared.quantity} is compared without being measured")
    return one, two


def _cell(factor: Factor, varied: str, held: str) -> tuple[str, str]:
    """A level and a load."""
    return (varied, held) if factor == "level" else (held, varied)


def _text(analysis: Analysis, group: Group) -> str:
    results = analysis.results
    level, load = _cell(group.factor, group.other, group.held)
    base_level, base_load = _cell(group.factor, group.base, group.held)
    where = [places.level(level, results).there, places.load(load).there]
    base = places.level(base_level, results)
    alone = len(results.loads) == 1
    if group.factor == "load":
        where.reverse()
        base = places.load(base_load)
        alone = len(results.levels) == 1
    parts: list[str] = []
    for verdict in ORDER:
        if its := [it for it in group.findings if it.verdict == verdict]:
            template = (NEXT if parts else FIRST)[verdict]
            parts.append(template.format(**_words(analysis, group, its, base)))
    if group.few_blocks is not None and group.says_something:
        parts.append(FEW_BLOCKS[group.few_blocks > 1].format(blocks=group.few_blocks))
    opening = ", ".join(where[:1] if alone else where)
    return f"{opening[0].upper()}{opening[1:]}, {'; '.join(parts)}."


def _words(
    analysis: Analysis, group: Group, its: Sequence[Finding], base: Place
) -> Mapping[str, str]:
    """What templates may ask for."""
    family, of = group.family, len(group.findings)
    many = len(its) > 1
    whole = len(its) == of
    is_decided = its[0].verdict in DECIDED
    return {
        "all": whole_or_part(family, its, of),
        "number": f"{len(its)} of them" if many else its[0].quantity.title,
        "verb": family.measure.verb[many],
        "amount": amount(its, family.measure, is_short=False) if is_decided else "",
        "than": "as" if any(it.is_in_times for it in its) else "than",
        "detail": detail(its, is_named=not whole) if is_decided else "",
        "differ": "differ" if many else "differs",
        "are": "are" if many else "is",
        "base": base.there,
        "base_noun": base.noun,
        "effects": effects(its, is_named=not whole),
        "next_effects": effects(its, is_named=many),
        "margin": units.margin(analysis.same_within),
        "remedy": _remedy(its, analysis.same_within, of),
        "why": its[0].because,
    }


def whole_or_part(family: Family, its: Sequence[Finding], of: int) -> str:
    """`all 3 vDSO reads`, `2 of 3 vDSO reads`, or the name of a single one."""
    if len(its) < of:
        return f"{len(its)} of {family.counted(of)}"
    if of == 1:
        return its[0].quantity.title
    return f"both {family.many}" if of == 2 else f"all {family.counted(of)}"


def _remedy(its: Sequence[Finding], same_within: float, of: int) -> str:
    """Why they are open, and what would decide them."""
    told = [
        AGAINST.format(what=listed(it.against), name=it.quantity.title)
        for it in its
        if it.against
    ]
    if by_itself := [it.among for it in its if it.among is not None]:
        told.append(AMONG.format(of=of, p=units.p_value(min(by_itself))))
    if others := [it for it in its if not it.against]:
        told.append(_wanted(others, same_within))
    return "; ".join(told)


def _wanted(its: Sequence[Finding], same_within: float) -> str:
    unseen = max((it.unseen_ns for it in its if it.unseen_ns is not None), default=None)
    if unseen is not None:
        return COARSE.format(steps=coarse_text(unseen))
    needed = [times_as_many(it, same_within) for it in its]
    known = [times for times in needed if times is not None]
    template = SOME_BLOCKS
    if len(known) == len(needed):
        template = BLOCKS if max(known) <= PRACTICAL else MANY_BLOCKS
    return template.format(
        times=max(known, default=0),
        it="them" if len(its) > 1 else "it",
        margin=units.margin(same_within),
    )
