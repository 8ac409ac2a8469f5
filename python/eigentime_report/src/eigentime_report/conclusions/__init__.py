"""What a reader should conclude, in plain sentences, each linked to the table of its numbers."""

from eigentime_report.analysis import Analysis
from eigentime_report.conclusions.against import differences, groups_of
from eigentime_report.conclusions.measured import missed, trust
from eigentime_report.conclusions.opening import opening
from eigentime_report.conclusions.wording import MAIN, Family, Sentence
from eigentime_report.results import Results

__all__ = ["MAIN", "Family", "Sentence", "conclude"]


def conclude(results: Results, analysis: Analysis | None = None) -> list[Sentence]:
    """All sentences: those of the opening, from `MAIN` on, then the others by what matters most."""
    found = analysis or Analysis(results)
    groups = [*groups_of(found, "level"), *groups_of(found, "load")]
    first, left = opening(found, groups)
    others = [*left, *differences(found, groups), *missed(found), *trust(found)]
    return [*first, *sorted(others, key=lambda sentence: -sentence.weight)]
