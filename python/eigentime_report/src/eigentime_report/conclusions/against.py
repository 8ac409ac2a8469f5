"""What levels add and what loads do, in one sentence for each kind."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from eigentime_report import units
from eigentime_report.analysis import Analysis
from eigentime_report.conclusions import places
from eigentime_report.conclusions.differences import Group, in_series, whole_or_part
from eigentime_report.conclusions.families import Family
from eigentime_report.conclusions.findings import DECIDED, Finding
from eigentime_report.conclusions.sentence import MAIN, Sentence
from eigentime_report.conclusions.wording import amount
from eigentime_report.results.replicates import things
from eigentime_report.tables.text import listed

# What differs to one side, and what does not measurably.
SIDES = (("more",), ("less",), ("slight", "same"))
STAYS = ("stays", "stay")
# By fewer blocks nothing is decided, as nothing is between two runs.
FEWEST_BLOCKS = 3
# So many are told in a sentence, of the families that matter most.
CLAUSES = 6


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
        if _few_blocks(group) != _few_blocks(self.groups[0]):
            return False
        alike = all(
            _is_alike(mine, other)
            for known in self.findings
            for mine, other in zip(known, its, strict=False)
        )
        if [it.quantity for it in its] != [it.quantity for it in self.findings[0]]:
            return False
        if alike and self.of == len(group.findings):
            self.groups.append(group)
            self.findings.append(its)
            return True
        return False


def _few_blocks(group: Group) -> int | None:
    """In how many blocks it was measured, if these are too few to state it as a fact."""
    return group.blocks if group.blocks < FEWEST_BLOCKS else None


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
    firsts = [its[0] for its in in_series(groups)]
    results = analysis.results
    for (factor, held, kind), own in groupby(
        sorted(firsts, key=lambda it: (it.factor, it.held, it.family.kind)),
        key=lambda it: (it.factor, it.held, it.family.kind),
    ):
        its = list(own)
        by_family: dict[Family, list[Group]] = {}
        for group in its:
            by_family.setdefault(group.family, []).append(group)
        ordered = sorted(by_family.values(), key=lambda them: -_importance(them))
        clauses = [it for them in ordered for it in _clauses(them)]
        if not clauses:
            continue
        clauses.sort(key=lambda it: _says_little(analysis, it))
        if factor == "level":
            base = places.level(its[0].base, results).noun
            where = places.load(held).there if len(results.loads) > 1 else ""
        else:
            base = places.load(its[0].base).noun
            where = places.level(held, results).there if len(results.levels) > 1 else ""
        opening = f"Against {base}{f', {where}' if where else ''}"
        yield Told(
            Sentence(
                f"{opening}: {_told(analysis, clauses[:CLAUSES])}.",
                its[0].table_key,
                MAIN,
                ordered[0][0].family.key,
            ),
            factor,
            _importance(its),
        )


def _importance(groups: Sequence[Group]) -> float:
    """That of the family that matters most, where it does."""
    return max(group.importance for group in groups)


def _says_little(analysis: Analysis, clause: Clause) -> bool:
    """Is it about a translator's machine, which is like no other?"""
    group = clause.groups[0]
    level = group.other if group.factor == "level" else group.held
    return places.is_translated(level, analysis.results)


def _told(analysis: Analysis, clauses: Sequence[Clause]) -> str:
    """`in a container vDSO reads take 2.5 % (0.5 ns) longer, sleeps stay within 1 %; in …`."""
    by_place: dict[str, list[Clause]] = {}
    # The first levels and loads first.
    for clause in sorted(clauses, key=lambda it: _place(analysis, it.groups[0])):
        where = listed([there(analysis, group) for group in clause.groups])
        if few := _few_blocks(clause.groups[0]):
            where += f", by {things(few, 'block')} only,"
        by_place.setdefault(where, []).append(clause)
    told = []
    for where, own in by_place.items():
        parts, verb = [], ""
        for clause in own:
            again, verb = verb, _verb(clause)
            words = (
                _subject(clause),
                verb if verb != again else "",
                _much(analysis, clause),
            )
            parts.append(" ".join(filter(None, words)))
        told.append(f"{where} {', '.join(parts)}")
    return "; ".join(told)


def _place(analysis: Analysis, group: Group) -> int:
    results = analysis.results
    return (results.levels if group.factor == "level" else results.loads).index(
        group.other
    )


def _subject(clause: Clause) -> str:
    its = clause.findings[0]
    if len(its) == 1:
        return its[0].quantity.title
    if len(its) == clause.of:
        return clause.family.many
    return whole_or_part(clause.family, its, clause.of)


def _verb(clause: Clause) -> str:
    verbs = clause.family.measure.verb if clause.is_decided else STAYS
    many = len(clause.findings[0]) > 1
    if _few_blocks(clause.groups[0]):
        return f"seem{'' if many else 's'} to {verbs[1]}"
    return verbs[many]


def _much(analysis: Analysis, clause: Clause) -> str:
    if not clause.is_decided:
        return f"within {units.margin(analysis.same_within)}"
    findings = [it.as_shown for each in clause.findings for it in each]
    return amount(findings, clause.family.measure)


def there(analysis: Analysis, group: Group) -> str:
    """The level or the load that is set against the first one."""
    if group.factor == "level":
        return places.level(group.other, analysis.results).there
    return places.load(group.other).there


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
