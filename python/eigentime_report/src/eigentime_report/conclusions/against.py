"""What levels add and what loads do, in one sentence for each kind, and what is open, in one for all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from eigentime_report import units
from eigentime_report.analysis import Analysis
from eigentime_report.conclusions import places
from eigentime_report.conclusions.families import Family
from eigentime_report.conclusions.findings import DECIDED, Finding
from eigentime_report.conclusions.groups import Group, in_series
from eigentime_report.conclusions.sentence import MAIN, Sentence
from eigentime_report.conclusions.wording import amount, intervals
from eigentime_report.results.replicates import things
from eigentime_report.tables.text import listed
from eigentime_report.verdicts import FEWEST_ROUNDS

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
        subject = self.family.many if many else own[0].title
        if many and len(own) < self.of:
            subject = self.family.of_all(own, self.of)
        verbs = self.family.measure.verb if self.is_decided else STAYS
        verb = verbs[many]
        if few_blocks(self.groups[0]):
            verb = f"seem{'' if many else 's'} to {verbs[1]}"
        much = f"within {units.margin(analysis.same_within)}"
        if self.is_decided:
            findings = [it.as_shown for each in self.findings for it in each]
            much = amount(findings, self.family.measure)
        words = (subject, verb if verb != again else "", much)
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


@dataclass(frozen=True)
class Told:
    """A sentence, with how much it matters."""

    sentence: Sentence
    factor: str
    importance: float


def against_first(analysis: Analysis, groups: Sequence[Group]) -> Iterator[Told]:
    """A sentence for each kind over levels, and over loads: what is open is not in it."""
    results = analysis.results
    firsts = [its[0] for its in in_series(groups)]

    def key(group: Group) -> tuple[str, str, str]:
        return group.factor, group.held, group.family.kind

    for (factor, _, _), own in groupby(sorted(firsts, key=key), key=key):
        by_family: dict[Family, list[Group]] = {}
        for group in own:
            by_family.setdefault(group.family, []).append(group)
        ordered = sorted(by_family.values(), key=lambda its: -max(it.importance for it in its))
        clauses = [it for its in ordered for it in _clauses(its)]
        if not clauses:
            continue
        # Those about a translator's machine, which is like no other, last.
        clauses.sort(key=lambda it: _is_translated(it.groups[0], analysis))
        first = ordered[0][0]
        opening = f"Against {first.varied(first.base, results).noun}"
        if not first.is_alone(results):
            opening += f", {first.steady(results).there}"
        text = f"{opening}: {_told(analysis, clauses[:CLAUSES])}."
        yield Told(
            Sentence(text, first.table_key, MAIN, first.family.key),
            factor,
            max(it.importance for its in ordered for it in its),
        )


def _is_translated(group: Group, analysis: Analysis) -> bool:
    level = group.other if group.factor == "level" else group.held
    return places.is_translated(level, analysis.results)


def _told(analysis: Analysis, clauses: Sequence[Clause]) -> str:
    """`in a container vDSO reads take 2.5 % (0.5 ns) longer, sleeps stay within 1 %; in …`."""
    results = analysis.results
    order = (*results.levels, *results.loads)
    by_place: dict[str, list[Clause]] = {}
    # The first levels and loads first.
    for clause in sorted(clauses, key=lambda it: order.index(it.groups[0].other)):
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
    clauses: list[Clause] = []
    for verdicts in SIDES:
        for group in groups:
            its = [it for it in group.findings if it.verdict in verdicts]
            if its and not any(clause.takes(group, its) for clause in clauses):
                of = len(group.findings)
                clauses.append(Clause(group.family, of, [group], [its]))
    return clauses


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
    where: dict[tuple[str, str], list[str]] = {}
    for group, own in left:
        whole = len(own) == len(group.findings) > 1
        quantities = (it.quantity for it in own)
        name = group.family.many if whole else group.family.of_all(quantities, len(group.findings))
        if len(own) == 1:
            name = own[0].quantity.title
        there = group.varied(group.other, analysis.results).there
        where.setdefault((group.factor, name), []).append(there)
    alike: dict[tuple[str, ...], list[str]] = {}
    for (_, name), at in where.items():
        alike.setdefault(tuple(at), []).append(name)
    next(iter(alike.values()))[0] += f" (intervals {intervals(left[0][1])})"
    told = [f"{listed(names)} {listed(list(at), 4)}" for at, names in alike.items()]
    if len(told) > TOLD:
        told[TOLD:] = [f"and {len(told) - TOLD} more"]
    unseen = any(it.unseen_ns is not None for _, own in left for it in own)
    text = f"Undecided, for want of blocks{', or of finer clocks' if unseen else ''}: {'; '.join(told)}."
    yield Sentence(text, left[0][0].table_key, MAIN, OPEN)
