"""What levels cost and what loads do, family by family, with intervals and what is open."""

from collections.abc import Iterator, Mapping, Sequence

from eigentime_report import units
from eigentime_report.analysis import Analysis
from eigentime_report.conclusions.findings import DECIDED, ORDER, Finding, Verdict, times_as_many
from eigentime_report.conclusions.groups import Group, in_series
from eigentime_report.conclusions.sentence import Sentence, below_main, capital
from eigentime_report.conclusions.wording import amount, detail, effects, words
from eigentime_report.statistics import coarse_text
from eigentime_report.tables.text import listed

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
                below_main(group.importance),
                group.family.key,
            )


def _text(analysis: Analysis, group: Group) -> str:
    results = analysis.results
    where = [group.varied(group.other, results).there]
    if not group.is_alone(results):
        where.append(group.steady(results).there)
    parts: list[str] = []
    for verdict in ORDER:
        if its := [it for it in group.findings if it.verdict == verdict]:
            template = (NEXT if parts else FIRST)[verdict]
            parts.append(template.format(**_words(analysis, group, its)))
    if group.few_blocks is not None and group.says_something:
        parts.append(FEW_BLOCKS[group.few_blocks > 1].format(blocks=group.few_blocks))
    return f"{capital(', '.join(where))}, {'; '.join(parts)}."


def _words(analysis: Analysis, group: Group, its: Sequence[Finding]) -> Mapping[str, str]:
    """What templates may ask for."""
    of = len(group.findings)
    base = group.varied(group.base, analysis.results)
    many, whole = len(its) > 1, len(its) == of
    is_decided = its[0].verdict in DECIDED
    measure = group.family.measure
    return {
        **words(group.family, its, of, analysis.same_within),
        "number": f"{len(its)} of them" if many else its[0].quantity.title,
        "amount": amount(its, measure, is_short=False) if is_decided else "",
        "than": "as" if any(it.is_in_times for it in its) else "than",
        "detail": detail(its, is_named=not whole) if is_decided else "",
        "base": base.there,
        "base_noun": base.noun,
        "next_effects": effects(its, is_named=many),
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
        needed = [times_as_many(it, same_within) for it in others]
        known = [times for times in needed if times is not None]
        template = SOME_BLOCKS
        if len(known) == len(needed):
            template = BLOCKS if max(known) <= PRACTICAL else MANY_BLOCKS
        it, margin = "them" if len(others) > 1 else "it", units.margin(same_within)
        told.append(template.format(times=max(known, default=0), it=it, margin=margin))
    return "; ".join(told)
