"""Assembles a report: from results to a page with its sections."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeAlias

from eigentime_report import charts
from eigentime_report.analysis import Analysis, Compared, analyse
from eigentime_report.basics import grouped, once
from eigentime_report.charts import Chart
from eigentime_report.comparison import CONDITIONS, Changes, Judgement, Outcome, shown
from eigentime_report.comparison.changes import AFTER, BEFORE
from eigentime_report.conclusions import MAIN, Sentence, conclude
from eigentime_report.conclusions.measured import ABOUT as TRUST
from eigentime_report.page import Block, Choice, Facts, Fold, Page, Section
from eigentime_report.papers import papers_tables
from eigentime_report.results import Cell, Quantity, Results
from eigentime_report.results.cell import things
from eigentime_report.results.manifest import Level
from eigentime_report.tables import FACTORS, Table, measured_tables

# Receives the current step.
Tell: TypeAlias = Callable[[str], None]


class Detail(IntEnum):
    """The amount of detail: each level includes the previous ones."""

    WORDS = 1
    TABLES = 2
    CHARTS = 3


@dataclass(frozen=True)
class Part:
    """A section of the page: its tables, by patterns of their keys, and its charts."""

    key: str
    title: str
    tables: tuple[str, ...]
    # Their names; one for each quantity of the kind with the part's name.
    charts: tuple[str, ...] = ()
    # By subject, the quantities in the page's first picture; the charts of the first are shown
    # first. By default, it is the first quantity.
    main: tuple[str, ...] = ()


PARTS = (
    Part(
        "calls",
        "Overhead of calls",
        ("overhead-*",),
        ("distribution", "raw_series", "qq"),
        ("vdso_clock_gettime_monotonic", "clock_gettime_monotonic", "timerfd_settime"),
    ),
    Part(
        "read",
        "Overhead of single clock reads",
        ("timer-cost",),
        ("ccdf", "distribution", "raw_series"),
        ("clock_gettime",),
    ),
    Part(
        "sleep",
        "Latency of sleeps: how late they end",
        ("miss-time",),
        ("ccdf", "distribution", "raw_series", "qq"),
        ("nanosleep", "epoll", "sleeper"),
    ),
    Part(
        "events",
        "Jitter of timer events",
        ("events",),
        ("interval_histogram", "ccdf", "raw_series"),
        ("ticker", "timerfd"),
    ),
    Part("clocks", "Who serves clocks, and whether they go backwards", ("served", "warps")),
    Part("beside", "Beside what was published", ("published",)),
    Part("places", "Where and under which loads was measured", ("levels", "loads")),
)
# Tables of each part with the details.
FOLDED = ("pairs-{}-*", "descriptives-{}", "tests-{}-*", "factors-{}")


def unheard(words: str) -> None:
    """Ignores the current step."""


def picture_of(analysis: Analysis) -> Chart | None:
    """The cost of each level, under the first load; None if there is only one level."""
    load = analysis.results.loads[0]
    compared = [it for part in PARTS for it in analysis.comparisons(part.key, "level")]
    return _picture((it for it in compared if it.held == load), levels=analysis.results.levels)


def picture_of_changes(changes: Changes) -> Chart | None:
    """The changes at all levels, under the first load."""
    load = changes.after.loads[0]
    return _picture((it for it in changes.changes if it.load == load), title="What has changed")


def _picture(compared: Iterable[Compared], **words: Any) -> Chart | None:
    """The picture of the comparisons of each part's main quantities, in the parts' order."""
    given = list(compared)
    found: list[Compared] = []
    for part in PARTS:
        own = [it for it in given if it.quantity.kind == part.key]
        first = {it.quantity.subject: it.quantity for it in reversed(own)}
        chosen = [first[it] for it in part.main if it in first]
        chosen = chosen or list(first.values())[-1:]
        found += [it for quantity in chosen for it in own if it.quantity == quantity]
    return charts.overview(found, **words) if found else None


def every_table(analysis: Analysis) -> Iterator[Table]:
    """All tables with rows: first the papers', then by kind, then the conditions of measurement."""
    tables = (*papers_tables(analysis), *measured_tables(analysis))
    return (table for table in tables if not table.is_empty)


