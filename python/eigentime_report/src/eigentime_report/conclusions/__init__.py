"""The conclusions in plain sentences, each linked to the table of its numbers."""

from collections.abc import Sequence
from dataclasses import replace

from eigentime_report.analysis import Analysis
from eigentime_report.conclusions import against, measured
from eigentime_report.conclusions.wording import MAIN, Family, Sentence
from eigentime_report.results import Results

__all__ = ["MAIN", "Family", "Sentence", "conclude"]

# More of them would hide the important ones.
MOST = 9


def conclude(results: Results, analysis: Analysis | None = None) -> list[Sentence]:
    """All sentences: first those at the beginning of a page, from `MAIN` on, then the others by
    importance."""
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
    """Costs, clocks, effects of levels, effects of loads, reliability, open questions; and the
    rest.

    As many comparisons are included as there is room for, the most important first.
    """
    back, never, unclear = measured.backwards(analysis)
    here = list(measured.costs(analysis))
    # Single readings are reported if no calls were measured.
    readings = [it for it in here if it.about == "reads" and len(here) > 1]
    begin = [*back[:1], *(it for it in here if it not in readings), *never]
    begin += measured.served(analysis)
    end = [*measured.assurance(analysis), *against.still_open(analysis, groups)]
    compared = list(against.against_first(analysis, groups))
    # The most important ones of levels and of loads, then the next ones by importance; in their
    # order.
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
