"""What is open: all of it in one sentence."""

from collections.abc import Iterator, Sequence

from eigentime_report.analysis import Analysis
from eigentime_report.conclusions.against import there
from eigentime_report.conclusions.differences import Group, in_series
from eigentime_report.conclusions.findings import Finding
from eigentime_report.conclusions.sentence import MAIN, Sentence
from eigentime_report.conclusions.wording import intervals
from eigentime_report.tables.text import listed

ABOUT = "open"
# In so many clauses it is told what is open; of the others, how many they are.
TOLD = 3


def still_open(analysis: Analysis, groups: Sequence[Group]) -> Iterator[Sentence]:
    """One sentence, if there is anything: what is open where, and how wide the first intervals are."""
    firsts = [its[0] for its in in_series(groups)]
    left = [(it, _open(it)) for it in firsts if _open(it)]
    if not left:
        return
    left.sort(key=lambda item: (item[0].factor == "load", -item[0].family.weight))
    where: dict[tuple[str, str], list[str]] = {}
    for group, own in left:
        names = where.setdefault((group.factor, _name(group, own)), [])
        names.append(there(analysis, group))
    alike: dict[tuple[str, ...], list[str]] = {}
    for (_, name), at in where.items():
        alike.setdefault(tuple(at), []).append(name)
    group, own = left[0]
    first = next(iter(alike.values()))
    first[0] += f" (intervals {intervals(own)})"
    told = [f"{listed(names)} {listed(list(at), 4)}" for at, names in alike.items()]
    if len(told) > TOLD:
        told[TOLD:] = [f"and {len(told) - TOLD} more"]
    text = "; ".join(told)
    unseen = any(it.unseen_ns is not None for _, own in left for it in own)
    wanted = "blocks, or of finer clocks" if unseen else "blocks"
    yield Sentence(
        f"Undecided, for want of {wanted}: {text}.", group.table_key, MAIN, ABOUT
    )


def _open(group: Group) -> list[Finding]:
    return [it for it in group.findings if it.verdict == "undecided"]


def _name(group: Group, own: Sequence[Finding]) -> str:
    """`vDSO reads`, `2 of 3 vDSO reads` or the name of a single one."""
    if len(own) == 1:
        return own[0].quantity.title
    if len(own) < len(group.findings):
        return f"{len(own)} of {group.family.counted(len(group.findings))}"
    return group.family.many