def sections_of(analysis: Analysis, detail: Detail, tell: Tell = unheard) -> Iterator[Section]:
    """The sections of a report on a set of results."""
    if detail < Detail.TABLES:
        return
    results = analysis.results
    tell("describing all quantities")
    tables = list(every_table(analysis))
    for part in PARTS:
        drawn: list[Block] = []
        if detail >= Detail.CHARTS and part.charts:
            tell(f"drawing {part.key}")
            drawn = [
                *_forests(part, analysis),
                *_charts(part, analysis.quantities(part.key), results, results.cells),
            ]
        folded = matching(tables, [it.format(part.key) for it in FOLDED])
        folds = (Fold(f"{it.key}-fold", it.title, (it,)) for it in folded)
        blocks: tuple[Block, ...] = (*matching(tables, part.tables), *drawn, *folds)
        yield Section(f"about-{part.key}", part.title, blocks=blocks)


def sections_of_changes(changes: Changes, detail: Detail) -> Iterator[Section]:
    """The sections of a comparison of two sets of results."""
    if detail < Detail.TABLES:
        return
    both = {BEFORE: changes.before, AFTER: changes.after}

    def cells(quantity: Quantity) -> list[Cell]:
        return [
            replace(cell, level=f"{it.level}, {when}")
            for it in changes.of(quantity.kind)
            if it.quantity == quantity
            for when, results in both.items()
            if (cell := results.cell(quantity, it.level, it.load))
        ]

    levels = [f"{level}, {when}" for level in changes.after.levels for when in both]
    for part in PARTS:
        if part.key not in changes.kinds:
            continue
        blocks: list[Block] = [shown.changes_table(changes, part.key)]
        if detail >= Detail.CHARTS:
            quantities = once(it.quantity for it in changes.of(part.key))
            blocks.append(shown.changes_chart(changes, part.key))
            blocks += _charts(part, quantities, changes.after, cells, levels)
        yield Section(f"about-{part.key}", part.title, blocks=tuple(blocks))


def _charts(
    part: Part,
    quantities: Sequence[Quantity],
    results: Results,
    cells_of: Callable[[Quantity], list[Cell]],
    levels: Sequence[str] = (),
) -> Iterator[Block]:
    """The charts of a part; if there are several quantities, a choice between them."""
    options = []
    for quantity in quantities:
        cells = cells_of(quantity)
        drawn = tuple(
            getattr(charts, name)(cells, levels=levels or results.levels, loads=results.loads)
            for name in part.charts
        )
        options.append(Fold(f"{drawn[0].key}-option", quantity.title, drawn))
    if len(options) == 1:
        yield from options[0].blocks
    elif options:
        main = (at for at, it in enumerate(quantities) if it.subject == part.main[0])
        first, key = next(main, 0), f"quantities-{part.key}"
        yield Choice(key, "Quantity by quantity", "Quantity", tuple(options), first)


def matching(tables: Iterable[Table], patterns: Iterable[str]) -> list[Table]:
    """The tables whose keys match one of the patterns."""
    return [it for it in tables if any(fnmatchcase(it.key, pattern) for pattern in patterns)]


def _forests(part: Part, analysis: Analysis) -> Iterator[Chart]:
    """The differences of levels from the first one, and of loads."""
    for factor in FACTORS:
        if compared := list(analysis.comparisons(part.key, factor)):
            title = f"{part.title}: how {factor}s differ"
            yield charts.forest(compared, key=f"effects-{part.key}-{factor}s", title=title)


# Failed conditions matter most.
CONDITIONS_WEIGHT = 200
# The doctor's findings at a level that are not ok.
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
    """The page for a set of results: conclusions, and the tables and charts behind them."""
    analysis = analyse(
        results, confidence=confidence, same_within=same_within, as_in_paper=as_in_paper
    )
    for kind in analysis.kinds:
        for factor in FACTORS:
            tell(f"testing {kind} over {factor}s")
            # Made once, and reused.
            list(analysis.comparisons(kind, factor))
    tell("drawing conclusions")
    page = Page(
        title or f"What time costs: {', '.join(_machines(results))}",
        _subtitle(results),
        picture_of(analysis) if detail >= Detail.CHARTS else None,
        facts=tuple(_facts(results)),
    )
    sentences = conclude(results, analysis)
    return _filled(page, sentences, sections_of(analysis, detail, tell), judgements)


