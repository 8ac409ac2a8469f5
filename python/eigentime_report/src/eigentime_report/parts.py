"""The sections of a page: which tables and charts belong to which heading."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from fnmatch import fnmatchcase
from typing import TypeAlias

from eigentime_report.analysis import Analysis, Factor
from eigentime_report.charts import (
    Chart,
    ccdf,
    distribution,
    forest,
    interval_histogram,
    qq,
    raw_series,
)
from eigentime_report.comparison import Changes, changes_chart, changes_table
from eigentime_report.comparison.shifts import AFTER, BEFORE
from eigentime_report.page import Block, Choice, Fold, Option, Section
from eigentime_report.results import Cell, Quantity
from eigentime_report.tables import Table, every_table

ChartOf: TypeAlias = Callable[..., Chart]
# Hears what is done at the moment.
Tell: TypeAlias = Callable[[str], None]

FACTORS: tuple[Factor, ...] = ("level", "load")
# A page with more charts than this keeps a browser busy: of most quantities it has the first one.
MOST_CHARTS = 200
MANY = (
    "There are so many quantities that all charts of one of them are here, and one chart of each "
    "other; the package eigentime_report draws the rest."
)


class Detail(IntEnum):
    """How much of a report is wanted: each has what those before it have."""

    WORDS = 1
    TABLES = 2
    CHARTS = 3


@dataclass(frozen=True)
class Part:
    """A section of the page: its tables, by patterns of their keys, and its charts."""

    key: str
    title: str
    tables: tuple[str, ...]
    # For those who want to know it exactly.
    folded: tuple[str, ...] = ()
    # Of each quantity of the kind that is called as the part is.
    charts: tuple[ChartOf, ...] = ()
    # The quantity whose charts are seen first, by its subject; else it is the first one.
    shown: str = ""


def _kind(
    key: str, title: str, papers: str, shown: str, charts: tuple[ChartOf, ...]
) -> Part:
    exact = (
        f"pairs-{key}-*",
        f"descriptives-{key}",
        f"tests-{key}-*",
        f"factors-{key}",
    )
    return Part(key, title, (papers,), exact, charts, shown)


PARTS = (
    _kind(
        "calls",
        "What calls cost",
        "overhead-*",
        "vdso_clock_gettime_monotonic",
        (distribution, raw_series, qq),
    ),
    _kind(
        "read",
        "What single readings cost",
        "timer-cost",
        "clock_gettime",
        (ccdf, distribution, raw_series),
    ),
    _kind(
        "sleep",
        "How late sleeps end",
        "miss-time",
        "nanosleep",
        (ccdf, distribution, raw_series, qq),
    ),
    _kind(
        "events",
        "How even timer events are",
        "events",
        "ticker",
        (interval_histogram, ccdf, raw_series),
    ),
    Part(
        "clocks",
        "Who serves clocks, and whether they go backwards",
        ("served", "warps"),
    ),
    Part("beside", "Beside what was published", ("published",)),
    Part("places", "Where and under which loads was measured", ("levels", "loads")),
)


def unheard(words: str) -> None:
    """Tells nobody."""


def sections_of(
    analysis: Analysis, detail: Detail, tell: Tell = unheard
) -> Iterator[Section]:
    """The sections of a report on a set of results."""
    if detail < Detail.TABLES:
        return
    results = analysis.results
    tell("describing all quantities")
    tables = list(every_table(analysis))
    quantities = {part.key: analysis.quantities(part.key) for part in PARTS}
    charts = Charts.of(quantities, results.cells, results.levels, results.loads)
    for part in PARTS:
        drawn: list[Block] = []
        words: tuple[str, ...] = ()
        if detail >= Detail.CHARTS and part.charts:
            tell(f"drawing {part.key}")
            drawn = [*_forests(part, analysis), *charts.blocks(part)]
            words = charts.words(part)
        folded = [it for it in tables if _matches(it, part.folded)]
        blocks: tuple[Block, ...] = (
            *(it for it in tables if _matches(it, part.tables)),
            *drawn,
            *(Fold(f"{it.key}-fold", it.title, (it,)) for it in folded),
        )
        yield Section(f"about-{part.key}", part.title, words, blocks)


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

    quantities = {
        kind: tuple(dict.fromkeys(it.quantity for it in changes.of(kind)))
        for kind in changes.kinds
    }
    levels = [f"{level}, {when}" for level in changes.after.levels for when in both]
    charts = Charts.of(quantities, cells, levels, changes.after.loads)
    for part in PARTS:
        if part.key not in quantities:
            continue
        blocks: list[Block] = [changes_table(changes, part.key)]
        words: tuple[str, ...] = ()
        if detail >= Detail.CHARTS:
            blocks += [changes_chart(changes, part.key), *charts.blocks(part)]
            words = charts.words(part)
        yield Section(f"about-{part.key}", part.title, words, tuple(blocks))


@dataclass(frozen=True)
class Charts:
    """The charts of single quantities, of which one is seen at a time."""

    quantities: Mapping[str, Sequence[Quantity]]
    cells: Callable[[Quantity], list[Cell]]
    levels: Sequence[str]
    loads: Sequence[str]
    # Whether of the others the first chart has to do.
    are_many: bool

    @classmethod
    def of(
        cls,
        quantities: Mapping[str, Sequence[Quantity]],
        cells: Callable[[Quantity], list[Cell]],
        levels: Sequence[str],
        loads: Sequence[str],
    ) -> Charts:
        """Those of the quantities of each part."""
        count = sum(
            len(part.charts) * len(quantities.get(part.key, ())) for part in PARTS
        )
        return cls(quantities, cells, levels, loads, count > MOST_CHARTS)

    def blocks(self, part: Part) -> Iterator[Block]:
        """The charts of a part: a choice of quantities, where there are several."""
        quantities = self.quantities[part.key]
        wanted = [it for it in quantities if it.subject == part.shown] or quantities
        options = []
        for quantity in quantities:
            is_shown = quantity == wanted[0]
            kinds = part.charts[:1] if self.are_many and not is_shown else part.charts
            cells = self.cells(quantity)
            charts = tuple(
                kind(cells, levels=self.levels, loads=self.loads) for kind in kinds
            )
            options.append(Option(f"{charts[0].key}-option", quantity.title, charts))
        if len(options) == 1:
            yield from options[0].charts
        elif options:
            first = quantities.index(wanted[0])
            title = "Quantity by quantity"
            yield Choice(
                f"quantities-{part.key}", title, "Quantity", tuple(options), first
            )

    def words(self, part: Part) -> tuple[str, ...]:
        """What has to be said of what is not there."""
        if not self.are_many or len(self.quantities[part.key]) < 2:
            return ()
        return (MANY,)


def _matches(table: Table, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(table.key, pattern) for pattern in patterns)


def _forests(part: Part, analysis: Analysis) -> Iterator[Chart]:
    """How levels differ from the first one, and loads."""
    for factor in FACTORS:
        if compared := list(analysis.comparisons(part.key, factor)):
            title = f"{part.title}: how {factor}s differ"
            yield forest(compared, key=f"effects-{part.key}-{factor}s", title=title)
