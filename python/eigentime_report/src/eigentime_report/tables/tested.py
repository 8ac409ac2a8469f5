"""Tests of quantities over levels or loads: of all at once, and of pairs."""

from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace

from eigentime_report import statistics
from eigentime_report.analysis import Analysis, Compared, Factor, analyse
from eigentime_report.basics import grouped, listed
from eigentime_report.results import Results
from eigentime_report.tables.measured import BAND, TITLES
from eigentime_report.tables.table import Column, Row, Table, with_interval, worded

# Each row is of a comparison, and of one of its tests of all groups at once.
TESTS = (
    Column("quantity", "Quantity", of="each.quantity.name"),
    Column("held", "At or under", of="each.held"),
    Column("what", "What is tested"),
    Column("test", "Test", of="test.test"),
    Column("value", "Test's value", "number", of="test.statistic"),
    Column("df1", "df1", "df", of="test.df1"),
    Column("df2", "df2", "df", of="test.df2"),
    Column("p", "p", "p", of="test.p"),
    Column("n", "n", "count", of="test.n"),
    Column("effect", "Effect", band=BAND, of=lambda it: it.test.effect and it.test.effect.name),
    *with_interval("size", "Size", "number", lambda it: it.test.effect, BAND),
    Column("magnitude", "Is", band=BAND, of=lambda it: it.test.effect and it.test.effect.magnitude),
    Column("says", "What it says", of=lambda it: it.test.note or it.says),
)

# What tells how large a difference is, and what its columns are called.
EFFECTS = {
    statistics.HEDGES_G: ("g", "Hedges' g"),
    statistics.CLIFFS_DELTA: ("delta", "Cliff's delta"),
    statistics.MEAN_RATIO: ("means", "Ratio of means"),
    statistics.MEDIAN_RATIO: ("medians", "Ratio of medians"),
}


def _effect(name: str, key: str, title: str) -> tuple[Column, ...]:
    return with_interval(key, title, "number", lambda it: it.pair.effect(name), "Effect sizes")


# Each row is of a comparison, one of its pairs, and its test of ranks.
PAIRS = (
    Column("quantity", "Quantity", of="each.quantity.name"),
    Column("held", "At or under", of="each.held"),
    Column("i", "(I)", of="pair.i"),
    Column("j", "(J)", of="pair.j"),
    *with_interval("difference", "Difference (I − J)", "ns", lambda it: it.pair.in_units),
    *with_interval("change", "Change", "+%", lambda it: it.pair.in_percent),
    Column("verdict", "Verdict", of=lambda it: verdict(it.pair)),
    Column("test", "Test", of="pair.test"),
    Column("p", "p", "p", of="pair.p"),
    Column("n", "n", "count", of="pair.n"),
    Column("ranks_test", "Test", band="Ranks", of=lambda it: it.rank and it.rank.test),
    Column("ranks_p", "p", "p", band="Ranks", of=lambda it: it.rank and it.rank.p),
    *(column for name, words in EFFECTS.items() for column in _effect(name, *words)),
    Column("because", "Because", of="pair.because"),
)

STATISTICS = {"mean": "mean", "median": "median", "sd": "SD"}


def tests_table(
    results: Results, kind: str, factor: Factor = "level", *, analysis: Analysis | None = None
) -> Table:
    """Of each quantity: normality, equal scatter, the test that suits, and the one of ranks."""
    return _table("tests", TESTS, _tests, analysis or analyse(results), kind, factor)


def pairs_table(
    results: Results, kind: str, factor: Factor = "level", *, analysis: Analysis | None = None
) -> Table:
    """Of each two levels, or loads: difference, interval, test, effect sizes and verdict."""
    return _table("pairs", PAIRS, _pairs, analysis or analyse(results), kind, factor)


def _table(
    name: str,
    columns: tuple[Column, ...],
    rows: Callable[[Compared], Iterable[Row]],
    found: Analysis,
    kind: str,
    factor: Factor,
) -> Table:
    compared = list(found.comparisons(kind, factor))
    return worded(
        name,
        columns,
        (row for each in compared for row in rows(each)),
        before=_notes(compared),
        kind=kind,
        topic=TITLES[kind],
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
    """Of which quantities a note is, and at or under what: `nanosleep (baseline and vm)`."""
    titles = dict.fromkeys(each.quantity.title for each in its)
    is_all = len(titles) == len({each.quantity for each in among})
    held = listed(list(dict.fromkeys(each.held for each in its)))
    return f"{'All' if is_all else listed(list(titles))} ({held})"


def _tests(compared: Compared) -> Iterator[Row]:
    comparison = compared.comparison
    tests = [(f"normal: {group}", test, "") for group, test in comparison.shapiro.items()]
    tests.append(("equal scatter", comparison.levene, ""))
    all_equal = f"equal {compared.factor}s"
    if comparison.omnibus.test != comparison.kruskal.test:
        tests.append((all_equal, comparison.omnibus, comparison.because))
    tests.append((all_equal, comparison.kruskal, "; ".join(comparison.disagreements)))
    for what, test, says in tests:
        thing = SimpleNamespace(each=compared, what=what, test=test, says=says)
        yield Row.of(TESTS, thing, f"{compared.quantity.name} {compared.held}")


def _pairs(compared: Compared) -> Iterator[Row]:
    for pair in compared.comparison.pairs:
        rank = compared.comparison.dunn.get((pair.i, pair.j))
        thing = SimpleNamespace(each=compared, pair=pair, rank=rank)
        yield Row.of(PAIRS, thing, f"{compared.quantity.name} {compared.held}")


def verdict(pair: statistics.Contrast) -> str:
    """The verdict; where pairs differ by less than what counts as the same, that too."""
    is_little = pair.verdict == statistics.DIFFERS and pair.is_within
    return f"{pair.verdict}, and little" if is_little else pair.verdict
