"""The sentences that a page begins with: what time costs, and how good it is."""

from collections.abc import Sequence
from dataclasses import replace

from eigentime_report.analysis import Analysis
from eigentime_report.conclusions.against import Group, Told, against_first, still_open
from eigentime_report.conclusions.measured import assurance, backwards, costs, served
from eigentime_report.conclusions.wording import MAIN, Sentence

# With more of them, what matters would not be seen.
MOST = 9


def opening(analysis: Analysis, groups: Sequence[Group]) -> tuple[list[Sentence], list[Sentence]]:
    """Costs, clocks, what levels add, what loads do, what to trust, what is open; and the rest.

    Of comparisons there are as many as there is room for, the most important ones.
    """
    back, never, unclear = backwards(analysis)
    here = list(costs(analysis))
    # Single readings are told where no calls were measured.
    readings = [it for it in here if it.about == "reads" and len(here) > 1]
    begin = [*back[:1], *(it for it in here if it not in readings), *never]
    begin += served(analysis)
    end = [*assurance(analysis), *still_open(analysis, groups)]
    compared = list(against_first(analysis, groups))
    chosen = _chosen(compared, MOST - len(begin) - len(end))
    sentences = [*begin, *chosen, *end]
    first = [
        replace(it, weight=MAIN + len(sentences) - place) for place, it in enumerate(sentences)
    ]
    left = [*back[1:], *unclear, *readings]
    return first, [replace(it, weight=MAIN / 2) for it in left]


def _chosen(compared: Sequence[Told], room: int) -> list[Sentence]:
    """The most important one of levels and that of loads, then the most important others; in their order."""
    ordered = sorted(compared, key=lambda it: -it[2])
    firsts = {factor: sentence for sentence, factor, _ in reversed(ordered)}.values()
    ordered.sort(key=lambda it: it[0] not in firsts)
    chosen = [sentence for sentence, *_ in ordered[: max(room, 0)]]
    return [sentence for sentence, *_ in compared if sentence in chosen]
