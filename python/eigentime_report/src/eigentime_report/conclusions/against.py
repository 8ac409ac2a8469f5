"""What levels add and what loads do: in one sentence for each kind, and family by family."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from eigentime_report import units
from eigentime_report.analysis import Analysis, Compared, Factor
from eigentime_report.conclusions import places, wording
from eigentime_report.conclusions.measured import failed_loads
from eigentime_report.conclusions.places import Place
from eigentime_report.conclusions.wording import DECIDED, MAIN, Family, Finding, Sentence, Verdict
from eigentime_report.results import Results
from eigentime_report.results.cell import things
from eigentime_report.statistics import coarse_text
from eigentime_report.tables.table import listed
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
                    family = wording.family_of(compared.quantity)
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
            told.append(wording.beside(wording.finding(it, other), *cells))
            blocks += [len(np.unique(cell.blocks)) for cell in cells]
        few = [it.blocks for it in its if it.unit != "block"]
        yield Group(
            family,
            factor,
            held,
            base,
            other,
            tuple(wording.beyond_chance(told, 1 - analysis.confidence)),
            few_blocks=min(few, default=None),
            blocks=min(blocks),
        )


def _place(factor: Factor, varied: str, held: str) -> tuple[str, str]:
    """A level and a load."""
    return (varied, held) if factor == "level" else (held, varied)


# The first part of a sentence. {all} is `all 3 vDSO reads`, `2 of 3 vDSO reads` or a name.
FIRST: Mapping[Verdict, str] = {
    "more": "{all} {verb} {amount} {than} {base}{detail}",
    "less": "{all} {verb} {amount} {than} {base}{detail}",
    "slight": "{all} {differ} from {base_noun} by less than {margin}: {effects}",
    "same": "nothing measurable changes for {all} against {base_noun}: {effects}, within {margin}",
    "undecided": "{all} {are} undecided against {base_noun}: {effects}; {remedy}",
    "untested": "{all} {are} not tested against {base_noun}: {why}",
}

# The other parts, of those that the first one does not hold.
NEXT: Mapping[Verdict, str] = {
    "more": "{number} {verb} {amount}{detail}",
    "less": "{number} {verb} {amount}{detail}",
    "slight": "{number} {differ} by less than {margin}: {next_effects}",
    "same": "nothing measurable changes for {number}: {next_effects}, within {margin}",
    "undecided": "{number} {are} undecided: {next_effects}; {remedy}",
    "untested": "{number} {are} not tested: {why}",
}

# Of one block, and of several that are too few.
FEW_BLOCKS = (
    "it was measured in one block only, and what drifts from block to block is not in these numbers",
    "it was measured in {blocks} blocks only, whose drift may look like a difference",
)

# What would decide what is undecided.
BLOCKS = "about {times} times as many blocks would decide {it}"
MANY_BLOCKS = (
    "a change of {margin} is too little to see in this scatter: more blocks would decide {it}"
)
SOME_BLOCKS = "more blocks would decide {it}"
# What no number of blocks would decide.
COARSE = "{steps}, and what is smaller does not show"
# What would be a difference by its own test.
AMONG = "what differs by itself may do so by chance among {of} (p = {p} by Holm)"
AGAINST = "{what} of {name} went the other way"
# More blocks than these times as many are no advice.
PRACTICAL = 20


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
    parts: list[str] = []
    for verdict in wording.ORDER:
        if its := [it for it in group.findings if it.verdict == verdict]:
            template = (NEXT if parts else FIRST)[verdict]
            parts.append(template.format(**_words(analysis, group, its)))
    if group.few_blocks is not None and group.says_something:
        parts.append(FEW_BLOCKS[group.few_blocks > 1].format(blocks=group.few_blocks))
    return f"{wording.capital(', '.join(where))}, {'; '.join(parts)}."


def _words(analysis: Analysis, group: Group, its: Sequence[Finding]) -> Mapping[str, str]:
    """What templates may ask for."""
    of = len(group.findings)
    base = group.varied(group.base, analysis.results)
    many, whole = len(its) > 1, len(its) == of
    is_decided = its[0].verdict in DECIDED
    measure = group.family.measure
    return {
        **wording.words(group.family, its, of, analysis.same_within),
        "number": f"{len(its)} of them" if many else its[0].quantity.title,
        "amount": wording.amount(its, measure, is_short=False) if is_decided else "",
        "than": "as" if any(it.is_in_times for it in its) else "than",
        "detail": wording.detail(its, is_named=not whole) if is_decided else "",
        "base": base.there,
        "base_noun": base.noun,
        "next_effects": wording.effects(its, is_named=many),
        "remedy": _remedy(its, analysis.same_within, of),
    }


def _remedy(its: Sequence[Finding], same_within: float, of: int) -> str:
    """Why they are open, and what would decide them."""
    told = [
        AGAINST.format(what=listed(it.against), name=it.quantity.title) for it in its if it.against
    ]
    if by_itself := [it.among for it in its if it.among is not None]:
        told.append(AMONG.format(of=of, p=units.p_value(min(by_itself))))
    others = [it for it in its if not it.against]
    unseen = [it.unseen_ns for it in others if it.unseen_ns is not None]
    if unseen:
        told.append(COARSE.format(steps=coarse_text(max(unseen))))
    elif others:
        needed = [wording.times_as_many(it, same_within) for it in others]
        known = [times for times in needed if times is not None]
        template = SOME_BLOCKS
        if len(known) == len(needed):
            template = BLOCKS if max(known) <= PRACTICAL else MANY_BLOCKS
        it, margin = "them" if len(others) > 1 else "it", units.margin(same_within)
        told.append(template.format(times=max(known, default=0), it=it, margin=margin))
    return "; ".join(told)


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
            much = wording.amount(findings, self.family.measure)
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
    next(iter(alike.values()))[0] += f" (intervals {wording.intervals(left[0][1])})"
    told = [f"{listed(names)} {listed(list(at), 4)}" for at, names in alike.items()]
    if len(told) > TOLD:
        told[TOLD:] = [f"and {len(told) - TOLD} more"]
    unseen = any(it.unseen_ns is not None for _, own in left for it in own)
    text = f"Undecided, for want of blocks{', or of finer clocks' if unseen else ''}: {'; '.join(told)}."
    yield Sentence(text, left[0][0].table_key, MAIN, OPEN)
