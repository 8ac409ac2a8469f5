"""A report put together: results in, a page out, whatever it is then written as."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from eigentime_report.analysis import analyse
from eigentime_report.charts import Chart
from eigentime_report.comparison import (
    CONDITIONS,
    Changes,
    Judgement,
    Outcome,
    changes_sentences,
    circumstances_table,
    conditions_table,
)
from eigentime_report.comparison.shifts import AFTER, BEFORE
from eigentime_report.conclusions import MAIN, Sentence, conclude

# Sentences about this are notes of the page: what speaks against its numbers, or for them.
from eigentime_report.conclusions.trust import ABOUT as TRUST
from eigentime_report.page import Facts, Page, Section
from eigentime_report.parts import (
    Detail,
    Tell,
    picture_of,
    picture_of_changes,
    sections_of,
    sections_of_changes,
    unheard,
)
from eigentime_report.results import Results
from eigentime_report.tables import FACTORS

# What was not to be, and is, matters most.
CONDITIONS_WEIGHT = 200
# What the doctor has found amiss at a level.
AMISS = ("warning", "problem")


def report_page(
    results: Results,
    *,
    title: str | None = None,
    confidence: float = 0.95,
    same_within: float = 0.01,
    as_in_paper: bool = False,
    judgements: Sequence[Judgement] = (),
    detail: Detail = Detail.CHARTS,
    tell: Tell = unheard,
) -> Page:
    """What follows from a set of results: conclusions, and the tables and charts behind them."""
    analysis = analyse(
        results, confidence=confidence, same_within=same_within, as_in_paper=as_in_paper
    )
    for kind in analysis.kinds:
        for factor in FACTORS:
            tell(f"testing {kind} over {factor}s")
            # Made once, and held.
            list(analysis.comparisons(kind, factor))
    tell("drawing conclusions")
    return _page(
        title or f"What time costs: {', '.join(_machines(results))}",
        _subtitle(results),
        picture_of(analysis) if detail >= Detail.CHARTS else None,
        conclude(results, analysis),
        _facts(results),
        sections_of(analysis, detail, tell),
        judgements,
    )


def comparison_page(
    changes: Changes,
    *,
    title: str | None = None,
    judgements: Sequence[Judgement] = (),
    detail: Detail = Detail.CHARTS,
) -> Page:
    """What has changed from one set of results to another."""
    both = {BEFORE: changes.before, AFTER: changes.after}
    names = told_apart(it.folders for it in both.values())
    compared = circumstances_table(changes)
    last = Section("compared", compared.title, blocks=(compared,))
    return _page(
        title or f"What has changed: {' and '.join(names)}",
        "; ".join(
            f"{when} ({name}): {_subtitle(results)}"
            for (when, results), name in zip(both.items(), names, strict=True)
        ),
        picture_of_changes(changes) if detail >= Detail.CHARTS else None,
        changes_sentences(changes),
        [
            replace(facts, title=f"{facts.title}, {when}")
            for when, results in both.items()
            for facts in _facts(results)
        ],
        (*sections_of_changes(changes, detail), last),
        judgements,
    )


def _page(
    title: str,
    subtitle: str,
    picture: Chart | None,
    sentences: Sequence[Sentence],
    facts: Iterable[Facts],
    sections: Iterable[Section],
    judgements: Sequence[Judgement],
) -> Page:
    """A page, with the outcomes of conditions before all else, and what matters less folded away."""
    table = conditions_table(judgements)
    outcomes = Section("outcomes", table.title, blocks=(table,) if judgements else ())
    conclusions = [it for it in sentences if it.about != TRUST]
    return Page(
        title=title,
        subtitle=subtitle,
        picture=picture,
        sentences=(*_outcomes(judgements), *(it for it in conclusions if it.weight >= MAIN)),
        more_sentences=tuple(it for it in conclusions if it.weight < MAIN),
        notes=tuple(it.text for it in sentences if it.about == TRUST),
        facts=tuple(facts),
        sections=tuple(it for it in (outcomes, *sections) if it.words or it.blocks),
    )


def _outcomes(judgements: Sequence[Judgement]) -> Iterator[Sentence]:
    """Each condition that is not reached, and how many are."""
    for it in judgements:
        if it.outcome is not Outcome.REACHED:
            text = str(it)
            yield Sentence(f"{text[0].upper()}{text[1:]}.", CONDITIONS, CONDITIONS_WEIGHT)
    held = sum(it.outcome is Outcome.REACHED for it in judgements)
    if held:
        text = f"Conditions are reached at {held} of {len(judgements)} places."
        yield Sentence(text, CONDITIONS, CONDITIONS_WEIGHT)


def _machines(results: Results) -> list[str]:
    return list(dict.fromkeys(run.machine for run in results.runs))


def told_apart(groups: Iterable[Iterable[Path]]) -> list[str]:
    """The folders of each group, by as much of their paths as it takes to tell groups apart."""
    paths = [[folder.resolve().parts for folder in group] for group in groups]
    longest = max(len(parts) for own in paths for parts in own)
    names: list[str] = []
    for depth in range(1, longest + 1):
        names = [", ".join("/".join(it[-depth:]) for it in own) for own in paths]
        if len(set(names)) == len(names):
            break
    return names


def _subtitle(results: Results) -> str:
    """Where, by which kernel and when was measured, in a line."""
    kernels = dict.fromkeys(run.kernel for run in results.runs)
    begun = sorted({run.begin for run in results.runs})
    when = begun[0]
    if len(begun) > 1:
        when = f"{len(begun)} runs from {begun[0]} to {begun[-1]}"
    return ", ".join((*_machines(results), *kernels, when))


def _facts(results: Results) -> Iterator[Facts]:
    """What is known of the runs, and of each level: how it was made, and what was amiss there."""
    yield from _run_facts(results)
    for level in results.levels:
        places = results.places(level)
        times = Counter(
            fact
            for _, known in places
            # What is said twice of one place is one fact.
            for fact in dict.fromkeys(
                [
                    *known.notes.items(),
                    *((it.verdict, it.found) for it in known.findings if it.verdict in AMISS),
                ]
            )
        )
        if times:
            yield Facts(
                f"Level {level}",
                tuple(fact for fact, seen in times.items() if seen == len(places)),
                tuple(
                    (name, f"{value} ({seen} of {len(places)} runs)")
                    for (name, value), seen in times.items()
                    if seen < len(places)
                ),
            )


def _run_facts(results: Results) -> Iterator[Facts]:
    """A card for each machine and kernel, with the runs there."""
    runs: dict[tuple[str, str], dict[str, None]] = {}
    for run in results.runs:
        blocks = f"{run.blocks} {'block' if run.blocks == 1 else 'blocks'}"
        measured = f"{run.begin}, preset {run.preset}, {blocks}"
        runs.setdefault((run.machine, run.kernel), {})[measured] = None
    for (machine, kernel), all_measured in runs.items():
        yield Facts(
            f"Machine {machine}",
            (("kernel", kernel), *(("measured", measured) for measured in all_measured)),
        )
