"""What a reader should conclude, in plain sentences, each linked to the table of its numbers."""

from collections.abc import Sequence
from dataclasses import replace

from eigentime_report.analysis import Analysis
from eigentime_report.conclusions import against, measured
from eigentime_report.conclusions.wording import MAIN, Family, Sentence
from eigentime_report.results import Results

__all__ = ["MAIN", "Family", "Sentence", "conclude"]

# With more of them, what matters would not be seen.
MOST = 9


def conclude(results: Results, analysis: Analysis | None = None) -> list[Sentence]:
    """All sentences: those that a page begins with, from `MAIN` on, then the others by what matters most."""
    found = analysis or Analysis(results)
    groups = [*against.groups_of(found, "level"), *against.groups_of(found, "load")]
    first, left = _opening(found, groups)
    others = [
        *left,
        *against.differences(found, groups),
        *measured.missed(found),
        *measured.trust(found),
    ]
    return [*first, *sorted(others, key=lambda sentence: -sentence.weight)]


def _opening(
    analysis: Analysis, groups: Sequence[against.Group]
) -> tuple[list[Sentence], list[Sentence]]:
    """Costs, clocks, what levels add, what loads do, what to trust, what is open; and the rest.

    Of comparisons there are as many as there is room for, the most important ones.
    """
    back, never, unclear = measured.backwards(analysis)
    here = list(measured.costs(analysis))
    # Single readings are told where no calls were measured.
    readings = [it for it in here if it.about == "reads" and len(here) > 1]
    begin = [*back[:1], *(it for it in here if it not in readings), *never]
    begin += measured.served(analysis)
    end = [*measured.assurance(analysis), *against.still_open(analysis, groups)]
    compared = list(against.against_first(analysis, groups))
    # The most important one of levels and that of loads, then the most important others; in their order.
    ordered = sorted(compared, key=lambda it: -it[2])
    firsts = {factor: sentence for sentence, factor, _ in reversed(ordered)}.values()
    ordered.sort(key=lambda it: it[0] not in firsts)
    room = max(MOST - len(begin) - len(end), 0)
    chosen = [sentence for sentence, *_ in ordered[:room]]
    sentences = [*begin, *(it for it, *_ in compared if it in chosen), *end]
    first = [
        replace(it, weight=MAIN + len(sentences) - place) for place, it in enumerate(sentences)
    ]
    left = [*back[1:], *unclear, *readings]
    return first, [replace(it, weight=MAIN / 2) for it in left]
