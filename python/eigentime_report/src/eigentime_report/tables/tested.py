"""Tests of quantities over levels or loads: of all at once, and of pairs."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TypeAlias

from eigentime_report import statistics
from eigentime_report.analysis import Analysis, Compared, Factor, analyse
from eigentime_report.basics import grouped, listed, once
from eigentime_report.results import Results
from eigentime_report.tables.table import Table, tabled

# The effect sizes, by the names of columns.
EFFECTS = {
    "g": statistics.HEDGES_G,
    "delta": statistics.CLIFFS_DELTA,
    "means": statistics.MEAN_RATIO,
    "medians": statistics.MEDIAN_RATIO,
}
STATISTICS = {"mean": "mean", "median": "median", "sd": "SD"}


def tests_table(
    results: Results, kind: str, factor: Factor = "level", *, analysis: Analysis | None = None
) -> Table:
    """For each quantity: normality, equal scatter, the suitable test, and the test of ranks."""
    return _table("tests", _tests, analysis or analyse(results), kind, factor)


def pairs_table(
    results: Results, kind: str, factor: Factor = "level", *, analysis: Analysis | None = None
) -> Table:
    """For each pair of levels or loads: difference, interval, test, effect sizes and verdict."""
    return _table("pairs", _pairs, analysis or analyse(results), kind, factor)


Things: TypeAlias = Iterator[SimpleNamespace]


def _table(
    name: str, of: Callable[[Compared], Things], found: Analysis, kind: str, factor: Factor
) -> Table:
    """The table of the items of each comparison."""
    compared = list(found.comparisons(kind, factor))
    return tabled(
        name,
        ((it, f"{each.quantity.name} {each.held}") for each in compared for it in of(each)),
        before=_notes(compared),
        kind=kind,
        factor=factor,
        confidence=100 * found.confidence,
        alpha=1 - found.confidence,
        same=100 * found.same_within,
    )


def _notes(compared: list[Compared]) -> Iterator[str]:
    if compared:
        statistic = STATISTICS[compared[0].statistic]
        yield f"What is compared is the {statistic} of each unit."
    if any(each.quantity.asked_ns for each in compared):
        yield "Of sleeps of 100 ms it is by how much they are longer than that."
    reasons = grouped((each.why, each) for each in compared)
    for why, its in reasons.items():
        yield f"{_which(its, compared)}: {why}" if len(reasons) > 1 else why


def _which(its: list[Compared], among: list[Compared]) -> str:
    """The quantities that a note applies to, and where: `nanosleep (baseline and vm)`."""
    titles = once(each.quantity.title for each in its)
    is_all = len(titles) == len({each.quantity for each in among})
    held = listed(once(each.held for each in its))
    return f"{'All' if is_all else listed(titles)} ({held})"


def _tests(compared: Compared) -> Things:
    """Its tests of all groups at once."""
    comparison = compared.comparison
    tests = [(f"normal: {group}", test, "") for group, test in comparison.shapiro.items()]
    tests.append(("equal scatter", comparison.levene, ""))
    all_equal = f"equal {compared.factor}s"
    if comparison.omnibus.test != comparison.kruskal.test:
        tests.append((all_equal, comparison.omnibus, comparison.because))
    tests.append((all_equal, comparison.kruskal, "; ".join(comparison.disagreements)))
    for what, test, says in tests:
        yield SimpleNamespace(each=compared, what=what, test=test, says=test.note or says)


def _pairs(compared: Compared) -> Things:
    """Its pairs, each with its test of ranks."""
    for pair in compared.comparison.pairs:
        rank = compared.comparison.dunn.get((pair.i, pair.j))
        effects = {key: pair.effect(name) for key, name in EFFECTS.items()}
        says = verdict(pair)
        yield SimpleNamespace(each=compared, pair=pair, rank=rank, verdict=says, **effects)


def verdict(pair: statistics.Contrast) -> str:
    """The verdict; for pairs that differ by less than what counts as the same, that too."""
    is_little = pair.verdict == statistics.DIFFERS and pair.is_within
    return f"{pair.verdict}, and little" if is_little else pair.verdict
