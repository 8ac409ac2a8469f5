"""The sentences that a page begins with: what time costs, and how good it is."""

from collections.abc import Sequence
from dataclasses import replace

from eigentime_report.analysis import Analysis
from eigentime_report.conclusions.against import Told, against_first
from eigentime_report.conclusions.backwards import never_back, unclear, went_back
from eigentime_report.conclusions.differences import Group
from eigentime_report.conclusions.here import costs
from eigentime_report.conclusions.sentence import MAIN, Sentence
from eigentime_report.conclusions.served import served
from eigentime_report.conclusions.trust import assurance
from eigentime_report.conclusions.undecided import still_open

# With more of them, what matters would not be seen.
MOST = 9


def opening(
    analysis: Analysis, groups: Sequence[Group]
) -> tuple[list[Sentence], list[Sentence]]:
    """Costs, clocks, what levels add, what loads do, what to trust, what is open; and the rest.

    Of comparisons there are as many as there is room for, the most important ones.
    """
    first_back, further_back = went_back(analysis)[:1], went_back(analysis)[1:]
    here = list(costs(analysis))
    # Single readings are told where no calls were measured.
    readings = [it for it in here if it.about == "reads" and len(here) > 1]
    clocks = [*never_back(analysis), *served(analysis)]
    begin = [*first_back, *(it for it in here if it not in readings), *clocks]
    end = [*assurance(analysis), *still_open(analysis, groups)]
    compared = list(against_first(analysis, groups))
    chosen = _chosen(compared, MOST - len(begin) - len(end))
    told = [it.sentence for it in compared if it in chosen]
    sentences = [*begin, *told, *end]
    first = [
        replace(it, weight=MAIN + len(sentences) - place)
        for place, it in enumerate(sentences)
    ]
    left = [*further_back, *unclear(analysis), *readings]
    return first, [replace(it, weight=MAIN / 2) for it in left]


def _chosen(compared: Sequence[Told], room: int) -> list[Told]:
    """The most important one of levels and that of loads, then the most important others."""
    ordered = sorted(compared, key=lambda it: -it.importance)
    firsts = {it.factor: it for it in reversed(ordered)}.values()
    ordered.sort(key=lambda it: it not in firsts)
    return ordered[: max(room, 0)]