def comparison_page(
    changes: Changes,
    *,
    title: str | None = None,
    judgements: Sequence[Judgement] = (),
    detail: Detail = Detail.CHARTS,
) -> Page:
    """The page for the changes from one set of results to another."""
    both = {BEFORE: changes.before, AFTER: changes.after}
    names = told_apart(it.folders for it in both.values())
    compared = shown.circumstances_table(changes)
    last = Section("compared", compared.title, blocks=(compared,))
    page = Page(
        title or f"What has changed: {' and '.join(names)}",
        "; ".join(
            f"{when} ({name}): {_subtitle(results)}"
            for (when, results), name in zip(both.items(), names, strict=True)
        ),
        picture_of_changes(changes) if detail >= Detail.CHARTS else None,
        facts=tuple(
            replace(facts, title=f"{facts.title}, {when}")
            for when, results in both.items()
            for facts in _facts(results)
        ),
    )
    sections = (*sections_of_changes(changes, detail), last)
    return _filled(page, shown.changes_sentences(changes), sections, judgements)


def _filled(
    page: Page,
    sentences: Sequence[Sentence],
    sections: Iterable[Section],
    judgements: Sequence[Judgement],
) -> Page:
    """The complete page, with the outcomes of conditions first, and less important parts folded
    away."""
    table = shown.conditions_table(judgements)
    outcomes = Section("outcomes", table.title, blocks=(table,) if judgements else ())
    conclusions = [it for it in sentences if it.about != TRUST]
    return replace(
        page,
        sentences=(*_outcomes(judgements), *(it for it in conclusions if it.weight >= MAIN)),
        more_sentences=tuple(it for it in conclusions if it.weight < MAIN),
        notes=tuple(it.text for it in sentences if it.about == TRUST),
        sections=tuple(it for it in (outcomes, *sections) if it.blocks),
    )


def _outcomes(judgements: Sequence[Judgement]) -> Iterator[Sentence]:
    """The failed conditions, and their number."""
    for it in judgements:
        if it.outcome is not Outcome.REACHED:
            text = str(it)
            yield Sentence(f"{text[0].upper()}{text[1:]}.", CONDITIONS, CONDITIONS_WEIGHT)
    held = sum(it.outcome is Outcome.REACHED for it in judgements)
    if held:
        text = f"Conditions are reached at {held} of {len(judgements)} places."
        yield Sentence(text, CONDITIONS, CONDITIONS_WEIGHT)


def _machines(results: Results) -> list[str]:
    return once(run.machine for run in results.runs)


def told_apart(groups: Iterable[Iterable[Path]]) -> list[str]:
    """The names of groups of folders: as much of their paths as distinguishes them."""
    paths = [[folder.resolve().parts for folder in group] for group in groups]
    longest = max(len(parts) for own in paths for parts in own)
    names: list[str] = []
    for depth in range(1, longest + 1):
        names = [", ".join("/".join(it[-depth:]) for it in own) for own in paths]
        if len(set(names)) == len(names):
            break
    return names


def _subtitle(results: Results) -> str:
    """The places, kernels and dates of measurement, in one line."""
    kernels = dict.fromkeys(run.kernel for run in results.runs)
    begun = sorted({run.begin for run in results.runs})
    when = begun[0]
    if len(begun) > 1:
        when = f"{len(begun)} runs from {begun[0]} to {begun[-1]}"
    return ", ".join((*_machines(results), *kernels, when))


def _facts(results: Results) -> Iterator[Facts]:
    """Facts about the runs, and about each level: how it was set up, and what was wrong there."""
    yield from _run_facts(results)
    for level in results.levels:
        places = results.places(level)
        times = Counter(
            fact
            for _, known in places
            # Duplicate facts about a place are merged.
            for fact in once([*known.notes.items(), *_amiss(known)])
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


def _amiss(known: Level) -> Iterator[tuple[str, str]]:
    return ((it.verdict, it.found) for it in known.findings if it.verdict in AMISS)


def _run_facts(results: Results) -> Iterator[Facts]:
    """A card for each machine and kernel, with its runs."""
    measured = grouped(
        ((it.machine, it.kernel), f"{it.begin}, preset {it.preset}, {things(it.blocks, 'block')}")
        for it in results.runs
    )
    for (machine, kernel), runs in measured.items():
        facts = (("measured", it) for it in dict.fromkeys(runs))
        yield Facts(f"Machine {machine}", (("kernel", kernel), *facts))
